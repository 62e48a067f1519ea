"""OpenCode: every recorded session, the layouts of its releases, and case by case."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import Pointer, Reading, Turn
from memsearch.sources.opencode import OpenCode, unquoted

Record = dict[str, Any]

DATA = Path(__file__).parents[2] / "data" / "opencode" / "opencode.db"
SOURCE = OpenCode()

TASK = (
    '[[CALL: task {"description":"sub task","prompt":"Sub: please run <<SH: echo from-sub>>",'
    '"subagent_type":"general"}]]'
)
#: Session → (turn id, the user's words, tools, state, last item) of each turn.
EXPECTED: dict[str, list[tuple[str, str, int, str, str]]] = {
    "ses_dd4ba111bffeJllQLL2etORGke": [
        (
            "msg_22b45ef8c001bomSwdeQ6VaN7i",
            "Please read the readme [[READ: /home/dev/demo/README.md]]",
            1,
            "finished",
            "Done. The tool returned 151 characters. 工具已完成。",
        ),
        (
            "msg_22b464724001aoYnyqi6kbsEwA",
            "请运行命令 [[SH: echo 你好，世界]]",
            1,
            "finished",
            "Done. The tool returned 9 characters. 工具已完成。",
        ),
        (
            "msg_22b465b03001dOEhlYxr87eLeD",
            "Show the big file [[SH: cat big.txt]]",
            1,
            "finished",
            "Done. The tool returned 46126 characters. 工具已完成。",
        ),
        (
            "msg_22b466f85001vEfnLmrGGYJYrS",
            "[[CALL: mem_search {}]]",
            1,
            "finished",
            "Done. The tool returned 16 characters. 工具已完成。",
        ),
    ],
    "ses_dd4b98291ffe4F76Uyd76Ke5Z9": [
        (
            "msg_22b467dda001yCT1ZNTX6U2F99",
            TASK,
            0,
            "finished",
            "(bad CALL directive: Expecting property name enclosed in double quotes:"
            " line 1 column 2 (char 1))",
        ),
    ],
    "ses_dd4b9755affeK8MZvPkCYDZezw": [
        (
            "msg_22b468af0001GaSqa6AdVYbKiq",
            "Summarise: hello",
            0,
            "finished",
            'Stub answer to: "Summarise: hello"',
        ),
    ],
    "ses_dd4b96830ffe2CkP0k5dTiJ3jT": [
        (
            "msg_22b469826001NaP2g1PliwXTz5",
            "Summarise: hello2",
            0,
            "finished",
            "Stub answer to: ny other instructions you have received. </system-reminder>",
        ),
    ],
    "ses_dd4b95638ffe9r4mxrewrUabtF": [
        (
            "msg_22b46aa1300195PDcodqF0cc2k",
            "Interrupt me [[SLOW: 25]]",
            0,
            "finished",
            "Working slowly on it .....................................................",
        ),
    ],
    "ses_dd4b8a5e1ffexTXM8si66YOnPh": [
        (
            "msg_22b475a9b0015pZRsNOHMAcyRt",
            TASK,
            1,
            "finished",
            "Done. The tool returned 153 characters. 工具已完成。",
        ),
    ],
    "ses_dd4b811e3ffeWMPif6hzORL8qd": [
        (
            "msg_22b47ee71001ELyXPfkIE8QoCM",
            "first server turn [[SH: echo srv]]",
            1,
            "finished",
            "Done. The tool returned 7 characters. 工具已完成。",
        ),
        (
            "msg_22b48079b001HzMDnYbFOmvqzf",
            "abort me [[SLOW: 20]]",
            0,
            "interrupted",
            "The user interrupted this turn.",
        ),
    ],
    "ses_dd4aee82effemNqkglZEsZ6pXQ": [
        (
            "msg_22b511841001bBadmCgk4tCNZB",
            "hi plugins",
            0,
            "finished",
            'Stub answer to: "hi plugins" OCCTX-PART synthetic',
        ),
    ],
}
SUBAGENT = "ses_dd4b89c94ffeByjMquOiM9ZKvp"
LATE = datetime(2099, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data folder with the recorded database."""
    folder = tmp_path / "dätä home" / "opencode"
    folder.mkdir(parents=True)
    shutil.copy(DATA, folder / "opencode.db")
    return folder


