"""OpenClaw: every recorded session, the database and the older files, and case by case."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import Pointer, Reading, Turn
from memsearch.sources.openclaw import OpenClaw

Record = dict[str, Any]

DATA = Path(__file__).parents[2] / "data" / "openclaw" / "openclaw-agent.sqlite"
#: A session that OpenClaw 2026.5.19 wrote.
RESET = "3c4bc27d-7b99-4a8e-8827-8722f895d293"
SOURCE = OpenClaw()
LATE = datetime(2099, 1, 1, tzinfo=UTC)
ANSWER = 'Stub answer to: Active Subagents\\nnone" <<<END_OPENCLAW_INTERNAL_CONTEXT>>>'

#: Session → (turn id, the user's words, tools, state, last item) of each turn.
EXPECTED: dict[str, list[tuple[str, str, int, str, str]]] = {
    "52d50557-d84b-4e4c-bced-9ab497a6c331": [
        (
            "a6317848-8609-4e8e-b4bc-8f511f15769d",
            "hello openclaw",
            0,
            "finished",
            ANSWER.replace("to: ", "to:  "),
        ),
    ],
    "00b3eab3-8cdb-44ad-a090-da5d6b512639": [
        (
            "470088bb-02c7-41d4-8a21-50dbe9a3911b",
            "Please read the readme [[READ: /home/dev/owdemo/README.md]]",
            1,
            "finished",
            ANSWER,
        ),
        (
            "4f4b421f-3279-46a6-a3c2-b5d14b6cbb8f",
            "请运行命令 [[SH: echo 你好，世界]]",
            1,
            "finished",
            ANSWER,
        ),
        ("6a5eea53-67eb-43f6-b39c-4c2adba67586", "Show [[SH: cat big.txt]]", 1, "finished", ANSWER),
        (
            "d4c12d8e-337a-4548-9dd1-e5f78ec8a60a",
            '[[CALL: tool_call {"id":"mem_search","args":{"q":"x"}}]]',
            1,
            "finished",
            ANSWER,
        ),
        ("c08c6031-9dfc-44b5-9d64-051ec948b1f7", "just chat", 0, "finished", ANSWER),
    ],
    "21d34e01-048e-4873-bdfc-70a200be9f93": [
        (
            "e8f45122-0e38-440c-bfee-20e4694a6afa",
            "gateway turn [[SH: echo gw]]",
            1,
            "finished",
            ANSWER,
        ),
        (
            "099dc57e-f859-49f1-8605-2ec3d93e0c5e",
            "slow gateway [[SLOW: 30]]",
            0,
            "interrupted",
            "This turn was cut off before it ended.",
        ),
    ],
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with the recorded database."""
    folder = tmp_path / "öpen claw"
    path = database(folder)
    path.parent.mkdir(parents=True)
    shutil.copy(DATA, path)
    return folder


def database(state: Path, agent: str = "main") -> Path:
    return state / "agents" / agent / "agent" / "openclaw-agent.sqlite"


def environ(state: Path) -> dict[str, str]:
    return {"OPENCLAW_STATE_DIR": str(state)}


def read(
    path: Path, session: str, start: int | None = 0, turn: str | None = None, **more: Any
) -> Reading:
    pointer = Pointer("openclaw", session, str(path), turn=turn)
    return SOURCE.read(pointer, start=start, **({"not_before": None} | more))


def said(turn: Turn) -> str:
    return " | ".join(item.text for item in turn.items if item.kind == "user")


def steps(turn: Turn) -> list[tuple[str, str]]:
    return [(item.kind, item.text) for item in turn.items]


# Recordings ---------------------------------------------------------------------------------


def test_every_session_is_listed_and_in_the_table(state: Path) -> None:
    listed = list(SOURCE.conversations(environ(state)))
    assert [each.session for each in listed] == list(EXPECTED)
    assert {each.path for each in listed} == {str(database(state))}


