"""Who may spend: reservations, order, and what a kill leaves."""

import threading
import time
from datetime import datetime, timedelta

from builders import captured, stream, write

from memsearch.pipeline.budget import Budget, next_midnight, settle, today
from memsearch.pipeline.events import Event, EventType


def reserve(budget: Budget, turn: str, tokens: int, cap: int) -> str:
    return budget.reserve(stream(turn), tokens, cap, project="/w", provider="openai")


def spend(log, turn: str, tokens: int) -> None:
    usage = {"day": today(), "project": "/w", "provider": "openai", "tokens_in": tokens}
    with log.transaction() as tx:
        settle(tx, stream(turn))
        tx.append(Event(stream(turn), EventType.TURN_SUMMARIZED, {"usage": usage}, body="[]"))


def test_calls_that_cost_as_estimated_fill_the_cap_exactly(log):
    budget = Budget(log)
    said = []
    for number in range(6):
        said.append(reserve(budget, str(number), 500, 2000))
        if said[-1] == "ok":
            spend(log, str(number), 500)
    assert said == ["ok"] * 4 + ["paused"] * 2
    assert budget.spent() == 2000


def test_what_is_set_aside_counts_until_it_is_settled(log):
    budget = Budget(log)
    assert reserve(budget, "a", 1500, 2000) == "ok"
    assert reserve(budget, "b", 600, 2000) == "wait"
    spend(log, "a", 100)
    assert reserve(budget, "b", 600, 2000) == "ok"


def test_an_estimate_above_the_whole_cap_goes_ahead_alone(log):
    budget = Budget(log)
    assert reserve(budget, "a", 5000, 2000) == "ok"
    assert reserve(budget, "b", 5000, 2000) == "wait"


def test_free_calls_and_no_cap_are_never_held(log):
    budget = Budget(log)
    assert reserve(budget, "a", 0, 1) == "ok"
    for number in range(5):
        assert reserve(budget, str(number), 10**9, 0) == "ok"


def test_the_oldest_of_those_that_wait_goes_first(log):
    budget = Budget(log)
    reserve(budget, "running", 2000, 2000)
    went: list[str] = []

    def wait(turn: str) -> None:
        verdict = budget.reserve_in_turn(
            (turn, turn), threading.Event(), lambda: reserve(budget, turn, 1000, 2000)
        )
        went.append(f"{turn} {verdict}")

    threads = [threading.Thread(target=wait, args=(turn,)) for turn in ("c", "b", "a")]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    assert went == []
    spend(log, "running", 900)
    threads[2].join(5)
    assert went == ["a ok"]
    spend(log, "a", 1100)
    for thread in threads:
        thread.join(5)
    assert sorted(went) == ["a ok", "b paused", "c paused"]


def test_a_call_that_waits_ends_with_the_worker(log):
    budget = Budget(log)
    reserve(budget, "running", 2000, 2000)
    stop = threading.Event()
    stop.set()
    assert budget.reserve_in_turn(("a",), stop, lambda: reserve(budget, "a", 1000, 2000)) == "wait"


def test_what_a_killed_worker_had_under_way_is_counted_and_is_no_failed_try(log):
    budget = Budget(log)
    write(log, captured("a", 1.8e9), captured("b", 1.8e9))
    reserve(budget, "a", 700, 2000)
    assert Budget(log).settle_killed() == 1
    assert budget.spent() == 700
    row = log.row("SELECT attempts, state FROM turns WHERE turn = 'a'")
    assert (row["attempts"], row["state"]) == (0, "open")
    assert log.value("SELECT estimated FROM usage") == 1
    assert budget.settle_killed() == 0


def test_a_killed_call_of_a_compaction_is_counted(log):
    budget = Budget(log)
    assert budget.reserve("compact:c", 300, 2000, project="/w", provider="openai") == "ok"
    assert budget.settle_killed() == 1
    assert budget.spent() == 300
    assert log.value("SELECT type FROM events") == EventType.COMPACT_FAILED


def test_a_killed_call_of_a_turn_that_is_at_its_end_leaves_it_there(log):
    budget = Budget(log)
    write(log, captured("a", 1.8e9), Event(stream("a"), EventType.TURN_APPENDED, {}))
    reserve(budget, "a", 700, 2000)
    reserve(budget, "nobody", 700, 2000)
    assert budget.settle_killed() == 2
    assert log.value("SELECT state FROM turns WHERE turn = 'a'") == "done"
    assert log.value("SELECT COUNT(*) FROM events WHERE type = 'StageFailed'") == 0


def test_the_day_turns_at_local_midnight():
    now = datetime(2026, 3, 3, 22, 30).astimezone().timestamp()
    midnight = datetime.fromtimestamp(next_midnight(now)).astimezone()
    assert (midnight.hour, midnight.minute) == (0, 0)
    assert timedelta(0) < midnight - datetime.fromtimestamp(now).astimezone() <= timedelta(hours=2)
