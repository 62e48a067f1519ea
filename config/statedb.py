"""The layout of ``state.db``: the event log, its projections and Huey's tables in one file.

One file, so that an event and the task it causes commit together. The layout lies here and
not in the pipeline because a hook writes it too, on the agent's time: nothing heavier than
``sqlite3`` may be imported from this module.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time

#: Written to ``PRAGMA user_version``; a database with a newer number is refused.
SCHEMA_VERSION = 1

#: Huey's queue of every stage but the summaries.
QUEUE = "memsearch"
#: Huey's queue of the summaries: slow models must not hold up capture, append and index.
SUMMARY_QUEUE = "memsearch-summarize"
#: Module path that Huey's registry puts before a task's name.
TASK_PREFIX = "memsearch.pipeline.queue."

#: Task priority by stage, larger first. What is begun is finished before new work is taken
#: in; but ``chunk`` goes before ``embed`` and ``upsert``, since those two take all that is
#: ready of a collection at once, and fewer, fuller batches cost less.
PRIORITY = {
    "capture": 1.0,
    "summarize": 1.0,
    "upsert": 2.0,
    "embed": 3.0,
    "chunk": 4.0,
    "append": 5.0,
}

_EVENTS = (
    """CREATE TABLE IF NOT EXISTS events(
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        stream TEXT NOT NULL,
        type TEXT NOT NULL,
        at TEXT NOT NULL,
        data TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS events_stream ON events(stream, seq)",
    "CREATE INDEX IF NOT EXISTS events_type ON events(type, seq)",
    """CREATE TRIGGER IF NOT EXISTS events_keep BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS events_stay BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END""",
    # Tokens set aside for calls under way; what a killed worker leaves is counted as spent.
    """CREATE TABLE IF NOT EXISTS reservations(
        stream TEXT NOT NULL PRIMARY KEY, day TEXT NOT NULL, project TEXT NOT NULL,
        provider TEXT NOT NULL, tokens INTEGER NOT NULL) WITHOUT ROWID""",
    # Texts lie beside the log, so that a text can be dropped while the fact stays.
    """CREATE TABLE IF NOT EXISTS payloads(
        event_id TEXT NOT NULL PRIMARY KEY,
        body TEXT NOT NULL) WITHOUT ROWID""",
    # Collections that are built anew aside, until they are swapped in (``pipeline.renewal``).
    """CREATE TABLE IF NOT EXISTS renewals(
        collection TEXT NOT NULL PRIMARY KEY, identity TEXT NOT NULL, old TEXT NOT NULL,
        started TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, due REAL,
        error TEXT) WITHOUT ROWID""",
    # What embedding the documents that wait for a person's word would take (``pipeline.cost``);
    # ``share`` is the part of a request.
    """CREATE TABLE IF NOT EXISTS estimates(
        stream TEXT NOT NULL PRIMARY KEY, collection TEXT NOT NULL, model TEXT NOT NULL,
        texts INTEGER NOT NULL, tokens INTEGER NOT NULL, share REAL NOT NULL) WITHOUT ROWID""",
    # What hooks bring of a conversation, unredacted until the capture stage's first look.
    """CREATE TABLE IF NOT EXISTS messages(
        event_id TEXT NOT NULL PRIMARY KEY,
        body TEXT NOT NULL) WITHOUT ROWID""",
)

_WORK = """state TEXT NOT NULL, stage TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0, due REAL,
        error TEXT, error_class TEXT, updated TEXT NOT NULL, seq INTEGER NOT NULL"""

#: The projections, by table. ``{suffix}`` lets a rebuild fill new tables beside the old.
PROJECTIONS = {
    "hooks": f"""CREATE TABLE IF NOT EXISTS hooks{{suffix}}(
        stream TEXT PRIMARY KEY, event_id TEXT NOT NULL, platform TEXT NOT NULL,
        at TEXT NOT NULL, {_WORK})""",
    "turns": f"""CREATE TABLE IF NOT EXISTS turns{{suffix}}(
        stream TEXT PRIMARY KEY, platform TEXT NOT NULL, turn TEXT NOT NULL,
        session TEXT NOT NULL, project TEXT, memory_dir TEXT, base TEXT, collection TEXT,
        day TEXT, time TEXT, at TEXT, position INTEGER NOT NULL DEFAULT 0,
        path TEXT, captured_id TEXT, summarized_id TEXT, reason TEXT, {_WORK})""",
    "documents": f"""CREATE TABLE IF NOT EXISTS documents{{suffix}}(
        stream TEXT PRIMARY KEY, collection TEXT NOT NULL, source TEXT NOT NULL,
        project TEXT, path TEXT NOT NULL, change INTEGER NOT NULL, changed_at TEXT NOT NULL,
        mtime_ns INTEGER, size INTEGER, hash TEXT, chunks INTEGER,
        indexed_at TEXT, indexed_mtime_ns INTEGER, indexed_size INTEGER, indexed_hash TEXT,
        identity TEXT, {_WORK})""",
    "transcripts": """CREATE TABLE IF NOT EXISTS transcripts{suffix}(
        path TEXT PRIMARY KEY, platform TEXT NOT NULL, inode INTEGER, resume INTEGER NOT NULL,
        updated TEXT NOT NULL)""",
    "projects": """CREATE TABLE IF NOT EXISTS projects{suffix}(
        memory_dir TEXT PRIMARY KEY, root TEXT NOT NULL, base TEXT NOT NULL,
        collection TEXT NOT NULL, seen TEXT NOT NULL)""",
    "usage": """CREATE TABLE IF NOT EXISTS usage{suffix}(
        day TEXT NOT NULL, project TEXT NOT NULL, provider TEXT NOT NULL,
        calls INTEGER NOT NULL DEFAULT 0, tokens_in INTEGER NOT NULL DEFAULT 0,
        tokens_out INTEGER NOT NULL DEFAULT 0, estimated INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY(day, project, provider)) WITHOUT ROWID""",
    "progress": """CREATE TABLE IF NOT EXISTS progress{suffix}(
        stage TEXT PRIMARY KEY, succeeded TEXT, failed TEXT, error TEXT) WITHOUT ROWID""",
}

