"""Opening agents' databases: nothing written, nothing created, errors by what can be done."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources import sqlite_store
from memsearch.sources.sqlite_store import open_readonly, quoted, read_json, tables

TABLE = quoted('a "b')


def make(path: Path, mode: str) -> Path:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA journal_mode = {mode}").fetchall()
        db.execute('CREATE TABLE "a ""b"(id INTEGER PRIMARY KEY, data TEXT)')
        db.execute('INSERT INTO "a ""b"(data) VALUES (?)', ('{"x": 1}',))
    return path


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_reading_leaves_nothing_behind(mode: str, tmp_path: Path) -> None:
    path = make(tmp_path / "a b?#%.db", mode)
    before = path.read_bytes()
    with open_readonly(str(path)) as db:
        assert tables(db) == {'a "b': frozenset({"id", "data"})}
        assert read_json(db, 'a "b', "data", 1, 8) == {"x": 1}
        assert os.listdir(tmp_path) == [path.name]
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_nothing_can_be_written(mode: str, tmp_path: Path) -> None:
    path = make(tmp_path / "x.db", mode)
    with (
        pytest.raises(MemsearchError, match="readonly"),
        open_readonly(str(path)) as db,
    ):
        db.execute("CREATE TABLE other(id)")


def test_what_a_writer_committed_is_seen(tmp_path: Path) -> None:
    path = make(tmp_path / "x.db", "wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(f"INSERT INTO {TABLE}(data) VALUES ('{{}}')")
        with open_readonly(str(path)) as db:
            assert db.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0] == 2


def test_a_database_that_is_held_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "BUSY_SECONDS", 0.05)
    path = make(tmp_path / "x.db", "delete")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with (
            pytest.raises(MemsearchError, match="held by its agent") as caught,
            open_readonly(str(path)) as db,
        ):
            tables(db)
    assert caught.value.kind is ErrorClass.BUSY


def test_a_damaged_database_is_a_bad_file(tmp_path: Path) -> None:
    path = make(tmp_path / "x.db", "delete")
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5_000)
    with pytest.raises(MemsearchError) as caught, open_readonly(str(path)) as db:
        tables(db)
    assert caught.value.kind is ErrorClass.BAD_FILE


def test_a_long_field_is_cut_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    text = '{"a": "' + "x" * 20_000_000 + '", "b": "end"}'
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE t(data TEXT)")
        db.execute("INSERT INTO t VALUES (?)", (text,))
    with open_readonly(str(path)) as db:
        record = read_json(db, "t", "data", 1, len(text))
    assert record is not None
    assert record["b"] == "end"
    assert len(record["a"]) < 1_000_000


@pytest.mark.parametrize("text", ["", "[1]", "{", "null", "{" * 100_000])
def test_what_is_no_object_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE t(data TEXT)")
        db.execute("INSERT INTO t VALUES (?)", (text,))
    with open_readonly(str(path)) as db:
        assert read_json(db, "t", "data", 1, len(text)) is None
