"""Projections: what the events add up to. The same fold runs live and in a rebuild."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from memsearch.config import statedb
from memsearch.pipeline.events import Event, EventType


def table_of(stream: str) -> str:
    """The table that a stream's state lies in."""
    kind = stream.partition(":")[0]
    return {"hook": "hooks", "turn": "turns", "doc": "documents"}[kind]


def fold(db: sqlite3.Connection, event: Event, *, suffix: str = "") -> None:
    """Take one event into the projections.

    Args:
        db: Inside a write transaction.
        event: With its ``seq``, and with its ``body`` where it has one.
        suffix: Of the tables' names; a rebuild fills new tables beside the old ones.
    """
    _FOLDS[event.type](_Fold(db, event, suffix))


class _Fold:
    """An event on its way into the tables."""

    def __init__(self, db: sqlite3.Connection, event: Event, suffix: str) -> None:
        self.db = db
        self.event = event
        self.data: dict[str, Any] = dict(event.data)
        self.suffix = suffix

    def run(self, sql: str, *values: object) -> int:
        return self.db.execute(sql.replace("{s}", self.suffix), values).rowcount

    def update(
        self, table: str, where: str, where_values: tuple[object, ...], **columns: object
    ) -> int:
        columns |= {"updated": self.event.at, "seq": self.event.seq}
        names = ", ".join(f"{name} = ?" for name in columns)
        return self.run(
            f"UPDATE {table}{self.suffix} SET {names} WHERE {where}",
            *columns.values(),
            *where_values,
        )

    def set(self, **columns: object) -> None:
        """Change the row of the event's stream."""
        self.update(table_of(self.event.stream), "stream = ?", (self.event.stream,), **columns)

    def set_document(self, **columns: object) -> None:
        """Change a document's row, unless it has changed again since the work began."""
        self.update(
            "documents",
            "stream = ? AND change = ?",
            (self.event.stream, self.data.get("change")),
            **columns,
        )

    def succeeded(self, stage: str) -> None:
        self.run(
            "INSERT INTO progress{s}(stage, succeeded) VALUES (?, ?)"
            " ON CONFLICT(stage) DO UPDATE SET succeeded = excluded.succeeded, error = NULL",
            stage,
            self.event.at,
        )

    def spend(self) -> None:
        usage = self.data.get("usage")
        if not usage:
            return
        self.run(
            "INSERT INTO usage{s}(day, project, provider, calls, tokens_in, tokens_out, estimated)"
            " VALUES (?, ?, ?, 1, ?, ?, ?)"
            " ON CONFLICT(day, project, provider) DO UPDATE SET calls = calls + 1,"
            " tokens_in = tokens_in + excluded.tokens_in,"
            " tokens_out = tokens_out + excluded.tokens_out,"
            " estimated = estimated + excluded.estimated",
            usage["day"],
            usage.get("project") or "",
            usage["provider"],
            usage.get("tokens_in", 0),
            usage.get("tokens_out", 0),
            int(bool(usage.get("estimated"))),
        )


_DONE = {"state": "done", "attempts": 0, "due": None, "error": None, "error_class": None}
_NEXT = {"attempts": 0, "due": None, "error": None, "error_class": None}


def _hook_received(f: _Fold) -> None:
    e = f.event
    f.db.execute(
        statedb.INSERT_HOOK.format(suffix=f.suffix),
        (e.stream, e.id, f.data["platform"], e.at, e.at, e.seq),
    )


def _hook_captured(f: _Fold) -> None:
    if f.data.get("more"):
        f.set(stage="capture", **_NEXT)
    else:
        f.set(stage="done", **_DONE)
    if f.data.get("path") and f.data.get("resume") is not None:
        f.run(
            "INSERT INTO transcripts{s}(path, platform, inode, resume, updated)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT(path) DO UPDATE SET inode = excluded.inode,"
            " resume = excluded.resume, updated = excluded.updated",
            f.data["path"],
            f.data["platform"],
            f.data.get("inode"),
            f.data["resume"],
            f.event.at,
        )
    f.succeeded("capture")


def _know_project(f: _Fold, project: dict[str, str]) -> None:
    f.run(
        "INSERT INTO projects{s}(memory_dir, root, base, collection, seen) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT(memory_dir) DO UPDATE SET root = excluded.root, base = excluded.base,"
        " collection = excluded.collection, seen = excluded.seen",
        project["memory_dir"],
        project["root"],
        project["base"],
        project["collection"],
        f.event.at,
    )


def _insert_turn(f: _Fold, state: str, stage: str) -> None:
    d, e = f.data, f.event
    project = d.get("project") or {}
    f.run(
        "INSERT OR IGNORE INTO turns{s}(stream, platform, turn, session, project, memory_dir, base,"
        " collection, day, time, at, position, path, captured_id, reason, state, stage, updated,"
        " seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        e.stream,
        d["platform"],
        d["turn"],
        d["session"],
        project.get("root"),
        project.get("memory_dir"),
        project.get("base"),
        project.get("collection"),
        d.get("day"),
        d.get("time"),
        d.get("at"),
        d.get("position", 0),
        d.get("path"),
        e.id,
        d.get("reason"),
        state,
        stage,
        e.at,
        e.seq,
    )
    if project and state == "open":
        _know_project(f, project)


def _turn_captured(f: _Fold) -> None:
    _insert_turn(f, "open", "summarize")


def _turn_skipped(f: _Fold) -> None:
    _insert_turn(f, "skipped", "done")


def _turn_summarized(f: _Fold) -> None:
    f.set(stage="append", summarized_id=f.event.id, **_NEXT)
    f.spend()
    f.succeeded("summarize")


