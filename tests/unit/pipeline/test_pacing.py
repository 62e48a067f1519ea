"""A provider that asked to wait."""

import threading
import time

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.pacing import SIT_OUT_SECONDS, Pacing


def refusal(seconds: float | None) -> MemsearchError:
    return MemsearchError("slow down", kind=ErrorClass.RATE_LIMIT, retry_after=seconds)


def test_nobody_waits_for_one_that_did_not_ask_for_it():
    pacing = Pacing()
    pacing.heard("here", refusal(None), 0)
    pacing.heard("here", refusal(0), 0)
    pacing.heard("there", refusal(100), 0)
    pacing.check("here")
    pacing.sit_out("here", threading.Event())
    assert pacing.left("here") == 0
    assert not pacing.has_limit("here")
    assert pacing.has_limit("there")


def test_a_long_pause_is_told_and_is_no_try():
    pacing = Pacing()
    pacing.heard("here", refusal(SIT_OUT_SECONDS + 50), 0)
    with pytest.raises(MemsearchError, match="slow down") as told:
        pacing.sit_out("here", threading.Event())
    assert not told.value.is_try
    assert told.value.kind is ErrorClass.RATE_LIMIT
    assert SIT_OUT_SECONDS < told.value.retry_after <= SIT_OUT_SECONDS + 50


def test_a_short_pause_is_sat_out_and_ends():
    pacing = Pacing()
    pacing.heard("here", refusal(0.2), 0)
    began = time.monotonic()
    pacing.sit_out("here", threading.Event())
    assert time.monotonic() - began >= 0.19
    assert pacing.left("here") == 0
    assert pacing.has_limit("here")


def test_a_short_pause_ends_with_the_worker():
    pacing, stop = Pacing(), threading.Event()
    stop.set()
    pacing.heard("here", refusal(SIT_OUT_SECONDS), 0)
    pacing.sit_out("here", stop)
    assert pacing.left("here") > 1


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


def test_whoever_waited_is_told_so():
    pacing = Pacing()
    assert not pacing.sit_out("here", threading.Event())
    pacing.heard("here", refusal(0.05), 0)
    assert pacing.sit_out("here", threading.Event())
