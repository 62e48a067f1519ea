"""The event log: append-only, one transaction, the same fold live and in a rebuild."""

import sqlite3

import pytest

from memsearch.config import statedb
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.log import EventLog
from memsearch.pipeline.rebuild import is_whole, rebuild

PROJECT = {"root": "/w", "memory_dir": "/w/.memsearch/memory", "base": "/w", "collection": "c"}


@pytest.fixture
def log(tmp_path):
    opened = EventLog(str(tmp_path / "state.db"))
    yield opened
    opened.close()


def captured(turn: str, at: str = "2026-03-03T10:00:00Z") -> Event:
    return Event(
        turn_stream("codex", turn),
        EventType.TURN_CAPTURED,
        {
            "platform": "codex",
            "turn": turn,
            "session": "s",
            "project": PROJECT,
            "day": "2026-03-03",
            "time": "10:00",
            "at": at,
        },
        body="{}",
    )


def story(log: EventLog) -> None:
    """Every type of event at least once."""
    with log.transaction() as tx:
        tx.insert_hook({"id": "1" * 32, "at": statedb.utc_now(), "data": {"platform": "codex"}})
        hook = "hook:" + "1" * 32
        tx.append(
            Event(
                hook,
                EventType.HOOK_CAPTURED,
                {"platform": "codex", "path": "/t", "inode": 5, "resume": 90},
            )
        )
        for turn in ("a", "b", "c", "d", "e"):
            tx.append(captured(turn))
        tx.append(
            Event(
                turn_stream("codex", "z"),
                EventType.TURN_SKIPPED,
                {"platform": "codex", "turn": "z", "session": "s", "reason": "private"},
            )
        )
        usage = {"day": "2026-03-03", "project": "/w", "provider": "openai", "tokens_in": 7}
        tx.append(
            Event(turn_stream("codex", "a"), EventType.TURN_SUMMARIZED, {"usage": usage}, body="[]")
        )
        tx.append(Event(turn_stream("codex", "a"), EventType.TURN_APPENDED, {}))
        failed = {
            "stage": "summarize",
            "error_class": "timeout",
            "attempt": 1,
            "due": 5.0,
            "usage": usage,
        }
        for turn in ("b", "c", "d"):
            tx.append(
                Event(turn_stream("codex", turn), EventType.STAGE_FAILED, failed, body="slow")
            )
            dead = {"stage": "summarize", "error_class": "timeout", "attempts": 1}
            tx.append(Event(turn_stream("codex", turn), EventType.DEAD_LETTERED, dead, body="slow"))
        tx.append(Event(turn_stream("codex", "b"), EventType.REPLAYED, {}))
        tx.append(Event(turn_stream("codex", "c"), EventType.DISCARDED, {}))
        tx.append(Event(turn_stream("codex", "d"), EventType.TURN_FORGOTTEN, {}))
        tx.append(Event(turn_stream("codex", "e"), EventType.BUDGET_PAUSED, {"due": 9.0}))
        for source in ("x.md", "y.md", "y.md"):
            change = tx.append(
                Event(
                    f"doc:c/{source}",
                    EventType.DOCUMENT_CHANGED,
                    {
                        "collection": "c",
                        "source": source,
                        "path": f"/w/{source}",
                        "project": PROJECT,
                    },
                )
            )
            facts = {"change": change.seq, "chunks": 2, "mtime_ns": 1, "size": 2, "hash": "h"}
            tx.append(Event(f"doc:c/{source}", EventType.DOCUMENT_CHUNKED, facts))
            tx.append(Event(f"doc:c/{source}", EventType.DOCUMENT_EMBEDDED, facts))
            tx.append(
                Event(f"doc:c/{source}", EventType.DOCUMENT_INDEXED, facts | {"identity": "i"})
            )
        tx.append(Event("doc:c/y.md", EventType.DOCUMENT_REMOVED, {"change": change.seq}))
        tx.append(Event("compact:c", EventType.COMPACT_FAILED, {"usage": usage}, body="slow"))
        tx.append(Event("compact:c", EventType.DIGEST_SUMMARIZED, {"usage": usage}, body="[]"))
        tx.append(Event("compact:c", EventType.COMPACTED, {"moved": ["2026-02-03.md"]}))