def _turn_appended(f: _Fold) -> None:
    f.set(stage="done", **_DONE)
    f.succeeded("append")


def _turn_forgotten(f: _Fold) -> None:
    # A turn that was never captured here is known from now on too.
    d, e = f.data, f.event
    _, platform, turn = e.stream.split(":", 2)
    f.run(
        "INSERT OR IGNORE INTO turns{s}(stream, platform, turn, session, memory_dir, day, state,"
        " stage, updated, seq) VALUES (?, ?, ?, ?, ?, ?, 'forgotten', 'done', ?, ?)",
        e.stream,
        platform,
        turn,
        d.get("session", ""),
        d.get("memory_dir"),
        d.get("day"),
        e.at,
        e.seq,
    )
    f.set(state="forgotten", stage="done", due=None, error=None, error_class=None)


def _document_changed(f: _Fold) -> None:
    d, e = f.data, f.event
    project = d.get("project") or {}
    f.run(
        "INSERT INTO documents{s}(stream, collection, source, project, path, change, changed_at,"
        " state, stage, updated, seq) VALUES (?, ?, ?, ?, ?, ?, ?, 'open', 'chunk', ?, ?)"
        " ON CONFLICT(stream) DO UPDATE SET path = excluded.path, change = excluded.change,"
        " changed_at = CASE WHEN state = 'open' THEN changed_at ELSE excluded.changed_at END,"
        " state = 'open', stage = 'chunk', attempts = 0, due = NULL, error = NULL,"
        " error_class = NULL, updated = excluded.updated, seq = excluded.seq"
        # What is said of the index is no longer believed.
        + (", indexed_hash = NULL, identity = NULL" if d.get("force") else ""),
        e.stream,
        d["collection"],
        d["source"],
        project.get("root"),
        d["path"],
        e.seq,
        e.at,
        e.at,
        e.seq,
    )
    if project:
        _know_project(f, project)


def _document_chunked(f: _Fold) -> None:
    f.set_document(
        stage="embed",
        mtime_ns=f.data.get("mtime_ns"),
        size=f.data.get("size"),
        hash=f.data.get("hash"),
        chunks=f.data.get("chunks"),
        **_NEXT,
    )
    f.succeeded("chunk")


def _document_embedded(f: _Fold) -> None:
    f.set_document(stage="upsert", **_NEXT)
    f.spend()
    f.succeeded("embed")


def _document_indexed(f: _Fold) -> None:
    f.set_document(
        stage="done",
        indexed_at=f.event.at,
        indexed_mtime_ns=f.data.get("mtime_ns"),
        indexed_size=f.data.get("size"),
        indexed_hash=f.data.get("hash"),
        identity=f.data.get("identity"),
        chunks=f.data.get("chunks"),
        **_DONE,
    )
    f.succeeded("upsert")


def _document_removed(f: _Fold) -> None:
    f.set_document(
        **(_DONE | {"state": "removed"}),
        stage="done",
        indexed_at=None,
        indexed_mtime_ns=None,
        indexed_size=None,
        indexed_hash=None,
        chunks=0,
    )
    f.succeeded("upsert")


def _stage_failed(f: _Fold) -> None:
    d = f.data
    f.set(
        attempts=d["attempt"],
        due=d.get("due"),
        error=f.event.body,
        error_class=d["error_class"],
    )
    f.spend()
    f.run(
        "INSERT INTO progress{s}(stage, failed, error) VALUES (?, ?, ?)"
        " ON CONFLICT(stage) DO UPDATE SET failed = excluded.failed, error = excluded.error",
        d["stage"],
        f.event.at,
        f.event.body,
    )


def _dead_lettered(f: _Fold) -> None:
    f.set(
        state="dead",
        due=None,
        error=f.event.body,
        error_class=f.data["error_class"],
        attempts=f.data.get("attempts", 0),
    )


def _replayed(f: _Fold) -> None:
    f.set(state="open", **_NEXT)


def _discarded(f: _Fold) -> None:
    f.set(state="discarded", due=None)


def _budget_paused(f: _Fold) -> None:
    # A turn waits for tokens, a document for a person who agrees to the cost.
    f.set(due=f.data.get("due"), error=None, error_class=f.data.get("reason", "budget"))


def _digest_summarized(f: _Fold) -> None:
    f.spend()


def _compacted(f: _Fold) -> None:
    f.succeeded("compact")


def _compact_failed(f: _Fold) -> None:
    f.spend()


_FOLDS: dict[EventType, Callable[[_Fold], None]] = {
    EventType.HOOK_RECEIVED: _hook_received,
    EventType.HOOK_CAPTURED: _hook_captured,
    EventType.TURN_CAPTURED: _turn_captured,
    EventType.TURN_SKIPPED: _turn_skipped,
    EventType.TURN_SUMMARIZED: _turn_summarized,
    EventType.TURN_APPENDED: _turn_appended,
    EventType.TURN_FORGOTTEN: _turn_forgotten,
    EventType.DOCUMENT_CHANGED: _document_changed,
    EventType.DOCUMENT_CHUNKED: _document_chunked,
    EventType.DOCUMENT_EMBEDDED: _document_embedded,
    EventType.DOCUMENT_INDEXED: _document_indexed,
    EventType.DOCUMENT_REMOVED: _document_removed,
    EventType.STAGE_FAILED: _stage_failed,
    EventType.DEAD_LETTERED: _dead_lettered,
    EventType.REPLAYED: _replayed,
    EventType.DISCARDED: _discarded,
    EventType.BUDGET_PAUSED: _budget_paused,
    EventType.DIGEST_SUMMARIZED: _digest_summarized,
    EventType.COMPACTED: _compacted,
    EventType.COMPACT_FAILED: _compact_failed,
}
