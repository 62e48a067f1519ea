"""What older releases of Claude Code and Codex wrote: whole, cut anywhere, and from the end.

Recorded against a model that answers from a script; developer messages are cut.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsearch.sources.base import Pointer, Turn
from memsearch.sources.registry import get

DATA = Path(__file__).parents[2] / "data"
CACHE = "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，已经记下：缓存用 LMDB。]]"
FILES = "Please list the files [[SH: echo tool-output-42]]"
TALK = [
    (CACHE, [], "好的，已经记下：缓存用 LMDB。", "finished"),
    (FILES, ["echo tool-output-42"], "Done, the tool has answered", "finished"),
]


def mention(word: str) -> tuple[str, list[str], str, str]:
    return f"Mention the {word}", [], f"I have looked into it: Mention the {word}", "finished"


INTERRUPTED = (
    "Mention the throughput [[HOLD: late]]",
    [],
    "The user interrupted this turn.",
    "interrupted",
)
#: Before the assembler was asked for, 0.145 made a summary of the talk, in the same task.
CODEX = [*TALK, INTERRUPTED, *map(mention, ("scheduler", "assembler", "linker"))]
RECORDINGS = {
    "codex-older/rollout-0.117.0.jsonl": ("codex", CODEX),
    "codex-older/rollout-0.145.0.jsonl": ("codex", CODEX),
    "claude-code-older/2.0.72.jsonl": ("claude-code", [*TALK, mention("linker")]),
}


def read(platform: str, path: Path, start: int | None = 0) -> list[Turn]:
    pointer = Pointer(platform, "", str(path))
    return list(get(platform).read(pointer, start=start, not_before=None).turns)


def summary(turn: Turn) -> tuple[str, list[str], str, str]:
    said = " | ".join(item.text for item in turn.items if item.kind == "user")
    tools = [item.text for item in turn.items if item.kind == "tool"]
    return said, tools, turn.items[-1].text.splitlines()[0].partition(": Chunk")[0], turn.state


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_turns_of_an_older_release(name: str) -> None:
    platform, expected = RECORDINGS[name]
    turns = read(platform, DATA / name)
    found = [summary(turn) for turn in turns]
    assert [each[:2] + each[3:] for each in found] == [each[:2] + each[3:] for each in expected]
    assert all(own[2].startswith(each[2]) for own, each in zip(found, expected, strict=True)), found
    assert len({turn.id for turn in turns}) == len(expected)
    assert {turn.cwd for turn in turns} == {"/home/dev/demo"}


@pytest.mark.parametrize("name", RECORDINGS)
def test_any_cut_gives_the_same_turns(name: str, tmp_path: Path) -> None:
    platform, _ = RECORDINGS[name]
    data = (DATA / name).read_bytes()
    whole = {turn.id: summary(turn) for turn in read(platform, DATA / name)}
    path = tmp_path / Path(name).name
    for cut in [at + 1 for at, byte in enumerate(data) if byte == 10]:
        path.write_bytes(data[:cut])
        pointer = Pointer(platform, "", str(path))
        first = get(platform).read(pointer, start=0, not_before=None)
        path.write_bytes(data)
        second = get(platform).read(pointer, start=first.resume, not_before=None)
        found = {turn.id: summary(turn) for turn in (*first.turns, *second.turns)}
        assert found == whole, cut


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_last_turn_is_found_from_the_end(name: str) -> None:
    platform, expected = RECORDINGS[name]
    pointer = Pointer(platform, "", str(DATA / name))
    before = datetime(2026, 11, 30, tzinfo=UTC)
    turns = get(platform).read(pointer, start=None, not_before=before).turns
    assert summary(turns[-1])[0] == expected[-1][0]
    assert {turn.id for turn in turns} <= {turn.id for turn in read(platform, DATA / name)}
