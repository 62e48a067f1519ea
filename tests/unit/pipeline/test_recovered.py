"""What repairs itself: provider outages, late transcripts, emptied tables, copies of a busy log."""

import sqlite3
import threading
import time
from contextlib import closing

import pytest

from memsearch.config import statedb
from memsearch.config.paths import Home
from memsearch.pipeline import auto_replay, backup, dead_letters, retention
from memsearch.pipeline.auto_replay import AutoReplay
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.rebuild import is_whole, rebuild

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


def capture(log: EventLog, turn: str, at: float = NOW) -> None:
    facts = {
        "platform": "codex",
        "turn": turn,
        "session": "s",
        "project": PROJECT,
        "day": "2026-03-03",
        "time": "10:00",
        "at": "2026-03-03T10:00:00Z",
    }
    put(log, turn, EventType.TURN_CAPTURED, at, "the words", **facts)


def put(log, turn, kind, at=NOW, body=None, /, **data) -> None:
    with log.transaction() as tx:
        tx.append(Event(turn_stream("codex", turn), kind, data, body=body, at=statedb.utc_now(at)))


def die(log, turn, at=NOW, kind="server") -> None:
    data = {"stage": "summarize", "error_class": kind, "attempts": 5}
    put(log, turn, EventType.DEAD_LETTERED, at, "500", **data)


def succeed(log, turn, at=NOW) -> None:
    put(log, turn, EventType.TURN_SUMMARIZED, at, usage=None)
    put(log, turn, EventType.TURN_APPENDED, at)


def states(log) -> dict[str, str]:
    return {row["turn"]: row["state"] for row in log.rows("SELECT turn, state FROM turns")}


# -- the provider is back -----------------------------------------------------------------------


def test_letters_of_an_outage_follow_a_success_even_one_that_is_earlier_by_the_clock(log):
    for turn in ("a", "b", "ok"):
        capture(log, turn)
    die(log, "a", NOW + 3600)  # the clock was an hour ahead, and was set back
    die(log, "b", NOW + 3600)
    assert AutoReplay(log).look(60.0, NOW) == 0
    succeed(log, "ok", NOW)
    assert AutoReplay(log).look(60.0, NOW) == 2


def test_a_letter_of_its_own_fault_is_left(log):
    capture(log, "a")
    capture(log, "ok")
    die(log, "a", kind="bad_request")
    succeed(log, "ok")
    assert AutoReplay(log).look(60.0, NOW) == 0


def test_a_letter_that_dies_again_while_others_succeed_is_not_replayed_for_ever(log):
    capture(log, "a")
    capture(log, "ok")
    die(log, "a")
    replay = AutoReplay(log)
    succeed(log, "ok")
    assert replay.look(60.0, NOW) == 1
    capture(log, "fine")
    succeed(log, "fine")
    die(log, "a")
    capture(log, "too")
    succeed(log, "too")
    assert [replay.look(60.0, NOW) for _ in range(5)] == [0] * 5


def test_old_letters_are_looked_at_only_when_something_has_happened(log, monkeypatch):
    for number in range(30):
        capture(log, f"t{number}")
        die(log, f"t{number}", NOW)
    replay = AutoReplay(log)
    looks = []
    monkeypatch.setattr(auto_replay.AutoReplay, "owed", lambda self, *a, **k: looks.append(a) or [])
    for _ in range(20):
        replay.look(60.0, NOW)
    assert len(looks) == len(auto_replay.SUCCESS)
    capture(log, "new")
    replay.look(60.0, NOW)
    assert len(looks) == 2 * len(auto_replay.SUCCESS)


def test_a_hook_that_gave_up_comes_to_its_end_when_its_turn_was_captured_after_all(log):
    for number, turn in ((1, "late"), (2, "never")):
        data = {"platform": "codex", "session": "s", "turn": turn}
        with log.transaction() as tx:
            tx.insert_hook({"id": f"{number:032d}", "at": statedb.utc_now(NOW), "data": data})
            failure = {"stage": "capture", "error_class": "bad_file", "attempts": 7}
            tx.append(Event(f"hook:{number:032d}", EventType.DEAD_LETTERED, failure, body="no"))
    assert dead_letters.replay_captured(log) == 0
    capture(log, "late")
    assert dead_letters.replay_captured(log) == 1
    assert dict(map(tuple, log.rows("SELECT stream, state FROM hooks"))) == {
        f"hook:{1:032d}": "open",
        f"hook:{2:032d}": "dead",
    }
    # Once: a hook that cannot be read for another reason is not sent round and round.
    failure = {"stage": "capture", "error_class": "permission", "attempts": 5}
    with log.transaction() as tx:
        tx.append(Event(f"hook:{1:032d}", EventType.DEAD_LETTERED, failure, body="no"))
    assert dead_letters.replay_captured(log) == 0


