"""Conversations put together at random from what really happens in one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.sources.base import Reading, Turn

Transcript = Any  # of conftest, which cannot be imported here
Record = dict[str, Any]

FAR = datetime(2099, 1, 1, tzinfo=UTC)
EVENTS = [
    "prompt", "answer", "answer", "tool", "tool", "thinking", "stop summary", "queued absorbed",
    "queued dequeued", "queued alone", "local command", "command", "bare command", "notification",
    "interruption", "api error", "compaction", "sidechain", "private", "noise", "stop feedback",
]  # fmt: skip


def records_of(t: Transcript, events: list[str]) -> list[Record]:
    """One conversation; every message has an id and words of its own."""
    t.renumber()
    records: list[Record] = []
    prompt = "p0"
    for n, event in enumerate(events):
        name = f"p{n}"
        command = f"<command-name>/c{n}</command-name>"
        match event:
            case "prompt":
                prompt = name
                records += [t.queue("enqueue", f"do {n}"), t.queue("dequeue")]
                records += [t.user(f"do {n}", name)]
            case "private":
                prompt = name
                records += [t.user(f"<private>Falcon {n}</private>", name)]
            case "answer":
                records += [t.answer({"type": "thinking"}, mid=f"m{n}")]
                records += [t.answer(f"did {n}", mid=f"m{n}")]
            case "thinking":
                records += [t.answer({"type": "thinking"}, mid=f"m{n}")]
            case "tool":
                records += [t.call(f"c{n}", command=f"run {n}")]
                records += [t.result(f"c{n}", f"out {n}", promptId=prompt)]
            case "stop summary":
                records += [t.system("stop_hook_summary")]
            case "stop feedback":
                records += [t.user("Stop hook feedback: go on", prompt, isMeta=True)]
            case "queued absorbed":
                attachment = {"type": "queued_command", "prompt": f"also {n}"}
                records += [t.queue("enqueue", f"also {n}")]
                records += [t.base(type="attachment", attachment=attachment)]
                records += [t.queue("remove", f"also {n}", reason="absorbed_mid_turn")]
            case "queued dequeued":
                prompt = name
                records += [t.queue("enqueue", f"then {n}"), t.answer(f"did {n}")]
                records += [t.queue("dequeue"), t.user(f"then {n}", name)]
            case "queued alone":
                records += [t.queue("enqueue", f"alone {n}")]
            case "local command":
                records += [t.user("<local-command-caveat>…", name, isMeta=True)]
                records += [t.user(f"{command}<command-args>x{n}</command-args>", name)]
                records += [t.user("<local-command-stdout>ok</local-command-stdout>", name)]
            case "command":
                prompt = name
                records += [t.user(f"{command}<command-args>x{n}</command-args>", name)]
                records += [t.user("body", name, isMeta=True), t.answer(f"did {n}")]
            case "bare command":
                prompt = name
                records += [t.user(command, name)]
            case "notification":
                records += [t.user("<task-notification>x</task-notification>", name)]
            case "interruption":
                records += [t.user("[Request interrupted by user]", prompt)]
            case "api error":
                records += [t.system("api_error", error={"formatted": "no network"})]
            case "compaction":
                records += [t.system("compact_boundary")]
                records += [t.user("This session is…", prompt, isCompactSummary=True)]
            case "sidechain":
                records += [t.user("sub", prompt, isSidechain=True)]
                records += [t.answer("sub did", isSidechain=True)]
            case "noise":
                records += [{"type": "last-prompt", "lastPrompt": "x"}, {"type": f"new-{n}"}]
    return records


def by_id(*readings: Reading) -> dict[str, Turn]:
    return {turn.id: turn for reading in readings for turn in reading.turns}


scenarios = st.lists(st.sampled_from(EVENTS), min_size=1, max_size=14)
slow = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@given(scenarios, st.data())
@slow
def test_any_cut_gives_the_same_turns(
    transcript: Transcript, events: list[str], data: st.DataObject
) -> None:
    t = transcript
    path = t.write(*records_of(t, events))
    whole = path.read_bytes()
    at_once = t.read()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    first = t.read()
    path.write_bytes(whole)
    assert list(by_id(first, t.read(start=first.resume)).values()) == list(at_once.turns)
    for turn in first.turns:
        assert turn.id in by_id(at_once)
        # An alias is never withdrawn, and never a turn of its own.
        assert set(turn.aliases) <= set(by_id(at_once)[turn.id].aliases)
        assert not set(turn.aliases) & set(by_id(at_once))


@given(scenarios)
@slow
def test_the_tail_gives_each_turn_as_the_whole_does(
    transcript: Transcript, events: list[str]
) -> None:
    t = transcript
    t.write(*records_of(t, events))
    at_once = t.read()
    for turn in at_once.turns:
        for name in (turn.id, *turn.aliases):
            assert t.read(name, start=None, not_before=FAR).find(name) == turn
    last = t.read(None, start=None, not_before=FAR)
    assert last.turns == at_once.turns[-1:]
    assert last.resume == at_once.resume or not at_once.turns


@given(scenarios, st.integers(0, 3))
@slow
def test_repeated_lines_change_nothing(
    transcript: Transcript, events: list[str], more: int
) -> None:
    t = transcript
    records = records_of(t, events)
    t.write(*records)
    plain = [replace(turn, position=0) for turn in t.read().turns]
    t.write(*(record for record in records for _ in range(1 + more)))
    assert [replace(turn, position=0) for turn in t.read().turns] == plain


@given(scenarios)
@slow
def test_nothing_is_said_twice_and_nothing_private_at_all(
    transcript: Transcript, events: list[str]
) -> None:
    t = transcript
    t.write(*records_of(t, events))
    turns = t.read().turns
    ids = [turn.id for turn in turns]
    texts = [item.text for turn in turns for item in turn.items if item.kind == "user"]
    names = [name for turn in turns for name in (turn.id, *turn.aliases)]
    assert len(names) == len(set(names))
    assert len(ids) == len(set(ids))
    assert len(texts) == len(set(texts))
    assert "Falcon" not in repr(turns)
    assert "sub" not in texts
    prompts = {f"do {n}" for n, event in enumerate(events) if event == "prompt"}
    assert prompts <= set(texts)
