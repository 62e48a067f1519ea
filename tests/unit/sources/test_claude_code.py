"""What Claude Code's records mean, case by case (T1 to T21 are cases from the field)."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import (
    MAX_OUTPUT_CHARS,
    MAX_TEXT_CHARS,
    MAX_TURN_CHARS,
    Pointer,
    Reading,
    Turn,
)
from memsearch.sources.claude_code import ClaudeCode
from memsearch.sources.injected import MEMORY_FENCE_CLOSE, MEMORY_FENCE_OPEN, MEMORY_HINT

Transcript = Any  # of conftest, which cannot be imported here


def said(turn: Turn) -> list[str]:
    return [item.text for item in turn.items if item.kind == "user"]


def steps(turn: Turn) -> list[tuple[str, str]]:
    return [(item.kind, item.text) for item in turn.items]


def words(reading: Reading) -> list[str]:
    return [" | ".join(said(turn)) for turn in reading.turns]


# Where turns begin and end -----------------------------------------------------------------


def test_t21_two_lines_are_a_turn(transcript: Transcript) -> None:
    t = transcript
    t.write(t.user("why?", "p1"), t.answer("because"), end=b"")
    (turn,) = t.read().turns
    assert (turn.id, turn.state) == ("p1", "finished")
    assert steps(turn) == [("user", "why?"), ("assistant", "because")]


def test_without_a_prompt_id_the_uuid_names_the_turn(transcript: Transcript) -> None:
    t = transcript
    t.write(t.user("one"), t.answer("1"), t.call("c"), t.result("c"), t.answer("2"), t.user("two"))
    first, second = t.read().turns
    assert first.id == "uuid-1"
    assert second.id.startswith("uuid-")
    assert steps(first)[-1] == ("assistant", "2")


def test_without_any_id_a_turn_still_has_one(transcript: Transcript) -> None:
    t = transcript
    one = {"type": "user", "message": {"content": "one"}}
    two = {"type": "user", "message": {"content": "two"}}
    t.write(one, {"type": "assistant", "message": {"content": "1"}}, two)
    reading = t.read()
    assert words(reading) == ["one", "two"]
    ids = [turn.id for turn in reading.turns]
    assert len(set(ids)) == 2
    assert [turn.id for turn in t.read().turns] == ids


def test_t1_lines_that_were_written_twice(transcript: Transcript) -> None:
    t = transcript
    lines = [
        t.user("one", "p1"),
        t.answer("1"),
        t.system("turn_duration"),
        t.user("two", "p2"),
        t.answer("2"),
    ]
    echo = {**lines[3], "uuid": "another"}
    t.write(*(line for line in lines for _ in range(2)), echo, t.system("informational"))
    first, second = t.read().turns
    assert steps(first) == [("user", "one"), ("assistant", "1")]
    assert steps(second) == [("user", "two"), ("assistant", "2")]


def test_a_copy_of_an_old_record_with_new_ids_is_no_turn(transcript: Transcript) -> None:
    t = transcript
    one = t.user("one")
    copy = {**one, "uuid": "copy"}
    t.write(one, t.answer("1"), t.user("two"), t.answer("2"), copy, t.answer("1 again"))
    reading = t.read()
    assert words(reading) == ["one", "two"]
    assert steps(reading.turns[1]) == [("user", "two"), ("assistant", "2")]


def test_t12_compaction(transcript: Transcript) -> None:
    t = transcript
    turns = [(t.user(f"do {n}", f"p{n}"), t.answer(f"did {n}")) for n in range(1, 6)]
    summary = t.user(
        "This session is being continued from a previous conversation…",
        "p5",
        isCompactSummary=True,
    )
    copies = [{**record, "uuid": f"{record['uuid']}-copy"} for turn in turns[3:] for record in turn]
    t.write(
        *(record for turn in turns for record in turn),
        t.system("compact_boundary"),
        summary,
        *copies,
        t.user("do 6", "p6"),
        t.answer("did 6"),
    )
    reading = t.read()
    assert words(reading) == [f"do {n}" for n in range(1, 7)]
    for n, turn in enumerate(reading.turns, 1):
        assert steps(turn) == [("user", f"do {n}"), ("assistant", f"did {n}")]


def test_compaction_in_the_middle_of_a_turn(transcript: Transcript) -> None:
    t = transcript
    user, call = t.user("do it", "p1"), t.call("c1", command="ls")
    t.write(
        user,
        call,
        t.result("c1", "a.py"),
        t.system("compact_boundary"),
        t.user("This session is being continued from…", "p1", isCompactSummary=True),
        {**user, "uuid": "copy-1"},
        {**call, "uuid": "copy-2"},
        t.answer("done"),
    )
    (turn,) = t.read().turns
    assert steps(turn) == [("user", "do it"), ("tool", "ls"), ("assistant", "done")]


def test_an_old_summary_without_its_flag_is_no_turn(transcript: Transcript) -> None:
    t = transcript
    text = "This session is being continued from a previous conversation that ran out of context."
    t.write(t.user(text), t.answer("Let me go on."), t.user("next"))
    assert words(t.read()) == ["next"]


def test_t9_sidechains_are_dropped(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("go", "p1"),
        t.user("sub task", "p1", isSidechain=True, agentId="a1"),
        t.answer("sub answer", isSidechain=True, agentId="a1"),
        t.answer("done"),
    )
    (turn,) = t.read().turns
    assert steps(turn) == [("user", "go"), ("assistant", "done")]


@pytest.mark.parametrize("name", ["agent-1.jsonl", "subagents/x.jsonl"])
def test_t9_a_subagents_file_is_no_session(transcript: Transcript, name: str) -> None:
    t = transcript
    t.path = t.path.parent / name
    path = t.write(t.user("sub task", "p1"), t.answer("sub answer"))
    reading = t.read()
    assert (reading.turns, reading.resume) == ((), path.stat().st_size)


def test_t10_unknown_types_are_ignored_and_counted(transcript: Transcript) -> None:
    t = transcript
    known = ["last-prompt", "ai-title", "continued-in", "file-history-snapshot", "attachment"]
    new = [f"invented-{n}" for n in range(8)]
    t.write(
        {"type": known[0], "lastPrompt": "hi"},
        t.user("hi", "p1"),
        *({"type": name, "content": "noise", "message": {"content": "noise"}} for name in new),
        *({"type": name} for name in known),
        {"type": new[0]},
        {"type": 7},
        {"no": "type"},
        t.answer({"type": "hologram"}, {"no": "type"}, "hello"),
    )
    reading = t.read()
    assert steps(reading.turns[0]) == [("user", "hi"), ("assistant", "hello")]
    assert reading.unknown == {
        **dict.fromkeys(new, 1),
        new[0]: 2,
        "(no type)": 2,
        "block:hologram": 1,
        "block:(none)": 1,
    }


def test_unknown_names_are_counted_within_bounds(transcript: Transcript) -> None:
    t = transcript
    t.write(*({"type": f"{n}" * 500} for n in range(1_000)))
    unknown = t.read().unknown
    assert len(unknown) <= 101
    assert sum(unknown.values()) == 1_000
    assert max(map(len, unknown)) <= 60


@pytest.mark.parametrize(
    ("tail", "state"),
    [
        ([], "open"),
        ([("answer", "done", "end_turn")], "finished"),
        ([("answer", "done", "max_tokens")], "finished"),
        ([("answer", "done", "stop_sequence")], "finished"),
        ([("answer", "done", "refusal")], "finished"),
        ([("answer", "wait", "tool_use")], "open"),
        ([("answer", "wait", "pause_turn")], "open"),
        ([("answer", "old release", None)], "open"),
        ([("thinking", "", "end_turn")], "open"),
        ([("answer", "done", None), ("system", "stop_hook_summary", None)], "finished"),
        ([("answer", "done", None), ("system", "turn_duration", None)], "finished"),
        ([("answer", "done", "end_turn"), ("meta", "Stop hook feedback:\nno", None)], "open"),
        ([("answer", "done", None), ("next", "more", None)], "finished"),
        ([("answer", "wait", "tool_use"), ("next", "more", None)], "finished"),
        ([("next", "more", None)], "interrupted"),
        ([("aborted", "par", None)], "interrupted"),
        ([("aborted", "par", None), ("next", "more", None)], "interrupted"),
        (
            [("answer", "x", "tool_use"), ("user", "[Request interrupted by user]", None)],
            "interrupted",
        ),
    ],
)
def test_states(transcript: Transcript, tail: list[tuple[str, str, Any]], state: str) -> None:
    t = transcript
    records = [t.user("go", "p1")]
    for kind, text, stop in tail:
        records.append(
            {
                "answer": lambda text=text, stop=stop: t.answer(text, stop=stop),
                "aborted": lambda text=text: t.answer(text, stop=None, isAbortedMidStream=True),
                "thinking": lambda stop=stop: t.answer({"type": "thinking"}, stop=stop),
                "system": lambda text=text: t.system(text),
                "meta": lambda text=text: t.user(text, "p1", isMeta=True),
                "next": lambda text=text: t.user(text, "p2"),
                "user": lambda text=text: t.user([{"type": "text", "text": text}], "p1"),
            }[kind]()
        )
    t.write(*records)
    assert t.read().turns[0].state == state


def test_a_turn_that_was_killed_in_a_tool_says_so(transcript: Transcript) -> None:
    t = transcript
    t.write(t.user("go", "p1"), t.call("c1", command="make"), t.user("again", "p2"))
    first, second = t.read().turns
    assert first.state == "interrupted"
    assert steps(first)[-1] == ("note", "This turn was cut off before it ended.")
    assert second.state == "open"


def test_t11_an_interrupted_turn_has_no_invented_result(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("run it", "p1"),
        t.call("c1", command="make"),
        t.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], "p1"),
        t.answer("No response requested.", model="<synthetic>", isApiErrorMessage=False),
        t.user("next", "p2"),
    )
    first, second = t.read().turns
    assert first.state == "interrupted"
    assert steps(first) == [
        ("user", "run it"),
        ("tool", "make"),
        ("note", "The user interrupted this turn."),
    ]
    assert first.items[1].output == ""
    assert steps(second) == [("user", "next")]


def test_an_interruption_with_the_next_prompt_in_one_record(transcript: Transcript) -> None:
    t = transcript
    both = [
        {"type": "text", "text": "[Request interrupted by user]"},
        {"type": "text", "text": "stop, keep the old name"},
    ]
    t.write(t.user("rename"), t.answer("renaming", stop=None), t.user(both), t.answer("ok"))
    first, second = t.read().turns
    assert (first.state, said(second)) == ("interrupted", ["stop, keep the old name"])


def test_a_provider_error_is_a_note(transcript: Transcript) -> None:
    t = transcript
    error = {"formatted": "Connection dropped (ECONNRESET)"}
    t.write(
        t.user("one", "p1"),
        t.answer("API Error: 529 overloaded", model="<synthetic>", isApiErrorMessage=True),
        t.user("two", "p2"),
        t.system("api_error", error=error),
        t.system("api_error", error=error),
        t.user("three", "p3"),
        t.system("api_error", error=error),
        t.answer("went well after all"),
    )
    first, second, third = t.read().turns
    assert first.state == "finished"
    assert steps(first)[-1] == ("note", "The provider failed: API Error: 529 overloaded")
    assert second.state == "interrupted"
    assert steps(second)[1:] == [
        ("note", "The provider did not answer: Connection dropped (ECONNRESET) (2 attempts)"),
        ("note", "This turn was cut off before it ended."),
    ]
    assert steps(third) == [("user", "three"), ("assistant", "went well after all")]


def test_t7_what_follows_the_last_answer(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("go", "p1"),
        t.answer("done"),
        t.system("stop_hook_summary"),
        t.system("away_summary"),
        t.base(type="attachment", attachment={"type": "date", "date": "2026-03-25"}),
        t.answer("sub", isSidechain=True),
    )
    reading = t.read(start=None, not_before=datetime(2099, 1, 1, tzinfo=UTC))
    assert steps(reading.turns[0]) == [("user", "go"), ("assistant", "done")]


# What the user says ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", ["plain"]),
        ("  spaced \n", ["spaced"]),
        (["a", "b"], ["a\nb"]),
        ([{"type": "text", "text": "look"}, {"type": "image", "source": {}}], ["look\n[image]"]),
        ([{"type": "image"}], ["[image]"]),
        ([{"type": "document"}, {"type": "text", "text": "read"}], ["[document]\nread"]),
        ({"type": "text", "text": "single"}, ["single"]),
        ("half \ud83d of a pair", ["half � of a pair"]),
        ("修复登录 🎉", ["修复登录 🎉"]),
    ],
)
def test_t5_any_shape_of_content(transcript: Transcript, content: Any, expected: list[str]) -> None:
    t = transcript
    t.write(json.dumps(t.user(content, "p1")))
    assert [said(turn) for turn in t.read().turns] == [expected]


def test_t5_a_list_with_only_results_is_no_turn(transcript: Transcript) -> None:
    t = transcript
    t.write(t.user("go"), t.call("c1"), t.result("c1", "out"), t.answer("done"))
    (turn,) = t.read().turns
    assert [item.output for item in turn.items if item.kind == "tool"] == ["out"]


def test_words_beside_a_result_belong_to_the_turn(transcript: Transcript) -> None:
    t = transcript
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "rejected", "is_error": True}
    both = [result, {"type": "text", "text": "use the other file"}]
    t.write(t.user("go"), t.call("c1"), t.user(both), t.answer("done"))
    (turn,) = t.read().turns
    assert said(turn) == ["go", "use the other file"]


COMMAND = "<command-message>{0}</command-message>\n<command-name>/{0}</command-name>"


@pytest.mark.parametrize(
    "content",
    [
        "<command-name>/clear</command-name>\n<command-message>clear</command-message>\n"
        "<command-args></command-args>",
        "<command-message>clear</command-message>\n<command-name>/clear</command-name>",
        "<local-command-stdout>ok</local-command-stdout>",
        "<local-command-stderr>no</local-command-stderr>",
        "<local-command-caveat>Caveat…</local-command-caveat>",
        "<local-command-caveat>cut",
        "Caveat: The messages below were generated by the user while running local commands. DO",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>",
        "<task-notification>\n<task-id>a</task-id></task-notification>",
        "<system-reminder>\nToday is Monday.\n</system-reminder>",
        "   ",
        "",
        None,
        [],
        [None, 3, [], "", {"type": "text"}, {"type": "text", "text": None}],
        f"{MEMORY_FENCE_OPEN} project='x'>\n- User asked\n{MEMORY_FENCE_CLOSE}",
        f"{MEMORY_HINT}\n",
    ],
)
def test_t4_nobodys_words_are_no_turn(transcript: Transcript, content: Any) -> None:
    t = transcript
    t.write(t.user(content, "p1"), t.user("expanded", "p1", isMeta=True))
    reading = t.read()
    assert reading.turns == ()


def test_t4_a_commands_arguments_are_the_users_words(transcript: Transcript) -> None:
    t = transcript
    command = COMMAND.format("review") + "\n<command-args>the login page</command-args>"
    t.write(
        t.user("<local-command-caveat>x</local-command-caveat>", "p1", isMeta=True),
        t.user(command, "p1"),
        t.user([{"type": "text", "text": "SKILL BODY"}], "p1", isMeta=True),
        t.answer("reviewed"),
    )
    (turn,) = t.read().turns
    assert turn.id == "p1"
    assert steps(turn) == [("user", "/review the login page"), ("assistant", "reviewed")]


def test_a_command_without_arguments_is_a_turn_when_the_agent_answers(
    transcript: Transcript,
) -> None:
    t = transcript
    t.write(
        t.user("hi", "p1"),
        t.answer("hello"),
        t.user(COMMAND.format("init"), "p2"),
        t.user("Please analyze this codebase", "p2", isMeta=True),
        t.answer("wrote CLAUDE.md"),
    )
    first, second = t.read().turns
    assert (first.id, first.aliases) == ("p1", ())
    assert (second.id, steps(second)[0]) == ("p2", ("user", "/init"))
    for wanted in ("p1", "p2"):
        tail = t.read(wanted, start=None, not_before=datetime(2099, 1, 1, tzinfo=UTC))
        assert tail.find(wanted) == (first if wanted == "p1" else second)


def test_a_command_without_arguments_begins_a_session(transcript: Transcript) -> None:
    t = transcript
    t.write(t.user(COMMAND.format("init"), "p1"), t.answer("wrote CLAUDE.md"))
    for wanted in ("p1", None):
        reading = t.read(wanted, start=None, not_before=datetime(2099, 1, 1, tzinfo=UTC))
        assert words(reading) == ["/init"]


def test_a_local_command_does_not_end_the_turn_that_goes_on(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("work", "p1"),
        t.call("c1", command="make"),
        t.user(COMMAND.format("status"), "p2"),
        t.user("<local-command-stdout>fine</local-command-stdout>", "p2"),
        t.user(COMMAND.format("model") + "<command-args>opus</command-args>", "p3"),
        t.system("local_command", content="<local-command-stdout>set</local-command-stdout>"),
        t.result("c1", "built"),
        t.answer("done"),
    )
    work, model = t.read().turns
    assert steps(work) == [("user", "work"), ("tool", "make"), ("assistant", "done")]
    assert work.items[1].output == "built"
    assert (work.aliases, work.state) == (("p2",), "finished")
    assert (steps(model), model.state) == ([("user", "/model opus")], "finished")
    assert t.read().resume == 0


def test_a_commands_own_id_is_no_alias_of_the_turn_before(transcript: Transcript) -> None:
    t = transcript
    caveat = "<local-command-caveat>x</local-command-caveat>"
    command = COMMAND.format("review") + "<command-args>it</command-args>"
    t.write(
        t.user("work", "p1"),
        t.answer("done"),
        t.user(caveat, "p2", isMeta=True),
        t.user(command, "p2"),
        t.answer("reviewed"),
    )
    assert [(turn.id, turn.aliases) for turn in t.read().turns] == [("p1", ()), ("p2", ())]


def test_a_command_that_only_the_system_answers_names_the_turn_before(
    transcript: Transcript,
) -> None:
    t = transcript
    t.write(
        t.user("work", "p1"),
        t.answer("done"),
        t.user(COMMAND.format("cost"), "p2"),
        t.system("local_command", content="<local-command-stdout>$1</local-command-stdout>"),
    )
    assert [(turn.id, turn.aliases) for turn in t.read().turns] == [("p1", ("p2",))]


def test_a_task_that_ends_after_a_command_is_not_the_commands_answer(
    transcript: Transcript,
) -> None:
    t = transcript
    t.write(
        t.user("work", "p1"),
        t.answer("started it in the background"),
        t.user(COMMAND.format("exit"), "p2"),
        t.user("<task-notification>x</task-notification>", "p3"),
        t.answer("it has ended"),
    )
    (turn,) = t.read().turns
    assert (turn.id, turn.aliases) == ("p1", ("p2", "p3"))
    assert steps(turn)[-1] == ("assistant", "it has ended")


def test_a_result_that_is_waited_for_is_not_a_commands_answer(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("work", "p1"),
        t.call("c1", command="make"),
        t.user(COMMAND.format("status"), "p2"),
        t.result("c1", "built"),
        t.system("local_command", content="<local-command-stdout>fine</local-command-stdout>"),
        t.answer("done"),
    )
    (turn,) = t.read().turns
    assert [item.output for item in turn.items] == ["", "built", ""]


def test_a_second_record_of_one_prompt(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("before", "p1"),
        t.user("first half", "p2"),
        t.user("second half", "p2"),
        t.answer("done"),
    )
    for start in (0, None):
        reading = t.read("p2", start=start, not_before=datetime(2099, 1, 1, tzinfo=UTC))
        assert [said(turn) for turn in reading.turns] == [["first half", "second half"]]


def test_a_local_command_since_then_is_in_the_tail(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("long ago", "p0", timestamp="2020-01-01T00:00:00Z"),
        t.user(COMMAND.format("model") + "<command-args>opus</command-args>", "p1"),
        t.system("local_command", content="<local-command-stdout>set</local-command-stdout>"),
        t.user("work", "p2"),
    )
    reading = t.read("p2", start=None, not_before=datetime(2026, 1, 1, tzinfo=UTC))
    assert words(reading) == ["/model opus", "work"]


def test_a_shell_line_of_the_users_own_is_no_turn(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("<bash-input>pytest -x</bash-input>", "p1"),
        t.user("<bash-stdout>1 failed</bash-stdout><bash-stderr></bash-stderr>", "p1"),
        t.user("fix that", "p2"),
        t.answer("fixed"),
    )
    assert words(t.read()) == ["fix that"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<private>plan Falcon</private> fix lint", "fix lint"),
        ("fix lint <private>plan Falcon", "fix lint"),
        ("a <PRIVATE>x</Private> b", "a  b"),
        ("a <private reason='x'>x</private> b", "a  b"),
        ("a <private>x <private>y</private> Falcon</private> b", "a  b"),
        ("a </private> b", "a </private> b"),
        ("a <private>\nx\n</private>\nb <private>y</private>", "a \nb"),
        ("<privateer> b", "<privateer> b"),
        ("<system-reminder>x</system-reminder>do it", "do it"),
        ("about <system-reminder> tags", "about <system-reminder> tags"),
        ("<ide_opened_file>The user opened a.py</ide_opened_file>fix it", "fix it"),
        (f"{MEMORY_FENCE_OPEN} a='b'>\nold{MEMORY_FENCE_CLOSE}\nfix it", "fix it"),
        (f"fix it\n{MEMORY_FENCE_OPEN}>\nold words cut", "fix it"),
        (f"fix it\n{MEMORY_HINT} (3 notes)\nnow", "fix it\nnow"),
        ("中文<private>秘密</private>问题", "中文问题"),
    ],
)
def test_private_and_injected_parts_of_a_prompt(
    transcript: Transcript, text: str, expected: str
) -> None:
    t = transcript
    t.write(t.user(text, "p1"), t.answer("ok"))
    (turn,) = t.read().turns
    assert said(turn) == [expected]
    assert not turn.private


def test_private_across_the_blocks_of_a_message(transcript: Transcript) -> None:
    t = transcript
    content = [
        {"type": "text", "text": "look <private>Falcon"},
        {"type": "image"},
        {"type": "text", "text": "Falcon</private> fix"},
    ]
    t.write(t.user(content, "p1"))
    assert said(t.read().turns[0]) == ["look  fix"]


@pytest.mark.parametrize(
    "content",
    [
        "<private>plan Falcon</private>",
        "<private>plan Falcon",
        COMMAND.format("note") + "<command-args><private>Falcon</private></command-args>",
        "<private>Falcon</private><system-reminder>x</system-reminder>",
    ],
)
def test_a_wholly_private_turn(transcript: Transcript, content: str) -> None:
    t = transcript
    t.write(t.user(content, "p1"), t.call("c1", command="cat Falcon"), t.answer("Falcon it is"))
    (turn,) = t.read().turns
    assert (turn.id, turn.private, turn.items, turn.truncated) == ("p1", True, (), 0)


def test_private_text_of_tools_and_of_the_agent(transcript: Transcript) -> None:
    t = transcript
    secret = "<private>Falcon</private>"
    t.write(
        t.user("go", "p1"),
        t.call("c1", command=f"echo {secret} done"),
        t.result("c1", f"a {secret} b <private>Falcon " + "x" * 50_000),
        t.call("c2", "Write", file_path="/a", content=f"{secret} {'y' * 50_000} {secret}"),
        t.result("c2", [{"type": "text", "text": secret}]),
        t.answer(f"I said {secret}"),
    )
    (turn,) = t.read().turns
    assert "Falcon" not in repr(turn)
    assert turn.items[1].output == "a  b "


def test_private_text_that_claude_code_put_aside(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("go", "p1"),
        t.call("c1", command="cat"),
        t.result(
            "c1",
            "<persisted-output>\nOutput too large\nPreview: Falcon",
            toolUseResult={
                "stdout": "head <private>Falcon",
                "persistedOutputSize": 99_000,
                "persistedOutputPath": "/x/tool-results/b.txt",
            },
        ),
    )
    (turn,) = t.read().turns
    assert "Falcon" not in repr(turn)
    assert turn.items[1].output.startswith("head \n… [")


# Messages typed while the agent works ------------------------------------------------------


def queued(t: Transcript, prompt: Any, **more: Any) -> dict[str, Any]:
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **more}
    record = t.base(type="attachment", attachment=attachment)
    assert isinstance(record, dict)
    return record


def test_an_ordinary_prompt_passes_through_the_queue_once(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.queue("enqueue", "one"),
        t.queue("dequeue"),
        t.user("one", "p1"),
        t.answer("1"),
        t.queue("enqueue", "two"),
        t.queue("dequeue"),
        t.user("two", "p2"),
        t.answer("2"),
    )
    assert words(t.read()) == ["one", "two"]


@pytest.mark.parametrize("order", ["remove first", "attachment first", "remove", "attachment"])
@pytest.mark.parametrize("reason", [None, "absorbed_mid_turn"])
def test_a_message_that_the_running_turn_took_up(
    transcript: Transcript, order: str, reason: str | None
) -> None:
    t = transcript
    more = {} if reason is None else {"reason": reason}
    enqueue = t.queue("enqueue", "and the tests")
    remove, attachment = t.queue("remove", "and the tests", **more), queued(t, "and the tests")
    taken = {
        "remove first": [remove, attachment],
        "attachment first": [attachment, remove],
        "remove": [remove],
        "attachment": [attachment],
    }[order]
    t.write(
        t.user("fix it", "p1"),
        t.call("c1", command="ls"),
        enqueue,
        t.result("c1", "a.py"),
        *taken,
        t.call("c2", command="pytest"),
        t.result("c2", "ok"),
        t.answer("both done"),
    )
    (turn,) = t.read().turns
    assert said(turn) == ["fix it", "and the tests"]
    assert steps(turn)[2] == ("user", "and the tests")
    assert turn.state == "finished"


def test_the_same_message_typed_twice_is_two(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("fix it", "p1"),
        t.queue("enqueue", "go on"),
        t.queue("remove", "go on"),
        queued(t, "go on"),
        t.queue("enqueue", "go on"),
        queued(t, "go on"),
        t.queue("remove", "go on"),
        t.answer("done"),
    )
    assert said(t.read().turns[0]) == ["fix it", "go on", "go on"]


def test_a_queued_image(transcript: Transcript) -> None:
    t = transcript
    prompt = [{"type": "text", "text": "like this"}, {"type": "image", "source": {"data": "A"}}]
    t.write(
        t.user("draw", "p1"),
        t.queue("enqueue", "like this"),
        queued(t, prompt, origin={"kind": "human"}),
        t.queue("remove", "like this", reason="absorbed_mid_turn"),
        t.queue("remove", reason="absorbed_mid_turn"),
        t.answer("drawn"),
    )
    assert said(t.read().turns[0]) == ["draw", "like this\n[image]"]


def test_a_message_that_only_the_queue_tells_of(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("fix it", "p1"),
        t.call("c1", command="ls"),
        t.queue("enqueue", "and the tests"),
        t.result("c1", "a.py"),
        t.answer("both done"),
    )
    (turn,) = t.read().turns
    assert [kind for kind, _ in steps(turn)] == ["user", "tool", "user", "assistant"]
    assert said(turn) == ["fix it", "and the tests"]


def test_a_message_that_waits_for_the_turns_end_is_the_next_turn(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("one", "p1"),
        t.call("c1", command="ls"),
        t.queue("enqueue", "two"),
        t.result("c1"),
        t.answer("1"),
        t.queue("dequeue"),
        t.user("two", "p2"),
        t.answer("2"),
    )
    assert words(t.read()) == ["one", "two"]


def test_a_message_typed_during_the_last_answer_is_not_in_that_turn(
    transcript: Transcript,
) -> None:
    t = transcript
    t.write(t.user("one", "p1"), t.queue("enqueue", "two"), t.answer("1"))
    assert words(t.read()) == ["one"]


@pytest.mark.parametrize(
    "records",
    [
        [("enqueue", "never mind", {}), ("popAll", None, {})],
        [("enqueue", "never mind", {}), ("remove", "never mind", {"reason": "cancelled"})],
        [("enqueue", "/compact", {})],
        [("enqueue", "<task-notification>x</task-notification>", {})],
        [("enqueue", "<task-notification>x", {}), ("remove", "<task-notification>x", {})],
        [("enqueue", "<private>Falcon</private>", {}), ("remove", "<private>Falcon</private>", {})],
        [("invented", "words", {}), ("enqueue", None, {}), ("remove", None, {})],
    ],
)
def test_what_was_queued_and_is_not_the_turns(
    transcript: Transcript, records: list[tuple[str, str | None, dict[str, str]]]
) -> None:
    t = transcript
    t.write(
        t.user("fix it", "p1"),
        t.call("c1", command="ls"),
        *(t.queue(operation, content, **more) for operation, content, more in records),
        t.result("c1"),
        t.answer("done"),
    )
    assert said(t.read().turns[0]) == ["fix it"]


@pytest.mark.parametrize(
    "more",
    [
        {"commandMode": "task-notification"},
        {"commandMode": "bash"},
        {"origin": {"kind": "task-notification"}},
        {"origin": {"kind": "peer"}},
    ],
)
def test_attachments_that_are_not_the_users(transcript: Transcript, more: dict[str, Any]) -> None:
    t = transcript
    t.write(t.user("fix it", "p1"), queued(t, "words", **more), t.answer("done"))
    assert said(t.read().turns[0]) == ["fix it"]


# What the agent does -----------------------------------------------------------------------


def test_blocks_of_one_message_and_their_copies(transcript: Transcript) -> None:
    t = transcript
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    t.write(
        t.user("go", "p1"),
        t.answer({"type": "thinking", "thinking": "hm"}, mid="m1", stop=None),
        t.answer("Let me", mid="m1", stop=None),
        t.answer("Let me look.", mid="m1", stop=None),  # a state of the stream, later
        t.answer({"type": "thinking", "thinking": "hm"}, "Let me look.", call, mid="m1"),
        t.answer(call, mid="m1", stop="tool_use"),
        t.result("c1", "a.py"),
        t.answer("Let me look.", mid="m2"),
    )
    (turn,) = t.read().turns
    assert steps(turn) == [
        ("user", "go"),
        ("assistant", "Let me look."),
        ("tool", "ls"),
        ("assistant", "Let me look."),
    ]


def test_r8_commands_are_whole_and_outputs_trimmed(transcript: Transcript) -> None:
    t = transcript
    command = "cat <<'EOF' > a.txt\n" + "line 一\n" * 3_000 + "EOF"
    output = "HEAD" + "x" * 100_000 + "TAIL"
    t.write(t.user("go"), t.call("c1", command=command), t.result("c1", output))
    (turn,) = t.read().turns
    tool = turn.items[1]
    assert tool.text == command
    assert len(tool.output) <= MAX_OUTPUT_CHARS
    assert tool.output.startswith("HEADx")
    assert tool.output.endswith("xTAIL")
    assert turn.truncated == 100_008 - (
        len(tool.output) - len(tool.output.split("x\n")[1].split("\nx")[0]) - 2
    )


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("Bash", {"command": "ls", "description": "list"}, "ls"),
        ("Read", {"file_path": "/a b/c.py"}, '{"file_path": "/a b/c.py"}'),
        ("Bash", {"command": ["ls"]}, '{"command": ["ls"]}'),
        ("mcp__x__run", {"command": "ls", "n": 1}, '{"command": "ls", "n": 1}'),
        ("Odd", None, "null"),
        ("Odd", "text", '"text"'),
        ("", {}, "{}"),
    ],
)
def test_inputs_of_tools(transcript: Transcript, name: str, given: Any, expected: str) -> None:
    t = transcript
    t.write(
        t.user("go"),
        t.answer({"type": "tool_use", "id": "c", "name": name, "input": given}, stop="tool_use"),
    )
    tool = t.read().turns[0].items[1]
    assert (tool.name, tool.text) == (name or "tool", expected)


def test_inputs_of_tools_are_bounded(transcript: Transcript) -> None:
    t = transcript
    deep: Any = "x"
    for _ in range(90):
        deep = {"a": [deep]}
    given = {
        "file_path": "/w/app/auth.ts",
        "old_string": "o" * 100_000,
        "new_string": "n" * 100_000,
        "deep": deep,
        "many": list(range(10_000)),
        "number": 10**4000,
        **{f"key {n}": "v" * 90 for n in range(500)},
    }
    command = "x" * 5_000
    t.write(
        t.user("go"),
        t.call("c1", "Edit", **given),
        t.call("c2", "mcp__shell", command=command, note="y" * 5_000),
    )
    edit, shell = t.read().turns[0].items[1:]
    assert len(edit.text) <= 2_000
    assert edit.text.startswith('{"file_path": "/w/app/auth.ts", "old_string": "ooo')
    assert command in shell.text
    assert len(shell.text) < 7_000


@pytest.mark.parametrize(
    ("content", "more", "expected", "failed"),
    [
        ("out", {}, "out", False),
        (None, {}, "", False),
        ([{"type": "text", "text": "a"}, {"type": "image"}, "b"], {}, "a\n[image]\nb", False),
        ([{"type": "tool_reference", "tool_name": "Grep"}], {}, "Grep", False),
        ([{"type": "weird"}, {}], {}, "[weird]\n[unknown]", False),
        ({"type": "text", "text": "a"}, {}, "a", False),
        (7, {"toolUseResult": 7}, "", False),
        ("out", {"toolUseResult": "Error: x"}, "out", False),
        ("out", {"toolUseResult": {"interrupted": True}}, "out", True),
        ("<tool_use_error>no</tool_use_error>", {}, "no", False),
        ("a<system-reminder>be good</system-reminder>", {}, "a", False),
        ("x", {"toolUseResult": {"isAsync": True}}, "(started in the background)", False),
        (
            "<persisted-output>\nPreview",
            {"toolUseResult": {}},
            "<persisted-output>\nPreview",
            False,
        ),
        ("<persisted-output>", {"toolUseResult": {"stdout": "s"}}, "s\n… [0 characters", False),
        ("f", {"toolUseResult": {"agentId": "a", "content": [{"text": 1}, 5]}}, "[unknown]", False),
    ],
)
def test_outputs_of_tools(
    transcript: Transcript, content: Any, more: dict[str, Any], expected: str, failed: bool
) -> None:
    t = transcript
    t.write(t.user("go", "p1"), t.call("c1"), t.result("c1", content, **more))
    tool = t.read().turns[0].items[1]
    assert tool.output == expected or tool.output.startswith(expected + " left out")
    assert tool.failed is failed


def test_results_find_their_calls(transcript: Transcript) -> None:
    t = transcript
    both = [
        {"type": "tool_result", "tool_use_id": "c2", "content": "two", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "gone", "content": "?"},
    ]
    calls = [
        {"type": "tool_use", "id": f"c{n}", "name": "Bash", "input": {"command": f"{n}"}}
        for n in (1, 2)
    ]
    t.write(t.user("go"), t.answer(*calls, stop="tool_use"), t.user(both))
    reading = t.read()
    tools = reading.turns[0].items[1:]
    assert [(tool.text, tool.output, tool.failed) for tool in tools] == [
        ("1", "one", False),
        ("2", "two", True),
    ]
    assert reading.unknown == {"result without its call": 1}


def test_a_stray_result_does_not_open_a_turn_again(transcript: Transcript) -> None:
    t = transcript
    t.write(t.user("go", "p1"), t.answer("done"), t.result("c1", "late"))
    assert t.read().turns[0].state == "finished"


def test_what_a_server_ran(transcript: Transcript) -> None:
    t = transcript
    t.write(
        t.user("search"),
        t.answer(
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "hit"}]},
            "found",
        ),
    )
    tool = t.read().turns[0].items[1]
    assert (tool.name, tool.text, tool.output) == ("web_search", '{"query": "q"}', "[hit]")


# Bounds ------------------------------------------------------------------------------------


def test_a_turn_is_bounded_and_keeps_what_the_user_said(transcript: Transcript) -> None:
    t = transcript
    records = [t.user("BEGIN " + "u" * 100_000, "p1")]
    for n in range(400):
        records += [
            t.call(f"c{n}", command=f"step {n} " + "c" * 1_000),
            t.result(f"c{n}", "o" * 9_000),
        ]
        if n == 200:
            records.append(queued(t, "IN THE MIDDLE"))
    records.append(t.answer("a" * 100_000 + " END"))
    t.write(*records)
    (turn,) = t.read().turns
    assert sum(len(i.text) + len(i.output) + len(i.name) for i in turn.items) <= MAX_TURN_CHARS
    assert max(len(item.text) for item in turn.items) <= MAX_TEXT_CHARS
    assert said(turn)[0].startswith("BEGIN")
    assert said(turn)[1:] == ["IN THE MIDDLE"]
    assert turn.items[-1].text.endswith(" END")
    assert turn.items[1].text.startswith("step 0 ")
    assert any(item.kind == "note" and "steps left out here" in item.text for item in turn.items)
    assert turn.truncated > 3_000_000


def test_many_small_steps_within_the_bounds_are_all_kept(transcript: Transcript) -> None:
    t = transcript
    records = [t.user("go", "p1")]
    for n in range(300):
        records += [t.call(f"c{n}", command=f"step {n}"), t.result(f"c{n}", "ok")]
    t.write(*records, t.answer("done"))
    (turn,) = t.read().turns
    assert len(turn.items) == 302
    assert turn.truncated == 0


def test_a_reading_is_bounded_and_goes_on(
    transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = transcript
    t.write(*(r for n in range(20) for r in (t.user(f"{n} " + "x" * 900, f"p{n}"), t.answer("k"))))
    whole = t.read()
    monkeypatch.setattr("memsearch.sources.jsonl.MAX_READING_CHARS", 5_000)
    parts, start = [], 0
    while True:
        reading = t.read(start=start)
        parts.append(reading)
        start = reading.resume
        if not reading.more:
            break
    assert len(parts) == 5
    assert tuple(turn for part in parts for turn in part.turns) == whole.turns
    assert whole.resume == parts[-1].resume


@pytest.mark.parametrize("wanted", ["p17", None, "p1"])
def test_the_hooked_turn_is_never_left_out(
    transcript: Transcript, monkeypatch: pytest.MonkeyPatch, wanted: str | None
) -> None:
    t = transcript
    t.write(*(r for n in range(20) for r in (t.user(f"{n} " + "x" * 900, f"p{n}"), t.answer("k"))))
    whole = [turn.id for turn in t.read().turns]
    monkeypatch.setattr("memsearch.sources.jsonl.MAX_READING_CHARS", 5_000)
    reading = t.read(wanted, start=None, not_before=datetime(2020, 1, 1, tzinfo=UTC))
    hooked = wanted or "p19"
    ids = [turn.id for turn in reading.turns]
    assert ids == whole[:4] + ([] if hooked in whole[:4] else [hooked])
    assert reading.more
    rest = t.read(start=reading.resume)
    assert rest.turns[0].id == whole[4]


# Time and place ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-03-25T14:47:01.123Z", datetime(2026, 3, 25, 14, 47, 1, 123_000, UTC)),
        ("2026-03-25T16:47:01+02:00", datetime(2026, 3, 25, 14, 47, 1, 0, UTC)),
        ("2026-03-25T14:47:01", datetime(2026, 3, 25, 14, 47, 1, 0, UTC)),
        ("2026-03-25", datetime(2026, 3, 25, 0, 0, 0, 0, UTC)),
        (1_774_450_021, datetime(2026, 3, 25, 14, 47, 1, 0, UTC)),
        (1_774_450_021_000, datetime(2026, 3, 25, 14, 47, 1, 0, UTC)),
        (1_774_450_021.5, datetime(2026, 3, 25, 14, 47, 1, 500_000, UTC)),
    ],
)
def test_times(transcript: Transcript, stamp: object, expected: datetime) -> None:
    t = transcript
    t.write(t.user("go", "p1", timestamp=stamp))
    assert t.read().turns[0].at == expected


@pytest.mark.parametrize(
    "stamp",
    [
        *(None, "", "yesterday", [], {}, True, 0, 1e300, -1e300, float("nan"), "9999-99-99"),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_that_is_none_is_taken_from_what_follows(
    transcript: Transcript, stamp: object
) -> None:
    t = transcript
    answer = t.answer("done", timestamp="2026-03-25T10:00:00Z")
    path = t.write(t.user("go", "p1", timestamp=stamp), answer)
    assert t.read().turns[0].at == datetime(2026, 3, 25, 10, tzinfo=UTC)
    t.write(t.user("go", "p1", timestamp=stamp))
    os.utime(path, (1_774_450_021, 1_774_450_021))
    assert t.read().turns[0].at == datetime(2026, 3, 25, 14, 47, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [("/w/my-app", "/w/my-app"), ("", "/hook"), (None, "/hook"), (7, "/hook"), ("rel", "/hook")],
)
def test_t19_the_cwd_comes_from_the_record(
    transcript: Transcript, cwd: object, expected: str
) -> None:
    t = transcript
    path = t.write(t.user("go", "p1", cwd=cwd))
    pointer = Pointer("claude-code", "session-1", str(path), cwd="/hook")
    (turn,) = ClaudeCode().read(pointer, start=0, not_before=None).turns
    assert turn.cwd == expected


# Files -------------------------------------------------------------------------------------


def test_t8_a_torn_line_is_read_when_it_is_whole(transcript: Transcript) -> None:
    t = transcript
    first, second = t.user("one", "p1"), t.answer("the answer")
    path = t.write(first, second)
    data = path.read_bytes()
    path.write_bytes(data[:-60])
    torn = t.read()
    assert torn.torn
    assert steps(torn.turns[0]) == [("user", "one")]
    assert torn.turns[0].state == "open"
    path.write_bytes(data)
    whole = t.read(start=torn.resume)
    assert not whole.torn
    assert steps(whole.turns[0]) == [("user", "one"), ("assistant", "the answer")]
    assert whole.skipped == {}


def test_t8_a_torn_first_line(transcript: Transcript) -> None:
    t = transcript
    path = t.write({"type": "mode"}, t.user("one", "p1"))
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    torn = t.read()
    assert (torn.turns, torn.torn) == ((), True)
    assert torn.resume == data.index(b"\n") + 1
    late = t.read("p1", start=None, not_before=datetime(2099, 1, 1, tzinfo=UTC))
    assert (late.turns, late.torn, late.resume) == ((), True, torn.resume)
    path.write_bytes(data)
    assert words(t.read(start=torn.resume)) == ["one"]


def test_a_broken_last_line_is_left_for_later_and_then_counted(transcript: Transcript) -> None:
    t = transcript
    path = t.write(t.user("one", "p1"), b'{"type": "assis')
    reading = t.read()
    assert (reading.torn, reading.skipped) == (True, {})
    with path.open("ab") as file:
        file.write(json.dumps(t.answer("1")).encode() + b"\n")
    reading = t.read()
    assert (reading.torn, reading.skipped) == (False, {"not JSON": 1})
    assert steps(reading.turns[0]) == [("user", "one"), ("assistant", "1")]


def test_garbage_is_counted(transcript: Transcript) -> None:
    t = transcript
    t.write(
        b"\xef\xbb\xbf" + json.dumps(t.user("one", "p1")).encode() + b"\r",
        b"\x00" * 4_096,
        b"\xff\xfe\x00garbage",
        b"[1, 2]",
        b"",
        b"  \r",
        b'{"type":"user","uuid":"u9","message":{"content":"bad \xff utf-8"}}',
        b"[" * 100_000,
        json.dumps(t.answer("1")).encode(),
    )
    reading = t.read()
    assert words(reading) == ["one", "bad � utf-8"]
    assert reading.skipped == {"not JSON": 2, "not an object": 1}


def test_what_is_broken_for_good_is_not_read_again(transcript: Transcript) -> None:
    path = transcript.write(b"garbage", b"garbage", {"type": "mode"}, b"garbage", b"\n")
    reading = transcript.read()
    assert (reading.resume, reading.skipped) == (path.stat().st_size, {"not JSON": 3})
    path = transcript.write({"type": "mode"}, b"garbage", b"garbage", end=b"")
    reading = transcript.read()
    assert (reading.resume, reading.torn) == (path.stat().st_size - len("garbage"), True)


def test_the_empty_file(transcript: Transcript) -> None:
    transcript.write(end=b"")
    for start in (0, None, 5):
        reading = transcript.read(start=start, not_before=datetime(2026, 1, 1, tzinfo=UTC))
        assert (reading.turns, reading.resume, reading.torn) == ((), 0, False)


@pytest.mark.parametrize("start", [10**9, 3, -1])
def test_an_offset_into_another_file_means_its_beginning(
    transcript: Transcript, start: int
) -> None:
    t = transcript
    t.write(t.user("one", "p1"), t.answer("1"))
    assert words(t.read(start=start)) == ["one"]


def test_a_missing_file_is_named(transcript: Transcript) -> None:
    with pytest.raises(MemsearchError, match="there is no transcript") as caught:
        transcript.read()
    assert caught.value.kind is ErrorClass.BAD_FILE
    assert str(transcript.path) in caught.value.message


def test_a_folder_and_a_pipe_are_no_transcripts(transcript: Transcript, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        transcript.path = path
        with pytest.raises(MemsearchError, match="is not a file") as caught:
            transcript.read()
        assert caught.value.kind is ErrorClass.BAD_FILE


def test_a_path_that_cannot_be_one(transcript: Transcript) -> None:
    transcript.path = Path("/x\x00y")
    with pytest.raises(MemsearchError) as caught:
        transcript.read()
    assert caught.value.kind is ErrorClass.BAD_FILE


def test_a_file_that_may_not_be_read(transcript: Transcript) -> None:
    path = transcript.write(transcript.user("one"))
    path.chmod(0)
    root = os.geteuid() == 0
    if root:  # may read everything: try it as somebody else
        for folder in (path.parent, *path.parents):
            if not folder.stat().st_mode & 0o001:
                folder.chmod(0o711)
        os.seteuid(65534)
    try:
        with pytest.raises(MemsearchError, match="may not be read") as caught:
            transcript.read()
    finally:
        if root:
            os.seteuid(0)
    assert caught.value.kind is ErrorClass.PERMISSION


def test_a_path_with_spaces_quotes_and_chinese(transcript: Transcript) -> None:
    t = transcript
    t.path = t.path.parent / 'it\'s "my" 项目' / "s 1.jsonl"
    t.write(t.user("one", "p1"))
    assert t.read().turns[0].anchor == {"transcript": str(t.path)}


def test_our_own_sessions_give_no_turns(transcript: Transcript) -> None:
    t = transcript
    path = t.write(
        {"type": "mode"},
        t.user("<local-command-caveat>x</local-command-caveat>", "p0", isMeta=True),
        t.user("SUMMARISE THIS TURN <private>x</private>", "p1"),
        t.answer("- a note"),
        t.user("a later message", "p2"),
    )

    def is_ours(text: str) -> bool:
        return text.startswith("SUMMARISE")

    for start, not_before in ((0, None), (None, datetime(2026, 1, 1, tzinfo=UTC))):
        reading = t.read(start=start, not_before=not_before, is_ours=is_ours)
        assert (reading.turns, reading.resume) == ((), path.stat().st_size)
    assert len(t.read(is_ours=lambda text: text.startswith("a later")).turns) == 2


def test_the_roots(tmp_path: Path) -> None:
    source = ClaudeCode()
    assert source.roots({"HOME": "/home/x"}) == ("/home/x/.claude/projects",)
    assert source.roots({"HOME": "/home/x", "CLAUDE_CONFIG_DIR": "~/c"}) == ("/home/x/c/projects",)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    config = {"CLAUDE_CONFIG_DIR": str(tmp_path / "link")}
    assert source.roots(config) == (f"{tmp_path}/real/projects",)


# Which part of the file --------------------------------------------------------------------


@pytest.fixture
def ten(transcript: Transcript) -> Transcript:
    t = transcript
    records = []
    for n in range(10):
        at = f"2026-03-{n + 1:02}T10:00:00Z"
        records += [
            t.user(f"do {n}", f"p{n}", timestamp=at),
            t.call(f"c{n}", command="ls", timestamp=at),
            t.result(f"c{n}", "x", prompt=f"p{n}", timestamp=at),
            t.answer(f"did {n}", timestamp=at),
        ]
    t.write(*records)
    return t


def day(n: int) -> datetime:
    return datetime(2026, 3, n, tzinfo=UTC)


@pytest.mark.parametrize(
    ("turn", "not_before", "expected"),
    [
        ("p9", day(30), ["do 9"]),
        (None, day(30), ["do 9"]),
        ("p4", day(30), ["do 4"]),
        ("p0", day(30), ["do 0"]),
        ("p9", day(8), ["do 7", "do 8", "do 9"]),
        ("p2", day(9), ["do 2", "do 8", "do 9"]),
        (None, day(9), ["do 8", "do 9"]),
        ("absent", day(9), ["do 8", "do 9"]),
        ("absent", day(30), []),
        ("p9", None, [f"do {n}" for n in range(10)]),
    ],
)
def test_the_tail(
    ten: Transcript, turn: str | None, not_before: datetime | None, expected: list[str]
) -> None:
    assert words(ten.read(turn, start=None, not_before=not_before)) == expected


def test_from_an_offset_the_last_turn_is_not_the_hooked_one(ten: Transcript) -> None:
    assert words(ten.read(None, start=0, not_before=day(30))) == []
    assert words(ten.read("p3", start=0, not_before=day(9))) == ["do 3", "do 8", "do 9"]


@pytest.mark.parametrize(
    ("turn", "context", "expected"),
    [
        ("p5", 2, [3, 4, 5, 6, 7]),
        ("p5", 0, [5]),
        ("p0", 2, [0, 1, 2]),
        ("p9", 2, [7, 8, 9]),
        ("p9", 50, list(range(10))),
        (None, 1, [7, 8, 9]),
        (None, 50, list(range(10))),
        ("p5", -3, [5]),
    ],
)
def test_the_conversation_around_a_turn(
    ten: Transcript, turn: str | None, context: int, expected: list[int]
) -> None:
    turns = ClaudeCode().conversation(str(ten.path), "session-1", turn, context=context)
    assert [said(each) for each in turns] == [[f"do {n}"] for n in expected]
    assert all(each.session == "session-1" for each in turns)


def test_a_conversation_without_the_turn(ten: Transcript) -> None:
    with pytest.raises(MemsearchError, match="does not hold the turn nope") as caught:
        ClaudeCode().conversation(str(ten.path), "session-1", "nope")
    assert caught.value.kind is ErrorClass.BAD_FILE


# Anything ----------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(
        [
            "",
            "text",
            "user",
            "assistant",
            "tool_use",
            "tool_result",
            "p1",
            "c1",
            "enqueue",
            "remove",
            "queued_command",
            "<command-name>/x</command-name>",
            "<private>x",
            "[Request interrupted by user]",
            "\ud83d",
            "2026-03-25T10:00:00Z",
        ]
    )
)
keys = st.sampled_from(
    [
        "type", "message", "content", "text", "id", "uuid", "promptId", "name", "input",
        "tool_use_id", "is_error", "toolUseResult", "stdout", "timestamp", "isMeta",
        "isSidechain", "operation", "attachment", "prompt", "origin", "kind", "subtype",
        "stop_reason", "model", "isApiErrorMessage", "cwd", "error", "commandMode",
        "persistedOutputPath",
    ]
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=25,
)
types = st.sampled_from(["user", "assistant", "system", "attachment", "queue-operation"])
records = st.dictionaries(keys, anything, max_size=8).flatmap(
    lambda record: types.map(lambda kind: {**record, "type": kind})
)


@given(st.lists(records, max_size=12), st.sampled_from([0, None]))
@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_content_ever_raises(
    transcript: Transcript, records: list[dict[str, Any]], start: int | None
) -> None:
    t = transcript
    t.write(
        *(json.dumps(record) for record in [t.user("go", "p1"), t.call("c1"), *records]),
    )
    reading = t.read("p1", start=start, not_before=datetime(2020, 1, 1, tzinfo=UTC))
    for turn in reading.turns:
        strings = [turn.id, turn.session, turn.cwd or "", *turn.aliases]
        strings += [f"{item.text}{item.name}{item.output}" for item in turn.items]
        "".join(strings).encode()  # no half of a surrogate pair is left
        assert turn.at.tzinfo is not None
        assert turn.private or said(turn)
        assert isinstance(turn.id, str)
    "".join(reading.unknown).encode()
    assert len({turn.id for turn in reading.turns}) == len(reading.turns)
    assert 0 <= reading.resume <= t.path.stat().st_size


# A fork ---------------------------------------------------------------------------------------


def fork_of(t: Transcript, *, places: bool, marks: bool) -> list[dict[str, Any]]:
    """What --fork-session writes: the turns before, under the id of the first one behind them."""

    def place(turn: int) -> dict[str, Any]:
        return {"turnPosition": {"promptIndex": 0, "turnIndex": turn}} if places else {}

    mark = {"requestSessionId": "origin"} if marks else {}
    return [
        t.user("one", "p9", **place(1)),
        t.answer("1", **mark),
        t.system("stop_hook_summary"),
        t.user("two", "p9", **place(2)),
        t.user("[Request interrupted by user]", "p9"),
        t.user("three", "p9", **place(3)),
        t.call("c3", command="ls"),
        t.result("c3", "out", promptId="p9"),
        t.answer("3", **mark),
        t.user("four", "p9", **place(4)),
        t.call("c4", command="pwd"),
        t.result("c4", "out", promptId="p9"),
        t.user("and this too", "p9", **place(4)),
        t.answer("4"),
        t.system("stop_hook_summary"),
    ]


@pytest.mark.parametrize(("places", "marks"), [(True, True), (True, False), (False, True)])
def test_a_fork_tells_its_own_turns_alone(
    transcript: Transcript, *, places: bool, marks: bool
) -> None:
    records = [*fork_of(transcript, places=places, marks=marks), transcript.user("five", "p10")]
    path = transcript.write(*records)
    path.with_name("origin.jsonl").touch()
    turns = transcript.read().turns
    assert [turn.id for turn in turns] == ["p9", "p10"]
    assert [said(turn) for turn in turns] == [["four", "and this too"], ["five"]]
    assert "ls" not in [item.text for item in turns[0].items]


@pytest.mark.parametrize("is_copy", [True, False])
def test_what_is_the_last_of_a_fork_yet(transcript: Transcript, *, is_copy: bool) -> None:
    """It is passed over when the other session has it, and told when that has not."""
    records = fork_of(transcript, places=True, marks=True)[:9]
    path = transcript.write(*records)
    held = records[5]["uuid"] if is_copy else "another"
    path.with_name("origin.jsonl").write_text("x" * (1 << 20) + held, encoding="utf-8")
    assert [said(turn) for turn in transcript.read().turns] == ([] if is_copy else [["three"]])


def test_a_fork_whose_origin_is_gone_tells_the_turns_before_by_their_records(
    transcript: Transcript,
) -> None:
    transcript.write(*fork_of(transcript, places=True, marks=True))
    turns = transcript.read().turns
    assert [said(turn)[0] for turn in turns] == ["one", "two", "three", "four"]
    assert len({turn.id for turn in turns}) == 4
    assert turns[-1].id == "p9"