@pytest.mark.parametrize("session", EXPECTED)
def test_turns_of_a_session(state: Path, session: str) -> None:
    reading = read(database(state), session)
    assert [
        (
            turn.id,
            said(turn),
            sum(item.kind == "tool" for item in turn.items),
            turn.state,
            turn.items[-1].text,
        )
        for turn in reading.turns
    ] == EXPECTED[session]
    assert (reading.unknown, reading.skipped, reading.foreign) == ({}, {}, False)
    for turn in reading.turns:
        assert (turn.session, turn.cwd) == (session, "/home/dev/owdemo")
        assert turn.anchor == {"db": str(database(state))}


def test_a_packed_output_is_read(state: Path) -> None:
    turn = read(database(state), "00b3eab3-8cdb-44ad-a090-da5d6b512639").turns[2]
    (tool,) = [item for item in turn.items if item.kind == "tool"]
    assert (tool.name, tool.text) == ("exec", "cat big.txt")
    assert tool.output.startswith("line 1 lorem ipsum\n")
    assert "characters left out" in tool.output


def test_reading_leaves_no_trace(state: Path) -> None:
    path = database(state)
    before = (os.listdir(path.parent), path.read_bytes())
    list(SOURCE.conversations(environ(state)))
    read(path, next(iter(EXPECTED)))
    assert (os.listdir(path.parent), path.read_bytes()) == before


@pytest.mark.parametrize("session", EXPECTED)
def test_a_hooked_turn_is_given_as_the_whole_gives_it(state: Path, session: str) -> None:
    path = database(state)
    whole = read(path, session).turns
    for turn in whole:
        assert turn.aliases
        for name in (turn.id, *turn.aliases):
            assert read(path, session, None, name, not_before=LATE).find(name) == turn
        at = whole.index(turn)
        assert read(path, session, None, not_before=turn.at).turns == whole[at:]
        assert read(path, session, turn.position).turns == whole[at:]
        assert SOURCE.conversation(str(path), "", turn.id, context=0) == (turn,)
    assert read(path, session, None, not_before=LATE).turns == whole[-1:]
    assert SOURCE.conversation(str(path), session, None) == whole
    if len(whole) == 5:
        assert SOURCE.conversation(str(path), session, whole[2].id, context=1) == whole[1:4]


def test_a_session_is_found_by_its_key_too(state: Path) -> None:
    session = "00b3eab3-8cdb-44ad-a090-da5d6b512639"
    by_key = read(database(state), "agent:main:dev1").turns
    assert by_key == read(database(state), session).turns
    for name in (session, "agent:main:dev1", "agent:main:new", "unheard-of"):
        assert SOURCE.locate(name, environ(state)) == str(database(state))
    assert SOURCE.locate("agent:other:new", environ(state)) is None
    assert read(database(state), "unheard-of").turns == ()


def test_p4_each_agent_has_its_own_database(state: Path) -> None:
    talk = fill(Talk("of-other"))
    other = database(state, "other")
    other.parent.mkdir(parents=True)
    talk.sql(other)
    assert SOURCE.locate("of-other", environ(state)) == str(other)
    assert [each.path for each in SOURCE.conversations(environ(state))] == [
        *[str(database(state))] * 3,
        str(other),
    ]


def test_where_the_state_lies() -> None:
    for given_, root in (
        ({"HOME": "/h"}, "/h/.openclaw/agents"),
        ({"HOME": "/h", "OPENCLAW_HOME": "/o"}, "/o/.openclaw/agents"),
        ({"HOME": "/h", "OPENCLAW_HOME": "/o", "OPENCLAW_STATE_DIR": "/s"}, "/s/agents"),
    ):
        assert SOURCE.roots(given_) == (root,)


# Written by hand ----------------------------------------------------------------------------


