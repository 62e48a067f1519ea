"""Status on a real log: what is stuck, held, failing, and what is none of these."""

import dataclasses

import pytest

from memsearch.config import statedb
from memsearch.config.settings import Settings
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.status import Surroundings, mark_dead_letters_seen, status

NOW = 1_790_000_000.0
FINE = Surroundings(worker_pid=7, listening=True, spooled=0, bad_spooled=0, problems=())
KEYS = {
    "state",
    "reasons",
    "turns",
    "oldest_seconds",
    "last_success",
    "dead_letters",
    "usage",
    "budget",
    "documents",
    "workers",
}


@pytest.fixture
def log(tmp_path):
    opened = EventLog(str(tmp_path / "state.db"))
    yield opened
    opened.close()


def capture(log, *turns, session="s", ago=0.0) -> None:
    for number, turn in enumerate(turns):
        facts = {
            "platform": "codex",
            "turn": turn,
            "session": session,
            "day": "2026-03-03",
            "time": "10:00",
            "at": f"2026-03-03T10:{number:02d}:00.000Z",
        }
        put(log, turn, EventType.TURN_CAPTURED, ago, "{}", **facts)


def put(log, turn, kind, ago=0.0, body=None, /, **data) -> None:
    at = statedb.utc_now(NOW - ago)
    with log.transaction() as tx:
        tx.append(Event(turn_stream("codex", turn), kind, data, body=body, at=at))


def look(log, **around) -> dict:
    return status(log, Settings(), dataclasses.replace(FINE, **around), NOW)


def failure(due: float | None, kind="server") -> dict:
    return {"stage": "summarize", "error_class": kind, "attempt": 1, "due": due}


def test_the_keys_that_scripts_rely_on_are_there(log):
    found = look(log)
    assert set(found) >= KEYS
    assert found["state"] == "ok"


def test_turns_behind_one_in_backoff_are_held_by_name_and_not_stuck(log):
    capture(log, "a", "b", "c", ago=7200)
    put(log, "b", EventType.TURN_SUMMARIZED, 7200, usage=None)
    put(log, "c", EventType.TURN_SUMMARIZED, 7200, usage=None)
    put(log, "a", EventType.BUDGET_PAUSED, 7200, due=NOW + 3600)
    found = look(log)
    assert found["state"] == "paused"
    (held,) = found["held"]
    assert (held["count"], held["behind"]) == (2, "turn:codex:a")
    assert (held["stage"], held["why"]) == ("summarize", "budget")


def test_what_is_due_and_does_not_move_is_stuck(log):
    capture(log, "a", ago=7200)
    found = look(log)
    assert found["state"] == "degraded"
    assert found["reasons"] == ["summarize: 1 due for 2 h without progress"]
    capture(log, "b")
    put(log, "b", EventType.TURN_SUMMARIZED, 10, usage=None)
    assert look(log)["state"] == "ok"  # a long queue that moves


def test_a_provider_that_fails_is_said_until_it_succeeds(log):
    capture(log, "a", "b")
    put(log, "a", EventType.STAGE_FAILED, 5, "503 overloaded", **failure(NOW + 60))
    assert "503 overloaded" in look(log)["reasons"][0]
    put(log, "b", EventType.TURN_SUMMARIZED, 1, usage=None)
    assert look(log)["state"] == "ok"


def test_dead_letters_are_news_for_a_day_or_until_somebody_looks(log):
    capture(log, "a", "b", ago=90_000)
    facts = {"stage": "summarize", "error_class": "bad_request", "attempts": 1}
    put(log, "a", EventType.DEAD_LETTERED, 90_000, "no", **facts)
    assert look(log)["state"] == "degraded"  # b is stuck
    put(log, "b", EventType.DEAD_LETTERED, 60, "no", **facts)
    found = look(log)
    assert found["reasons"] == ["1 dead letters: memsearch dead-letter list"]
    assert found["dead_letters"] == {"total": 2, "unseen": 1, "by_stage": {"summarize": 2}}
    mark_dead_letters_seen(log, NOW)
    assert look(log)["state"] == "ok"
    assert look(log)["dead_letters"]["total"] == 2


def test_a_clock_that_was_a_year_ahead_hides_nothing_that_comes_after_it(log):
    ahead = -365 * 86_400
    capture(log, "a", "b", "c")
    put(log, "a", EventType.TURN_SUMMARIZED, ahead, usage=None)
    mark_dead_letters_seen(log, NOW - ahead)
    assert look(log)["state"] == "ok"
    put(log, "b", EventType.STAGE_FAILED, 5, "503 overloaded", **failure(NOW + 60))
    assert "503 overloaded" in look(log)["reasons"][0]
    facts = {"stage": "summarize", "error_class": "bad_request", "attempts": 1}
    put(log, "c", EventType.DEAD_LETTERED, 3, "no", **facts)
    assert look(log)["dead_letters"]["unseen"] == 1
    put(log, "b", EventType.REPLAYED, 4_000, stage="summarize")
    assert any("without progress" in reason for reason in look(log)["reasons"])


@pytest.mark.parametrize(
    ("around", "said"),
    [
        ({"spooled": 2, "worker_pid": None}, "memsearch workers start"),
        ({"spooled": 2, "spooled_seconds": 600}, "though a worker runs"),
        ({"spooled": 2, "spooled_seconds": 1}, ""),
        ({"bad_spooled": 1}, "spool/bad"),
        ({"listening": False, "worker_seconds": 300}, "does not answer"),
        ({"listening": False, "worker_seconds": 3}, ""),
        ({"worker_pid": None, "listening": False}, ""),
        ({"worker_pid": None, "listening": False, "early_deaths": 3}, "died as they began"),
        ({"worker_pid": None, "listening": False, "early_deaths": 1}, ""),
        ({"problems": ("config.toml: x",)}, "configuration: config.toml: x"),
        ({"unlockable": "no worker can run, it cannot be locked"}, "cannot be locked"),
        ({"free_bytes": 4096}, "full (4 KiB left)"),
        ({"free_bytes": 10**9}, ""),
    ],
)
def test_faults_around_the_log_are_said_with_what_to_do(log, around, said):
    found = look(log, **around)
    assert (found["state"] == "degraded") is bool(said)
    assert said in " ".join(found["reasons"])


def test_a_turn_waits_since_it_was_captured_however_old_it_is(log):
    capture(log, "a", "b", ago=90.0)  # said half a year before: a backfill
    found = look(log)
    assert [each["seconds"] for each in found["waiting"]] == [90]
    assert found["oldest_seconds"] == 90
