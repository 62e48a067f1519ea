"""Every recorded session of Claude Code, with the turns it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.sources.base import Pointer, Turn
from memsearch.sources.claude_code import ClaudeCode

HELLO = "Summarise this: hello"
HELLO_ANSWER = "Stub answer to: Summarise this: hello"

#: File → (turn id, the user's words, number of tools, state, last item) of each turn.
EXPECTED: dict[str, list[tuple[str, str, int, str, str]]] = {
    "06a7880a-72b1-4afe-bf88-11f0ab65e859": [
        ("05709a9b-53f2-45e5-b546-d02375da2397", HELLO, 0, "finished", HELLO_ANSWER),
    ],
    "11111111-1111-4111-8111-111111111111": [
        (
            "68c5bdd7-d8d5-4880-b4de-02427684e7ae",
            "Please read the readme [[READ: /home/dev/demo/README.md]]",
            1,
            "finished",
            "Done. The tool returned 32 characters. 工具已完成。",
        ),
        (
            "be17c3a4-b78d-47c2-8431-d864c4633c44",
            "请用中文运行一个命令 [[SH: echo 你好，世界]]",
            1,
            "finished",
            "Done. The tool returned 7 characters. 工具已完成。",
        ),
        (
            "271d1b7e-c349-4a53-8b42-4dece8807c80",
            "Show the big file [[SH: cat big.txt]]",
            1,
            "finished",
            "Done. The tool returned 2347 characters. 工具已完成。",
        ),
        (
            "4602fac2-29a7-4f72-9077-e074b32f1c63",
            "Just chat with me, no tools",
            0,
            "finished",
            "Stub answer to: Just chat with me, no tools",
        ),
    ],
    "160d208d-fb19-45d8-a32b-20695a4f108d": [
        ("b5cda1ca-ff64-44e5-b68f-cbe431096c78", HELLO, 0, "finished", HELLO_ANSWER),
    ],
    "22222222-2222-4222-8222-222222222222": [
        (
            "ee2485dc-23ad-474f-b038-dc34f6c1400b",
            "[[AGENT: sub task: [[SH: echo from-subagent]] ]]",
            1,
            "finished",
            "Stub answer to: duration_ms></usage> </task-notification> </system-reminder>",
        ),
    ],
    # Killed while the provider was out of reach.
    "22222222-2222-4222-8222-222222222223": [
        (
            "d4a679cd-71bb-4768-9f5c-be807be223d0",
            '[[CALL: Agent {"description":"d","prompt":"Sub: please run [[SH: echo '
            'from-subagent]]","subagent_type":"general-purpose","run_in_background":false}]]',
            0,
            "open",
            '[[CALL: Agent {"description":"d","prompt":"Sub: please run [[SH: echo '
            'from-subagent]]","subagent_type":"general-purpose","run_in_background":false}]]',
        ),
    ],
    "22222222-2222-4222-8222-222222222224": [
        (
            "ad170e37-4f40-4df6-bead-15f3e26085a7",
            '[[CALL: Agent {"description":"d","prompt":"Sub: please run <<SH: echo '
            'from-subagent>>","subagent_type":"general-purpose","run_in_background":false}]]',
            1,
            "finished",
            "Done. The tool returned 817 characters. 工具已完成。",
        ),
    ],
    "33333333-3333-4333-8333-333333333333": [
        (
            "cced2ce8-bf37-4782-bd33-7a9ca30ca5e8",
            '[[CALL: Skill {"skill":"memdemo:recall","args":"foo topic"}]]',
            1,
            "finished",
            "Done. The tool returned 145 characters. 工具已完成。",
        ),
    ],
    # A skill that runs by itself: the command stands as plain words, and no agent answers.
    "33333333-3333-4333-8333-333333333334": [
        (
            "9cc9cb71-010c-40ae-89ee-e74c003c52c2",
            "/memdemo:recall bar topic",
            0,
            "finished",
            "/memdemo:recall bar topic",
        ),
    ],
    # A slash command with arguments, then /compact, which is no turn.
    "33333333-3333-4333-8333-333333333335": [
        (
            "e7779ac0-1418-4e15-8af7-7b5bf0f1980a",
            "/memdemo:plain baz",
            0,
            "finished",
            "Stub answer to: rket/plugins/memdemo/skills/plain PLAIN-SKILL-BODY args=baz",
        ),
    ],
    "38a5d0db-540e-433c-bba9-5d5bfe0bcf43": [
        ("e859db6c-5a71-4cbb-8fe3-4aaca52a8c62", HELLO, 0, "finished", HELLO_ANSWER),
    ],
    "44444444-4444-4444-8444-444444444444": [
        (
            "8ede634b-3d8a-431c-8ef7-bcf761b35baf",
            "Interrupt me [[SLOW: 30]]",
            0,
            "interrupted",
            "The user interrupted this turn.",
        ),
        (
            "46bc1de6-c5e6-49f6-b3c6-db33e1758197",
            "continue after the interruption",
            0,
            "finished",
            "Stub answer to: continue after the interruption",
        ),
    ],
    "44444444-4444-4444-8444-444444444445": [
        (
            "6975bf38-ca47-448b-97ca-64fc361f2047",
            "Kill me in a tool [[SH: sleep 30]]",
            1,
            "finished",
            "Done. The tool returned 281 characters. 工具已完成。",
        ),
    ],
    "75538dd8-fc9e-4256-92b0-7792190bb7b0": [
        ("5e36e7fd-4f8a-4c68-86d7-6b4fea2dda1d", HELLO, 0, "finished", HELLO_ANSWER),
    ],
    "88c1b4ff-465e-4327-a00e-81bf7e51c35a": [
        ("c325e221-cc25-47dc-91bb-cab14ed2de18", HELLO, 0, "finished", HELLO_ANSWER),
    ],
    "beb2ed1b-45b4-4a22-bc85-643c7566205c": [
        ("28e1e802-a427-4a20-8f7e-73607f96d2d8", HELLO, 0, "finished", HELLO_ANSWER),
    ],
    "dddb5c75-e265-4d7d-a590-8ee740fdb6bc": [
        ("3c78f5b9-e08c-4872-98b7-1bc2a6d5a141", HELLO, 0, "finished", HELLO_ANSWER),
    ],
}

TALKATIVE = [
    "11111111-1111-4111-8111-111111111111",
    "22222222-2222-4222-8222-222222222222",
    "22222222-2222-4222-8222-222222222224",
    "33333333-3333-4333-8333-333333333334",
    "33333333-3333-4333-8333-333333333335",
    "44444444-4444-4444-8444-444444444444",
]


def pointer(path: Path, turn: str | None = None) -> Pointer:
    return Pointer("claude-code", path.stem, str(path), turn=turn)


def turns_of(path: Path, start: int = 0) -> tuple[Turn, ...]:
    return ClaudeCode().read(pointer(path), start=start, not_before=None).turns


def row(turn: Turn) -> tuple[str, str, int, str, str]:
    said = [item.text for item in turn.items if item.kind == "user"]
    tools = [item for item in turn.items if item.kind == "tool"]
    return turn.id, "\n".join(said), len(tools), turn.state, turn.items[-1].text


def test_every_recording_is_in_the_table(recordings: Path) -> None:
    assert {path.stem for path in recordings.glob("*.jsonl")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_turns_of_a_recording(recordings: Path, name: str) -> None:
    path = recordings / f"{name}.jsonl"
    reading = ClaudeCode().read(pointer(path), start=0, not_before=None)
    assert [row(turn) for turn in reading.turns] == EXPECTED[name]
    assert (dict(reading.unknown), dict(reading.skipped)) == ({}, {})
    assert (reading.torn, reading.more) == (False, False)
    assert reading.resume == reading.turns[-1].position
    for turn in reading.turns:
        assert turn.platform == "claude-code"
        assert turn.session == name
        assert turn.cwd == "/home/dev/demo"
        assert turn.anchor == {"transcript": str(path)}
        line = path.read_bytes()[turn.position :].split(b"\n", 1)[0]
        assert json.loads(line)["promptId"] == turn.id
        assert turn.at.isoformat() == json.loads(line)["timestamp"].replace("Z", "000+00:00")


def test_a_subagent_gives_no_turns(recordings: Path) -> None:
    files = list(recordings.glob("*/subagents/*.jsonl"))
    assert len(files) == 4
    for path in files:
        assert turns_of(path) == ()


def test_a_subagents_records_in_the_session_itself_give_no_turns(
    recordings: Path, tmp_path: Path
) -> None:
    # Releases before 2.1 wrote them there.
    path = tmp_path / "session.jsonl"
    folder = "22222222-2222-4222-8222-222222222224"
    (agent,) = (recordings / folder / "subagents").glob("*.jsonl")
    path.write_bytes((recordings / f"{folder}.jsonl").read_bytes() + agent.read_bytes())
    assert [row(turn) for turn in turns_of(path)] == EXPECTED[folder]


def test_thinking_hooks_and_injected_context_are_nowhere(recordings: Path) -> None:
    texts = "\n".join(
        f"{item.text}\n{item.output}"
        for path in recordings.glob("*.jsonl")
        for turn in turns_of(path)
        for item in turn.items
    )
    for word in ("思考一下", "PLUGCTX", "USERPLAIN", "SYSMSG", "gitStatus", "<system-reminder>"):
        assert word not in texts.replace(EXPECTED[TALKATIVE[1]][0][4], "")


def test_a_background_task_that_ends_belongs_to_the_turn_before(recordings: Path) -> None:
    path = recordings / "22222222-2222-4222-8222-222222222222.jsonl"
    (turn,) = turns_of(path)
    notification = "3d0fe572-0dbf-4a79-a40f-9b33169095dd"
    assert turn.aliases == (notification,)
    # The session's last hooks name the notification's promptId.
    for not_before in (None, turn.at.replace(year=2099)):
        reading = ClaudeCode().read(pointer(path, notification), start=None, not_before=not_before)
        assert reading.find(notification) == turn


def test_the_identity_of_a_turn_does_not_change_when_a_task_ends_later(
    recordings: Path, tmp_path: Path
) -> None:
    data = (recordings / "22222222-2222-4222-8222-222222222222.jsonl").read_bytes()
    path = tmp_path / "session.jsonl"
    path.write_bytes(data[: data.index(b'{"parentUuid":"e37cd075')])
    first = ClaudeCode().read(pointer(path), start=0, not_before=None)
    (before,) = first.turns
    assert (before.state, before.aliases) == ("finished", ())
    path.write_bytes(data)
    (after,) = ClaudeCode().read(pointer(path), start=first.resume, not_before=None).turns
    assert (after.id, after.at, after.position) == (before.id, before.at, before.position)
    assert after.items[: len(before.items)] == before.items


def test_a_command_without_an_answer_names_the_turn_before(recordings: Path) -> None:
    (turn,) = turns_of(recordings / "33333333-3333-4333-8333-333333333335.jsonl")
    assert turn.aliases == ("fc20f2f8-eea5-4d80-b3a0-e48d23ecad0b",)  # /compact


def test_output_that_was_put_aside(recordings: Path) -> None:
    turn = turns_of(recordings / "11111111-1111-4111-8111-111111111111.jsonl")[2]
    tool = next(item for item in turn.items if item.kind == "tool")
    assert (tool.name, tool.text, tool.failed) == ("Bash", "cat big.txt", False)
    assert tool.output.startswith("line 1 lorem ipsum\nline 2 lorem ipsum\n")
    assert tool.output.endswith("/tool-results/bkbx7hl4r.txt]")
    assert len(tool.output) <= 2_000
    assert turn.truncated > 128_000


def test_a_subagents_report_comes_without_its_frame(recordings: Path) -> None:
    (turn,) = turns_of(recordings / "22222222-2222-4222-8222-222222222224.jsonl")
    tool = next(item for item in turn.items if item.kind == "tool")
    assert tool.output == "Done. The tool returned 15 characters. 工具已完成。"


def test_a_tool_that_failed(recordings: Path) -> None:
    (turn,) = turns_of(recordings / "44444444-4444-4444-8444-444444444445.jsonl")
    tool = next(item for item in turn.items if item.kind == "tool")
    assert tool.failed
    assert tool.output.startswith("Blocked: standalone sleep 30.")


# Any moment at which a hook may look -------------------------------------------------------


def first_wins(readings: Iterable[tuple[Turn, ...]]) -> list[Turn]:
    """What capture makes of several readings: a turn once, when it is over or final."""
    turns: dict[str, Turn] = {}
    for reading in readings:
        for turn in reading:
            if turn.id not in turns or turns[turn.id].state == "open":
                turns[turn.id] = turn
    return list(turns.values())


@given(st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_reading_in_two_parts_gives_what_reading_at_once_gives(
    recordings: Path, tmp_path: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(TALKATIVE))
    whole = (recordings / f"{name}.jsonl").read_bytes()
    path = tmp_path / f"{name}.jsonl"
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    first = ClaudeCode().read(pointer(path), start=0, not_before=None)
    path.write_bytes(whole)
    second = ClaudeCode().read(pointer(path), start=first.resume, not_before=None)
    at_once = turns_of(path)
    assert first.resume <= cut
    # What the second reading gives is exact, and what came before it stands.
    by_id = {turn.id: turn for turn in (*first.turns, *second.turns)}
    assert tuple(by_id.values()) == at_once
    # Captured at that moment, a turn differs only by what the agent did afterwards.
    for turn in first_wins([first.turns, second.turns]):
        spoken = [item for item in turn.items if item.kind != "note"]
        final = [item for item in by_id[turn.id].items if item.kind != "note"]
        assert spoken == final[: len(spoken)]


@given(st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_repeated_lines_change_nothing(
    recordings: Path, tmp_path: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(TALKATIVE))
    lines = (recordings / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    counts = data.draw(
        st.lists(st.integers(1, 4), min_size=len(lines), max_size=len(lines)), label="copies"
    )
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(b"".join(line * n for line, n in zip(lines, counts, strict=True)))
    assert [replace(turn, position=0) for turn in turns_of(path)] == [
        replace(turn, position=0, anchor={"transcript": str(path)})
        for turn in turns_of(recordings / f"{name}.jsonl")
    ]


@given(st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_garbage_between_the_lines_changes_nothing(
    recordings: Path, tmp_path: Path, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(TALKATIVE))
    lines = (recordings / f"{name}.jsonl").read_bytes().splitlines()
    garbage = st.binary(max_size=30).map(lambda b: b"#" + b.replace(b"\n", b""))
    for _ in range(data.draw(st.integers(1, 8))):
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(garbage))
    path = tmp_path / f"{name}.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    reading = ClaudeCode().read(pointer(path), start=0, not_before=None)
    assert [row(turn) for turn in reading.turns] == EXPECTED[name]
    assert sum(reading.skipped.values()) + reading.torn >= 1


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_tail_holds_the_hooked_turn_whole(recordings: Path, name: str) -> None:
    path = recordings / f"{name}.jsonl"
    for turn in turns_of(path):
        late = turn.at.replace(year=2099)
        reading = ClaudeCode().read(pointer(path, turn.id), start=None, not_before=late)
        assert reading.turns == (turn,)
        since = ClaudeCode().read(pointer(path, turn.id), start=None, not_before=turn.at)
        assert since.turns == turns_of(path)[turns_of(path).index(turn) :]