class Talk:
    """A session's events, to be written into a database or a file."""

    def __init__(self, session: str = "session-1") -> None:
        self.session = session
        self.now = 1_780_000_000_000
        self.records: list[Record] = [
            {"type": "session", "version": 4, "id": session, "cwd": "/w/app"}
        ]

    def add(self, kind: str, **more: Any) -> Talk:
        self.now += 1_000
        stamp = datetime.fromtimestamp(self.now / 1000, UTC).isoformat()
        number = len(self.records)
        self.records.append({"type": kind, "id": f"e{number}", "timestamp": stamp, **more})
        return self

    def message(self, role: str, content: Any, **more: Any) -> Talk:
        return self.add(
            "message",
            message={"role": role, "content": content, "timestamp": self.now, **more},
        )

    def user(self, content: Any, **more: Any) -> Talk:
        run = f"run-{len(self.records)}:user"
        return self.message("user", content, **({"idempotencyKey": run} | more))

    def answer(self, *blocks: Any, stop: str | None = "stop", **more: Any) -> Talk:
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        return self.message("assistant", content, **({"stopReason": stop} if stop else {}), **more)

    def run(self, command: str, output: str, code: int = 0) -> Talk:
        call = {"type": "toolCall", "id": "c", "name": "exec", "arguments": {"command": command}}
        self.answer({"type": "thinking", "thinking": "hm"}, call, stop="toolUse")
        return self.message(
            "toolResult",
            [{"type": "text", "text": output}],
            toolCallId="c",
            toolName="exec",
            details={"exitCode": code},
            isError=False,
        )

    def sql(self, path: Path, packed: bool = False, **facts: Any) -> Path:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                "CREATE TABLE session_nodes(session_key TEXT PRIMARY KEY,"
                " current_session_id TEXT, created_via TEXT, spawned_by TEXT)"
            )
            db.execute(
                "CREATE TABLE session_windows(session_id TEXT PRIMARY KEY, session_key TEXT,"
                " spawned_by TEXT)"
            )
            db.execute(
                "CREATE TABLE transcript_events(session_id TEXT, seq INTEGER, event_json TEXT,"
                " created_at INTEGER, event_zstd BLOB, PRIMARY KEY(session_id, seq))"
            )
            key = facts.get("key", "agent:main:x")
            db.execute(
                "INSERT INTO session_nodes VALUES (?, ?, ?, ?)",
                (key, self.session, facts.get("created_via"), facts.get("spawned_by")),
            )
            db.execute("INSERT INTO session_windows VALUES (?, ?, NULL)", (self.session, key))
            for seq, record in enumerate(self.records):
                text = json.dumps(record, ensure_ascii=False)
                blob = zstandard.compress(text.encode()) if packed else None
                db.execute(
                    "INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?)",
                    (self.session, seq, None if packed else text, self.now, blob),
                )
        return path

    def file(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(record, ensure_ascii=False) for record in self.records]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path


def fill(talk: Talk) -> Talk:
    talk.user("为什么失败？").run("pytest -x", "1 failed\n", 1).answer("Fixed.")
    return talk.user([{"type": "text", "text": "again"}, {"type": "image"}]).answer("Passed.")


def write(talk: Talk, kind: str, folder: Path) -> Path:
    if kind == "file":
        return talk.file(folder / "sessions" / f"{talk.session}.jsonl")
    return talk.sql(folder / "openclaw-agent.sqlite", packed=kind == "packed")


@pytest.mark.parametrize("kind", ["database", "packed", "file"])
def test_the_same_talk_in_each_store_gives_equal_turns(kind: str, tmp_path: Path) -> None:
    path = write(fill(Talk()), kind, tmp_path)
    first, second = read(path, "").turns if kind == "file" else read(path, "session-1").turns
    assert [(i.kind, i.name, i.text, i.output, i.failed) for i in first.items] == [
        ("user", "", "为什么失败？", "", False),
        ("tool", "exec", "pytest -x", "1 failed", True),
        ("assistant", "", "Fixed.", "", False),
    ]
    assert steps(second) == [("user", "again\n[image]"), ("assistant", "Passed.")]
    assert (first.id, first.session, first.state, first.cwd) == (
        "e1",
        "session-1",
        "finished",
        "/w/app",
    )
    assert list(first.anchor) == ["transcript" if kind == "file" else "db"]
    assert SOURCE.conversation(str(path), "session-1", "e1", context=1) == (first, second)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cut=st.integers(0, 16), kind=st.sampled_from(["database", "packed", "file"]))