#: Partial indexes on what is not at its end, which keeps a refill at milliseconds.
PROJECTION_INDEXES = (
    "CREATE INDEX IF NOT EXISTS hooks_open ON hooks(seq, due) WHERE state = 'open'",
    "CREATE INDEX IF NOT EXISTS hooks_dead ON hooks(state) WHERE state = 'dead'",
    "CREATE INDEX IF NOT EXISTS turns_open ON turns(platform, session, at, position)"
    " WHERE state = 'open'",
    "CREATE INDEX IF NOT EXISTS turns_dead ON turns(state) WHERE state = 'dead'",
    "CREATE INDEX IF NOT EXISTS documents_open ON documents(collection, stage)"
    " WHERE state = 'open'",
)

# Word for word what Huey's SqliteStorage creates; a test holds the two together.
HUEY = (
    "create table if not exists kv (queue text not null, key text not null, "
    "value blob not null, primary key(queue, key))",
    "create table if not exists schedule (id integer not null primary key, "
    "queue text not null, data blob not null, timestamp real not null)",
    "create index if not exists schedule_queue_timestamp on schedule (queue, timestamp)",
    "create table if not exists task (id integer not null primary key, queue text not null, "
    "data blob not null, priority real not null default 0.0)",
    "create index if not exists task_queue_priority_id on task (queue, priority desc, id)",
    "create table if not exists counter (queue text not null, key text not null, "
    "value integer not null default 0, primary key(queue, key))",
)

INSERT_EVENT = "INSERT INTO events(id, stream, type, at, data) VALUES (?, ?, ?, ?, ?)"
INSERT_PAYLOAD = "INSERT OR REPLACE INTO payloads(event_id, body) VALUES (?, ?)"
INSERT_MESSAGE = "INSERT OR REPLACE INTO messages(event_id, body) VALUES (?, ?)"
#: The fold of ``HookReceived``; the hook and the pipeline run the same statement.
INSERT_HOOK = (
    "INSERT OR IGNORE INTO hooks{suffix}"
    "(stream, event_id, platform, at, state, stage, updated, seq)"
    " VALUES (?, ?, ?, ?, 'open', 'capture', ?, ?)"
)
INSERT_TASK = "INSERT INTO task(queue, data, priority) VALUES (?, ?, ?)"


def utc_now(now: float | None = None) -> str:
    """The moment as it is written in events: UTC, ISO 8601, milliseconds, ``Z``."""
    now = time.time() if now is None else now
    whole = int(now)
    day = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{day}.{int((now - whole) * 1000):03d}Z"


def new_id() -> str:
    """A fresh event id: 32 hex digits. ``os.urandom``, since ``uuid`` costs an import."""
    return os.urandom(16).hex()


def schema_statements() -> list[str]:
    """Every statement that an empty ``state.db`` needs, in order."""
    statements = list(_EVENTS)
    statements += [ddl.format(suffix="") for ddl in PROJECTIONS.values()]
    statements += PROJECTION_INDEXES
    statements += HUEY
    return statements


def user_version(db: sqlite3.Connection) -> int:
    """The layout's number in the file; 0 for a new one."""
    row = db.execute("PRAGMA user_version").fetchone()
    return int(row[0])


def create_schema(db: sqlite3.Connection) -> None:
    """Create what is missing. The caller holds a write transaction."""
    for statement in schema_statements():
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def task_row(stage: str, key: str) -> bytes:
    """A task in the message form that Huey's decoder reads: a JSON object by field name.

    Args:
        stage: The task's name.
        key: Its one argument: a stream, a session's key or a collection.
    """
    message = {
        "id": new_id(),
        "name": TASK_PREFIX + stage,
        "args": [key],
        "kwargs": {},
        "retries": 0,
        "retry_delay": 0,
        "priority": PRIORITY[stage],
    }
    return json.dumps(message, ensure_ascii=False).encode("utf-8")


def insert_hook(db: sqlite3.Connection, record: dict[str, object]) -> None:
    """The statements of one accepted hook, inside the caller's transaction. Twice is once."""
    hook, at = str(record["id"]), str(record["at"])
    data = record["data"]
    assert isinstance(data, dict)
    stream = "hook:" + hook
    # ASCII JSON: a path that is not UTF-8 comes as surrogates, which SQLite would refuse.
    if db.execute("SELECT 1 FROM events WHERE id = ?", (hook,)).fetchone():
        return
    cursor = db.execute(
        INSERT_EVENT,
        (hook, stream, "HookReceived", at, json.dumps(data)),
    )
    db.execute(
        INSERT_HOOK.format(suffix=""),
        (stream, hook, data["platform"], at, at, cursor.lastrowid),
    )
    if record.get("message"):
        db.execute(INSERT_MESSAGE, (hook, record["message"]))
    db.execute(INSERT_TASK, (QUEUE, task_row("capture", stream), PRIORITY["capture"]))