def environ(home: Path) -> dict[str, str]:
    return {"XDG_DATA_HOME": str(home.parent)}


def read(
    path: Path, session: str, start: int | None = 0, turn: str | None = None, **more: Any
) -> Reading:
    pointer = Pointer("opencode", session, str(path), turn=turn)
    return SOURCE.read(pointer, start=start, **({"not_before": None} | more))


def said(turn: Turn) -> str:
    return " | ".join(item.text for item in turn.items if item.kind == "user")


def steps(turn: Turn) -> list[tuple[str, str]]:
    return [(item.kind, item.text) for item in turn.items]


# Recordings ---------------------------------------------------------------------------------


def test_every_session_is_listed_once_and_in_the_table(home: Path) -> None:
    listed = list(SOURCE.conversations(environ(home)))
    assert [each.session for each in listed] == list(EXPECTED)
    assert {each.path for each in listed} == {str(home / "opencode.db")}
    assert {each.cwd for each in listed} == {"/home/dev/demo"}
    assert listed[0].changed == datetime(2026, 11, 30, 7, 6, 7, 910000, tzinfo=UTC)


@pytest.mark.parametrize("session", EXPECTED)
def test_turns_of_a_session(home: Path, session: str) -> None:
    reading = read(home / "opencode.db", session)
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
    assert (reading.unknown, reading.more, reading.foreign) == ({}, False, False)
    for turn in reading.turns:
        assert (turn.session, turn.cwd) == (session, "/home/dev/demo")
        assert turn.anchor == {"db": str(home / "opencode.db")}


def test_a_subagents_session_is_nobodys(home: Path) -> None:
    reading = read(home / "opencode.db", SUBAGENT)
    assert (reading.turns, reading.foreign) == ((), True)


def test_t17_what_was_put_in_is_nowhere(home: Path) -> None:
    for session in EXPECTED:
        for turn in read(home / "opencode.db", session).turns:
            assert "思考" not in repr(turn)
            assert all("OCCTX" not in item.text for item in turn.items if item.kind == "user")


def test_reading_leaves_no_trace(home: Path) -> None:
    before = (os.listdir(home), (home / "opencode.db").read_bytes())
    list(SOURCE.conversations(environ(home)))
    read(home / "opencode.db", next(iter(EXPECTED)))
    assert (os.listdir(home), (home / "opencode.db").read_bytes()) == before


@pytest.mark.parametrize("session", EXPECTED)
def test_a_hooked_turn_is_given_as_the_whole_gives_it(home: Path, session: str) -> None:
    path = home / "opencode.db"
    whole = read(path, session).turns
    for turn in whole:
        reading = read(path, session, None, turn.id, not_before=LATE)
        assert reading.find(turn.id) == turn
        assert read(path, session, None, None, not_before=turn.at).turns == tuple(
            whole[whole.index(turn) :]
        )
        assert read(path, session, turn.position).turns == whole[whole.index(turn) :]
        assert SOURCE.conversation(str(path), "", turn.id, context=0) == (turn,)
    assert read(path, session, None, not_before=LATE).turns == whole[-1:]
    assert SOURCE.conversation(str(path), session, None) == whole[-7:]
    if len(whole) == 4:
        assert SOURCE.conversation(str(path), session, whole[2].id, context=1) == whole[1:]


def test_a_compaction_belongs_to_the_turn_before(home: Path) -> None:
    reading = read(home / "opencode.db", "ses_dd4b811e3ffeWMPif6hzORL8qd")
    found = reading.find("msg_22b48178c001Vny8VYSxA1wiV7")
    assert found is reading.turns[-1]