def test_any_cut_gives_the_same_turns(cut: int, kind: str, tmp_path: Path) -> None:
    def look(talk: Talk, start: int) -> Reading:
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        return read(write(talk, kind, tmp_path), talk.session, start)

    talk = fill(fill(Talk()).user("stop").add("reset", reason="reset"))
    whole = look(talk, 0).turns
    part = fill(fill(Talk()).user("stop").add("reset", reason="reset"))
    del part.records[cut + 1 :]
    first = look(part, 0)
    second = look(talk, first.resume)
    merged = {turn.id: turn for turn in [*first.turns, *second.turns]}
    assert tuple(merged.values()) == whole


def test_t20_only_a_sessions_own_file_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    for name in (
        "real.jsonl",
        "gone.jsonl.deleted.2026-03-01T10-00-00Z",
        "real.jsonl.bak",
        "real.checkpoint.0f0f.jsonl",
        "real.trajectory.jsonl",
    ):
        fill(Talk(name)).file(folder / name)
    listed = list(SOURCE.conversations({"OPENCLAW_STATE_DIR": str(tmp_path)}))
    assert [(each.session, each.path) for each in listed] == [("real", str(folder / "real.jsonl"))]
    assert SOURCE.locate("real", {"OPENCLAW_STATE_DIR": str(tmp_path)}) == str(
        folder / "real.jsonl"
    )


def test_a_session_that_was_reset_is_read_and_shown(tmp_path: Path) -> None:
    """Before the database a reset, the daily one too, gives the file another name."""
    folder = tmp_path / ".openclaw" / "agents" / "main" / "sessions"
    reset = folder / f"{RESET}.jsonl.reset.2026-11-30T16-32-09.512Z"
    folder.mkdir(parents=True)
    shutil.copy(DATA.parent / "2026.5.19" / reset.name, reset)
    environ = {"HOME": str(tmp_path)}
    (found,) = SOURCE.conversations(environ)
    assert (found.session, found.path) == (RESET, str(reset))
    assert SOURCE.locate(RESET, environ) == str(reset)
    turns = read(reset, RESET).turns
    assert [(turn.id, turn.state, turn.items[0].text) for turn in turns] == [
        ("0901a4ce", "finished", "The first chapter is written [[SAY: It is.]]"),
        ("7ce78fc6", "finished", "The chapter that was held up [[HOLD: never]]"),
        ("320d5f65", "finished", "The chapter after the compaction [[SAY: Shorter now.]]"),
        ("459cd2a7", "finished", "Have it written [[CALL: sessions_spawn {}]]"),
    ]
    assert {turn.session for turn in turns} == {RESET}
    assert turns[0].anchor == {"transcript": str(reset)}
    # What an entry from before the reset points to is found by its former name.
    former = str(folder / f"{RESET}.jsonl")
    (shown,) = SOURCE.conversation(former, RESET, "320d5f65", context=0)
    assert shown.items[1].text == "Shorter now."
    with pytest.raises(MemsearchError):
        SOURCE.conversation(str(folder / "other.jsonl"), "other", None)
    # A newer release takes the files into its database, and puts them away.
    database = folder.parent / "agent" / DATA.name
    database.parent.mkdir()
    shutil.copy(DATA, database)
    (session, (first, *_)) = next(iter(EXPECTED.items()))
    shown = SOURCE.conversation(str(folder / f"{session}.jsonl"), session, first[0])
    assert first[1] in [turn.items[0].text for turn in shown]


@pytest.mark.parametrize(
    "facts",
    [{"key": "agent:main:subagent:1"}, {"spawned_by": "agent:main:x"}, {"created_via": "spawn"}],
)
def test_a_subagents_session_is_nobodys(facts: Record, state: Path) -> None:
    path = database(state, "other")
    path.parent.mkdir(parents=True)
    fill(Talk()).sql(path, **facts)
    assert read(path, "session-1").foreign
    assert "session-1" not in {each.session for each in SOURCE.conversations(environ(state))}


