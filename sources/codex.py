"""Codex: ``$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl``.

A turn begins with ``task_started`` (older releases: with the user's message) and its id is
``turn_id``; a release that writes none gets one made of the message and its time. What a
record says is read by :mod:`memsearch.sources.codex_records`; here is what a conversation is.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from memsearch.config.paths import untilde, user_home
from memsearch.sources.base import Conversation, Pointer, State, Turn
from memsearch.sources.builder import Step, TurnBuilder
from memsearch.sources.cleaning import text_of
from memsearch.sources.codex_records import ACTIVITY, REVIEW, SHELL, Entry, path_of, read_record
from memsearch.sources.jsonl import JsonlSource, Opening, count, open_file
from memsearch.sources.lines import Record, decode, read_backward, read_line
from memsearch.sources.listing import files_under, of_file
from memsearch.sources.packed import SUFFIX
from memsearch.sources.recent import RecentSet

#: A user's message that is written later than this many seconds after its task began is a
#: copy that a fork wrote: the task's own time is the turn's.
MAX_SECONDS_TO_MESSAGE = 300
#: Records before a turn's opening in which its first one is looked for.
_PREAMBLE_RECORDS = 64
#: Bytes of a packed rollout in which its first record ends.
_HEAD_BYTES = 4_000_000
#: Ids of turns that have begun, and of calls in one turn, that are remembered.
_REMEMBERED = 100_000
#: Different texts of one turn that are compared with later copies.
_MAX_HEARD = 5_000
#: Aliases that a turn keeps.
_MAX_ALIASES = 200

_NAME = re.compile(r"rollout-.*?-?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$")


class Codex(JsonlSource):
    """The source of Codex's conversations."""

    platform = "codex"
    display_name = "Codex"
    opening_marks = (
        b'task_started"',
        b'turn_started"',
        b'"turn_context"',
        b'"user"',
        b'"EnteredReviewMode"',
        b'"entered_review_mode"',
    )

    def roots(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The folders of running and of archived sessions, as real paths."""
        home = untilde(environ.get("CODEX_HOME") or "~/.codex", user_home(environ))
        return tuple(
            os.path.realpath(os.path.join(home, name)) for name in ("sessions", "archived_sessions")
        )

    def conversations(self, environ: Mapping[str, str]) -> Iterator[Conversation]:
        """Every rollout, in the order of their names; packed ones by the names that they had."""
        roots = self.roots(environ)
        plain = list(files_under(roots, ".jsonl"))
        packed = [path.removesuffix(SUFFIX) for path in files_under(roots, ".jsonl" + SUFFIX)]
        for path in sorted({*plain, *packed}, key=os.path.basename):
            if os.path.basename(path).startswith("rollout-"):
                yield from of_file(self.platform, path, thread_of(path))

    def locate(
        self,
        session: str,
        environ: Mapping[str, str],
        agent: str = "",  # noqa: ARG002
    ) -> str | None:
        """The rollout of a session; a session that is not kept has none."""
        if not session:
            return None
        found = [each.path for each in self.conversations(environ) if each.session == session]
        return found[-1] if found else None

    def is_foreign(self, path: str) -> bool:
        """A subagent's rollout: its head names the thread that spawned it."""
        meta = _head(path)
        source = meta.get("source")
        if isinstance(source, dict) and "subagent" in source:
            return True
        if meta.get("thread_source") == "subagent" or meta.get("parent_thread_id"):
            return True
        session = meta.get("session_id")
        is_other = bool(session) and session != meta.get("id")
        return is_other and not meta.get("forked_from_id")

    def fold(self, pointer: Pointer, fallback: datetime) -> _Fold:
        """A fold for one rollout."""
        return _Fold(pointer, fallback, _head(pointer.path))

    def opening(self, record: Record, offset: int) -> Opening | None:  # noqa: ARG002
        """What a record opens: a task, or, where none is written, the user's message."""
        entry = read_record(record)
        if entry.kind == "begin" and entry.turn:
            return Opening(entry.turn, entry.at, "maybe")
        # The other ways tell of the same message, or of a subagent's.
        if entry.kind == "user" and (entry.way == "r" or entry.name == REVIEW):
            return Opening(entry.turn or _made_up_id(entry), entry.at, "turn")
        if entry.kind == "context" and entry.turn:
            # Some releases give the id only here, after the message.
            return Opening(entry.turn, entry.at, "alias")
        return None

    def is_answered(self, following: Iterator[Record]) -> bool:
        """Whether a task was begun by the user: their words come before anything is done."""
        held = False
        for record in following:
            entry = read_record(record)
            if entry.kind == "user":
                return not held
            if entry.kind == "compacted":
                held = False
            elif _may_be_summary(entry):
                held = True
            elif entry.kind == "begin" or entry.kind in ACTIVITY:
                return False
        return False

    def rewind(self, file: BinaryIO, begin: int) -> int:
        """The record that names the turn, which stands before the user's words."""
        found = begin
        for number, line in enumerate(read_backward(file, begin)):
            data = line.data if line.data is not None else read_line(file, line.offset).data
            record = None if data is None else decode(data)
            if number >= _PREAMBLE_RECORDS or not isinstance(record, dict):
                break
            entry = read_record(record)
            if entry.kind == "begin" and entry.turn:
                return line.offset
            if entry.kind == "context" and entry.turn:
                found = line.offset
            elif entry.kind not in ("nothing", "context"):
                break
        return found

    def first_words(self, record: Record) -> str | None:
        """The first thing that the user sent, as it was sent."""
        entry = read_record(record)
        return entry.raw if entry.kind == "user" else None


def thread_of(path: str) -> str:
    """The thread's id in the name of a rollout."""
    found = _NAME.search(os.path.basename(path))
    return found[1] if found else Path(path).stem


def _head(path: str) -> dict[str, Any]:
    """What a rollout's first record says of it; nothing where it is no such record."""
    try:
        with open_file(path, most=_HEAD_BYTES) as file:
            line = read_line(file, 0)
    except StopIteration:
        return {}
    record = None if line.data is None else decode(line.data)
    if not isinstance(record, dict):
        return {}
    payload = record.get("payload")
    if record.get("type") == "session_meta" and isinstance(payload, dict):
        return payload
    return record if "instructions" in record else {}


# The fold ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """A task, which is a turn when it has words of the user."""

    id: str
    position: int
    #: When the task began, where the rollout says so.
    began: datetime | None = None
    at: datetime | None = None
    cwd: str = ""
    steps: TurnBuilder = field(default_factory=TurnBuilder)
    #: Its id where the rollout gives none, and the way of the text that it is made of.
    made_up_id: str = ""
    named_by: str = ""
    private: bool = False
    #: The agent has done something.
    acted: bool = False
    ended: bool = False
    interrupted: bool = False
    #: The rollout says when tasks begin and end.
    has_marks: bool = False
    last_is_answer: bool = False
    last_answer: Step | None = None
    aliases: list[str] = field(default_factory=list)
    #: How often a text was heard, by way: the same one comes by up to three.
    heard: dict[str, Counter[int]] = field(default_factory=dict)
    calls: RecentSet = field(default_factory=lambda: RecentSet(_REMEMBERED))

    def is_new(self, entry: Entry) -> bool:
        """Whether a text is heard for the first time, and not by another way once more."""
        key = _text_key(entry)
        before = max((heard[key] for heard in self.heard.values()), default=0)
        own = self.heard.setdefault(entry.way, Counter())
        if len(own) > _MAX_HEARD:
            own.clear()
        own[key] += 1
        return own[key] > before

    def heard_before(self, entry: Entry) -> bool:
        """Whether this text came, by other ways, oftener than by its own."""
        key = _text_key(entry)
        most = max((heard[key] for heard in self.heard.values()), default=0)
        return most > self.heard.get(entry.way, Counter())[key]

    def alias(self, name: str) -> None:
        if name and name != self.id and name not in self.aliases:
            self.aliases.append(name)
            del self.aliases[:-_MAX_ALIASES]

    def answers_to(self, name: str) -> bool:
        return name == self.id or name in self.aliases


class _Fold:
    """Codex's records in, turns out."""

    def __init__(self, pointer: Pointer, fallback: datetime, head: Mapping[str, Any]) -> None:
        self.unknown: Counter[str] = Counter()
        self._session = pointer.session or text_of(head.get("id")) or thread_of(pointer.path)
        self._cwd = path_of(dict(head)) or pointer.cwd or ""
        self._thread = text_of(head.get("id"))
        self._anchor = {"rollout": os.path.abspath(pointer.path)}
        self._fallback = fallback
        self._last_at: datetime | None = None
        self._begun = RecentSet(_REMEMBERED)
        self._current: _Run | None = None
        #: A task that has begun, before the user's words are there.
        self._pending: _Run | None = None
        #: What was answered in it before them: the summary, where a compaction comes next.
        self._held: Entry | None = None
        #: Everything up to the next opening is a copy of a turn that has been read.
        self._muted = False

    @property
    def resume(self) -> int | None:
        run = self._current or self._pending
        return run.position if run is not None else None

    def feed(self, record: Record, offset: int) -> list[Turn]:
        entry = read_record(record)
        if entry.unknown:
            count(entry.unknown, self.unknown)
        if entry.thread and self._thread and entry.thread != self._thread:
            return []  # what a subagent did, told in its parent's rollout
        self._last_at = entry.at or self._last_at
        if self._held is not None and entry.kind not in ("nothing", "context", "compacted"):
            held, self._held = self._held, None
            self._activity(held)
        match entry.kind:
            case "nothing":
                return []
            case "begin":
                return self._begin(entry, offset)
            case "context":
                self._context(entry, offset)
            case "user":
                return self._user(entry, offset)
            case "compacted":
                self._compacted(entry)
            case _ if self._pending is not None and not self._muted and _may_be_summary(entry):
                self._held = entry
            case _:
                self._activity(entry)
        return []

    def finish(self) -> list[Turn]:
        if self._current is None:
            return []
        next_began = self._pending is not None and not self._pending.ended
        if self._pending is not None and self._pending.ended:
            self._current.alias(self._pending.id)
        return [self._build(self._current, next_began=next_began)]

    # Where turns begin

    def _begin(self, entry: Entry, offset: int) -> list[Turn]:
        if self._current is not None and entry.turn and self._current.answers_to(entry.turn):
            return []
        self._drop_pending()
        self._muted = bool(entry.turn) and entry.turn in self._begun
        if not self._muted:
            self._pending = _Run(entry.turn, offset, began=entry.at, cwd=self._cwd, has_marks=True)
        return []

    def _context(self, entry: Entry, offset: int) -> None:
        self._cwd = entry.cwd or self._cwd
        run = self._pending or self._current
        if run is None or (entry.turn and run.id and not run.answers_to(entry.turn)):
            if entry.turn and entry.turn not in self._begun:
                self._drop_pending()
                self._pending = _Run(entry.turn, offset, cwd=self._cwd)
            return
        if run.acted:
            return  # written again after a compaction
        if entry.turn and not run.id:
            run.id = entry.turn
            self._begun.add(entry.turn)
        run.cwd = self._cwd

    def _user(self, entry: Entry, offset: int) -> list[Turn]:
        run, pending = self._current, self._pending
        if self._muted and (not entry.turn or entry.turn in self._begun):
            return []
        if pending is not None and (not entry.turn or entry.turn == pending.id):
            self._pending = None
            return self._open(pending, entry)
        if run is not None and self._belongs(run, entry):
            if not run.id:
                run.id = entry.turn
                self._begun.add(entry.turn)
            self._say(run, entry)
            return []
        if entry.turn and entry.turn in self._begun:
            self._muted = True
            return []
        self._drop_pending()
        return self._open(_Run(entry.turn, offset, cwd=self._cwd), entry)

    @staticmethod
    def _belongs(run: _Run, entry: Entry) -> bool:
        """Whether words belong to the turn that is going on."""
        if entry.turn and run.id:
            return run.answers_to(entry.turn)
        if run.heard_before(entry) and not run.acted:
            return True
        # Typed while the agent works. Without marks nobody knows whether it still does.
        return run.has_marks and not run.ended and not run.interrupted

    def _open(self, run: _Run, entry: Entry) -> list[Turn]:
        done = self._close()
        self._muted = False
        run.at = entry.at
        late = (entry.at - run.began).total_seconds() if entry.at and run.began else 0
        if late > MAX_SECONDS_TO_MESSAGE:
            run.at = run.began
        if entry.turn and not run.id:
            run.id = entry.turn
        if run.id:
            self._begun.add(run.id)
        self._current = run
        self._say(run, entry)
        return done

    def _say(self, run: _Run, entry: Entry) -> None:
        if not run.made_up_id or (entry.way == "r" and run.named_by != "r" and not run.acted):
            # The model's history is what a look from the end finds first.
            run.made_up_id, run.named_by = _made_up_id(entry), entry.way
        run.private = run.private or entry.private
        if entry.text and run.is_new(entry):
            run.steps.add("user", entry.text)
            run.last_is_answer = False

    # What the agent does

    def _activity(self, entry: Entry) -> None:
        run = self._worked_on(entry)
        if run is None:
            return
        match entry.kind:
            case "assistant":
                if run.is_new(entry):
                    run.last_answer = run.steps.add("assistant", entry.text)
                    run.last_is_answer = True
            case "call":
                self._call(run, entry)
            case "result":
                if not run.steps.result(entry.key, entry.output or "", failed=entry.failed):
                    return
                run.last_is_answer = False
            case "end":
                if entry.text and run.is_new(entry):
                    run.steps.add("assistant", entry.text)
                run.ended = run.has_marks = True
                return
            case "aborted":
                if not run.interrupted:
                    run.steps.add("note", _abortion(entry.text))
                run.interrupted = run.has_marks = True
                return
            case "error":
                run.steps.add("note", f"The provider failed: {entry.text or 'no reason given'}")
                return
        run.acted = True
        run.ended = run.interrupted = False

    def _worked_on(self, entry: Entry) -> _Run | None:
        """The turn that something belongs to; None when it is nobody's, or a copy's."""
        run, pending = self._current, self._pending
        if self._muted:
            return None
        if pending is not None and (not entry.turn or entry.turn == pending.id):
            if entry.kind in ("end", "aborted"):
                pending.ended = True  # a task without words, for instance a compaction
                if run is not None:
                    run.alias(pending.id)
                self._pending = None
                return None
            # No message of the user began this task: what is done belongs to the turn before.
            self._pending = None
            if run is not None:
                run.alias(pending.id)
            return run
        if run is None:
            count("activity without a turn", self.unknown)
            return None
        if entry.turn and run.id and not run.answers_to(entry.turn) and entry.turn in self._begun:
            return None  # of a turn that is over
        return run

    @staticmethod
    def _call(run: _Run, entry: Entry) -> None:
        if not entry.key or run.calls.add(entry.key):
            run.steps.call(entry.key, entry.name, entry.text)
            run.last_is_answer = False
        elif entry.output == "" and entry.name != SHELL:
            return  # the result comes in a record of its own
        if entry.output is not None:
            run.steps.result(entry.key, entry.output, failed=entry.failed)

    def _compacted(self, entry: Entry) -> None:
        """The summary of a compaction was written by the model, and is no answer."""
        if self._held is not None:
            self._held = None  # made before the user's words, which are still to come
            return
        run = self._current
        if run is None or run.last_answer is None or not entry.text:
            return
        if run.last_answer.text and run.last_answer.text in entry.text:
            run.steps.withdraw(run.last_answer)
            run.last_answer = None
            run.heard.clear()

    # Where they end

    def _drop_pending(self) -> None:
        if self._pending is not None and self._pending.ended and self._current is not None:
            self._current.alias(self._pending.id)
        self._pending = None

    def _close(self) -> list[Turn]:
        run, self._current = self._current, None
        return [] if run is None else [self._build(run, next_began=True)]

    def _build(self, run: _Run, *, next_began: bool) -> Turn:
        state, notes = _ending(run, next_began=next_began)
        return run.steps.build(
            platform=Codex.platform,
            id=run.id or run.made_up_id,
            session=self._session,
            at=run.at or self._last_at or self._fallback,
            cwd=run.cwd or None,
            state=state,
            anchor=self._anchor,
            position=run.position,
            aliases=tuple(run.aliases),
            private=run.private and not run.steps.has_words,
            notes=notes,
        )


def _ending(run: _Run, *, next_began: bool) -> tuple[State, tuple[str, ...]]:
    """How a turn stands, and what has to be said about its end."""
    if run.interrupted:
        return "interrupted", ()
    # Releases that do not say when a task ends end a turn with an answer.
    if run.ended or (run.last_is_answer and (next_began or not run.has_marks)):
        return "finished", ()
    if next_began:
        return "interrupted", ("This turn was cut off before it ended.",)
    return "open", ()


def _abortion(reason: str) -> str:
    if reason in ("", "interrupted", "replaced"):
        return "The user interrupted this turn."
    return f"This turn was aborted: {reason[:80]}"


def _may_be_summary(entry: Entry) -> bool:
    """Whether an answer may be the summary of a compaction, which goes into the model's
    history alone. Older releases (0.145) do not mark it, and make one before a message too."""
    return entry.kind == "assistant" and entry.way == "r"


def _text_key(entry: Entry) -> int:
    """What two ways of saying the same have in common."""
    return hash((entry.kind != "user", " ".join(entry.text.replace("[image]", " ").split())))


def _made_up_id(entry: Entry) -> str:
    parts = (entry.at.isoformat() if entry.at else "", entry.text)
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