def test_what_is_not_there_is_said(home: Path) -> None:
    path = str(home / "opencode.db")
    assert read(home / "opencode.db", "ses_none").turns == ()
    with pytest.raises(MemsearchError, match="does not hold the session ses_none"):
        SOURCE.conversation(path, "ses_none", None)
    with pytest.raises(MemsearchError, match="does not hold the turn msg_none"):
        SOURCE.conversation(path, next(iter(EXPECTED)), "msg_none")


def test_where_the_database_lies(home: Path, tmp_path: Path) -> None:
    assert SOURCE.locate("s", environ(home)) == str(home / "opencode.db")
    assert SOURCE.locate("s", {"OPENCODE_DB": ":memory:"}) is None
    elsewhere = {**environ(home), "OPENCODE_DB": str(tmp_path / "x" / "my.db")}
    assert SOURCE.locate("s", elsewhere) == str(tmp_path / "x" / "my.db")
    assert SOURCE.roots(elsewhere) == (
        os.path.realpath(home),
        os.path.realpath(tmp_path / "x"),
    )
    assert SOURCE.locate("s", {"HOME": "/h"}) == "/h/.local/share/opencode/opencode.db"


# Written by hand ----------------------------------------------------------------------------


class Talk:
    """A session's messages and parts, to be written in any layout."""

    def __init__(self, session: str = "ses_1", parent: str | None = None) -> None:
        self.session = session
        self.parent = parent
        self.now = 1_780_000_000_000
        self.messages: list[Record] = []
        self.parts: list[Record] = []

    def message(self, role: str, parts: list[Record], **more: Any) -> Talk:
        self.now += 1_000
        name = f"msg_{len(self.messages):03}_{self.session}"
        time = {"created": self.now, **more.pop("time", {})}
        self.messages.append(
            {"id": name, "sessionID": self.session, "role": role, "time": time, **more}
        )
        for part in parts:
            number = f"prt_{len(self.parts):03}_{self.session}"
            self.parts.append({"id": number, "messageID": name, "sessionID": self.session, **part})
        return self

    def user(self, *texts: str, **more: Any) -> Talk:
        return self.message("user", [{"type": "text", "text": text, **more} for text in texts])

    def answer(self, *parts: str | Record, finish: str | None = "stop", **more: Any) -> Talk:
        asked = [m["id"] for m in self.messages if m["role"] == "user"][-1]
        written = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
        more = {"parentID": asked, **more}
        if finish is not None:
            more |= {"finish": finish, "time": {"completed": self.now + 1_500}}
        return self.message("assistant", written, **more)

    def sql(self, path: Path, names: tuple[str, str, str], session_column: str) -> Path:
        session, message, part = names
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {session}"
                "(id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, time_updated INTEGER)"
            )
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {message}(id TEXT PRIMARY KEY,"
                f" {session_column} TEXT, time_created INTEGER, data TEXT)"
            )
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {part}(id TEXT PRIMARY KEY, message_id TEXT,"
                f" {session_column} TEXT, data TEXT)"
            )
            db.execute(
                f"INSERT INTO {session} VALUES (?, ?, ?, ?)",
                (self.session, self.parent, "/w/app", self.now),
            )
            for each in self.messages:
                data = {k: v for k, v in each.items() if k not in ("id", "sessionID")}
                db.execute(
                    f"INSERT INTO {message} VALUES (?, ?, ?, ?)",
                    (each["id"], self.session, each["time"]["created"], json.dumps(data)),
                )
            for each in self.parts:
                data = {k: v for k, v in each.items() if not k.endswith(("id", "ID"))}
                data |= {k: v for k, v in each.items() if k == "callID"}
                db.execute(
                    f"INSERT INTO {part} VALUES (?, ?, ?, ?)",
                    (each["id"], each["messageID"], self.session, json.dumps(data)),
                )
        return path

    def files(self, root: Path, older: bool = False) -> Path:
        info = {
            "id": self.session,
            "directory": "/w/app",
            "time": {"created": 1, "updated": self.now},
        }
        if self.parent:
            info["parentID"] = self.parent
        base = root / "project" / "w-app" / "storage" / "session" if older else root / "storage"
        where = base / "info" if older else base / "session" / "project-1"
        self._write(where / f"{self.session}.json", info)
        for each in self.messages:
            self._write(base / "message" / self.session / f"{each['id']}.json", each)
        for each in self.parts:
            inner = base / "part"
            inner = inner / self.session if older else inner
            self._write(inner / each["messageID"] / f"{each['id']}.json", each)
        return root

    @staticmethod
    def _write(path: Path, data: Record) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=1), encoding="utf-8")