def test_a_subagents_file_is_nobodys(tmp_path: Path) -> None:
    path = write(fill(Talk()), "file", tmp_path)
    known = {"agent:main:subagent:1": {"sessionId": "session-1"}}
    (path.parent / "sessions.json").write_text(json.dumps(known), encoding="utf-8")
    assert read(path, "").foreign


@pytest.mark.parametrize("kind", ["database", "file"])
def test_our_own_summariser_has_no_turns(kind: str, tmp_path: Path) -> None:
    path = write(fill(Talk()), kind, tmp_path)
    assert read(path, "session-1", is_ours=lambda words: words.startswith("为什么")).foreign


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path


def turns(talk: Talk, folder: Path) -> tuple[Turn, ...]:
    return read(write(talk, "database", folder), "session-1").turns


def test_a_turn_that_was_aborted_and_a_reset(path: Path) -> None:
    talk = Talk().user("one").answer("Half", stop="aborted").user("two").add("reset")
    talk.user("three").answer("Yes.").user("four")
    states = [(said(turn), turn.state, turn.items[-1].text) for turn in turns(talk, path)]
    assert states == [
        ("one", "interrupted", "The user interrupted this turn."),
        ("two", "interrupted", "This turn was cut off before it ended."),
        ("three", "finished", "Yes."),
        ("four", "open", "four"),
    ]


def test_what_no_person_wrote_begins_no_turn(path: Path) -> None:
    talk = Talk().user("one").answer("1")
    talk.user("report from a session", provenance={"kind": "inter_session"}).answer("noted")
    talk.answer("1", stop=None, model="delivery-mirror")
    (turn,) = turns(talk, path)
    assert steps(turn) == [("user", "one"), ("assistant", "1"), ("assistant", "noted")]
    assert turn.answers_to("e3")
    assert turn.answers_to("run-3")


def test_internal_context_private_words_and_our_memory_stay_out(path: Path) -> None:
    inside = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>secret<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    talk = Talk().user(f"{inside}\n<private>Falcon</private> fix lint")
    talk.answer("Ok <memsearch-memory>x</memsearch-memory>.")
    talk.user("<private>Falcon").answer("Falcon")
    first, second = turns(talk, path)
    assert steps(first) == [("user", "fix lint"), ("assistant", "Ok .")]
    assert (second.private, second.items) == (True, ())


def test_copies_errors_and_unknown_events(path: Path) -> None:
    talk = Talk().user("one").answer("1", stop="error", errorMessage="overloaded")
    talk.records += talk.records[1:3]
    talk.add("hologram").message("oracle", "x")
    reading = read(write(talk, "database", path), "session-1")
    (turn,) = reading.turns
    assert steps(turn) == [
        ("user", "one"),
        ("assistant", "1"),
        ("note", "The provider failed: overloaded"),
    ]
    assert reading.unknown == {"hologram": 1, "role:oracle": 1}


def test_an_event_that_cannot_be_unpacked_is_counted(path: Path) -> None:
    talk = write(fill(Talk()), "packed", path)
    with closing(sqlite3.connect(talk)) as db, db:
        db.execute("UPDATE transcript_events SET event_zstd = x'00ff' WHERE seq = 2")
    reading = read(talk, "session-1")
    assert [said(turn) for turn in reading.turns] == ["为什么失败？", "again\n[image]"]
    assert reading.skipped["not readable"] >= 1


