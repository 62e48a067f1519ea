"""Forgetting: a turn, a session, a day or a text taken out of everything that memsearch keeps.

The one exception to "what a human may have edited is never rewritten", so it is planned and
shown first. What stays is the fact that there was a turn: ``TurnForgotten``, by which capture
and backfill know it and leave it alone.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import write_atomic
from memsearch.config.project import Project, source_of
from memsearch.pipeline import backup, messages, put_aside
from memsearch.pipeline.compact import Said, said_of, say_anew
from memsearch.pipeline.events import Event, EventType, compact_stream, turn_stream
from memsearch.pipeline.index_repair import requeue
from memsearch.pipeline.stages.append import document_changed
from memsearch.sinks.chunker import chunk_document
from memsearch.sinks.documents import walk
from memsearch.sinks.ids import chunk_hash
from memsearch.sinks.journal import journal_day, journal_lock, parse
from memsearch.sinks.store import index_uri

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import EventLog

#: Seconds that entries which are being written at this moment are waited for.
APPEND_SECONDS = 15.0
#: Lines of other notes that mention a text, and that are named at the most.
MAX_MENTIONS = 50
#: Streams or hooks whose texts are dropped in one transaction.
BATCH = 200
#: How often a file is read again that somebody saves meanwhile.
MAX_CHANGED = 5


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be forgotten: one of the four is set.

    Attributes:
        turn: A turn's id.
        session: A session's id.
        day: A local day.
        text: Words that an entry or a conversation holds, in any case.
    """

    turn: str = ""
    session: str = ""
    day: date | None = None
    text: str = ""

    def has_text(self, text: str) -> bool:
        """Whether the words are in a text, or in the JSON of one."""
        wanted = self.text.casefold()
        folded = text.casefold()
        return bool(wanted) and (
            wanted in folded or json.dumps(wanted, ensure_ascii=False)[1:-1] in folded
        )


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of a journal: its lines are 1-based and inclusive."""

    path: str
    line: int
    end_line: int
    heading: str
    platform: str
    session: str
    turn: str


@dataclass(slots=True)
class Plan:
    """What goes."""

    entries: list[Place] = field(default_factory=list)
    #: Streams of turns; of those that the log does not know too.
    turns: list[str] = field(default_factory=list)
    dead_letters: int = 0
    #: Texts in the log: of the turns, their notes, their failures, and of hooks.
    texts: int = 0
    #: Pieces that leave the index.
    chunks: int = 0
    #: Files in the spool that hold something of it.
    spooled: list[str] = field(default_factory=list)
    #: Copies of the log: one fresh copy takes their place.
    copies: list[str] = field(default_factory=list)
    #: What digests say of the same days, made anew from what the archive still holds.
    digests: list[Said] = field(default_factory=list)
    #: Where other notes say the same words; those are yours to change.
    mentions: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    def is_empty(self) -> bool:
        """Whether nothing was found that can be taken out."""
        return not (self.entries or self.turns or self.texts or self.spooled or self.digests)


def make_plan(engine: Engine, projects: Sequence[Project], chosen: Chosen) -> Plan:
    """Look what there is. Nothing is changed.

    Args:
        engine: The engine.
        projects: Where it is looked for.
        chosen: What.
    """
    plan = Plan()
    rows = _turn_rows(engine.log, projects, chosen)
    streams = {str(row["stream"]) for row in rows}
    for project in projects:
        for path in _journals(project):
            for entry in _entries(path):
                stream = turn_stream(entry.platform, entry.turn) if entry.turn else ""
                if stream in streams or _is_chosen(entry, chosen, path):
                    plan.entries.append(entry)
                    if stream:
                        streams.add(stream)
        days = {str(journal_day(e.path)) for e in plan.entries if _is_of(project, e.path)}
        days |= {str(row["day"]) for row in rows if row["memory_dir"] == project.memory_dir}
        days.add(str(chosen.day))
        plan.digests += said_of(project, days, chosen.has_text)
        if chosen.text:
            plan.mentions += _mentions(project, chosen, plan)
    plan.turns = sorted(streams)
    plan.dead_letters = sum(
        int(
            engine.log.value("SELECT COUNT(*) FROM turns WHERE stream = ? AND state = 'dead'", (s,))
        )
        for s in plan.turns
    )
    plan.texts = len(_texts_of(engine.log, plan.turns, chosen))
    plan.spooled = _spooled(engine.home, plan.turns, chosen)
    plan.copies = [] if plan.is_empty() else _copies(engine.home)
    by_path = _by_path(plan.entries)
    for project in projects:
        for path, places in by_path.items():
            if _is_of(project, path):
                plan.chunks += len(_gone_chunks(engine, project, path, places)[0])
    return plan


def carry_out(engine: Engine, projects: Sequence[Project], chosen: Chosen) -> Plan:
    """Take it out of everything.

    Every step can be repeated: after a kill, the same call does the rest.

    Args:
        engine: The engine of the process that holds the worker's lock.
        projects: Where.
        chosen: What.

    Returns:
        What went.

    Raises:
        MemsearchError: ``BUSY`` when a file is saved by somebody again and again, or what
            the log, the index or a file refuses.
    """
    plan = make_plan(engine, projects, chosen)
    if plan.is_empty():
        return plan
    log = engine.log
    # The tombstones first: what is on its way to a journal now is written no more.
    for stream in plan.turns:
        with log.transaction() as tx:
            row = tx.row("SELECT state FROM turns WHERE stream = ?", (stream,))
            if row is None or row["state"] != "forgotten":
                tx.append(_tombstone(stream, projects, plan))
    _wait_for_appends(engine)
    plan.entries = make_plan(engine, projects, chosen).entries or plan.entries
    for path, places in _by_path(plan.entries).items():
        for project in projects:
            if _is_of(project, path):
                _cut(engine, project, path, places)
    for project in projects:
        _say_anew(engine, project, [each for each in plan.digests if _is_of(project, each.digest)])
    touched = [entry.path for entry in plan.entries] + [each.digest for each in plan.digests]
    for collection in {p.collection for p in projects for path in touched if _is_of(p, path)}:
        _renew_index(engine, collection)
    # Answers of models that an unfinished compaction keeps.
    with log.transaction() as tx:
        for project in projects:
            tx.execute(
                "DELETE FROM payloads WHERE event_id IN (SELECT id FROM events WHERE stream = ?)",
                (compact_stream(project.collection),),
            )
    texts = _texts_of(log, plan.turns, chosen)
    for start in range(0, len(texts), BATCH):
        with log.transaction() as tx:
            for table, event_id in texts[start : start + BATCH]:
                tx.execute(f"DELETE FROM {table} WHERE event_id = ?", (event_id,))
    for path in plan.spooled:
        _empty_spooled(path)
    # Only a whole new file holds nothing in its free pages.
    log.vacuum()
    messages.wipe(log)
    made = backup.back_up(engine.home)
    for path in _copies(engine.home):
        if path != made:
            put_aside.delete(path)
    return plan


# --------------------------------------------------------------------------- choosing


def _turn_rows(log: EventLog, projects: Sequence[Project], chosen: Chosen) -> list[Any]:
    folders = [project.memory_dir for project in projects]
    marks = ", ".join("?" * len(folders))
    where, values = "0", []
    if chosen.turn:
        where, values = "turn = ?", [chosen.turn]
    elif chosen.session:
        where, values = "session = ?", [chosen.session]
    elif chosen.day:
        where, values = "day = ?", [chosen.day.isoformat()]
    elif chosen.text:
        return [
            row
            for row in log.rows(f"SELECT * FROM turns WHERE memory_dir IN ({marks})", folders)
            if any(
                chosen.has_text(text)
                for name in (row["captured_id"], row["summarized_id"])
                if name and (text := log.payload(name))
            )
        ]
    return log.rows(
        f"SELECT * FROM turns WHERE memory_dir IN ({marks}) AND {where}", [*folders, *values]
    )


def _is_chosen(entry: Place, chosen: Chosen, path: str) -> bool:
    if chosen.turn:
        return entry.turn == chosen.turn
    if chosen.session:
        return entry.session == chosen.session
    if chosen.day:
        return journal_day(path) == chosen.day
    return chosen.has_text(_text_of(path, entry))


def _texts_of(log: EventLog, streams: Sequence[str], chosen: Chosen) -> list[tuple[str, str]]:
    """``(table, event id)`` of every text in the log that belongs to the turns."""
    found: dict[tuple[str, str], None] = {}
    turns = set()
    for stream in streams:
        turns.add(stream.split(":", 2)[2])
        for row in log.rows(
            "SELECT p.event_id FROM payloads AS p JOIN events AS e ON e.id = p.event_id"
            " WHERE e.stream = ?",
            (stream,),
        ):
            found["payloads", row["event_id"]] = None
    for table in ("payloads", "messages"):
        for row in log.rows(
            f"SELECT m.event_id, m.body, e.data FROM {table} AS m JOIN events AS e"
            " ON e.id = m.event_id WHERE e.type = 'HookReceived'"
        ):
            data = json.loads(row["data"])
            if (
                data.get("turn") in turns
                or (chosen.session and data.get("session") == chosen.session)
                or chosen.has_text(row["body"])
            ):
                found[table, row["event_id"]] = None
    return list(found)


def _spooled(home: Home, streams: Sequence[str], chosen: Chosen) -> list[str]:
    """Files of the spool that name one of the turns, or hold the words."""
    needles = {stream.split(":", 2)[2] for stream in streams} | {chosen.turn, chosen.session}
    found = []
    for folder, _, names in os.walk(home.spool):
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    body = file.read()
                said = json.dumps(json.loads(body), ensure_ascii=False)
            except OSError:
                continue
            except ValueError:
                said = body
            if chosen.has_text(said) or any(needle and needle in said for needle in needles):
                found.append(path)
    return found


def _empty_spooled(path: str) -> None:
    """A hook in the spool loses its message and stays a pointer; what is no hook goes."""
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        record["message"] = None
    except FileNotFoundError:
        return
    except (ValueError, TypeError):
        os.unlink(path)
        return
    write_atomic(path, json.dumps(record).encode("ascii"))


def _copies(home: Home) -> list[str]:
    """Copies of the log, and damaged files and folders that were put aside."""
    name = f"{os.path.basename(home.state_db)}.backup-"
    copies = [os.path.join(home.root, each) for each in os.listdir(home.root)]
    return sorted(
        [path for path in copies if os.path.basename(path).startswith(name)]
        + [aside.path for aside in put_aside.damaged(home)]
    )


def _tombstone(stream: str, projects: Sequence[Project], plan: Plan) -> Event:
    _, platform, turn = stream.split(":", 2)
    data: dict[str, Any] = {"platform": platform, "turn": turn, "session": ""}
    for entry in plan.entries:
        if (entry.platform, entry.turn) == (platform, turn):
            day = journal_day(entry.path)
            data |= {"session": entry.session, "day": day.isoformat() if day else None}
            owner = next((each for each in projects if _is_of(each, entry.path)), None)
            if owner is not None:
                data["memory_dir"] = owner.memory_dir
    return Event(stream, EventType.TURN_FORGOTTEN, data)


def _wait_for_appends(engine: Engine) -> None:
    deadline = time.monotonic() + APPEND_SECONDS
    while any(stage == "append" for stage, _ in engine.running()):
        if time.monotonic() > deadline:
            raise MemsearchError(
                "entries are being written and do not end",
                kind=ErrorClass.BUSY,
                hint="call forget again",
            )
        time.sleep(0.05)


# --------------------------------------------------------------------------- journals


def _journals(project: Project) -> list[str]:
    return [path for path in _documents(project) if journal_day(path) is not None]


def _documents(project: Project) -> tuple[str, ...]:
    """The Markdown of a project's memory.

    Raises:
        MemsearchError: Something of it cannot be looked into: it may hold what is to go.
    """
    folders = [f for f in (project.memory_dir, project.archive_dir) if os.path.isdir(f)]
    found = walk(folders, ())
    for error in found.unreadable:
        raise error
    return found.files


def _is_of(project: Project, path: str) -> bool:
    return path.startswith(
        (os.path.join(project.memory_dir, ""), os.path.join(project.archive_dir, ""))
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _as_text(data: bytes) -> str:
    """Decoded so that its lines are those of the bytes."""
    return data.decode("utf-8", "replace").replace("\r\n", "\n").removeprefix("\ufeff")


def _entries(path: str) -> list[Place]:
    return _entries_in(path, _read(path))


def _entries_in(path: str, data: bytes) -> list[Place]:
    found = []
    for entry in parse(_as_text(data), journal_day(path)):
        anchor = entry.anchor
        found.append(
            Place(
                path,
                entry.line,
                entry.end_line,
                entry.heading,
                anchor.platform if anchor else "",
                anchor.session if anchor else "",
                anchor.turn if anchor else "",
            )
        )
    return found


def _text_of(path: str, entry: Place) -> str:
    lines = _as_text(_read(path)).split("\n")
    return "\n".join(lines[entry.line - 1 : entry.end_line])


def _by_path(entries: Iterable[Place]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for entry in entries:
        found.setdefault(entry.path, []).append(entry)
    return found


def without(data: bytes, places: Iterable[Place]) -> bytes:
    """A journal without some of its entries; everything else byte for byte. Pure.

    The blank lines behind an entry go with it.
    """
    lines = data.split(b"\n")
    gone: set[int] = set()
    for place in places:
        end = place.end_line
        while end < len(lines) - 1 and not lines[end].strip():
            end += 1
        gone.update(range(place.line - 1, end))
    return b"\n".join(line for number, line in enumerate(lines) if number not in gone)


def _gone_chunks(
    engine: Engine, project: Project, path: str, places: Sequence[Place]
) -> tuple[set[str], set[str]]:
    """Names in the index and hashes in the cache of what a file no longer holds."""
    data = _read(path)
    return _gone_between(engine, project, path, data, without(data, places))


def _gone_between(
    engine: Engine, project: Project, path: str, old: bytes, new: bytes
) -> tuple[set[str], set[str]]:
    """The same of two states of a file."""
    chunking = engine.settings(project.root).chunking
    model = engine.embedder().model

    def cut(body: bytes) -> dict[str, str]:
        return {
            chunk_hash(chunk, model): chunk.content_hash
            for chunk in chunk_document(
                _as_text(body),
                source_of(project, path),
                max_chunk_size=chunking.max_chunk_size,
                overlap_lines=chunking.overlap_lines,
                archived=path.startswith(os.path.join(project.archive_dir, "")),
            )
        }

    before, after = cut(old), cut(new)
    kept = set(after.values())
    gone = {name: text for name, text in before.items() if text not in kept}
    return set(gone), set(gone.values())


def _cut(engine: Engine, project: Project, path: str, places: Sequence[Place]) -> None:
    """Take entries out of one file, and its pieces out of the index and the cache."""
    if os.path.islink(path):
        raise MemsearchError(
            f"{path} is a link and is not rewritten", kind=ErrorClass.BAD_FILE, hint="edit it"
        )
    with journal_lock(project.memory_dir, engine.home.run):
        for _ in range(MAX_CHANGED):
            data = _read(path)
            found = _entries_in(path, data)
            # By what they are, not by where: somebody may have written above them since.
            now = [each for each in found if _same(each, places)]
            names, hashes = _gone_chunks(engine, project, path, now)
            if _read(path) != data:
                continue
            mode = stat.S_IMODE(os.stat(path).st_mode) if data else 0o644
            if now:
                write_atomic(path, without(data, now), mode)
            break
        else:
            raise MemsearchError(
                f"{path} is saved again and again by somebody else", kind=ErrorClass.BUSY
            )
    _drop_rows(engine, project, path, names, hashes)


def _say_anew(engine: Engine, project: Project, said: Sequence[Said]) -> None:
    """What digests say of the days of what was cut, made anew from the archive."""
    for path in dict.fromkeys(each.digest for each in said):
        with journal_lock(project.memory_dir, engine.home.run):
            old = _read(path)
            say_anew(engine, project, path, [each.name for each in said if each.digest == path])
            names, hashes = _gone_between(engine, project, path, old, _read(path))
        _drop_rows(engine, project, path, names, hashes)


def _drop_rows(
    engine: Engine, project: Project, path: str, names: set[str], hashes: set[str]
) -> None:
    """Take pieces of a file out of the index and the cache, and send it through the index."""
    if engine.has_index() and names and engine.store().exists(project.collection):
        engine.store().delete(project.collection, sorted(names))
    engine.cache().delete_many(hashes)
    event = document_changed(project, source_of(project, path), path, "forget", force=True)
    with engine.log.transaction() as tx:
        tx.append(event)
        tx.add_task("chunk", event.stream)


def _renew_index(engine: Engine, collection: str) -> bool:
    """Milvus Lite keeps deleted rows in its files: the collection is made anew, from the cache.

    Returns:
        Whether it was: a server's is not.
    """
    uri = index_uri(engine.settings().milvus, engine.home, engine.environ)
    if "://" in uri or uri.startswith("unix:") or not engine.has_index():
        return False
    engine.store().drop(collection)
    requeue(
        engine,
        engine.log.rows(
            "SELECT * FROM documents WHERE collection = ? AND state <> 'removed'", (collection,)
        ),
        "forget",
    )
    return True


def renew_changed(engine: Engine) -> list[str]:
    """Bring an index of its own to what the Markdown is now, so that it keeps no old text.

    For the homes of the Python API's instances, whose journals were cut by the user's.

    Returns:
        The collections that held text which is no more.
    """
    changed = [
        row
        for row in engine.log.rows("SELECT * FROM documents WHERE state <> 'removed'")
        if _as_indexed(row["path"]) != (row["indexed_mtime_ns"], row["indexed_size"])
    ]
    collections = sorted({row["collection"] for row in changed})
    renewed = [collection for collection in collections if _renew_index(engine, collection)]
    # A server deletes rows for good by itself.
    rest = [row for row in changed if row["state"] == "done" and row["collection"] not in renewed]
    requeue(engine, rest, "forget")
    return collections


def _as_indexed(path: str) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _same(entry: Place, places: Iterable[Place]) -> bool:
    return any(
        (entry.platform, entry.turn) == (place.platform, place.turn)
        if place.turn
        else (entry.heading, entry.line, entry.turn) == (place.heading, place.line, "")
        for place in places
    )


def _mentions(project: Project, chosen: Chosen, plan: Plan) -> list[str]:
    """``file:line`` of what says the words and neither goes nor is made anew."""
    inside = {(e.path, n) for e in plan.entries for n in range(e.line, e.end_line + 1)}
    inside |= {(each.digest, n) for each in plan.digests for n in each.lines}
    found: list[str] = []
    for path in _documents(project):
        for number, line in enumerate(_as_text(_read(path)).split("\n"), 1):
            if chosen.has_text(line) and (path, number) not in inside:
                found.append(f"{path}:{number}")
                if len(found) >= MAX_MENTIONS:
                    return found
    return found


__all__ = ["Chosen", "Place", "Plan", "carry_out", "make_plan", "without"]