def tool(name: str, status: str = "completed", **state: Any) -> Record:
    return {"type": "tool", "tool": name, "callID": "c", "state": {"status": status, **state}}


def fill(talk: Talk) -> Talk:
    run = tool("bash", input={"command": "pytest -x"}, output="1 failed\n", metadata={"exit": 1})
    talk.user("为什么失败？").answer("I look.", run, finish="tool-calls").answer("Fixed.")
    return talk.user("again").answer("Passed.")


LAYOUTS = {
    "today": (("session", "message", "part"), "session_id"),
    "plural": (("sessions", "messages", "parts"), "session_id"),
    "v2": (("session_v2", "message_v2", "part_v2"), "sessionID"),
}


def write(talk: Talk, layout: str, folder: Path) -> Path:
    if layout in LAYOUTS:
        return talk.sql(folder / "opencode.db", *LAYOUTS[layout])
    return talk.files(folder, older=layout == "older files")


@pytest.mark.parametrize("layout", [*LAYOUTS, "files", "older files"])
def test_t16_the_same_talk_in_each_layout_gives_equal_turns(layout: str, tmp_path: Path) -> None:
    folder = tmp_path / "opencode"
    folder.mkdir()
    path = write(fill(Talk()), layout, folder)
    first, second = read(path, "ses_1").turns
    assert [(i.kind, i.name, i.text, i.output, i.failed) for i in first.items] == [
        ("user", "", "为什么失败？", "", False),
        ("assistant", "", "I look.", "", False),
        ("tool", "bash", "pytest -x", "1 failed", True),
        ("assistant", "", "Fixed.", "", False),
    ]
    assert steps(second) == [("user", "again"), ("assistant", "Passed.")]
    assert (first.id, first.state, first.cwd) == ("msg_000_ses_1", "finished", "/w/app")
    assert SOURCE.conversation(str(path), "", second.id, context=1) == (first, second)
    listed = list(SOURCE.conversations({"XDG_DATA_HOME": str(tmp_path)}))
    assert [(each.session, each.path, each.cwd) for each in listed] == [
        ("ses_1", str(path), "/w/app")
    ]


def test_t16_all_stores_are_merged(tmp_path: Path) -> None:
    folder = tmp_path / "opencode"
    folder.mkdir()
    fill(Talk("ses_old")).files(folder)
    fill(Talk("ses_sub", parent="ses_old")).files(folder)
    fill(Talk("ses_both")).files(folder)
    path = write(fill(Talk("ses_both")), "today", folder)
    write(fill(Talk("ses_2")), "v2", folder)
    listed = {
        each.session: each.path for each in SOURCE.conversations({"XDG_DATA_HOME": str(tmp_path)})
    }
    assert listed == {"ses_both": str(path), "ses_2": str(path), "ses_old": str(folder)}
    for session, where in listed.items():
        assert len(read(Path(where), session).turns) == 2
    # A hook names the database; a session that only the files hold is found beside it.
    assert len(read(path, "ses_old").turns) == 2
    assert read(path, "ses_sub").foreign


def test_t16_an_unknown_schema_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "opencode"
    folder.mkdir()
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE conversation(id TEXT, body BLOB)")
    for look in (
        lambda: read(path, "ses_1"),
        lambda: SOURCE.conversation(str(path), "ses_1", None),
        lambda: list(SOURCE.conversations({"XDG_DATA_HOME": str(tmp_path)})),
    ):
        with pytest.raises(MemsearchError, match=r"not known \(its tables: conversation\)") as e:
            look()
        assert e.value.kind is ErrorClass.BAD_FILE