def projections(log: EventLog) -> dict[str, list[tuple]]:
    return {
        table: sorted(tuple(row) for row in log.rows(f"SELECT * FROM {table}"))
        for table in statedb.PROJECTIONS
    }


def test_the_story_tells_every_type_of_event(log):
    story(log)
    told = {row["type"] for row in log.rows("SELECT DISTINCT type FROM events")}
    assert told == {kind.value for kind in EventType}


def test_a_rebuild_gives_what_the_live_fold_gave(log):
    story(log)
    before = projections(log)
    assert rebuild(log) == log.value("SELECT COUNT(*) FROM events")
    assert projections(log) == before


@pytest.mark.parametrize("table", sorted(set(statedb.PROJECTIONS)))
def test_a_deleted_projection_is_noticed_and_comes_back(log, table):
    story(log)
    before = projections(log)
    assert is_whole(log)
    with log.transaction() as tx:
        tx.execute(f"DROP TABLE {table}")
    assert not is_whole(log)
    log.create_missing()
    rebuild(log)
    assert is_whole(log)
    assert projections(log) == before


@pytest.mark.parametrize("table", ["hooks", "turns", "documents"])
def test_an_emptied_projection_is_noticed(log, table):
    story(log)
    with log.transaction() as tx:
        tx.execute(f"DELETE FROM {table}")
    assert not is_whole(log)


def test_states_after_the_story(log):
    story(log)
    states = {row["turn"]: row["state"] for row in log.rows("SELECT turn, state FROM turns")}
    assert states == {
        "a": "done",
        "b": "open",
        "c": "discarded",
        "d": "forgotten",
        "e": "open",
        "z": "skipped",
    }
    assert log.row("SELECT calls, tokens_in FROM usage")["calls"] == 6
    documents = {
        row["source"]: row["state"] for row in log.rows("SELECT source, state FROM documents")
    }
    assert documents == {"x.md": "done", "y.md": "removed"}


def test_work_for_an_older_change_of_a_document_changes_nothing(log):
    changed = Event(
        "doc:c/x.md",
        EventType.DOCUMENT_CHANGED,
        {"collection": "c", "source": "x.md", "path": "/x.md"},
    )
    with log.transaction() as tx:
        old = tx.append(changed)
        tx.append(Event("doc:c/x.md", EventType.DOCUMENT_CHANGED, changed.data))
        tx.append(Event("doc:c/x.md", EventType.DOCUMENT_INDEXED, {"change": old.seq}))
    row = log.row("SELECT state, stage FROM documents")
    assert (row["state"], row["stage"]) == ("open", "chunk")


@pytest.mark.parametrize("sql", ["UPDATE events SET type = 'x'", "DELETE FROM events"])
def test_the_log_refuses_to_be_changed(log, sql):
    story(log)
    with pytest.raises(MemsearchError, match="append-only"), log.transaction() as tx:
        tx.execute(sql)


def test_an_error_in_a_transaction_leaves_nothing_of_it(log):
    with pytest.raises(ZeroDivisionError), log.transaction() as tx:
        tx.append(captured("a"))
        tx.add_task("summarize", "a")
        raise ZeroDivisionError
    assert log.value("SELECT COUNT(*) FROM events") == 0
    assert log.value("SELECT COUNT(*) FROM turns") == 0
    assert log.value("SELECT COUNT(*) FROM task") == 0


def test_a_hook_that_is_taken_in_twice_is_one(log):
    record = {"id": "2" * 32, "at": statedb.utc_now(), "data": {"platform": "codex"}}
    for _ in range(2):
        with log.transaction() as tx:
            tx.insert_hook(record)
    assert log.value("SELECT COUNT(*) FROM events") == 1
    assert log.value("SELECT COUNT(*) FROM task") == 1


def test_a_file_that_is_no_database_is_told_from_a_newer_one(tmp_path):
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database" * 1000)
    with pytest.raises(MemsearchError) as damaged:
        EventLog(str(broken))
    assert damaged.value.kind is ErrorClass.DAMAGED
    newer = tmp_path / "newer.db"
    db = sqlite3.connect(newer)
    db.execute(f"PRAGMA user_version = {statedb.SCHEMA_VERSION + 1}")
    db.close()
    with pytest.raises(MemsearchError, match="newer memsearch"):
        EventLog(str(newer))
