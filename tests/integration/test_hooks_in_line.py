"""Hooks that come at once stand in line for the database, and the line holds nobody up for good."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from memsearch.config import statedb
from memsearch.config.paths import Home
from memsearch.hooks import enqueue
from memsearch.pipeline import backup

#: Takes the first place, says so, and keeps it until its input ends.
HOLDER = """
import sys, time
from memsearch.config.paths import Home
from memsearch.hooks import enqueue
place = enqueue.stand_in_line(Home(sys.argv[1]), time.monotonic() + 60)
print(place is not None, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path):
    found = Home(str(tmp_path / "home"))
    enqueue.make_home(found)
    return found


@pytest.fixture
def holder(home):
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, home.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def record(number):
    data = {"platform": "codex", "session": f"s{number}"}
    return {"id": statedb.new_id(), "at": statedb.utc_now(), "data": data, "message": None}


def events(home):
    with closing(sqlite3.connect(home.state_db)) as db:
        return db.execute("SELECT count(*) FROM events").fetchone()[0]


def in_line(home):
    """Whether a process waits for the first place (the kernel lists who is blocked)."""
    inode = f":{os.stat(home.hooks_lock).st_ino} "
    with open("/proc/locks", encoding="ascii") as file:
        return any("->" in line and inode in line for line in file)


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the kernel does not list its locks")
def test_a_hook_waits_for_the_one_before_it_and_goes_on_at_once(home, holder):
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            "import sys; from memsearch.hooks import enqueue; enqueue.LINE_BOUND_SECONDS = 60.0\n"
            "sys.exit(enqueue.main(['--platform', 'codex']))",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "MEMSEARCH_HOME": home.root,
            "MEMSEARCH_WORKERS__AUTOSTART": "0",
        },
    )
    with waiting:
        waiting.stdin.write(b'{"session_id": "s"}')
        waiting.stdin.close()
        while not in_line(home):
            assert waiting.poll() is None
        assert not os.path.exists(home.state_db)
        holder.stdin.close()
        assert waiting.stdout.read() == b"{}\n"
        assert waiting.wait(60) == 0
    assert events(home) == 1
    assert not os.path.exists(home.spool)


def test_behind_a_hook_that_was_stopped_the_spool_takes_the_next(home, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    for session in ("a", "b"):
        assert enqueue.store(home, {"platform": "codex", "session": session}, None, 0.0) == "spool"
    assert len(os.listdir(home.spool)) == 2
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_killed_hook_leaves_the_line(home, holder):
    holder.kill()
    holder.wait()
    place = enqueue.stand_in_line(home, 0.0)
    assert place is not None
    os.close(place)


@pytest.mark.parametrize("lock", ["a folder", "no folder"])
def test_without_a_line_the_database_is_asked_all_the_same(home, lock):
    if lock == "a folder":
        os.mkdir(home.hooks_lock)
    else:
        os.rmdir(home.run)
    enqueue.commit(home, record(1))
    assert events(home) == 1


def test_the_place_is_given_up_with_the_commit(home):
    enqueue.commit(home, record(1))
    with open(home.hooks_lock, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_log_that_is_swapped_under_a_hook_loses_nothing(home, monkeypatch, capsys):
    """A hook without a place in the line writes to the old file; it is spooled as well."""
    enqueue.commit(home, record(1))
    insert = statedb.insert_hook

    def swapped_meanwhile(db, told):
        insert(db, told)
        with closing(sqlite3.connect(home.root + "/fresh")) as copy:
            copy.execute("VACUUM")
        os.link(home.state_db, home.state_db + ".damaged-1")
        os.replace(home.root + "/fresh", home.state_db)

    monkeypatch.setattr(statedb, "insert_hook", swapped_meanwhile)
    assert enqueue.store(home, {"platform": "codex", "session": "s"}, None, 0.0) == "spool"
    assert len(os.listdir(home.spool)) == 1
    said = capsys.readouterr().err
    assert "waits in the spool" in said
    assert "was put aside while it was written" in said  # it says why, whatever it was


def test_a_swap_of_the_log_holds_hooks_back(home):
    with backup._hooks_held_back(home), pytest.raises(sqlite3.OperationalError):
        enqueue.stand_in_line(home, 0.0)
    place = enqueue.stand_in_line(home, 0.0)
    assert place is not None
    os.close(place)


def test_a_stopped_hook_does_not_hold_up_a_swap(home, holder, monkeypatch):
    monkeypatch.setattr(backup, "LINE_SECONDS", 0.05)
    os.kill(holder.pid, signal.SIGSTOP)
    with backup._hooks_held_back(home):
        pass
