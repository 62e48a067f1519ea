"""Recovery on a real log: what is queued, what is let go, what is taken out of the spool."""

import json
import os
import time

import pytest

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.pipeline import put_aside
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.log import EventLog
from memsearch.workers import recovery

PROJECT = {"root": "/w", "memory_dir": "/w/.memsearch/memory", "base": "/w", "collection": "c"}
NOW = 1_790_000_000.0


@pytest.fixture
def home(tmp_path):
    made = Home(str(tmp_path / "home"))
    made.create()
    return made


@pytest.fixture
def log(home):
    opened = EventLog(home.state_db)
    yield opened
    opened.close()


def capture(log: EventLog, *turns: str) -> None:
    with log.transaction() as tx:
        for number, turn in enumerate(turns):
            facts = {
                "platform": "codex",
                "turn": turn,
                "session": "s",
                "project": PROJECT,
                "day": "2026-03-03",
                "time": "10:00",
                "at": f"2026-03-03T10:{number:02d}:00Z",
            }
            tx.append(Event(turn_stream("codex", turn), EventType.TURN_CAPTURED, facts, body="{}"))


def put(log: EventLog, turn: str, kind: EventType, at: float = NOW, **data) -> None:
    with log.transaction() as tx:
        tx.append(Event(turn_stream("codex", turn), kind, data, at=statedb.utc_now(at)))


def tasks(log: EventLog) -> list[tuple[str, str]]:
    rows = log.rows("SELECT data FROM task ORDER BY id")
    messages = [json.loads(row["data"]) for row in rows]
    return [(m["name"].removeprefix(statedb.TASK_PREFIX), m["args"][0]) for m in messages]


def test_a_turn_behind_an_open_one_waits_for_no_task(log):
    capture(log, "a", "b", "c")
    put(log, "b", EventType.TURN_SUMMARIZED, usage=None)
    put(log, "c", EventType.TURN_SUMMARIZED, usage=None)
    assert recovery.queue_lost(log, [], NOW) == [
        recovery.Work("summarize", turn_stream("codex", "a"))
    ]
    put(log, "a", EventType.TURN_SUMMARIZED, usage=None)
    assert [work.stage for work in recovery.queue_lost(log, [], NOW)] == ["append"]


def test_a_turn_whose_next_try_lies_ahead_by_a_clock_that_was_set_back_waits_no_longer(log):
    capture(log, "a", "b")
    day = 86_400.0
    failed = {"stage": "summarize", "error_class": "server", "attempt": 1}
    put(log, "a", EventType.STAGE_FAILED, at=NOW + day, due=NOW + day + 60, **failed)
    put(log, "b", EventType.STAGE_FAILED, at=NOW - 1, due=NOW + 60, **failed)
    streams = dict(map(tuple, log.rows("SELECT turn, stream FROM turns")))
    with log.transaction() as tx:
        tx.add_task("summarize", streams["a"], NOW + day + 60)
        tx.add_task("summarize", streams["b"], NOW + 60)
    lost = recovery.queue_lost(log, [], NOW)
    dues = dict(map(tuple, log.rows("SELECT turn, due FROM turns")))
    assert dues == {"a": None, "b": NOW + 60}
    # Nor does what the schedule has of it count, which comes as late.
    assert [item.key for item in lost] == [streams["a"]]
    assert ("summarize", streams["a"]) in tasks(log)
    assert recovery.queue_lost(log, [], NOW) == []


def test_a_budget_with_room_again_lets_the_oldest_go_once_and_counts_them_as_due(log, monkeypatch):
    monkeypatch.setattr(recovery, "RELEASED_AT_ONCE", 3)
    capture(log, *"abcdefg")
    for turn in "abcdefg":
        put(log, turn, EventType.BUDGET_PAUSED, due=NOW + 3600)
    assert recovery.next_due(log) is None
    assert recovery.release_paused(log, NOW) == 3
    assert [key[-1] for _, key in tasks(log)] == ["a", "b", "c"]
    assert recovery.next_due(log) == 0
    for _ in range(5):
        assert recovery.release_paused(log, NOW) == 0
    assert len(tasks(log)) == 3
    for turn in "abc":
        put(log, turn, EventType.TURN_SUMMARIZED, usage=None)
    assert recovery.release_paused(log, NOW) == 3


def record(number: int) -> dict:
    return {
        "id": f"{number:032d}",
        "at": statedb.utc_now(NOW + number),
        "data": {"platform": "codex", "session": f"s{number}"},
        "message": None,
    }


def spool(home: Home, name: str, text: str) -> str:
    path = os.path.join(home.spool, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def test_the_spool_is_taken_in_once_and_what_is_no_hook_is_put_aside(home, log):
    for number in range(3):
        spool(home, f"{number}.json", json.dumps(record(number)))
    for number, text in enumerate(("{", "[]", '{"id": 3}', '"x"', "[" * 100_000)):
        spool(home, f"bad{number}.json", text)
    assert recovery.sweep_spool(home, log) == (3, 5)
    spool(home, "again.json", json.dumps(record(1)))
    assert recovery.sweep_spool(home, log) == (1, 0)
    assert log.value("SELECT COUNT(*) FROM hooks") == 3
    assert recovery.spooled(home) == []
    assert len(put_aside.bad_spooled(home)) == 5


@pytest.mark.parametrize("kept", [None, 30, -100, -60, -40, -1])
def test_what_is_put_aside_of_the_spool_holds_nothing_of_a_conversation(home, log, kept):
    """Torn at any place, or whole and no hook."""
    token = "ghp_" + "a1B2" * 9
    words = f'the word is "xylophone" and {token} ends it'
    whole = {**record(1), "message": words, "why": "database is locked"}
    whole["data"] = whole["data"] | {"platform": 3 if kept is None else "codex", "x": token}
    spool(home, "torn.json", json.dumps(whole)[:kept])
    assert recovery.sweep_spool(home, log) == (0, 1)
    (aside,) = put_aside.bad_spooled(home)
    assert os.stat(aside.path).st_mode & 0o777 == 0o600
    with open(aside.path, encoding="utf-8") as file:
        text = file.read()
    assert text.startswith('{"id": ')
    assert "xylophone" not in text
    assert token not in text


def test_a_file_that_cannot_be_opened_stays_and_holds_up_no_other(home, log):
    os.makedirs(os.path.join(home.spool, "0.json"))  # opening it fails, for root too
    spool(home, "1.json", json.dumps(record(1)))
    with pytest.raises(MemsearchError) as failed:
        recovery.sweep_spool(home, log)
    assert failed.value.kind is ErrorClass.PERMISSION
    assert "0.json" in failed.value.message
    assert log.value("SELECT COUNT(*) FROM hooks") == 1
    assert [os.path.basename(path) for path in recovery.spooled(home)] == ["0.json"]


def test_what_a_killed_hook_left_half_written_goes_after_an_hour(home, log):
    old = spool(home, ".old.json", "{")
    young = spool(home, ".young.json", "{")
    an_hour_ago = time.time() - recovery.TORN_SECONDS - 1
    os.utime(old, (an_hour_ago, an_hour_ago))
    recovery.sweep_spool(home, log)
    assert not os.path.exists(old)
    assert os.path.exists(young)