# -- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", statedb.PROJECTIONS)
def test_an_emptied_table_is_noticed_and_comes_back(log, table):
    capture(log, "a")
    usage = {"day": "2026-03-03", "provider": "openai", "tokens_in": 5, "tokens_out": 1}
    put(log, "a", EventType.TURN_SUMMARIZED, usage=usage)
    put(log, "a", EventType.TURN_APPENDED, path="/w/m.md")
    with log.transaction() as tx:
        hook = "1" * 32
        tx.insert_hook({"id": hook, "at": statedb.utc_now(NOW), "data": {"platform": "codex"}})
        captured = {"platform": "codex", "path": "/t", "inode": 5, "resume": 90}
        tx.append(Event("hook:" + hook, EventType.HOOK_CAPTURED, captured))
        change = {"collection": "c", "source": "m.md", "path": "/w/m.md", "project": PROJECT}
        tx.append(Event("doc:c/m.md", EventType.DOCUMENT_CHANGED, change))
    assert is_whole(log)
    before = [tuple(row) for row in log.rows(f"SELECT * FROM {table}")]
    assert before
    with log.transaction() as tx:
        tx.execute(f"DELETE FROM {table}")
    assert not is_whole(log)
    rebuild(log)
    assert is_whole(log)
    assert [tuple(row) for row in log.rows(f"SELECT * FROM {table}")] == before


def test_two_rebuilds_at_once_count_nothing_twice(home, log):
    usage = {"day": "2026-03-03", "provider": "openai", "tokens_in": 5, "tokens_out": 1}
    for number in range(400):
        capture(log, f"t{number}")
        put(log, f"t{number}", EventType.TURN_SUMMARIZED, usage=usage)
    others = [EventLog(home.state_db) for _ in range(3)]
    failed = []

    def run(other):
        try:
            rebuild(other)
        except Exception as error:  # told to the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=run, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    assert failed == []
    assert log.value("SELECT calls FROM usage") == 400


# -- copies and texts ------------------------------------------------------------------------------


def test_a_log_that_is_written_without_pause_is_copied_once_and_whole(home, log, monkeypatch):
    monkeypatch.setattr(backup, "PAGES_A_STEP", 4)
    for number in range(300):
        capture(log, f"t{number}")
    over = threading.Event()

    def write() -> None:
        number = 0
        with closing(sqlite3.connect(home.state_db, timeout=30, isolation_level=None)) as db:
            while not over.is_set():
                number += 1
                db.execute(
                    "INSERT INTO kv(queue, key, value) VALUES ('x', ?, ?)",
                    (str(number), bytes(900)),
                )

    writer = threading.Thread(target=write)
    writer.start()
    started = time.monotonic()
    try:
        copy = backup.back_up(home)
    finally:
        over.set()
        writer.join()
    assert time.monotonic() - started < 20
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT COUNT(*) FROM turns").fetchone() == (300,)


def test_a_copy_is_given_up_when_the_worker_is_to_end(home, log):
    capture(log, "a")
    stop = threading.Event()
    stop.set()
    assert backup.back_up(home, stop) is None
    assert backup.copies(home) == []


def test_texts_of_what_ended_long_ago_are_dropped_and_those_of_the_rest_kept(log, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 7)
    old, new = NOW - 40 * 86_400, NOW
    for number in range(20):
        capture(log, f"old{number}", old)
        succeed(log, f"old{number}", old)
    capture(log, "dead", old)
    die(log, "dead", old)
    capture(log, "open", old)
    capture(log, "late", old)
    succeed(log, "late", new)
    assert retention.drop_old_texts(log, 30, NOW) == 20
    kept = log.rows(
        "SELECT t.turn FROM payloads AS p JOIN turns AS t ON t.captured_id = p.event_id"
    )
    assert {row["turn"] for row in kept} == {"dead", "open", "late"}
    assert retention.drop_old_texts(log, 30, NOW) == 0
    assert set(states(log).values()) == {"done", "dead", "open"}
