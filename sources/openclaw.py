"""OpenClaw: ``~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite``; before it, JSONL files.

A turn begins with an event that holds the user's message; its id is the event's. In the
database a position is the event's number in its session (``seq``), in a file its offset.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import untilde, user_home
from memsearch.sources.base import MAX_READING_CHARS, Conversation, Pointer, Reading, Turn
from memsearch.sources.jsonl import JsonlSource, Opening, open_file, weight
from memsearch.sources.lines import Record, decode, read_line
from memsearch.sources.listing import files_under, of_file
from memsearch.sources.openclaw_events import PLATFORM, EventFold, read_asked
from memsearch.sources.openclaw_store import Store
from memsearch.sources.sqlite_store import (
    open_readonly,
    parse,
)
from memsearch.sources.times import parse_time
from memsearch.sources.window import around, with_meant

#: Bytes of the list of sessions beside the older files that are read.
_MAX_LIST_BYTES = 16_000_000
#: What the name of a session's file ends in, and what is put behind it at a reset.
_JSONL, _RESET = ".jsonl", ".reset."


class OpenClaw(JsonlSource):
    """The source of OpenClaw's conversations."""

    platform = PLATFORM
    display_name = "OpenClaw"
    resumable = False
    #: ``agentId`` names one of the user's agents, of which each has its own database.
    agent_is_subagent = False
    opening_marks = (b'"user"',)

    def roots(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The folder of all agents, as a real path."""
        home = user_home(environ)
        place = untilde(environ.get("OPENCLAW_HOME") or home, home)
        state = untilde(environ.get("OPENCLAW_STATE_DIR") or os.path.join(place, ".openclaw"), home)
        return (os.path.realpath(os.path.join(state, "agents")),)

    def databases(self, environ: Mapping[str, str]) -> list[str]:
        """The databases of all agents, by their names."""
        (root,) = self.roots(environ)
        found = Path(root).glob("*/agent/openclaw-agent.sqlite")
        return sorted(str(path) for path in found)

    def conversations(self, environ: Mapping[str, str]) -> Iterator[Conversation]:
        """Every session of every agent, once: of the databases, then of the older files."""
        seen: set[str] = set()
        for path in self.databases(environ):
            with open_readonly(path) as db:
                listed = list(Store(db, path).windows())
            for window in listed:
                if window.id not in seen and not window.foreign:
                    seen.add(window.id)
                    changed = parse_time(window.changed) or datetime.fromtimestamp(0, UTC)
                    yield Conversation(PLATFORM, window.id, path, changed)
        for path in self._files(environ):
            if _session_of(path) not in seen:
                yield from of_file(PLATFORM, path, _session_of(path))

    def _files(self, environ: Mapping[str, str]) -> Iterator[str]:
        """The sessions' own files of older releases; those that were reset behind the others."""
        roots = self.roots(environ)
        found = [path for path in files_under(roots, "") if _is_session_file(path)]
        return iter(sorted(found, key=lambda path: (not path.endswith(_JSONL), path)))

    def locate(self, session: str, environ: Mapping[str, str], agent: str = "") -> str | None:
        """The database or file that holds a session, by its id or its key.

        A session that no database holds yet will be in that of the agent that is named, by
        itself or by the session's key, else in that of ``main``.
        """
        databases = self.databases(environ)
        for path in databases:
            with open_readonly(path) as db:
                if Store(db, path).resolve(session) is not None:
                    return path
        for path in self._files(environ):
            if _session_of(path) == session:
                return path
        parts = session.split(":")
        if not agent:
            agent = parts[1] if parts[0] == "agent" and len(parts) > 2 else "main"
        own = os.path.join(self.roots(environ)[0], agent, "agent", "openclaw-agent.sqlite")
        return own if own in databases else None

    # Files of older releases

    def is_foreign(self, path: str) -> bool:
        """A subagent's file, by the list of sessions beside it."""
        session = _session_of(path)
        list_path = os.path.join(os.path.dirname(path), "sessions.json")
        try:
            with open(list_path, "rb") as file:
                known = parse(file.read(_MAX_LIST_BYTES).decode("utf-8", "replace")) or {}
        except OSError:
            return False
        return any(
            isinstance(entry, dict)
            and entry.get("sessionId") == session
            and (":subagent:" in key or bool(entry.get("spawnedBy")))
            for key, entry in known.items()
        )

    def fold(self, pointer: Pointer, fallback: datetime) -> EventFold:
        """A fold for one file."""
        if not pointer.session:
            pointer = Pointer(
                PLATFORM, _session_of(pointer.path), pointer.path, pointer.turn, pointer.cwd
            )
        return EventFold(pointer, fallback, _head(pointer.path))

    def opening(self, record: Record, offset: int) -> Opening | None:  # noqa: ARG002
        """What an event opens."""
        asked = read_asked(record)
        if asked is None:
            return None
        return Opening(asked.id, asked.at, "turn" if asked.opens else "alias")

    def first_words(self, record: Record) -> str | None:
        """The first thing that the user sent, as it was sent."""
        asked = read_asked(record)
        return asked.raw if asked is not None and asked.opens else None

    # Databases

    def read(
        self,
        pointer: Pointer,
        *,
        start: int | None,
        not_before: datetime | None,
        is_ours: Callable[[str], bool] = lambda _text: False,
    ) -> Reading:
        """See :meth:`memsearch.sources.base.Source.read`."""
        if _is_file(pointer.path):
            return super().read(pointer, start=start, not_before=not_before, is_ours=is_ours)
        with open_readonly(pointer.path) as db:
            store = Store(db, pointer.path)
            window = store.resolve(pointer.session)
            if window is None:
                return Reading((), 0, {}, {}, torn=False)
            if window.foreign or store.is_ours(window.id, is_ours):
                return Reading((), 0, {}, {}, torn=False, foreign=True)
            begin = store.begin(window.id, pointer, start, not_before)
            fold = store.fold(window, pointer)
            kept: list[Turn] = []
            room = MAX_READING_CHARS
            stopped: int | None = None
            last: Turn | None = None
            meant: Turn | None = None
            for turn in store.turns(window.id, fold, begin):
                last = turn
                meant = turn if pointer.means(turn) else meant
                hooked = pointer.turn is not None and meant is turn
                recent = not_before is None or turn.at >= not_before
                if stopped is None and room < 0:
                    stopped = turn.position
                if hooked or (recent and stopped is None):
                    kept.append(turn)
                    room -= weight(turn)
            if start is None and pointer.turn is None:
                kept = with_meant(kept, meant or last)
            resume = last.position if last is not None else begin
            return Reading(
                turns=tuple(kept),
                resume=resume if stopped is None else stopped,
                unknown=dict(fold.unknown),
                skipped=dict(store.skipped),
                torn=False,
                more=stopped is not None,
            )

    def conversation(
        self, path: str, session: str, turn: str | None, *, context: int = 3
    ) -> tuple[Turn, ...]:
        """See :meth:`memsearch.sources.base.Source.conversation`."""
        path = _where_it_is_now(path)
        if _is_file(path):
            return super().conversation(path, session, turn, context=context)
        pointer = Pointer(PLATFORM, session, path, turn=turn)
        with open_readonly(path) as db:
            store = Store(db, path)
            windows = list(store.windows()) if not session else [store.resolve(session)]
            found = [window for window in windows if window is not None]
            if not found:
                raise MemsearchError(
                    f"{path} does not hold the session {session}",
                    kind=ErrorClass.BAD_FILE,
                    hint="it was deleted in OpenClaw, or belongs to another agent",
                )
            if turn is None and not session:
                found = found[-1:]
            return around(
                chain.from_iterable(
                    store.turns(window.id, store.fold(window, pointer), 0) for window in found
                ),
                turn,
                context,
                path,
            )


def _is_session_file(path: str) -> bool:
    """Whether a file is a session's own: ``<id>.jsonl`` in an agent's folder of sessions.

    It is called ``<id>.jsonl.reset.<time>`` when another session has followed it. Beside it
    lie ``.deleted.<time>`` and ``.bak``, copies that were made before a compaction
    (``<id>.checkpoint.<id>.jsonl``), and traces.
    """
    _, dot, rest = os.path.basename(path).partition(".")
    own = dot + rest == _JSONL or (dot + rest).startswith(_JSONL + _RESET)
    return own and os.path.basename(os.path.dirname(path)) == "sessions"


def _session_of(path: str) -> str:
    """The session of a session's own file."""
    return os.path.basename(path).partition(".")[0]


def _is_file(path: str) -> bool:
    """Whether a path is that of a file of older releases, and not of a database."""
    return path.endswith(_JSONL) or _is_session_file(path)


def _where_it_is_now(path: str) -> str:
    """A session's file, what it was called when it was reset, or the database that took it in."""
    if os.path.exists(path) or not _is_file(path):
        return path
    folder, name = os.path.split(path)
    beside = os.listdir(folder) if os.path.isdir(folder) else []
    reset = [each for each in beside if each.startswith(name + _RESET)]
    if reset:
        return os.path.join(folder, max(reset))
    database = os.path.join(os.path.dirname(folder), "agent", "openclaw-agent.sqlite")
    return database if os.path.isfile(database) else path


def _head(path: str) -> Record:
    """The first event of a file, which says where the agent works."""
    with open_file(path) as file:
        line = next(iter([read_line(file, 0)]) if os.path.getsize(path) else iter(()), None)
    record = decode(line.data) if line is not None and line.data is not None else None
    return record if isinstance(record, dict) and record.get("type") == "session" else {}
