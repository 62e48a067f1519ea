"""Filter expressions: the text that is built, and what a prefix means."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.filters import any_of, begins, equals, expression, literal, successor
from memsearch.sinks.types import Filters

DEFAULT = 'kind in ["entry", "note", "digest"]'


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(kinds=()), ""),
        (Filters(), DEFAULT),
        (Filters(kinds=("archive",)), 'kind in ["archive"]'),
        (Filters(since=date(2026, 3, 5), kinds=()), "day >= 20260305"),
        # A row without a day (0) is no answer to "before March".
        (Filters(until=date(2026, 3, 5), kinds=()), "day >= 1 and day <= 20260305"),
        (
            Filters(since=date(1999, 12, 31), until=date(2026, 1, 1), kinds=()),
            "day >= 19991231 and day <= 20260101",
        ),
        (Filters(platform="codex", kinds=()), 'platform == "codex"'),
        (Filters(session='a"b', kinds=()), 'session == "a\\"b"'),
        (
            Filters(source_prefix="notes/", kinds=()),
            'source >= "notes/" and source < "notes0"',
        ),
        (
            Filters(
                since=date(2026, 3, 5),
                platform="codex",
                session="s1",
                source_prefix="a",
            ),
            'day >= 20260305 and platform == "codex" and session == "s1"'
            f' and source >= "a" and source < "b" and {DEFAULT}',
        ),
    ],
)
def test_expression(filters: Filters, expected: str) -> None:
    assert expression(filters) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", '""'),
        ("plain", '"plain"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("it's", '"it\'s"'),
        ("C:\\new", '"C:\\\\new"'),
        ("\\", '"\\\\"'),
        ('\\"', '"\\\\\\""'),
        ("a\nb\rc\td", '"a\\nb\\rc\\td"'),
        # Not \b, \f, \v, \u0001 as JSON has it: Lite refuses those, and takes the characters.
        ("\b\f\v\x01\x00\x7f", '"\b\f\v\x01\x00\x7f"'),
        ("100%_", '"100%_"'),
        ("备份/脚本.md", '"备份/脚本.md"'),
        ("\\u4e2d", '"\\\\u4e2d"'),
        ("😀𠀀\u2028", '"😀𠀀\u2028"'),
        ('" or source != "', '"\\" or source != \\""'),
    ],
)
def test_literal(value: str, expected: str) -> None:
    assert literal(value) == expected


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(MemsearchError) as caught:
        expression(Filters(source_prefix="caf\udce9"))
    assert caught.value.kind is ErrorClass.BAD_REQUEST


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a", "b"),
        ("a/", "a0"),
        ("z", "{"),
        ("\x7f", "\x80"),
        ("中", "丮"),
        ("\ud7ff", "\ue000"),  # over the surrogates
        ("\uffff", "\U00010000"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("\U0010ffff\U0010ffff", None),
        ("", None),
    ],
)
def test_successor(prefix: str, expected: str | None) -> None:
    assert successor(prefix) == expected


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(prefix=TEXT, value=TEXT)
def test_a_prefix_is_the_range_up_to_its_successor(prefix: str, value: str) -> None:
    for candidate in (value, prefix + value, prefix[:-1] + value):
        after = successor(prefix)
        inside = candidate >= prefix and (after is None or candidate < after)
        assert inside == candidate.startswith(prefix)
        # Databases compare UTF-8 bytes: the order must be the same.
        raw, low = candidate.encode(), prefix.encode()
        assert inside == (raw >= low and (after is None or raw < after.encode()))


def test_parts() -> None:
    assert any_of("kind", ["a", 'b"']) == 'kind in ["a", "b\\""]'
    assert equals("source", "x") == 'source == "x"'
    assert begins("source", "\U0010ffff") == 'source >= "\U0010ffff"'
