"""When a drain says that nothing moves any more."""

from memsearch.workers.runner import STALL_SECONDS, Pace


def test_what_is_due_and_makes_no_event_for_a_while_has_stalled():
    pace = Pace(0.0)
    assert not pace.stalls(5, 10.0)
    assert not pace.stalls(5, 10.0 + STALL_SECONDS)
    assert pace.stalls(5, 10.5 + STALL_SECONDS)
    assert pace.stalled


def test_an_event_or_something_that_runs_starts_the_wait_anew():
    pace = Pace(0.0)
    pace.stalls(5, 0.0)
    assert not pace.stalls(6, STALL_SECONDS + 1)
    assert not pace.stalls(6, STALL_SECONDS + 2)
    assert pace.stalls(6, 3 * STALL_SECONDS)
    assert not pace.goes_on(3 * STALL_SECONDS)
    assert not pace.stalled
    assert not pace.stalls(6, 3 * STALL_SECONDS + 1)
