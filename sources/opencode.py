"""OpenCode: ``$XDG_DATA_HOME/opencode/opencode.db``, and the JSON files of older releases.

A turn is a user message and all assistant messages whose ``parentID`` is its id. One database
holds all sessions, so a position is the time of a turn's message (milliseconds since the
epoch), which only grows within a session, and a look begins at such a position.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import untilde, user_home
from memsearch.sources.base import (
    MAX_READING_CHARS,
    Conversation,
    Pointer,
    Reading,
    State,
    Turn,
)
from memsearch.sources.bounds import beginning, compact_input
from memsearch.sources.builder import TurnBuilder
from memsearch.sources.cleaning import clean, text_of
from memsearch.sources.injected import strip_injected
from memsearch.sources.jsonl import count, weight
from memsearch.sources.lines import Record
from memsearch.sources.opencode_store import Database, Head, Place, Session, Tree
from memsearch.sources.private import strip_private
from memsearch.sources.sqlite_store import open_readonly
from memsearch.sources.times import parse_time
from memsearch.sources.window import around, with_meant

#: Tools whose input is one command, which is given as it is.
_SHELLS = frozenset({"bash", "shell"})
#: Keys of a tool's input that are never cut.
_WHOLE_KEYS = frozenset({"command"})
#: How an answer ends that the model goes on after.
_GOES_ON = frozenset({"", "tool-calls", "unknown"})
#: Parts that are no talk.
_SILENT_PARTS = frozenset(
    {
        "agent",
        "compaction",
        "patch",
        "reasoning",
        "retry",
        "snapshot",
        "step-finish",
        "step-start",
        "subtask",
    }
)


class OpenCode:
    """The source of OpenCode's conversations."""

    platform = "opencode"
    display_name = "OpenCode"
    resumable = False
    agent_is_subagent = False
    root_is_transcript = True

    def roots(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The data folder, and the folder of a database that lies elsewhere."""
        folder = _data_folder(environ)
        database = _database(environ)
        folders = [folder] if database is None else [folder, os.path.dirname(database)]
        return tuple(dict.fromkeys(os.path.realpath(each) for each in folders))

    def conversations(self, environ: Mapping[str, str]) -> Iterator[Conversation]:
        """Every session of the database and of the older files, once."""
        seen: set[str] = set()
        database = _database(environ)
        if database is not None and os.path.isfile(database):
            with _open(database) as place:
                listed = list(place.sessions())
            yield from self._listed(listed, database, seen)
        folder = _data_folder(environ)
        if os.path.isdir(folder):
            yield from self._listed(list(Tree(folder).sessions()), folder, seen)

    def _listed(self, sessions: list[Session], path: str, seen: set[str]) -> Iterator[Conversation]:
        for session in sessions:
            if session.id not in seen and not session.parent:
                seen.add(session.id)
                changed = parse_time(session.changed) or datetime.fromtimestamp(0, UTC)
                yield Conversation(
                    self.platform, session.id, path, changed, cwd=session.directory or None
                )

    def locate(
        self,
        session: str,  # noqa: ARG002
        environ: Mapping[str, str],
        agent: str = "",  # noqa: ARG002
    ) -> str | None:
        """The database; the folder of the files of releases before it; None for memory only."""
        database = _database(environ)
        folder = _data_folder(environ)
        # A release of before the database makes none, a later one makes it when it starts.
        if database is not None and not os.path.exists(database) and Tree(folder).is_there():
            return folder
        return database

    def read(
        self,
        pointer: Pointer,
        *,
        start: int | None,
        not_before: datetime | None,
        is_ours: Callable[[str], bool] = lambda _text: False,
    ) -> Reading:
        """See :meth:`memsearch.sources.base.Source.read`."""
        with _open(pointer.path) as place:
            session, place = _find(place, pointer)
            if session is None:
                return Reading((), 0, {}, {}, torn=False)
            heads = own(place, session, place.heads(session.id))
            foreign = bool(session.parent) or _is_ours(place, session.id, heads, is_ours)
            if foreign:
                return Reading((), 0, {}, {}, torn=False, foreign=True)
            begin = _begin(place, pointer, session.id, heads, start, not_before)
            fold = _Fold(session, pointer)
            kept: list[Turn] = []
            room = MAX_READING_CHARS
            stopped: int | None = None
            last: Turn | None = None
            meant: Turn | None = None
            for turn in fold.turns(place, heads[begin:]):
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
            resume = last.position if last is not None else (start or 0)
            return Reading(
                turns=tuple(kept),
                resume=resume if stopped is None else stopped,
                unknown=dict(fold.unknown),
                skipped={},
                torn=False,
                more=stopped is not None,
            )

    def conversation(
        self, path: str, session: str, turn: str | None, *, context: int = 3
    ) -> tuple[Turn, ...]:
        """See :meth:`memsearch.sources.base.Source.conversation`."""
        pointer = Pointer(self.platform, session, path, turn=turn)
        with _open(path) as place:
            found, place = _find(place, pointer)
            if found is None:
                raise MemsearchError(
                    f"{path} does not hold the session {session or turn}",
                    kind=ErrorClass.BAD_FILE,
                    hint="it was deleted in OpenCode, or belongs to another database",
                )
            turns = _Fold(found, pointer).turns(place, place.heads(found.id))
            return around(turns, turn, context, path)


# Places -------------------------------------------------------------------------------------


def _data_folder(environ: Mapping[str, str]) -> str:
    home = user_home(environ)
    return os.path.join(untilde(environ.get("XDG_DATA_HOME") or "~/.local/share", home), "opencode")


def _database(environ: Mapping[str, str]) -> str | None:
    """The database's path; None where it is in memory."""
    override = environ.get("OPENCODE_DB")
    if override == ":memory:":
        return None
    folder = _data_folder(environ)
    return os.path.join(folder, untilde(override or "opencode.db", user_home(environ)))


@contextmanager
def _open(path: str) -> Iterator[Place]:
    if os.path.isdir(path):
        yield Tree(path)
        return
    with open_readonly(path) as db:
        yield Database(db, path)


def _find(place: Place, pointer: Pointer) -> tuple[Session | None, Place]:
    """The session that is meant: in this place, or in the older files beside the database."""
    places: list[Place] = [place]
    if not isinstance(place, Tree):
        places.append(Tree(os.path.dirname(os.path.abspath(pointer.path))))
    for each in places:
        name = pointer.session or (each.session_of(pointer.turn) if pointer.turn else None)
        session = each.session(name) if name else None
        if session is not None:
            return session, each
    return None, place


def _begin(
    place: Place,
    pointer: Pointer,
    session: str,
    heads: list[Head],
    start: int | None,
    not_before: datetime | None,
) -> int:
    """The first message to read: that of the oldest turn that is asked for."""
    if start is not None:
        return next((n for n, head in enumerate(heads) if head.at >= start), len(heads))
    if not_before is None:
        return 0
    since = not_before.timestamp() * 1000
    until = math.inf if pointer.at is None else pointer.at.timestamp() * 1000
    wanted = pointer.turn
    begin = len(heads)
    newest: int | None = None
    missing = True  # the turn that is meant
    passed = False
    for number in range(len(heads) - 1, -1, -1):
        head = heads[number]
        passed = passed or (
            head.at <= until if wanted is None else wanted in (head.id, head.parent)
        )
        # Where none had begun by then, the last one of all is meant.
        is_asked = missing and (passed or (wanted is None and newest is None))
        if head.role != "user" or (head.at < since and not is_asked):
            continue
        words = read_words(place.parts(session, head.id))
        if words.text or words.private:
            newest = number if newest is None else newest
            begin = number if head.at >= since or passed else begin
            missing = missing and not passed
    if missing and wanted is None and newest is not None:
        return min(begin, newest)
    return begin


def _is_ours(place: Place, session: str, heads: list[Head], is_ours: Callable[[str], bool]) -> bool:
    for head in heads:
        if head.role == "user":
            words = read_words(place.parts(session, head.id))
            if words.raw:
                return is_ours(words.raw)
    return False


def own(place: Place, session: Session, heads: list[Head]) -> list[Head]:
    """The messages of a session that are no other's.

    A fork copies what was said before it under new ids, with the times of the originals, which
    lie before the fork was made. Those turns are the other session's, as long as it is there,
    and else the oldest fork's.
    """
    copies = {head.id: head.at for head in heads if head.at < session.created and _is_user(head)}
    if not copies:
        return [head for head in heads if head.at >= session.created]
    others = place.said_before(session, set(copies.values()))
    left = {name for name, at in copies.items() if at not in others}
    return [
        head
        for head in heads
        if head.at >= session.created or (head.id if _is_user(head) else head.parent) in left
    ]


def _is_user(head: Head) -> bool:
    return head.role == "user"


# What a message says ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Words:
    """What a user message holds: the words, the same as sent, and whether some were private."""

    text: str
    raw: str
    private: bool
    unknown: tuple[str, ...] = ()


def read_words(parts: Iterator[Record]) -> Words:
    """The user's own words in the parts of a message; what an editor put in is none."""
    own: list[str] = []
    unknown: list[str] = []
    for part in parts:
        kind = text_of(part.get("type"))
        if part.get("synthetic") is True or part.get("ignored") is True:
            continue
        if kind == "text":
            own.append(unquoted(text_of(part.get("text"))))
        elif kind == "file":
            image = text_of(part.get("mime")).startswith("image/")
            name = clean(text_of(part.get("filename")))[:200]
            own.append("[image]" if image else f"[file {name}]".replace(" ]", "]"))
        elif kind not in _SILENT_PARTS:
            unknown.append(kind or "(none)")
    raw = "\n".join(text for text in own if text.strip())
    words, private = strip_private(strip_injected(raw))
    return Words(words.strip(), raw, private, tuple(unknown))


def unquoted(text: str) -> str:
    """A text without the quotes that ``opencode run "a b"`` puts around its argument.

    It writes an argument that holds a space as ``"…"``, with the quotes inside escaped.
    """
    inner = text.strip()
    if len(inner) < 2 or inner[0] != '"' or inner[-1] != '"' or " " not in inner:
        return text
    inner = inner[1:-1]
    if '"' in inner.replace('\\"', "") or inner.endswith("\\"):
        return text  # more than one argument, or quotes of the user's own
    return inner.replace('\\"', '"')


# The fold -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """A turn that is going on."""

    id: str
    at: int
    steps: TurnBuilder = field(default_factory=TurnBuilder)
    private: bool = False
    ended: bool = False
    interrupted: bool = False
    #: When the last answer was complete; None while it is not, or without one.
    completed: int | None = None
    aliases: list[str] = field(default_factory=list)

    def answers_to(self, name: str) -> bool:
        return name == self.id or name in self.aliases


class _Fold:
    """OpenCode's messages in, turns out."""

    def __init__(self, session: Session, pointer: Pointer) -> None:
        self.unknown: Counter[str] = Counter()
        self._session = session
        self._cwd = session.directory if os.path.isabs(session.directory) else pointer.cwd
        self._anchor = {"db": os.path.abspath(pointer.path)}

    def turns(self, place: Place, heads: list[Head]) -> Iterator[Turn]:
        """The turns of a session's messages, oldest first."""
        run: _Run | None = None
        for head in heads:
            if head.role == "assistant":
                if run is not None and (not head.parent or run.answers_to(head.parent)):
                    self._answer(run, head, place)
                continue
            if head.role != "user":
                count(f"role:{head.role or '(none)'}", self.unknown)
                continue
            words = read_words(place.parts(self._session.id, head.id))
            for name in words.unknown:
                count(f"part:{name}", self.unknown)
            if not words.text and not words.private:
                # A compaction, or what OpenCode says to itself to go on: what the agent does
                # about it belongs to the turn before.
                if run is not None:
                    run.aliases.append(head.id)
                continue
            if run is not None:
                yield self._build(run, next_at=head.at)
            run = _Run(head.id, head.at, private=words.private)
            if words.text:
                run.steps.add("user", words.text)
        if run is not None:
            yield self._build(run, next_at=None)

    def _answer(self, run: _Run, head: Head, place: Place) -> None:
        data = head.data
        if data.get("summary") is True or data.get("mode") == "compaction":
            return
        run.interrupted = False
        for part in place.parts(self._session.id, head.id):
            self._part(run, part)
        time = data.get("time")
        completed = time.get("completed") if isinstance(time, dict) else None
        run.completed = completed if isinstance(completed, int) else None
        run.ended = run.completed is not None and text_of(data.get("finish")) not in _GOES_ON
        error = data.get("error")
        if isinstance(error, dict):
            if error.get("name") == "MessageAbortedError":
                run.interrupted = True
                run.steps.add("note", "The user interrupted this turn.")
            else:
                run.ended = True
                run.steps.add("note", f"The provider failed: {_reason(error)}")

    def _part(self, run: _Run, part: Record) -> None:
        kind = text_of(part.get("type"))
        match kind:
            case "text" if part.get("synthetic") is not True and part.get("ignored") is not True:
                text = clean(text_of(part.get("text"))).strip()
                if text:
                    run.steps.add("assistant", text)
            case "tool":
                self._tool(run, part)
            case "file":
                run.steps.add("assistant", "[file]")
            case "text":
                pass
            case _ if kind not in _SILENT_PARTS:
                count(f"part:{kind or '(none)'}", self.unknown)

    @staticmethod
    def _tool(run: _Run, part: Record) -> None:
        state = part.get("state")
        state = state if isinstance(state, dict) else {}
        name = clean(text_of(part.get("tool"))) or "tool"
        asked = state.get("input")
        command = asked.get("command") if isinstance(asked, dict) else None
        if name in _SHELLS and isinstance(command, str):
            text = clean(command)
        else:
            text = compact_input(asked, clean, _WHOLE_KEYS)
        key = text_of(part.get("callID")) or text_of(part.get("id"))
        run.steps.call(key, name, text)
        status = state.get("status")
        if status in ("completed", "error"):
            output = state.get("output") if status == "completed" else state.get("error")
            run.steps.result(
                key,
                clean(text_of(output)).strip("\n"),
                failed=status == "error" or _exit_code(state) != 0,
            )

    def _build(self, run: _Run, *, next_at: int | None) -> Turn:
        state, notes = _ending(run, next_at)
        return run.steps.build(
            platform=OpenCode.platform,
            id=run.id,
            session=self._session.id,
            at=parse_time(run.at) or datetime.fromtimestamp(0, UTC),
            cwd=self._cwd or None,
            state=state,
            anchor=self._anchor,
            position=run.at,
            aliases=tuple(run.aliases),
            private=run.private and not run.steps.has_words,
            copied=run.at < self._session.created,
            notes=notes,
        )


def _ending(run: _Run, next_at: int | None) -> tuple[State, tuple[str, ...]]:
    """How a turn stands, and what has to be said about its end."""
    if run.interrupted:
        return "interrupted", ()
    if run.ended:
        return "finished", ()
    if next_at is None:
        return "open", ()
    if run.completed is not None and next_at <= run.completed:
        return "finished", ()  # the next message was typed while the agent worked on this one
    return "interrupted", ("This turn was cut off before it ended.",)


def _exit_code(state: Mapping[str, Any]) -> int:
    metadata = state.get("metadata")
    code = metadata.get("exit") if isinstance(metadata, dict) else 0
    return code if isinstance(code, int) else 0


def _reason(error: Mapping[str, Any]) -> str:
    data = error.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    return (
        beginning(clean(text_of(message) or text_of(error.get("name"))), 400) or "no reason given"
    )
