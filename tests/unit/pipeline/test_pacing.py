"""A provider that asked to wait."""

import time

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.pacing import MAX_EXTRA_SECONDS, SHORT_SECONDS, Pacing


def few() -> int:
    return 3


def refusal(seconds: float | None) -> MemsearchError:
    return MemsearchError("slow down", kind=ErrorClass.RATE_LIMIT, retry_after=seconds)


def test_nobody_waits_for_one_that_did_not_ask_for_it():
    pacing = Pacing()
    pacing.heard("here", refusal(None), 0)
    pacing.heard("here", refusal(0), 0)
    pacing.heard("there", refusal(100), 0)
    pacing.check("here")
    assert pacing.put_off("here", few) == 0
    assert pacing.left("here") == 0
    assert not pacing.has_limit("here")
    assert pacing.has_limit("there")


def test_a_long_pause_is_told_and_is_no_try():
    pacing = Pacing()
    pacing.heard("here", refusal(SHORT_SECONDS + 50), 0)
    with pytest.raises(MemsearchError, match="slow down") as told:
        pacing.put_off("here", few)
    assert not told.value.is_try
    assert told.value.kind is ErrorClass.RATE_LIMIT
    assert SHORT_SECONDS < told.value.retry_after <= SHORT_SECONDS + 50


def test_for_a_short_pause_a_turn_is_put_off_until_its_end():
    pacing = Pacing()
    pacing.heard("here", refusal(0.2), 0)
    assert 0 < pacing.put_off("here", few) <= 0.2
    assert pacing.pauses()
    time.sleep(0.25)
    assert pacing.put_off("here", few) == 0
    assert not pacing.pauses()
    assert pacing.has_limit("here")


def test_a_long_queue_is_gone_through_less_often():
    pacing = Pacing()
    pacing.heard("here", refusal(1), 0)
    assert pacing.put_off("here", lambda: 500) == 10
    assert pacing.put_off("here", lambda: 1_000_000) == MAX_EXTRA_SECONDS
    assert pacing.put_off("there", lambda: 1_000_000) == 0


def test_of_several_refusals_the_longest_counts_and_the_first_is_the_try():
    pacing = Pacing()
    first, second, third = refusal(20), refusal(50), refusal(5)
    for each in (first, second, third):
        pacing.heard("here", each, 0)
    assert [each.is_try for each in (first, second, third)] == [True, False, False]
    assert 40 < pacing.left("here") <= 50


def test_the_next_refusal_after_a_pause_is_a_try_again():
    pacing = Pacing()
    pacing.heard("here", refusal(0.01), 0)
    time.sleep(0.02)
    again = refusal(1)
    pacing.heard("here", again, 0)
    assert again.is_try


def test_a_refusal_is_no_try_where_somebody_was_answered_since():
    pacing = Pacing()
    before = time.time()
    pacing.answered("here")
    passed, late, elsewhere = refusal(0.001), refusal(0.001), refusal(0.001)
    pacing.heard("here", passed, before - 1)
    time.sleep(0.01)
    pacing.heard("here", late, time.time())
    pacing.heard("there", elsewhere, before - 1)
    assert [each.is_try for each in (passed, late, elsewhere)] == [False, True, True]


def test_a_refusal_that_names_no_time_begins_no_pause_but_may_be_no_try():
    pacing = Pacing()
    before = time.time() - 1
    first, second = refusal(None), refusal(None)
    pacing.heard("here", first, before)
    pacing.answered("here")
    pacing.heard("here", second, before)
    assert [first.is_try, second.is_try] == [True, False]
    assert pacing.left("here") == 0
    elsewise = MemsearchError("broken", kind=ErrorClass.SERVER)
    pacing.heard("here", elsewise, before)
    assert elsewise.is_try


@pytest.mark.parametrize(("step", "over"), [(200, True), (-86_400, False)])
def test_a_pause_ends_by_the_clock_on_the_wall_where_the_machine_slept(monkeypatch, step, over):
    # To a process a sleep looks like this: only one of the two clocks has gone on.
    pacing = Pacing()
    pacing.heard("here", refusal(100), 0)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + step)
    assert (pacing.left("here") == 0) is over
    assert pacing.left("here") <= 100