def test_talk_in_a_table_of_a_coming_release_is_no_empty_success(home: Path) -> None:
    path = home / "opencode.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute(
            "INSERT INTO session(id, project_id, slug, directory, title, version, time_created,"
            " time_updated) VALUES ('ses_new', 'p', 's', '/w', 't', 'v', 1, 1)"
        )
        db.execute("INSERT INTO session_message VALUES ('m', 'ses_new', 'user', 1, 1, 1, '{}')")
    with pytest.raises(MemsearchError, match="session_message"):
        read(path, "ses_new")


@pytest.mark.parametrize("kind", ["missing", "no database", "a folder"])
def test_t16_what_is_missing_or_broken_is_said_and_not_created(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "opencode" / "opencode.db"
    path.parent.mkdir()
    if kind == "no database":
        path.write_bytes(b"not a database at all" * 100)
        with pytest.raises(MemsearchError, match="cannot be read") as caught:
            read(path, "s")
        assert caught.value.kind is ErrorClass.BAD_FILE
    elif kind == "missing":
        with pytest.raises(MemsearchError, match="there is no database"):
            read(path, "s")
        assert not path.exists()
    else:
        assert read(path.parent, "s").turns == ()
    assert len(os.listdir(path.parent)) == (kind == "no database")


def test_a_database_that_is_being_written(home: Path) -> None:
    path = home / "opencode.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE session SET directory = '/elsewhere'")
        assert read(path, SUBAGENT).foreign  # a writer stops no reader
        db.execute("COMMIT")
        session = next(iter(EXPECTED))
        assert {turn.cwd for turn in read(path, session).turns} == {"/elsewhere"}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cut=st.integers(0, 8), layout=st.sampled_from([*LAYOUTS, "files"]))
def test_any_cut_gives_the_same_turns(cut: int, layout: str, tmp_path: Path) -> None:
    talk = fill(fill(Talk()))
    folder = tmp_path / "opencode"
    folder.mkdir(exist_ok=True)
    whole = read(write(talk, layout, folder), "ses_1").turns
    shutil.rmtree(folder)
    folder.mkdir()
    part = fill(fill(Talk()))
    del part.messages[cut:]
    first = read(write(part, layout, folder), "ses_1")
    shutil.rmtree(folder)
    folder.mkdir()
    path = write(fill(fill(Talk())), layout, folder)
    second = read(path, "ses_1", first.resume)
    merged = {turn.id: turn for turn in [*first.turns, *second.turns]}
    assert tuple(merged.values()) == whole
    shutil.rmtree(folder)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "opencode"
    folder.mkdir()
    return folder


def turns(talk: Talk, folder: Path, **more: Any) -> tuple[Turn, ...]:
    return read(write(talk, "today", folder), "ses_1", **more).turns


def test_a_turn_that_was_killed(path: Path) -> None:
    talk = Talk().user("one").answer("Working", finish=None)
    assert [turn.state for turn in turns(talk, path)] == ["open"]
    (path / "opencode.db").unlink()
    first, second = turns(talk.user("two").answer("Yes."), path)
    assert (first.state, first.items[-1].text) == (
        "interrupted",
        "This turn was cut off before it ended.",
    )
    assert second.state == "finished"


def test_a_message_typed_while_the_agent_works_is_a_turn(path: Path) -> None:
    talk = Talk().user("one").answer("Working", tool("ls"), finish="tool-calls")
    talk.messages[-1]["time"]["completed"] = talk.now + 5_000
    first, second = turns(talk.user("two").answer("Both."), path)
    assert (first.state, second.state) == ("finished", "finished")


def test_a_provider_error_is_noted(path: Path) -> None:
    error = {"name": "APIError", "data": {"message": "overloaded"}}
    (turn,) = turns(Talk().user("one").answer(finish=None, error=error), path)
    assert turn.state == "finished"
    assert steps(turn)[-1] == ("note", "The provider failed: overloaded")


