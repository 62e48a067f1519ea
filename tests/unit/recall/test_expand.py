"""Where a chunk lies now, after its file was edited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from memsearch.recall.expand import is_id, locate, section_at
from memsearch.recall.scan import as_hit
from memsearch.sinks.chunker import chunk_document
from memsearch.sinks.sections import sections
from memsearch.sinks.types import Chunk, Hit

TEXT = """# 2026-03-05

## Session 14:47

### 14:47
<!-- session:s1 turn:t1 transcript:~/x.jsonl -->
- first thing

### 14:48
<!-- session:s1 turn:t2 transcript:~/x.jsonl -->
- second thing
"""


def chunks(text: str) -> list[Chunk]:
    return chunk_document(text, "2026-03-05.md")


def indexed(text: str, turn: str) -> Hit:
    return next(as_hit(chunk, "0" * 16) for chunk in chunks(text) if chunk.turn == turn)


def test_unchanged() -> None:
    hit = indexed(TEXT, "t2")
    assert locate(hit, chunks(TEXT)) == (hit.start_line, "")


def test_a_line_at_the_top() -> None:
    hit = indexed(TEXT, "t2")
    line, note = locate(hit, chunks("a new line\n\n" + TEXT))
    assert line == hit.start_line + 2
    assert "moved" in note


def test_edited_text_is_known_by_its_turn() -> None:
    edited = "intro\n\n" + TEXT.replace("second thing", "second thing, as a human put it")
    line, note = locate(indexed(TEXT, "t2"), chunks(edited))
    assert "14:48" in edited.split("\n")[line - 1]
    assert "edited" in note


def test_edited_notes_are_known_by_heading_and_place() -> None:
    text = "# Notes\n\n## Setup\n\nold words\n\n## Other\n\nmore\n"
    hit = next(as_hit(chunk, "0" * 16) for chunk in chunk_document(text, "n.md") if
               chunk.heading == "Setup")  # fmt: skip
    same_place = chunk_document(text.replace("old", "new"), "n.md")
    assert locate(hit, same_place)[0] == hit.start_line
    far_away = chunk_document("filler\n" * 50 + text.replace("old", "new"), "n.md")
    assert locate(hit, far_away)[0] == hit.start_line + 50


def test_gone() -> None:
    hit = indexed(TEXT, "t2")
    without = TEXT[: TEXT.index("### 14:48")]
    assert locate(hit, chunks(without)) == (0, "")
    assert locate(hit, []) == (0, "")


def test_a_heading_that_stands_twice_far_away_is_not_guessed() -> None:
    hit = replace(indexed(TEXT, "t2"), turn="", content="changed", heading="Setup")
    text = "x\n" * 80 + "## Setup\n\none\n\n## Setup\n\ntwo\n"
    assert locate(hit, chunk_document(text, "n.md")) == (0, "")


def test_of_equal_texts_the_nearest() -> None:
    hit = indexed(TEXT, "t2")
    twice = TEXT + "\n" + TEXT
    line, _ = locate(replace(hit, start_line=hit.start_line + 11), chunks(twice))
    assert line == hit.start_line + 12


def test_section_of_a_line() -> None:
    found = sections(TEXT)
    section = section_at(found, indexed(TEXT, "t2").start_line)
    assert section is not None
    assert section.heading == "14:48"
    assert section_at(found, 999) is None


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("0123456789abcdef", True),
        ("01234567", True),
        ("ABCDEF01", True),
        ("0123456", False),
        ("0123456789abcdef0", False),
        ("0123456g", False),
        ("", False),
        ("01234567\n", False),
        ("０１２３４５６７", False),
    ],
)
def test_ids(text: str, valid: bool) -> None:
    assert is_id(text) is valid


def test_the_fixture_makes_hits(make_hit: Callable[..., Hit]) -> None:
    assert locate(make_hit("a", content="nowhere"), chunks(TEXT)) == (0, "")
