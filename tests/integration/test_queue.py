"""Huey on the log's file: rows, schedule, kills. Real SQLite, real Huey."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time

import pytest
from huey.storage import SqliteStorage

from memsearch.config import statedb
from memsearch.pipeline import queue
from memsearch.pipeline.log import EventLog


@pytest.fixture
def log(tmp_path):
    opened = EventLog(str(tmp_path / "state.db"))
    yield opened
    opened.close()


@pytest.fixture
def huey(log):
    made = queue.make_huey(statedb.QUEUE, log)
    other = queue.make_huey(statedb.SUMMARY_QUEUE, log)
    ran = []
    queue.register(
        {statedb.QUEUE: made, statedb.SUMMARY_QUEUE: other}, lambda *work: ran.append(work)
    )
    made.ran = ran
    yield made
    made.storage.close()
    other.storage.close()


def test_a_hooks_raw_task_row_is_what_hueys_decoder_reads(log, huey):
    with log.transaction() as tx:
        tx.insert_hook({"id": "a" * 32, "at": statedb.utc_now(), "data": {"platform": "codex"}})
    task = huey.dequeue()
    assert type(task).__module__ + "." + type(task).__name__ == statedb.TASK_PREFIX + "capture"
    assert task.args == ["hook:" + "a" * 32]
    assert (task.retries, task.eta, task.expires) == (0, None, None)
    huey.execute(task)
    assert huey.ran == [("capture", "hook:" + "a" * 32)]


def test_our_rows_hold_the_fields_that_hueys_own_row_holds(log, huey):
    huey.enqueue(huey._registry.string_to_task(statedb.TASK_PREFIX + "chunk")(("key",)))
    own = json.loads(log.value("SELECT data FROM task"))
    ours = json.loads(statedb.task_row("chunk", "key"))
    assert set(ours) <= set(own) | {"priority"}
    assert (own["name"], own["args"]) == (ours["name"], ours["args"])


def test_unknown_fields_are_dropped_and_garbage_does_not_stop_the_queue(log, huey):
    message = json.loads(statedb.task_row("chunk", "中文 key"))
    with log.transaction() as tx:
        insert = statedb.INSERT_TASK
        tx.execute(insert, (statedb.QUEUE, b"\xff not json", 9.0))
        tx.execute(insert, (statedb.QUEUE, json.dumps(message | {"novel": 1}).encode(), 1.0))
    with pytest.raises(ValueError, match=r"codec|JSON"):
        huey.dequeue()
    assert huey.dequeue().args == ["中文 key"]


def test_the_tables_are_hueys_own(log):
    def columns(db, table):
        return [tuple(row)[1:] for row in db.execute(f"PRAGMA table_info({table})")]

    theirs = sqlite3.connect(":memory:")
    for ddl in SqliteStorage.ddl:
        theirs.execute(ddl)
    ours = sqlite3.connect(log.path)
    try:
        for table in ("kv", "schedule", "task", "counter"):
            assert columns(ours, table) == columns(theirs, table)

        def indexes(db):
            return {
                re.sub(r"\s+", " ", row[0].lower())
                for row in db.execute("SELECT sql FROM sqlite_master WHERE type = 'index'")
                if row[0] and ("schedule" in row[0] or "on task" in row[0])
            }

        assert indexes(ours) == indexes(theirs)
    finally:
        ours.close()
        theirs.close()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/St_Johns"])
def test_what_is_due_moves_into_the_queue_in_every_time_zone(tmp_path, zone):
    """Huey passes a naive UTC time; taken for a local one it is hours off."""
    code = """
import sys, time
from memsearch.config import statedb
from memsearch.pipeline import queue
from memsearch.pipeline.log import EventLog
log = EventLog(sys.argv[1])
huey = queue.make_huey(statedb.QUEUE, log)
other = queue.make_huey(statedb.SUMMARY_QUEUE, log)
queue.register({statedb.QUEUE: huey, statedb.SUMMARY_QUEUE: other}, print)
now = time.time()
with log.transaction() as tx:
    tx.add_task("chunk", "past", now - 1)
    tx.add_task("append", "soon", now + 3600)
assert huey.read_schedule() == []
task = huey.dequeue()
assert task.args == ["past"], task
assert huey.dequeue() is None
assert log.value("SELECT COUNT(*) FROM schedule") == 1
"""
    environ = dict(os.environ, TZ=zone)
    command = [sys.executable, "-P", "-W", "ignore::ResourceWarning", "-c", code]
    subprocess.run([*command, str(tmp_path / "state.db")], env=environ, check=True)


def test_a_moved_row_keeps_its_priority(log, huey):
    with log.transaction() as tx:
        tx.add_task("capture", "low", time.time() - 1)
        tx.add_task("append", "high", time.time() - 1)
    huey.read_schedule()
    assert [huey.dequeue().args[0], huey.dequeue().args[0]] == ["high", "low"]


def test_a_kill_in_the_middle_of_the_move_leaves_the_row_in_one_place(tmp_path):
    """The move is one transaction: killed inside it, the row is still in the schedule."""
    path = str(tmp_path / "state.db")
    code = """
import os, sys, time
from memsearch.config import statedb
from memsearch.pipeline import queue
from memsearch.pipeline.log import EventLog
log = EventLog(sys.argv[1])
huey = queue.make_huey(statedb.QUEUE, log)
with log.transaction() as tx:
    tx.add_task("chunk", "key", time.time() - 1)
queue._priority = lambda data: os.kill(os.getpid(), 9)
huey.read_schedule()
"""
    killed = subprocess.run([sys.executable, "-P", "-c", code, path], check=False)
    assert killed.returncode == -9
    db = sqlite3.connect(path)
    try:
        assert db.execute("SELECT COUNT(*) FROM schedule").fetchone() == (1,)
        assert db.execute("SELECT COUNT(*) FROM task").fetchone() == (0,)
    finally:
        db.close()
