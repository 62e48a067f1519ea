"""Which turn a hook means, and its place among the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memsearch.sources.base import Pointer, Turn
from memsearch.sources.window import with_meant

BEGIN = datetime(2026, 3, 5, 9, tzinfo=UTC)


def turn(name: str, second: int) -> Turn:
    return Turn(
        platform="openclaw",
        id=name,
        session="s",
        at=BEGIN + timedelta(seconds=second),
        cwd=None,
        items=(),
        state="finished",
        anchor={},
        position=second,
        aliases=(f"run-{name}",),
    )


@pytest.mark.parametrize(
    ("name", "second", "meant"),
    [
        (None, None, True),
        (None, 9, False),
        (None, 10, True),
        (None, 11, True),
        ("t", 9, True),
        ("run-t", None, True),
        ("other", 11, False),
    ],
)
def test_a_hook_means_a_turn_by_its_name_else_by_when_it_came(
    name: str | None, second: int | None, meant: bool
) -> None:
    at = None if second is None else BEGIN + timedelta(seconds=second)
    assert Pointer("openclaw", "s", "/db", turn=name, at=at).means(turn("t", 10)) is meant


@pytest.mark.parametrize(
    ("kept", "meant", "expected"),
    [
        ([], None, []),
        ([], 1, [1]),
        ([2, 3], 1, [1, 2, 3]),
        ([1, 3], 2, [1, 2, 3]),
        ([1, 2], 2, [1, 2]),
        ([1], 9, [1, 9]),
    ],
)
def test_the_turn_that_is_meant_is_among_them_once_in_order(
    kept: list[int], meant: int | None, expected: list[int]
) -> None:
    found = with_meant([turn(str(n), n) for n in kept], meant and turn(str(meant), meant))
    assert [each.position for each in found] == expected
