"""The format of digests: what of a journal goes in, and what is known of it afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sinks.digest import (
    addition,
    block_of,
    blocks_in,
    closed,
    marks_in,
    notes_in,
    parts_of,
    without_blocks,
)
from memsearch.sinks.journal_format import JournalEntry

DAY = "2026-02-03"
ANCHOR = "<!-- session:s turn:t{} transcript:~/.claude/projects/p/s.jsonl -->"


def entry(number: int, more: str = "") -> str:
    anchor = ANCHOR.format(number)
    return f"### 10:{number:02d}\n{anchor}\n- Asked {number}\n- Did {number}\n{more}"


def never(found: JournalEntry) -> bool:
    del found
    return False


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", []),
        (f"# {DAY}\n", []),
        (f"# {DAY}\n\n## Session 10:00\n\n", []),
        (f"# {DAY}\n\n## Session 10:00\n\n{entry(0)}\n{entry(1)}", ["entry", "entry"]),
        # What a person adds, anywhere, is theirs.
        (f"# {DAY}\nToday was hot.\n\n## Session 10:00\n\n{entry(0)}", ["own", "entry"]),
        (f"# {DAY}\n\n## Session 10:00\nwith Bob\n\n{entry(0)}", ["own", "entry"]),
        (entry(0, "A line of mine.\n"), ["own"]),
        (entry(0, "  - nested\n"), ["own"]),
        (entry(0, "#### Why\nBecause.\n"), ["entry", "own"]),
        (f"{entry(0)}\n## Mine\n\n### 11:00\n- without an anchor\n", ["entry", "own", "own"]),
        ("### 10:00 renamed\n" + ANCHOR.format(1) + "\n- Asked\n", ["own"]),
        ("Before any heading\n", ["own"]),
    ],
)
def test_parts_of(text: str, kinds: list[str]) -> None:
    assert [part.kind for part in parts_of(text, DAY, never)] == kinds


def test_an_edited_entry_is_a_persons_own() -> None:
    parts = parts_of(entry(0) + "\n" + entry(1), DAY, lambda found: found.bullets[0] == "Asked 1")
    assert [part.kind for part in parts] == ["entry", "own"]
    assert parts[1].text == entry(1).rstrip()


def test_marks_tell_days_and_words_apart_and_not_blanks() -> None:
    (one,) = parts_of("Mine\n", DAY, never)
    assert parts_of("Mine  \n\n\n", DAY, never)[0].mark == one.mark
    assert parts_of("Mine!\n", DAY, never)[0].mark != one.mark
    assert parts_of("Mine\n", "2026-02-04", never)[0].mark != one.mark


def test_a_digest_is_read_as_it_was_written() -> None:
    text = f"# {DAY}\n\n" + "".join(entry(number) + "\n" for number in range(30)) + "## Mine\nA\n"
    parts = parts_of(text, DAY, never)
    name = f"{DAY} (conflicted -- copy).md"
    digest = addition("", "2026-02", [block_of(name, DAY, ["one", "two"], parts)])
    assert digest.startswith("# Digest of 2026-02\n\n## 2026-02-03\n\n<!-- digest of ")
    (block,) = blocks_in(digest)
    assert block.name == name
    assert block.marks == marks_in(digest) == {part.mark for part in parts}
    assert notes_in(digest, block) == ["one", "two"]
    # More comes behind it, and what a person writes between stays.
    digest += "\nA person's line without an end"
    more = digest + addition(digest, "2026-02", [block_of("2026-02-04.md", "2026-02-04", [], [])])
    assert more.startswith(digest + "\n\n## 2026-02-04\n")
    assert [found.name for found in blocks_in(more)] == [name]  # an empty one stands for nothing
    left = without_blocks(more, blocks_in(more))
    assert left.startswith("# Digest of 2026-02\n\nA person's line without an end\n")


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("plain", ""),
        ("```\ncode\n```", ""),
        ("```\ncode", "```"),
        ("~~~~py\ncode\n~~~", "~~~~"),
        ("a `word` only", ""),
    ],
)
def test_an_open_fence_is_closed(text: str, closing: str) -> None:
    assert closed(text) == (f"{text}\n{closing}" if closing else text)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(st.lists(st.one_of(TEXTS, st.integers(0, 9).map(entry)), max_size=8).map("\n".join))
def test_no_line_of_a_journal_is_in_no_part(text: str) -> None:
    """But for titles, headings of sessions and blanks."""
    text = text.replace("\r", "")
    kept = "\n".join(part.text for part in parts_of(text, DAY, never))
    for line in text.split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            assert line.rstrip() in kept


@given(st.lists(TEXTS, max_size=4))
def test_blocks_stand_for_their_parts_whatever_they_hold(texts: list[str]) -> None:
    parts = [part for text in texts for part in parts_of(text.replace("\r", ""), DAY, never)]
    digest = addition("", "2026-02", [block_of(f"{DAY}.md", DAY, ["note"], parts)])
    assert {part.mark for part in parts} <= marks_in(digest)
    for part in parts:
        assert part.text in digest
