"""Copies of the log, damage, and the way back. Real files."""

import os
import sqlite3
from contextlib import closing

import pytest
from builders import captured, write

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.pipeline import backup
from memsearch.pipeline.log import EventLog


@pytest.fixture
def home(tmp_path):
    made = Home(str(tmp_path / "home"))
    made.create()
    return made


def fill(home, *turns: str) -> None:
    log = EventLog(home.state_db)
    for turn in turns:
        write(log, captured(turn, 1.8e9))
    log.checkpoint()
    log.close()


def turns(path: str) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("SELECT turn FROM turns ORDER BY turn")]


def break_file(path: str) -> None:
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for offset in range(2048, size, 1024):
            file.seek(offset)
            file.write(b"\xa5" * 512)


def test_a_copy_is_whole_private_and_taken_while_the_log_is_written(home):
    log = EventLog(home.state_db)
    try:
        write(log, captured("a", 1.8e9))
        path = backup.back_up(home)
        write(log, captured("b", 1.8e9))
    finally:
        log.close()
    assert turns(path) == ["a"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_two_copies_are_kept_newest_first(home):
    for number in range(4):
        fill(home, f"t{number}")
        backup.back_up(home)
    assert [turns(path)[-1] for path in backup.copies(home)] == ["t3", "t2"]
    assert len(os.listdir(home.root)) == len(set(os.listdir(home.root)))


def test_a_damaged_log_is_never_copied_over_a_good_copy(home):
    fill(home, "a")
    good = backup.back_up(home)
    fill(home, *[f"x{number}" for number in range(200)])
    break_file(home.state_db)
    with pytest.raises(MemsearchError) as error:
        backup.back_up(home)
    assert error.value.kind is ErrorClass.DAMAGED
    assert turns(good) == ["a"]
    assert not [name for name in os.listdir(home.root) if name.endswith(".new")]


def test_the_newest_sound_copy_takes_the_place_and_the_damaged_file_is_kept(home):
    fill(home, "a")
    backup.back_up(home)
    fill(home, "b")
    newest = backup.back_up(home)
    break_file(newest)
    break_file(home.state_db)
    with pytest.raises(MemsearchError):
        backup.check(home.state_db)
    copy, aside = backup.restore(home)
    assert turns(copy) == turns(home.state_db) == ["a"]
    assert os.path.exists(aside)
    backup.check(home.state_db)


def test_without_a_sound_copy_nothing_is_changed(home):
    with open(home.state_db, "wb") as file:
        file.write(b"no database" * 1000)
    with pytest.raises(MemsearchError, match="no sound copy"):
        backup.restore(home)
    with open(home.state_db, "rb") as file:
        assert file.read() == b"no database" * 1000


def test_hooks_that_came_after_the_copy_are_taken_out_of_the_damaged_file(home):
    fill(home, "a")
    backup.back_up(home)
    log = EventLog(home.state_db)
    for number in range(30):
        with log.transaction() as tx:
            tx.insert_hook(
                {
                    "id": f"{number:032x}",
                    "at": statedb.utc_now(),
                    "data": {"platform": "codex", "path": "/t"},
                    "message": "words",
                }
            )
    log.checkpoint()
    log.close()
    # One page of an index is enough to damage a file; the rows can be read all the same.
    with closing(sqlite3.connect(home.state_db)) as db:
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'turns'").fetchone()[0]
        page = db.execute("PRAGMA page_size").fetchone()[0]
    with open(home.state_db, "r+b") as file:
        file.seek((root - 1) * page)
        file.write(b"\xa5" * page)
    with pytest.raises(MemsearchError):
        backup.check(home.state_db)
    _, aside = backup.restore(home)
    assert backup.salvage(home, aside) == 30
    with closing(sqlite3.connect(home.state_db)) as db:
        assert db.execute("SELECT COUNT(*) FROM hooks").fetchone() == (30,)
        assert db.execute("SELECT COUNT(*) FROM task").fetchone()[0] >= 30


def test_a_copy_is_due_when_the_log_changed_long_enough_ago(home):
    fill(home, "a")
    now = os.stat(home.state_db).st_mtime
    assert backup.is_due(home, now)
    path = backup.back_up(home)
    os.utime(path, (now, now))
    os.utime(home.state_db, (now + 5, now + 5))
    assert not backup.is_due(home, now + 10)
    assert backup.is_due(home, now + backup.EVERY_SECONDS + 1)
    os.utime(home.state_db, (now - 5, now - 5))
    assert not backup.is_due(home, now + backup.EVERY_SECONDS + 1)
    assert backup.is_due(home, now - 86_400)  # the clock was set back, by a day or a year


def test_a_copy_holds_no_message_that_waits_to_be_redacted(home):
    log = EventLog(home.state_db)
    record = {"at": statedb.utc_now(), "data": {"platform": "codex", "path": "/t"}}
    with log.transaction() as tx:
        for number in range(40):
            tx.insert_hook(record | {"id": f"{number:032x}", "message": "MARKER " * 50 * number})
    path = backup.back_up(home)
    assert log.value("SELECT COUNT(*) FROM messages") == 39, "the log itself still waits for them"
    log.close()
    with open(path, "rb") as file:
        assert b"MARKER" not in file.read()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM hooks").fetchone() == (40,)
