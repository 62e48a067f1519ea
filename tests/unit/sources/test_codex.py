"""Codex's rollouts: every recording, the three shapes of one talk, and case by case."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import Pointer, Reading, Turn
from memsearch.sources.codex import Codex, thread_of
from memsearch.sources.codex_records import command_of, read_output, read_record

Record = dict[str, Any]

DATA = Path(__file__).parents[2] / "data" / "codex"
SOURCE = Codex()

#: The end of a file's name → (turn id, the user's words, tools, state, last item) of each turn.
EXPECTED: dict[str, list[tuple[str, str, int, str, str]]] = {
    "0ea2-7e42-8e28-62b7de868997": [
        (
            "01a22b43-0ec6-75d0-be4a-5de3b42b7dd6",
            "Please read the readme [[READ: README.md]]",
            1,
            "finished",
            "Done. The tool returned 130 characters. 工具已完成。",
        ),
        (
            "01a22b43-4d51-7c71-82e4-b919ff3b2afc",
            "请运行命令 [[SH: echo 你好，世界]]",
            1,
            "finished",
            "Done. The tool returned 116 characters. 工具已完成。",
        ),
        (
            "01a22b43-4f95-7553-830b-c4385fc1dcdc",
            "Show the big file [[SH: cat big.txt]]",
            1,
            "finished",
            "Done. The tool returned 10693 characters. 工具已完成。",
        ),
        (
            "01a22b43-51d4-7aa3-9e3a-732e14cb8f95",
            "Only chat please",
            0,
            "finished",
            "Stub answer to: Only chat please",
        ),
    ],
    "536d-7692-9d20-d200b7b5ab53": [
        (
            "01a22b43-5388-7401-a000-6a6df702c040",
            "No bypass of trust",
            0,
            "finished",
            "Stub answer to: No bypass of trust",
        ),
    ],
    "54b4-7e42-b5b5-01b6bb7f8706": [
        (
            "01a22b43-54cb-74a2-808e-d5c039557788",
            "hooks disabled",
            0,
            "finished",
            "Stub answer to: hooks disabled",
        ),
    ],
    "5a6b-7802-bcbd-a531f0f38ef2": [
        (
            "01a22b43-5a85-79c0-bf9f-e313dd0fd1be",
            '[[CALL: spawn_agent {"message":"Sub: please run <<SH: echo from-sub>>",'
            '"task_name":"sub"}]]',
            1,
            "finished",
            "Done. The tool returned 82 characters. 工具已完成。",
        ),
    ],
    "5b1d-7492-99d0-0ee6f2af77af": [],  # the subagent of the one before
    "070b-7b70-8513-cbd65ddc4702": [
        (
            "01a22b44-0726-7841-8886-02c1cf0213e9",
            "Interrupt me [[SLOW: 30]]",
            0,
            "interrupted",
            "The user interrupted this turn.",
        ),
    ],
    "17ee-7ee1-b16c-696c37620378": [
        (
            "01a22b44-180f-7b12-a1a5-1da0213a845b",
            "please /compact",
            0,
            "finished",
            "Stub answer to: please /compact",
        ),
    ],
    "782f-72c3-8613-18c4c07a77a3": [
        (
            "01a22b44-7852-71f3-a34a-5d0035ebcb2f",
            "with plugin",
            0,
            "finished",
            "Stub answer to: with plugin",
        ),
    ],
    "7c66-71b2-be93-a82cb8848cb6": [
        (
            "01a22b44-7c80-7783-8c1a-0d859fc90545",
            "trusted by config",
            0,
            "finished",
            "Stub answer to: trusted by config",
        ),
    ],
}


def recordings() -> list[Path]:
    return sorted((DATA / "sessions").rglob("*.jsonl"))


def recording(end: str) -> Path:
    (path,) = [path for path in recordings() if path.stem.endswith(end)]
    return path


def read(path: Path, start: int | None = 0, turn: str | None = None, **more: Any) -> Reading:
    pointer = Pointer("codex", "", str(path), turn=turn)
    return SOURCE.read(pointer, start=start, **({"not_before": None} | more))


def said(turn: Turn) -> str:
    return " | ".join(item.text for item in turn.items if item.kind == "user")


def steps(turn: Turn) -> list[tuple[str, str]]:
    return [(item.kind, item.text) for item in turn.items]


# Recordings ---------------------------------------------------------------------------------


def test_every_recording_is_in_the_table() -> None:
    assert {path.stem.partition("01a22b4")[2][2:] for path in recordings()} == set(EXPECTED)


@pytest.mark.parametrize("end", EXPECTED)
def test_turns_of_a_recording(end: str) -> None:
    path = recording(end)
    reading = read(path)
    assert [
        (
            turn.id,
            said(turn),
            sum(item.kind == "tool" for item in turn.items),
            turn.state,
            turn.items[-1].text,
        )
        for turn in reading.turns
    ] == EXPECTED[end]
    assert (reading.unknown, reading.skipped, reading.torn) == ({}, {}, False)
    for turn in reading.turns:
        assert turn.session == thread_of(str(path))
        assert turn.cwd == "/home/dev/demo"
        assert turn.anchor == {"rollout": str(path)}
        assert turn.at.date().isoformat() == "2026-11-30"


def test_t14_what_was_put_in_is_nowhere() -> None:
    for path in recordings():
        text = repr(read(path).turns)
        for mark in ("CXCTX", "CXPLAIN", "environment_context", "permissions", "思考", "turn_abor"):
            assert mark not in text


def test_a_command_is_whole_and_its_output_trimmed() -> None:
    turn = read(recording("0ea2-7e42-8e28-62b7de868997")).turns[2]
    (tool,) = [item for item in turn.items if item.kind == "tool"]
    assert (tool.name, tool.text) == ("shell", "cat big.txt")
    assert tool.output.startswith("line 1 lorem ipsum\n")
    assert "characters left out" in tool.output


@pytest.mark.parametrize("end", [end for end, turns in EXPECTED.items() if turns])
def test_any_cut_of_a_recording_gives_the_same_turns(end: str, tmp_path: Path) -> None:
    data = recording(end).read_bytes()
    path = tmp_path / recording(end).name
    path.write_bytes(data)
    whole = read(path).turns
    ends = [at for at, byte in enumerate(data) if byte == 10]
    for cut in {0, 1, len(data) - 1, *ends, *(at + 1 for at in ends), *(at + 40 for at in ends)}:
        path.write_bytes(data[:cut])
        first = read(path)
        path.write_bytes(data)
        second = read(path, start=first.resume)
        assert merged(first.turns, second.turns) == whole, cut


def merged(first: Iterable[Turn], second: Iterable[Turn]) -> tuple[Turn, ...]:
    """Turns of two looks: the later look at a turn is the better one."""
    return tuple({turn.id: turn for turn in [*first, *second]}.values())


@pytest.mark.parametrize("end", [end for end, turns in EXPECTED.items() if turns])
def test_the_tail_gives_each_turn_as_the_whole_does(end: str) -> None:
    path = recording(end)
    whole = read(path).turns
    late = datetime(2099, 1, 1, tzinfo=UTC)
    for turn in whole:
        reading = read(path, start=None, turn=turn.id, not_before=late)
        assert reading.turns == (turn,)
        assert reading.resume <= whole[-1].position
        since = read(path, start=None, turn=turn.id, not_before=turn.at).turns
        assert since == whole[whole.index(turn) :]
        assert SOURCE.conversation(str(path), "", turn.id, context=0) == (turn,)
    last = read(path, start=None, not_before=late)  # T15: a hook that names no turn
    assert last.find(None) == whole[-1]
    assert SOURCE.conversation(str(path), "", None, context=3) == whole
    if len(whole) == 4:
        assert SOURCE.conversation(str(path), "", whole[2].id, context=1) == whole[1:]


def test_a_conversation_is_listed_and_located(tmp_path: Path) -> None:
    home = tmp_path / "cödex home"
    shutil.copytree(DATA / "sessions", home / "sessions")
    (home / "sessions" / "notes.jsonl").write_text("{}\n", encoding="utf-8")
    environ = {"CODEX_HOME": str(home)}
    listed = list(SOURCE.conversations(environ))
    assert [Path(each.path).name for each in listed] == [path.name for path in recordings()]
    assert all(each.size == os.path.getsize(each.path) for each in listed)
    session = "01a22b44-7c66-71b2-be93-a82cb8848cb6"
    found = SOURCE.locate(session, environ)
    assert found is not None
    assert found.endswith(f"{session}.jsonl")
    assert SOURCE.locate("01a22b44-0000-0000-0000-000000000000", environ) is None
    assert SOURCE.locate("", environ) is None


def pack(path: Path) -> None:
    """What Codex does with a rollout that has not been written to for long."""
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()


def test_a_rollout_that_was_packed_is_read_by_its_name(tmp_path: Path) -> None:
    shutil.copytree(DATA / "sessions", tmp_path / "sessions")
    environ = {"CODEX_HOME": str(tmp_path)}
    before = [each.path for each in SOURCE.conversations(environ)]
    readings = [read(Path(path)) for path in before]
    for path in before:
        pack(Path(path))
    assert [each.path for each in SOURCE.conversations(environ)] == before
    assert [read(Path(path)) for path in before] == readings
    (turn,) = readings[0].turns[2:3]
    assert SOURCE.conversation(before[0], "", turn.id, context=0) == (turn,)
    with pytest.raises(MemsearchError, match="there is no transcript"):
        read(tmp_path / "nowhere.jsonl")
    Path(before[0] + ".zst").write_bytes(b"no such thing")
    with pytest.raises(MemsearchError, match="cannot be unpacked") as caught:
        read(Path(before[0]))
    assert caught.value.kind is ErrorClass.BAD_FILE


# One talk in three shapes -------------------------------------------------------------------


class Talk:
    """Writes one talk in a shape: ``paged``, ``events``, ``bare`` or ``old``."""

    def __init__(self, shape: str, ids: bool = True) -> None:
        self.shape = shape
        self.ids = ids
        self.turn = ""
        self.seconds = 0
        self.calls = 0
        self.records: list[Record] = []
        head = {"id": "01a22b43-0000-7000-8000-000000000001", "cwd": "/w/app", "source": "cli"}
        if shape == "old":
            self.records.append({**head, "instructions": None})
        else:
            self.add("session_meta", head)
        self.response({"type": "message", "role": "developer", "content": text("be good")})
        self.response(message("user", "# AGENTS.md instructions for /w/app\n\n<INSTRUCTIONS>no"))

    def add(self, kind: str, payload: Record) -> None:
        stamp = f"2026-03-25T10:{self.seconds // 60:02}:{self.seconds % 60:02}.000Z"
        self.records.append({"timestamp": stamp, "type": kind, "payload": payload})

    def response(self, item: Record) -> None:
        if self.shape == "paged":
            item = {**item, "internal_chat_message_metadata_passthrough": {"turn_id": self.turn}}
        if self.shape == "old":
            stamp = f"2026-03-25T10:{self.seconds // 60:02}:{self.seconds % 60:02}.000Z"
            self.records.append({**item, "timestamp": stamp})
        else:
            self.add("response_item", item)

    def event(self, name: str, **more: Any) -> None:
        self.add("event_msg", {"type": name, **more})

    def item(self, kind: str, **more: Any) -> None:
        self.event("item_completed", turn_id=self.turn, item={"type": kind, **more})

    def begin(self, turn: str) -> Talk:
        self.turn = turn
        self.seconds += 30
        if self.shape == "paged":
            self.event("task_started", turn_id=turn)
        self.response(message("user", "<environment_context>\n<cwd>/w/app</cwd>"))
        return self

    def user(self, words: str, turn: str | None = None) -> Talk:
        if turn is not None:
            self.begin(turn)
        if self.shape == "events":
            self.event("user_message", message=words, kind="plain")
        self.response(message("user", words))
        if self.shape == "paged":
            self.item("UserMessage", id="u", content=[{"type": "text", "text": words}])
        if self.shape != "old":
            context: Record = {"cwd": "/w/app"}
            self.add("turn_context", context | ({"turn_id": self.turn} if self.ids else {}))
        return self

    def run(self, command: str, output: str, code: int = 0) -> Talk:
        self.calls += 1
        key = f"call-{self.calls}"
        if self.shape == "paged":
            asked: Record = {"cmd": command}
            given = f"Chunk ID: 1\nProcess exited with code {code}\nOutput:\n{output}\n"
            name = "exec_command"
        else:
            asked = {"command": ["bash", "-lc", command], "timeout_ms": 1000}
            given = json.dumps({"output": f"{output}\n", "metadata": {"exit_code": code}})
            name = "shell"
        self.response(
            {
                "type": "function_call",
                "name": name,
                "arguments": json.dumps(asked),
                "call_id": key,
            }
        )
        if self.shape == "paged":
            self.item(
                "CommandExecution",
                id=key,
                command=["/bin/bash", "-lc", command],
                aggregated_output=f"{output}\n",
                exit_code=code,
            )
        self.response({"type": "function_call_output", "call_id": key, "output": given})
        return self

    def answer(self, words: str, last: bool = True) -> Talk:
        self.seconds += 5
        self.response({"type": "reasoning", "summary": [], "encrypted_content": "x"})
        if self.shape == "paged":
            self.item("AgentMessage", content=[{"type": "Text", "text": words}])
        if self.shape == "events":
            self.event("agent_message", message=words)
        self.response(message("assistant", words))
        if last and self.shape == "paged":
            self.event("task_complete", turn_id=self.turn, last_agent_message=words)
        return self

    def write(self, path: Path) -> Path:
        lines = [json.dumps(record, ensure_ascii=False) for record in self.records]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


def text(words: str) -> list[Record]:
    return [{"type": "input_text", "text": words}]


def message(role: str, words: str) -> Record:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def fill(talk: Talk) -> Talk:
    """Two turns with everything in them that the shapes write differently."""
    talk.user("为什么测试失败？ run them", "t1")
    talk.answer("I will run them.", last=False).run("pytest -k 'foo and bar' -x", "1 failed", 1)
    talk.run("git diff", "+ fixed").answer("It is fixed.")
    talk.user("again", "t2").run("pytest -k 'foo and bar' -x", "1 passed")
    return talk.answer("Passed.")


@pytest.mark.parametrize("shape", ["paged", "events", "bare", "old"])
def test_the_same_talk_in_each_shape_gives_equal_turns(shape: str, tmp_path: Path) -> None:
    name = "rollout-2026-03-25T10-00-00-01a22b43-0000-7000-8000-000000000001.jsonl"
    turns = read(fill(Talk(shape, ids=shape != "old")).write(tmp_path / name)).turns
    assert [(turn.state, turn.cwd, turn.session) for turn in turns] == [
        ("finished", "/w/app", "01a22b43-0000-7000-8000-000000000001")
    ] * 2
    assert [turn.at.isoformat() for turn in turns] == [
        "2026-03-25T10:00:30+00:00",
        "2026-03-25T10:01:10+00:00",
    ]
    assert [
        [(item.kind, item.name, item.text, item.output, item.failed) for item in turn.items]
        for turn in turns
    ] == [
        [
            ("user", "", "为什么测试失败？ run them", "", False),
            ("assistant", "", "I will run them.", "", False),
            ("tool", "shell", "pytest -k 'foo and bar' -x", "1 failed", True),
            ("tool", "shell", "git diff", "+ fixed", False),
            ("assistant", "", "It is fixed.", "", False),
        ],
        [
            ("user", "", "again", "", False),
            ("tool", "shell", "pytest -k 'foo and bar' -x", "1 passed", False),
            ("assistant", "", "Passed.", "", False),
        ],
    ]
    if shape != "old":
        assert [turn.id for turn in turns] == ["t1", "t2"]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shape=st.sampled_from(["paged", "events", "bare", "old"]),
    ids=st.booleans(),
    cut=st.integers(0, 10_000),
)
def test_any_cut_of_any_shape_gives_the_same_turns(
    shape: str, ids: bool, cut: int, tmp_path: Path
) -> None:
    path = fill(Talk(shape, ids=ids and shape != "old")).write(tmp_path / "rollout-x.jsonl")
    data = path.read_bytes()
    whole = read(path).turns
    path.write_bytes(data[: cut % (len(data) + 1)])
    first = read(path)
    path.write_bytes(data)
    second = read(path, start=first.resume)
    # A turn without an id can only be told by what it says.
    before = [turn for turn in first.turns if turn.position < first.resume]
    assert [*map(bare, before), *map(bare, second.turns)] == [*map(bare, whole)]
    late = datetime(2099, 1, 1, tzinfo=UTC)
    for turn in whole:
        hooked = read(path, start=None, turn=turn.id, not_before=late).find(turn.id)
        assert hooked is not None
        assert bare(hooked) == bare(turn)


def bare(turn: Turn) -> tuple[object, ...]:
    return (turn.id, turn.items, turn.state, turn.at, turn.cwd)


def test_ids_that_are_made_up_do_not_change(tmp_path: Path) -> None:
    path = fill(Talk("events", ids=False)).write(tmp_path / "rollout-x.jsonl")
    ids = [turn.id for turn in read(path).turns]
    assert len(set(ids)) == 2
    assert read(path, start=None).turns[-1].id == ids[-1]
    assert [turn.id for turn in SOURCE.conversation(str(path), "", None)] == ids


# Case by case -------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollout-x.jsonl"


def test_a_message_typed_while_the_agent_works_belongs_to_the_turn(path: Path) -> None:
    talk = Talk("paged").user("fix it", "t1").run("ls", "a")
    talk.user("and the tests").answer("Done.")
    (turn,) = read(talk.write(path)).turns
    assert steps(turn) == [
        ("user", "fix it"),
        ("tool", "ls"),
        ("user", "and the tests"),
        ("assistant", "Done."),
    ]


def test_the_same_words_twice_in_a_turn_are_said_twice(path: Path) -> None:
    talk = Talk("paged").user("go on", "t1").answer("a", last=False).user("go on").answer("a")
    (turn,) = read(talk.write(path)).turns
    assert steps(turn) == [
        ("user", "go on"),
        ("assistant", "a"),
        ("user", "go on"),
        ("assistant", "a"),
    ]


def test_an_aborted_turn_says_so_and_the_next_one_is_its_own(path: Path) -> None:
    talk = Talk("paged").user("slow", "t1")
    talk.event("turn_aborted", turn_id="t1", reason="interrupted")
    talk.user("quick", "t2").answer("Yes.")
    first, second = read(talk.write(path)).turns
    assert (first.state, first.items[-1].text) == ("interrupted", "The user interrupted this turn.")
    assert (second.id, second.state) == ("t2", "finished")


@pytest.mark.parametrize("shape", ["paged", "events", "bare"])
def test_a_turn_that_was_killed_is_cut_off_when_the_next_begins(shape: str, path: Path) -> None:
    talk = Talk(shape).user("slow", "t1").run("sleep 100", "")
    assert read(talk.write(path)).turns[0].state == "open"
    talk.user("quick", "t2").answer("Yes.")
    first, second = read(talk.write(path)).turns
    assert first.state == "interrupted"
    assert first.items[-1].text == "This turn was cut off before it ended."
    assert second.state == "finished"


def test_at_the_prompt_there_is_no_turn_yet(path: Path) -> None:
    talk = Talk("paged").user("one", "t1").answer("1").begin("t2")
    reading = read(talk.write(path))
    assert [turn.id for turn in reading.turns] == ["t1"]
    talk.user("two").answer("2")
    after = read(talk.write(path), start=reading.resume)
    assert [(turn.id, turn.state) for turn in after.turns] == [
        ("t1", "finished"),
        ("t2", "finished"),
    ]


def test_a_compaction_is_no_turn_and_its_summary_no_answer(path: Path) -> None:
    talk = Talk("paged").user("one", "t1").answer("1")
    talk.begin("t2")
    talk.response(message("assistant", "The user asked one."))
    summary = "Another language model started to solve this problem and\nThe user asked one."
    talk.add("compacted", {"message": summary})
    talk.event("task_complete", turn_id="t2", last_agent_message=None)
    talk.response(message("user", summary))
    talk.user("two", "t3").answer("2")
    reading = read(talk.write(path))
    assert [(turn.id, steps(turn)) for turn in reading.turns] == [
        ("t1", [("user", "one"), ("assistant", "1")]),
        ("t3", [("user", "two"), ("assistant", "2")]),
    ]
    found = reading.find("t2")
    assert found is not None
    assert found.id == "t1"


def test_a_compaction_in_the_middle_of_a_turn(path: Path) -> None:
    talk = Talk("paged").user("one", "t1").run("ls", "a")
    talk.response(message("assistant", "So far: ls gave a."))
    talk.records[-1]["metadata"] = {"compaction_output": True}
    talk.add("compacted", {"message": "Summary\nSo far: ls gave a."})
    talk.add("turn_context", {"turn_id": "t1", "cwd": "/elsewhere"})
    talk.item("ContextCompaction", id="c")
    talk.answer("So far: ls gave a.")
    (turn,) = read(talk.write(path)).turns
    assert (turn.id, turn.state, turn.cwd) == ("t1", "finished", "/w/app")
    assert steps(turn) == [("user", "one"), ("tool", "ls"), ("assistant", "So far: ls gave a.")]


def test_a_review_is_the_users_command_and_not_its_reviewers_prompt(path: Path) -> None:
    # As 0.171 writes it: the reviewer is a thread of its own, told of in its parent's rollout.
    talk = Talk("paged").user("before", "t0").answer("0")
    own = talk.records[0]["payload"]["id"]
    entered = {"type": "EnteredReviewMode", "user_facing_hint": "current changes"}
    talk.event("item_completed", thread_id=own, turn_id="t1", item=entered)
    talk.event("task_started", turn_id="sub", root_turn_id="t1")
    asked = {"type": "UserMessage", "content": [{"type": "text", "text": "Review the changes"}]}
    talk.event("item_completed", thread_id="reviewer", turn_id="sub", item=asked)
    talk.turn = "t1"
    talk.response(message("user", "<user_action>\n<action>review</action>"))
    talk.answer("No findings.")
    for start, late in ((0, None), (None, datetime(2099, 1, 1, tzinfo=UTC))):
        turn = read(talk.write(path), start, not_before=late).turns[-1]
        assert (turn.id, turn.state) == ("t1", "finished")
        assert steps(turn) == [
            ("user", "/review current changes"),
            ("assistant", "No findings."),
        ]
    assert len(read(path).turns) == 2


def test_a_fork_and_a_resume_give_the_same_turns(tmp_path: Path) -> None:
    talk = fill(Talk("paged"))
    original = read(talk.write(tmp_path / "rollout-a.jsonl")).turns
    fork = Talk("paged")
    fork.records[0]["payload"] |= {"id": "fork", "session_id": "fork", "forked_from_id": "x"}
    fork.records += talk.records
    fork.user("three", "t3").answer("3")
    forked = read(fork.write(tmp_path / "rollout-b.jsonl")).turns
    assert [turn.id for turn in forked] == ["t1", "t2", "t3"]
    assert [(turn.id, turn.items, turn.at) for turn in forked[:2]] == [
        (turn.id, turn.items, turn.at) for turn in original
    ]
    # A history that is written into the same file once more is the same history.
    again = Talk("paged")
    again.records += [*talk.records, *talk.records]
    again.user("three", "t3").answer("3")
    turns = read(again.write(tmp_path / "rollout-c.jsonl")).turns
    assert [turn.id for turn in turns] == ["t1", "t2", "t3"]
    assert [turn.items for turn in turns[:2]] == [turn.items for turn in original]


def test_a_copy_that_was_written_later_keeps_its_day(path: Path) -> None:
    talk = Talk("paged").user("old", "t1").answer("1")
    began = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
    for record in talk.records:
        if record["payload"].get("type") == "task_started":
            record["payload"]["started_at"] = int(began.timestamp())
    assert read(talk.write(path)).turns[0].at == began


@pytest.mark.parametrize(
    "more",
    [
        {"source": {"subagent": "review"}},
        {"thread_source": "subagent"},
        {"parent_thread_id": "p"},
        {"session_id": "another"},
    ],
)
def test_a_subagent_has_no_turns(more: Record, path: Path) -> None:
    talk = fill(Talk("paged"))
    talk.records[0]["payload"] |= more
    assert read(talk.write(path)).turns == ()


def test_our_own_summariser_has_no_turns(path: Path) -> None:
    fill(Talk("paged")).write(path)
    ours = read(path, is_ours=lambda words: words.startswith("为什么测试失败"))
    assert ours.turns == ()
    assert len(read(path, is_ours=lambda words: "AGENTS" in words).turns) == 2


def test_private_words_and_our_memory_stay_out(path: Path) -> None:
    talk = Talk("paged").user("<private>Falcon</private> fix lint", "t1")
    talk.answer("Ok <memsearch-memory>old</memsearch-memory>.")
    talk.user("<private>all of it", "t2").answer("Falcon")
    first, second = read(talk.write(path)).turns
    assert steps(first) == [("user", "fix lint"), ("assistant", "Ok .")]
    assert (second.private, second.items) == (True, ())


def test_editors_and_images(path: Path) -> None:
    talk = Talk("bare").begin("t1")
    words = (
        "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nfix it"
    )
    content = [
        *text(words),
        *text("<image name=[Image #1]>"),
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        *text("</image>"),
    ]
    talk.response({"type": "message", "role": "user", "content": content})
    (turn,) = read(talk.answer("Done.").write(path)).turns
    assert said(turn) == "fix it\n[image]"


def test_things_of_the_paged_shape_without_the_models_history(path: Path) -> None:
    talk = Talk("paged")
    talk.turn = "t1"
    talk.event("task_started", turn_id="t1")
    talk.item("UserMessage", content=[{"type": "text", "text": "look"}, {"type": "local_image"}])
    talk.item("CommandExecution", id="c", command=["ls", "a b"], aggregated_output="", exit_code=2)
    talk.item("McpToolCall", id="m", tool="find", arguments={"q": "x"}, result={"Ok": "found"})
    talk.item("FileChange", id="f", changes={"a.py": {"type": "update"}}, status="completed")
    talk.item("Hologram", id="h")
    talk.event("task_complete", turn_id="t1", last_agent_message="That is it.")
    reading = read(talk.write(path))
    (turn,) = reading.turns
    assert [(i.kind, i.name, i.text, i.output, i.failed) for i in turn.items] == [
        ("user", "", "look\n[image]", "", False),
        ("tool", "shell", "ls 'a b'", "", True),
        ("tool", "find", '{"q": "x"}', "found", False),
        ("tool", "apply_patch", '{"a.py": {"type": "update"}}', "", False),
        ("assistant", "", "That is it.", "", False),
    ]
    assert reading.unknown == {"thing:Hologram": 1}


def test_a_provider_error_is_noted(path: Path) -> None:
    talk = Talk("paged").user("hello there", "t1")
    talk.event("error", message="stream disconnected")
    talk.event("task_complete", turn_id="t1", last_agent_message=None)
    (turn,) = read(talk.write(path)).turns
    assert turn.state == "finished"
    assert steps(turn)[-1] == ("note", "The provider failed: stream disconnected")


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        (["/bin/bash", "-lc", "echo 'a b'"], "echo 'a b'"),
        (["zsh", "-c", "ls"], "ls"),
        (["git", "commit", "-m", "a b"], "git commit -m 'a b'"),
        ({"cmd": "ls -l"}, "ls -l"),
        ({"command": "ls -l", "workdir": "/w"}, "ls -l"),
        ({"query": "x"}, None),
        ([], None),
        (None, None),
    ],
)
def test_commands(asked: object, command: str | None) -> None:
    assert command_of(asked) == command


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("plain\n", ("plain", False)),
        ('{"output":"a\\n","metadata":{"exit_code":1}}', ("a", True)),
        ("Exit code: 0\nWall time: 1 seconds\nOutput:\na\nb\n", ("a\nb", False)),
        ("Chunk ID: x\nProcess exited with code 3\nOutput:\n", ("", True)),
        ({"content": "no", "success": False}, ("no", True)),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], ("a\n[image]", False)),
        ('{"output": 3', ('{"output": 3', False)),
        (None, ("", False)),
    ],
)
def test_outputs(given: object, output: tuple[str, bool]) -> None:
    assert read_output(given) == output


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
TYPES = st.sampled_from(["response_item", "event_msg", "turn_context", "session_meta", "x", None])
KINDS = st.sampled_from(
    [
        "message",
        "function_call",
        "function_call_output",
        "user_message",
        "task_started",
        "item_completed",
        "turn_aborted",
        "error",
        "local_shell_call",
        "y",
    ]
)
FIELDS = ["role", "content", "arguments", "call_id", "item", "turn_id", "message", "images"]


@given(
    kind=TYPES,
    inner=KINDS,
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON),
    framed=st.booleans(),
)
def test_no_record_makes_it_raise(
    kind: str | None, inner: str, fields: Record, framed: bool
) -> None:
    payload = {"type": inner, **fields}
    read_record({"type": kind, "payload": payload} if framed else payload)


def test_a_pointer_gives_the_session(path: Path) -> None:
    fill(Talk("bare")).write(path)
    pointer = Pointer("codex", "named", str(path))
    turn = SOURCE.read(pointer, start=0, not_before=None).turns[0]
    assert turn == replace(read(path).turns[0], session="named")
