"""Backfill: capturing what was said before memsearch was installed, or while it was not there.

It finds the agents' conversations, reads them from their beginnings, and hands every finished
turn that the log does not know to the functions of the capture stage. A turn's identity keeps
it from being captured twice, whoever captures: a run that was killed is simply run again, two
may run at once, and a hook may come in between.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import MemsearchError
from memsearch.pipeline.events import Event, EventType, turn_stream
from memsearch.pipeline.redact import reading as redacted_reading
from memsearch.pipeline.stages.capture import (
    CAPTURE_OFF,
    EXCLUDED,
    append_new,
    decide,
    is_known,
    moment,
    project_for,
)
from memsearch.pipeline.summarizers.choose import summarizer_for
from memsearch.pipeline.summarizers.prompt import is_ours
from memsearch.pipeline.turn_codec import load_turn
from memsearch.sources import registry
from memsearch.sources.base import Conversation, Pointer, Turn
from memsearch.sources.tail import QUIET_SECONDS, settled

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

#: Turns that are written in one transaction: every hook waits while one is open.
BATCH_TURNS = 20
#: Variables that decide where a turn's notes go, taken from the environment of the run.
_ENVIRONMENT = ("MEMSEARCH_DIR", "HOME")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which turns are wanted.

    Attributes:
        platforms: Of these agents.
        project: Of the project with this root; None: of all.
        since: That began then or later; None: all.
    """

    platforms: tuple[str, ...]
    project: str | None = None
    since: datetime | None = None


@dataclass(slots=True)
class Counts:
    """What there is of one agent, or what was done about it.

    Attributes:
        conversations: That hold turns that are wanted.
        turns: That are wanted, each once.
        known: Of them, in the log already, in whatever state.
        running: Of them, not finished yet.
        gone: Of them, in a project whose folder is no longer there.
        skipped: Of the others, that make no entry, by reason.
        new: Of the others, that make one.
        tokens: What summarising those will take, as estimated.
        first: The day of the oldest new turn, empty without one.
        last: The day of the newest.
        foreign: Conversations of subagents and of our own summariser.
        unknown: Records and blocks of a type that is not known.
    """

    conversations: int = 0
    turns: int = 0
    known: int = 0
    running: int = 0
    gone: int = 0
    new: int = 0
    tokens: int = 0
    first: str = ""
    last: str = ""
    foreign: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def facts(self) -> dict[str, Any]:
        """For ``--json``."""
        names = ("conversations", "turns", "known", "running", "gone", "new", "tokens")
        return {name: getattr(self, name) for name in names} | {
            "first": self.first,
            "last": self.last,
            "foreign": self.foreign,
            "skipped": dict(self.skipped),
            "unknown": dict(self.unknown),
        }


