"""Which documents wait for somebody to agree to what embedding them costs."""

import pytest

from memsearch.pipeline.cost import ORDINARY_TEXTS, Need, held_back

MANY = ORDINARY_TEXTS + 1


@pytest.mark.parametrize(
    ("needs", "waits"),
    [
        ([], []),
        ([Need(3)], [False]),
        ([Need(ORDINARY_TEXTS)], [False]),
        ([Need(MANY)], [True]),
        # A mass is one whether it comes in one document or in many.
        ([Need(1)] * ORDINARY_TEXTS, [False] * ORDINARY_TEXTS),
        ([Need(1)] * MANY, [True] * MANY),
        # What needs no vector, what was agreed to and what a turn wrote goes on, and does not
        # make the others a mass.
        ([Need(0), Need(MANY)], [False, True]),
        ([Need(MANY, agreed=True), Need(5)], [False, False]),
        ([Need(MANY, appended=True), Need(5)], [False, False]),
        # Another model is never paid for unasked, however little it is.
        ([Need(1, renewed=True), Need(5)], [True, False]),
        ([Need(1, renewed=True, agreed=True)], [False]),
        ([Need(1, renewed=True, appended=True)], [False]),
        ([Need(0, renewed=True)], [False]),
        ([Need(MANY, renewed=True), Need(5)], [True, False]),
    ],
)
def test_what_waits(needs: list[Need], waits: list[bool]) -> None:
    assert held_back(needs) == waits
