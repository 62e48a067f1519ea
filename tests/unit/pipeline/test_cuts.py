"""Wherever a text is cut, no part of a secret is left at the cut."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from credentials import CREDENTIALS, found_in
from hypothesis import given, settings
from hypothesis import strategies as st

from memsearch.config.schema import Settings
from memsearch.pipeline import messages
from memsearch.pipeline.redact import excerpt, reading, redact
from memsearch.sources.base import MAX_OUTPUT_CHARS, MAX_TEXT_CHARS
from memsearch.sources.bounds import (
    EDGE_CHARS,
    MAX_INPUT_CHARS,
    MAX_VALUE_CHARS,
    TORN,
    beginning,
    compact_input,
    trim,
)
from memsearch.sources.builder import TurnBuilder
from memsearch.sources.lines import Shrinker

WORDS = "the quick brown fox jumps over a lazy dog and goes home\n"


def filler(length: int) -> str:
    return (WORDS * (length // len(WORDS) + 1))[:length]


def as_text(text: str) -> str:
    builder = TurnBuilder()
    step = builder.add("user", text)
    return step.item()[0].text


def as_output(text: str) -> str:
    builder = TurnBuilder()
    builder.call("k", "Bash", "cat x")
    builder.result("k", text, failed=False)
    (step,) = builder._head
    return step.item()[0].output


def as_value(text: str) -> str:
    return compact_input({"old": text, "n": 1}, str, frozenset())


def as_torn(text: str) -> str:
    return as_output(text + TORN)


#: How a text is cut: the function, where it cuts (from the start and from the end of the text).
CUTS: dict[str, tuple[Callable[[str], str], int, int]] = {
    "text": (as_text, MAX_TEXT_CHARS * 2 // 3, MAX_TEXT_CHARS // 3),
    "output": (as_output, MAX_OUTPUT_CHARS * 2 // 3, MAX_OUTPUT_CHARS // 3),
    "torn": (as_torn, MAX_OUTPUT_CHARS * 2 // 3, EDGE_CHARS),
    "value": (as_value, MAX_VALUE_CHARS * 2 // 3, MAX_VALUE_CHARS // 3),
    "input": (
        lambda text: compact_input(text.split("\n")[:40], str, frozenset()),
        MAX_INPUT_CHARS * 2 // 3,
        MAX_INPUT_CHARS // 3,
    ),
    "error": (lambda text: beginning(text, 400), 400, 0),
    "excerpt": (lambda text: excerpt(text, 300), 300, 0),
    "message": (
        lambda text: messages._kept(text[:42_000], Settings().redact),
        MAX_TEXT_CHARS,
        0,
    ),
    "hook": (lambda text: messages._kept(text[:42_000], Settings().redact), 42_000, 0),
}


def around(kind: str, at: int, length: int) -> str:
    """A text with a credential in it, as people write it, that begins at ``at``."""
    frame, secret = CREDENTIALS[kind]
    head = filler(max(0, at))
    return f"{head[:-1]}\n{frame.format(secret)}\n{filler(max(0, length - at))}"


@pytest.mark.parametrize("cut", sorted(CUTS))
@settings(max_examples=25, deadline=None)
@given(kind=st.sampled_from(sorted(CREDENTIALS)), off=st.integers(-230, 30), at_end=st.booleans())
def test_no_piece_of_a_secret_is_left_at_a_cut(cut: str, kind: str, off: int, at_end: bool) -> None:
    function, first, last = CUTS[cut]
    length = 3 * (first + last) + 1_000
    if cut == "input" and "\n" in CREDENTIALS[kind][1]:
        return  # its lines stand in different values there
    text = around(kind, (length - last if at_end and last else first) + off, length)
    with reading():
        kept = function(text)
    assert found_in(redact(kept).text.encode()) == set()


@pytest.mark.parametrize("kind", sorted(CREDENTIALS))
def test_of_a_line_that_was_shrunk_no_piece_is_left(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsearch.sources.lines.MAX_STRING_BYTES", 6_000)
    frame, secret = CREDENTIALS[kind]
    said = frame.format(secret)
    for off in range(0, len(said), max(1, len(said) // 12)):
        text = filler(6_000 - off - 1) + " " + said + filler(9_000)
        shrinker = Shrinker()
        shrinker.feed(json.dumps({"output": text}).encode())
        record = json.loads(shrinker.result() or b"")
        with reading():
            kept = trim(record["output"], 100_000)[0] + as_output(record["output"])
        assert "quick brown fox" in kept
        assert found_in(redact(kept).text.encode()) == set()


def test_without_a_secret_near_it_a_cut_is_where_it_was() -> None:
    text = filler(9_000)
    with reading():
        kept, missing = trim(text, 2_000)
    assert trim(text, 2_000) == (kept, missing)
    first, _, rest = kept.partition("\n… [")
    assert text.startswith(first)
    assert text.endswith(rest.partition("] …\n")[2])
    assert missing + len(first) + len(rest.partition("] …\n")[2]) == len(text)