class Backfill:
    """One run.

    Args:
        engine: The engine; it runs no stage here.
        wanted: Which turns.
        environ: Where the agents' folders are looked up.
    """

    def __init__(self, engine: Engine, wanted: Wanted, environ: Mapping[str, str]) -> None:
        self._engine = engine
        self._wanted = wanted
        self._environ = environ
        self._data = {
            "env": {name: environ[name] for name in _ENVIRONMENT if environ.get(name)},
        }
        self._seen: set[str] = set()
        self._roots: dict[tuple[str | None, str | None], str] = {}
        self.counts: dict[str, Counts] = {name: Counts() for name in wanted.platforms}
        #: What could not be read, one message each.
        self.problems: list[str] = []
        #: The summarisers that would be asked.
        self.providers: set[str] = set()

    def conversations(self) -> list[Conversation]:
        """The conversations that may hold what is wanted, in the order of their last change."""
        found: list[Conversation] = []
        for name in self._wanted.platforms:
            try:
                found += registry.get(name).conversations(self._environ)
            except MemsearchError as error:
                self.problems.append(str(error))
        since = self._wanted.since
        wanted = [each for each in found if since is None or each.changed >= since]
        return sorted(wanted, key=lambda each: (each.changed, each.path, each.session))

    def survey(self, conversation: Conversation) -> bool:
        """Count what a conversation holds; whether something of it is new."""
        counts = self.counts[conversation.platform]
        before = counts.turns
        found = False
        try:
            for turn in self._turns(conversation, counts):
                stream = turn_stream(turn.platform, turn.id)
                if stream not in self._seen:
                    self._seen.add(stream)
                    found = self._count(turn, stream, conversation, counts) or found
        except MemsearchError as error:
            self.problems.append(str(error))
        counts.conversations += counts.turns > before
        return found

    def capture(self, conversation: Conversation) -> int:
        """Capture what is new of a conversation; how many turns will make an entry."""
        captured = 0
        batch: list[Event] = []
        try:
            for turn in self._turns(conversation, Counts()):
                stream = turn_stream(turn.platform, turn.id)
                if turn.state == "open" or self._is_known(turn, stream) or self._is_gone(turn):
                    continue
                # What the settings keep out today is left for the day when they do not.
                batch += [
                    event
                    for event in decide(self._engine, self._facts(conversation), turn)
                    if event.data.get("reason") not in (CAPTURE_OFF, EXCLUDED)
                ]
                if len(batch) >= BATCH_TURNS:
                    captured += self._write(batch)
                    batch = []
        except MemsearchError as error:
            self.problems.append(str(error))
        return captured + self._write(batch)

    # -- reading ---------------------------------------------------------------------------

    def _turns(self, conversation: Conversation, counts: Counts) -> Iterator[Turn]:
        """The wanted turns of a conversation; its last one is over when it rests."""
        source = registry.get(conversation.platform)
        rests = time.time() - conversation.changed.timestamp() > QUIET_SECONDS
        pointer = Pointer(
            conversation.platform,
            conversation.session,
            conversation.path,
            cwd=conversation.cwd,
        )
        start = 0
        while True:
            with redacted_reading(self._engine.settings().redact):
                reading = source.read(
                    pointer, start=start, not_before=self._wanted.since, is_ours=is_ours
                )
            counts.foreign += reading.foreign
            counts.unknown.update(reading.unknown)
            for turn in reading.turns:
                if self._is_wanted(turn, conversation):
                    yield settled(turn) if rests else turn
            if not reading.more or reading.resume <= start:
                return
            start = reading.resume

    def _is_wanted(self, turn: Turn, conversation: Conversation) -> bool:
        return self._wanted.project is None or (
            self._root(turn.cwd, conversation.cwd) == self._wanted.project
        )

    def _root(self, turn_cwd: str | None, cwd: str | None) -> str:
        key = (turn_cwd, cwd)
        if key not in self._roots:
            found = project_for(self._engine, turn_cwd, cwd, self._data["env"])
            self._roots[key] = found.root
        return self._roots[key]

    def _is_gone(self, turn: Turn) -> bool:
        """Whether a turn's project is no longer there: it must not come back because of us."""
        root = self._root(turn.cwd, None)
        return not os.path.isdir(root) and root != os.path.realpath(self._engine.home.unfiled)

    def _is_known(self, turn: Turn, stream: str) -> bool:
        facts = {"platform": turn.platform, "at": moment(turn), "copied": turn.copied}
        return is_known(self._engine.log, stream, facts)

    def _facts(self, conversation: Conversation) -> dict[str, Any]:
        return {**self._data, "cwd": conversation.cwd}

    # -- counting and writing --------------------------------------------------------------

    def _count(self, turn: Turn, stream: str, conversation: Conversation, counts: Counts) -> bool:
        counts.turns += 1
        if self._is_known(turn, stream):
            counts.known += 1
        elif turn.state == "open":
            counts.running += 1
        elif self._is_gone(turn):
            counts.gone += 1
        else:
            for event in decide(self._engine, self._facts(conversation), turn):
                self._count_new(event, turn.platform, counts)
            return True
        return False

    def _count_new(self, event: Event, platform: str, counts: Counts) -> None:
        if event.type is not EventType.TURN_CAPTURED or event.body is None:
            counts.skipped[str(event.data.get("reason"))] += 1
            return
        day = str(event.data["day"])
        counts.new += 1
        counts.first = min(counts.first or day, day)
        counts.last = max(counts.last, day)
        settings = self._engine.settings(event.data["project"]["root"])
        summarizer = summarizer_for(
            self._engine.part, settings, platform, self._engine.home, self._engine.environ
        )
        self.providers.add(summarizer.provider)
        counts.tokens += summarizer.estimate(load_turn(event.body))

    def _write(self, events: list[Event]) -> int:
        if not events:
            return 0
        with self._engine.log.transaction() as tx:
            return append_new(tx, events)
