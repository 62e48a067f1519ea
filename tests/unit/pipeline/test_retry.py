"""The retry decision, by table."""

import pytest

from memsearch.config.errors import ErrorClass
from memsearch.pipeline.retry import (
    JITTER_FROM,
    MAX_RETRY_AFTER_SECONDS,
    SETTLE_SECONDS,
    TRANSIENT,
    WAITING,
    decide,
)

NOW = 1_000_000.0


def decided(kind, attempt=1, *, stage="summarize", retry_after=None, draw=1.0):
    return decide(
        kind,
        stage=stage,
        attempt=attempt,
        now=NOW,
        attempts=5,
        base_seconds=60,
        retry_after=retry_after,
        draw=draw,
    )


@pytest.mark.parametrize(
    "kind",
    [
        ErrorClass.BAD_REQUEST,
        ErrorClass.REFUSED,
        ErrorClass.CREDENTIALS,
        ErrorClass.BAD_FILE,
        ErrorClass.CONFIG,
        ErrorClass.DAMAGED,
    ],
)
def test_what_another_try_cannot_mend_gives_up_at_once(kind):
    assert decided(kind).gives_up


@pytest.mark.parametrize("kind", sorted(TRANSIENT))
def test_a_transient_failure_is_tried_five_times_with_growing_waits(kind):
    waits = [decided(kind, attempt).due - NOW for attempt in range(1, 5)]
    assert waits == sorted(waits)
    assert waits[0] == 60
    assert decided(kind, 5).gives_up


def test_the_waits_of_five_tries_span_about_half_an_hour():
    span = sum(decided(ErrorClass.SERVER, attempt).due - NOW for attempt in range(1, 5))
    assert 20 * 60 < span < 45 * 60


@pytest.mark.parametrize("kind", sorted(WAITING))
def test_a_full_disk_or_a_held_lock_is_waited_for_without_end(kind):
    assert not decided(kind, 1000).gives_up
    assert decided(kind, 1000).due - NOW <= 300


def test_the_jitter_shortens_a_wait_by_a_quarter_at_most():
    least = decided(ErrorClass.NETWORK, draw=0.0).due - NOW
    assert least == pytest.approx(60 * JITTER_FROM)


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [(5, 45, 66), (600, 600, 606), (10**9, MAX_RETRY_AFTER_SECONDS, MAX_RETRY_AFTER_SECONDS + 6)],
)
def test_a_retry_after_is_never_undercut_and_not_believed_for_ever(asked, least, most):
    for draw in (0.0, 0.5, 1.0):
        wait = decided(ErrorClass.RATE_LIMIT, retry_after=asked, draw=draw).due - NOW
        assert least <= wait <= most


def test_a_transcript_is_looked_at_again_within_seconds_and_not_for_ever():
    waits = []
    attempt = 1
    while not (decision := decided(ErrorClass.NOT_YET, attempt, stage="capture")).gives_up:
        waits.append(decision.due - NOW)
        attempt += 1
    assert tuple(waits) == pytest.approx(SETTLE_SECONDS)
    assert sum(waits) < 10


def test_a_capture_that_fails_otherwise_waits_as_any_stage_does():
    assert decided(ErrorClass.SERVER, stage="capture").due - NOW == 60
    assert decided(ErrorClass.BAD_FILE, stage="capture").gives_up


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        (ErrorClass.BUSY, [1.0, 2.5, 6.25, 15.625]),
        (ErrorClass.DISK_FULL, [15.0, 37.5, 93.75, 234.375, 300.0, 300.0]),
    ],
)
def test_the_waits_of_what_is_waited_for(kind, waits):
    found = [decided(kind, attempt).due - NOW for attempt in range(1, len(waits) + 1)]
    assert found == pytest.approx(waits)
    assert decided(kind, draw=0.0).due - NOW == pytest.approx(waits[0] * JITTER_FROM)


def test_no_wait_is_longer_than_half_an_hour():
    late = decide(
        ErrorClass.SERVER,
        stage="summarize",
        attempt=90,
        now=NOW,
        attempts=100,
        base_seconds=60,
        draw=1.0,
    )
    assert late.due - NOW == 1_800


def test_what_failed_together_does_not_come_back_together():
    waits = {
        decide(
            ErrorClass.SERVER,
            stage="summarize",
            attempt=1,
            now=NOW,
            attempts=5,
            base_seconds=60,
        ).due
        - NOW
        for _ in range(20)
    }
    assert len(waits) > 1
    assert all(45 <= wait <= 60 for wait in waits)