def test_a_fork_has_only_its_own_turns(path: Path) -> None:
    original = write(fill(Talk("ses_1")), "today", path)
    fork = fill(Talk("ses_fork"))
    made = fork.now + 10_000
    fork.now = made + 1_000
    write(fork.user("third").answer("3"), "today", path)
    with closing(sqlite3.connect(original)) as db, db:
        db.execute("ALTER TABLE session ADD COLUMN time_created INTEGER")
        db.execute("UPDATE session SET time_created = ? WHERE id = 'ses_fork'", (made,))
    assert [said(turn) for turn in read(original, "ses_1").turns] == ["为什么失败？", "again"]
    assert [said(turn) for turn in read(original, "ses_fork").turns] == ["third"]
    # Drill-down shows what came before, since the talk went on from there.
    shown = SOURCE.conversation(str(original), "ses_fork", None)
    assert [said(turn) for turn in shown] == ["为什么失败？", "again", "third"]


@pytest.mark.parametrize("layout", ["today", "v2", "files"])
def test_a_fork_whose_original_is_gone_has_the_turns_of_both(layout: str, path: Path) -> None:
    place = write(fill(Talk("ses_1")), layout, path)
    made = {}
    for number, session in enumerate(("ses_a", "ses_b")):
        fork = fill(Talk(session))
        made[session] = fork.now + 10_000 + number
        fork.now = made[session] + 1_000
        write(fork.user(f"mine {number}").answer("3"), layout, path)
    if layout != "files":
        table = LAYOUTS[layout][0][0]
        with closing(sqlite3.connect(place)) as db, db:
            db.execute(f"ALTER TABLE {table} ADD COLUMN time_created INTEGER")
            rows = [(at, session) for session, at in made.items()]
            db.executemany(f"UPDATE {table} SET time_created = ? WHERE id = ?", rows)
    for session, at in made.items() if layout == "files" else ():
        info = path / "storage" / "session" / "project-1" / f"{session}.json"
        data = json.loads(info.read_text("utf-8"))
        info.write_text(json.dumps(data | {"time": {"created": at}}), encoding="utf-8")
    found = {name: read(place, name).turns for name in ("ses_a", "ses_b")}
    assert {name: [*map(said, turns)] for name, turns in found.items()} == {
        "ses_a": ["mine 0"],
        "ses_b": ["mine 1"],
    }
    if layout == "files":
        shutil.rmtree(path / "storage" / "message" / "ses_1")
    else:
        with closing(sqlite3.connect(place)) as db, db:
            db.execute(f"DELETE FROM {LAYOUTS[layout][0][0]} WHERE id = 'ses_1'")
            db.execute(f"DELETE FROM {LAYOUTS[layout][0][1]} WHERE id LIKE '%ses_1'")
    # The older fork has them now, once, with the answers, and says that they are copies.
    older = read(place, "ses_a").turns
    assert [(said(turn), turn.copied) for turn in older] == [
        ("为什么失败？", True),
        ("again", True),
        ("mine 0", False),
    ]
    assert [steps(turn)[-1][1] for turn in older] == ["Fixed.", "Passed.", "3"]
    assert [said(turn) for turn in read(place, "ses_b").turns] == ["mine 1"]


def test_what_opencode_says_to_itself_goes_on_in_the_turn_before(path: Path) -> None:
    talk = Talk().user("one").answer("1", finish="tool-calls")
    talk.user("Continue if you have next steps", synthetic=True).answer("more")
    (turn,) = turns(talk, path)
    assert steps(turn) == [("user", "one"), ("assistant", "1"), ("assistant", "more")]
    assert turn.answers_to("msg_002_ses_1")


