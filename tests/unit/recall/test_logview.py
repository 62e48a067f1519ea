"""The projections, read without leaving a trace."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project
from memsearch.recall import logview
from memsearch.recall.logview import Document, LogView, Waiting

NOW = "2026-03-05T10:00:00.000Z"


def make(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        with db:
            statedb.create_schema(db)
            for source, collection, state, mtime, hash_, identity in (
                ("a.md", "c1", "done", 11, "abc", "onnx/e5/chunker-1/keywords-1"),
                ("b.md", "c1", "open", None, None, None),
                ("forced.md", "c1", "open", 11, None, None),
                ("gone.md", "c1", "removed", 5, "abc", None),
                ("a.md", "c2", "dead", 7, "abc", "openai/x/chunker-1/keywords-1"),
            ):
                db.execute(
                    "INSERT INTO documents(stream, collection, source, path, change, changed_at,"
                    " indexed_mtime_ns, indexed_size, indexed_hash, chunks, identity, state, stage,"
                    " updated, seq) VALUES (?, ?, ?, ?, 1, ?, ?, 3, ?, 2, ?, ?, 'chunk', ?, 1)",
                    (f"doc:{collection}/{source}", collection, source, f"/w/{source}", NOW, mtime,
                     hash_, identity, state, NOW),
                )  # fmt: skip
            for turn, state, at in (
                ("t1", "open", "2026-03-05T09:00:00.000Z"),
                ("t2", "open", "2026-03-05T08:00:00.000Z"),
                ("t3", "dead", "2026-03-04T08:00:00.000Z"),
                ("t4", "done", "2026-03-01T08:00:00.000Z"),
            ):
                db.execute(
                    "INSERT INTO turns(stream, platform, turn, session, collection, at, state,"
                    " stage, updated, seq) VALUES (?, 'claude-code', ?, 's', 'c1', ?, ?,"
                    " 'summarize', ?, 1)",
                    (f"turn:claude-code:{turn}", turn, at, state, NOW),
                )
            db.execute(
                "INSERT INTO hooks(stream, event_id, platform, at, state, stage, updated, seq)"
                " VALUES ('hook:1', '1', 'codex', '2026-03-05T07:00:00.000Z', 'open', 'capture',"
                " ?, 1)",
                (NOW,),
            )
            db.execute(
                "INSERT INTO projects(memory_dir, root, base, collection, seen)"
                " VALUES ('/w/.memsearch/memory', '/w', '/w', 'c1', ?)",
                (NOW,),
            )


def test_what_the_log_knows(tmp_path: Path) -> None:
    make(tmp_path / "state.db")
    log = logview.read(str(tmp_path / "state.db"), None)
    assert log.documents_of("c1") == (
        Document("a.md", "/w/a.md", "done", NOW, (11, 3), "onnx/e5", chunks=2),
        Document("b.md", "/w/b.md", "open", NOW, None, "", chunks=2),
        # What the index holds of it is no longer believed.
        Document("forced.md", "/w/forced.md", "open", NOW, None, "", chunks=2),
    )
    assert [document.model for document in log.documents_of("c2")] == ["openai/x"]
    assert log.projects == (Project("/w", "/w/.memsearch/memory", "/w", "c1"),)
    # The oldest of what waits is the hook.
    assert log.waiting_of("c1") == Waiting(2, 1, 1, "2026-03-05T07:00:00.000Z")
    assert log.waiting_of("c2") == Waiting(0, 0, 1, "2026-03-05T07:00:00.000Z")


def test_one_collection_alone(tmp_path: Path) -> None:
    make(tmp_path / "state.db")
    log = logview.read(str(tmp_path / "state.db"), ("c2",))
    assert log.documents_of("c1") == ()
    assert len(log.documents_of("c2")) == 1
    assert log.waiting_of("c1").turns == 0
    assert logview.read(str(tmp_path / "state.db"), ("c' OR 1=1 --",)).documents == {}


def test_no_log_is_an_empty_one_and_stays_none(tmp_path: Path) -> None:
    assert logview.read(str(tmp_path / "state.db"), None) == LogView()
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_our_tables_is_an_empty_log(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute("CREATE TABLE other(x)")
    assert logview.read(str(tmp_path / "state.db"), None) == LogView()


def test_reading_leaves_no_files(tmp_path: Path) -> None:
    folder = tmp_path / "a b#?%20文"
    folder.mkdir()
    make(folder / "state.db")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert set(before) == {"state.db"}
    assert logview.read(str(folder / "state.db"), None).projects
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_what_is_only_in_the_wal_is_seen(tmp_path: Path) -> None:
    make(tmp_path / "state.db")
    with closing(sqlite3.connect(tmp_path / "state.db")) as writer:
        with writer:
            writer.execute("DELETE FROM projects")
        assert (tmp_path / "state.db-wal").stat().st_size > 0
        assert logview.read(str(tmp_path / "state.db"), None).projects == ()
        # And a writer in the middle of its transaction holds nobody up.
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM documents")
        assert len(logview.read(str(tmp_path / "state.db"), None).documents_of("c1")) == 3
        writer.rollback()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"this is no database, " * 100)
    with pytest.raises(MemsearchError) as caught:
        logview.read(str(path), None)
    assert caught.value.kind is ErrorClass.DAMAGED
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("identity", "model"),
    [
        ("onnx/multilingual-e5-small-q4/chunker-1/keywords-2", "onnx/multilingual-e5-small-q4"),
        ("openai/text-embedding-3-small", "openai/text-embedding-3-small"),
        ("", ""),
    ],
)
def test_model_of_an_identity(identity: str, model: str) -> None:
    assert logview.model_of(identity) == model


def test_a_transcript_whose_path_is_not_utf8_is_none_of_the_logs(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make(path)
    assert logview.captured_from(str(path), os.fsdecode(b"/caf\xe9.jsonl")) == ""