@pytest.mark.parametrize("where", ["file", "sqlite"])
def test_a_session_in_cold_storage(where: str, tmp_path: Path) -> None:
    """As 2026.9 archives it with ``session.maintenance.coldStorage``."""
    path = database(tmp_path)
    path.parent.mkdir(parents=True)
    talk = fill(Talk()).sql(path)
    whole = read(talk, "session-1").turns
    with closing(sqlite3.connect(path)) as db, db:
        rows = db.execute("SELECT seq, event_json, created_at FROM transcript_events").fetchall()
        lines: list[Record] = [{"kind": "header", "version": 1, "sessionId": "session-1"}]
        for seq, text, at in rows:
            row = {"seq": seq, "event_json": text, "created_at": at}
            lines.append({"kind": "event", "row": row})
        lines.append({"kind": "fts", "row": {"text": "x"}})
        data = zstandard.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
        name = "0" * 64 + ".jsonl.zst"
        db.execute(
            "CREATE TABLE session_transcript_cold_archives(session_id TEXT PRIMARY KEY,"
            " archive_name TEXT, archived_at INTEGER, storage TEXT, archive_blob BLOB)"
        )
        db.execute(
            "INSERT INTO session_transcript_cold_archives VALUES ('session-1', ?, 1, ?, ?)",
            (name, where, data if where == "sqlite" else None),
        )
        db.execute("DELETE FROM transcript_events")
    archive = path.parent.parent / "sessions" / "cold" / name
    if where == "file":
        with pytest.raises(MemsearchError, match=r"archive .* cannot be read"):
            read(path, "session-1")
        archive.parent.mkdir(parents=True)
        archive.write_bytes(data)
    assert read(path, "session-1").turns == whole
    assert read(path, "session-1", None, not_before=LATE).turns == whole[-1:]
    assert SOURCE.conversation(str(path), "", whole[0].id, context=0) == whole[:1]
    listed = list(SOURCE.conversations(environ(tmp_path)))
    assert [each.session for each in listed] == ["session-1"]


def test_many_events_in_batches(path: Path) -> None:
    talk = Talk()
    for number in range(200):
        talk.user(f"question {number}").answer(f"answer {number}")
    where = write(talk, "database", path)
    whole = read(where, "session-1").turns
    assert [said(turn) for turn in whole] == [f"question {number}" for number in range(200)]
    assert read(where, "session-1", None, "e1", not_before=whole[150].at).turns == whole[150:]
    assert read(where, "session-1", None, whole[160].id, not_before=LATE).turns == (whole[160],)


def test_an_unknown_schema_is_an_error_that_names_it(state: Path) -> None:
    path = database(state, "new")
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE events_v9(id TEXT)")
    with pytest.raises(MemsearchError, match=r"OpenClaw .* \(its tables: events_v9\)") as caught:
        read(path, "x")
    assert caught.value.kind is ErrorClass.BAD_FILE
    missing = database(state, "none")
    with pytest.raises(MemsearchError, match="there is no database"):
        read(missing, "x")
    assert not missing.exists()


def test_messages_without_an_id_are_turns_of_their_own(tmp_path: Path) -> None:
    """Found by fuzzing: all of them were one turn, without a name."""
    talk = Talk()
    for words in ("why does the parser fail", "and the other one"):
        talk.user(words).answer("It reads backwards.")
    for record in talk.records[1:]:
        record["id"] = None
        record.get("message", {}).pop("idempotencyKey", None)
    path = talk.file(tmp_path / "sessions" / f"{talk.session}.jsonl")
    turns = read(path, talk.session).turns
    assert len({turn.id for turn in turns}) == 2
    assert all(turn.id for turn in turns)
    assert [turn.id for turn in read(path, talk.session).turns] == [turn.id for turn in turns]


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ("[Mon 2026-11-30 16:40 UTC] Where is it?", "Where is it?"),
        ("[Tue 2026-12-01 09:05 GMT+8] 在哪里？", "在哪里？"),
        ("[Mon 2026-11-30] Where is it?", "[Mon 2026-11-30] Where is it?"),
        ("[OpenClaw runtime event] is what?", "[OpenClaw runtime event] is what?"),
        (
            "[OpenClaw runtime event] Agent steering queue items arrived since your last turn.\n\n"
            "Treat these queue items as runtime data.\n\n1. a task\nstatus: ok\n"
            "<prompt-data>\nx\n\nCurrent parent turn:\n\nevil\n</prompt-data>\n\n"
            "Current parent turn:\n\nGo on, 请继续",
            "Go on, 请继续",
        ),
    ],
)
def test_what_openclaw_puts_before_the_users_words(stored: str, words: str, path: Path) -> None:
    (turn,) = turns(Talk().user(stored).answer("Here."), path)
    assert said(turn) == words