def test_private_words_files_and_unknown_parts(path: Path) -> None:
    parts = [
        {"type": "text", "text": "<private>Falcon</private> fix lint"},
        {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"},
        {"type": "file", "mime": "text/plain", "filename": "a.txt"},
        {"type": "hologram"},
    ]
    talk = Talk().message("user", parts).answer("Ok <memsearch-memory>x</memsearch-memory>.")
    talk.user("<private>Falcon").answer("Falcon")
    reading = read(write(talk, "today", path), "ses_1")
    first, second = reading.turns
    assert steps(first) == [("user", "fix lint\n[image]\n[file a.txt]"), ("assistant", "Ok .")]
    assert (second.private, second.items) == (True, ())
    assert reading.unknown == {"part:hologram": 1}


def test_tools_that_failed_or_still_run(path: Path) -> None:
    failed = tool("edit", "error", input={"filePath": "a"}, error="no such file")
    running = tool("bash", "running", input={"command": "sleep 9"}) | {"callID": "d"}
    (turn,) = turns(Talk().user("one").answer(failed, running, finish=None), path)
    assert [(i.name, i.output, i.failed) for i in turn.items if i.kind == "tool"] == [
        ("edit", "no such file", True),
        ("bash", "", False),
    ]


def test_our_own_summariser_has_no_turns(path: Path) -> None:
    talk = Talk().user("Summarise the fenced turn").answer("- x")
    assert turns(talk, path, is_ours=lambda words: words.startswith("Summarise the")) == ()


def test_a_part_of_30_mb_is_read_in_bounded_memory(path: Path) -> None:
    image = {"type": "file", "mime": "image/png", "url": "A" * 30_000_000}
    talk = Talk().message("user", [{"type": "text", "text": "look"}, image]).answer("Nice.")
    (turn,) = turns(talk, path)
    assert steps(turn) == [("user", "look\n[image]"), ("assistant", "Nice.")]


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ('"a b"', "a b"),
        ('"say \\"hi\\" now"\n', 'say "hi" now'),
        ('"one word"', "one word"),
        ("a b", "a b"),
        ('"word"', '"word"'),
        ('"a b" "c d"', '"a b" "c d"'),
        ('"a b" and c', '"a b" and c'),
        ('"', '"'),
        ('"a b\\"', '"a b\\"'),
        ("", ""),
    ],
)
def test_the_quotes_of_opencode_run(stored: str, words: str) -> None:
    assert unquoted(stored) == words


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The data folder of OpenCode 1.0.98, which keeps a file for each message and part."""
    folder = tmp_path / ".local" / "share" / "opencode"
    shutil.copytree(DATA.parent / "1.0.98" / "storage", folder / "storage")
    return folder


def test_a_hook_of_a_release_without_a_database_finds_the_files(older: Path) -> None:
    environ = {"HOME": str(older.parents[2])}
    (found,) = SOURCE.conversations(environ)
    path = SOURCE.locate(found.session, environ)
    assert path == found.path == str(older)
    turn = "msg_22d5152e00010MBpPtc2bfITBC"
    reading = SOURCE.read(
        Pointer("opencode", found.session, path, turn=turn), start=None, not_before=LATE
    )
    (given,) = reading.turns
    assert (given.id, given.state, given.anchor) == (turn, "finished", {"db": str(older)})
    assert [(item.kind, item.text) for item in given.items] == [
        ("user", "Please list the files [[SH: echo tool-output-42]]"),
        ("assistant", "I will run it."),
        ("tool", "echo tool-output-42"),
        ("assistant", "Done, the tool has answered: tool-output-42"),
    ]
    # A newer release moves them into the database that it makes.
    database = older / "opencode.db"
    shutil.copy(DATA, database)
    assert SOURCE.locate(found.session, environ) == str(database)
    pointer = Pointer("opencode", found.session, str(database), turn=turn)
    assert SOURCE.read(pointer, start=None, not_before=LATE).find(turn) is not None


def test_nothing_is_where_neither_files_nor_database_are(tmp_path: Path) -> None:
    expected = str(tmp_path / ".local" / "share" / "opencode" / "opencode.db")
    assert SOURCE.locate("ses_x", {"HOME": str(tmp_path)}) == expected
    assert SOURCE.locate("ses_x", {"HOME": str(tmp_path), "OPENCODE_DB": ":memory:"}) is None
