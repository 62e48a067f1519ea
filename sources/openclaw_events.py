"""What OpenClaw's events say, and the turns that they make up.

Its database and the JSONL files of older releases hold the same events.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memsearch.sources.base import Pointer, State, Turn
from memsearch.sources.bounds import beginning, compact_input
from memsearch.sources.builder import TurnBuilder
from memsearch.sources.cleaning import blocks_of, clean, text_of
from memsearch.sources.injected import strip_blocks, strip_injected
from memsearch.sources.jsonl import count
from memsearch.sources.lines import Record
from memsearch.sources.private import strip_private
from memsearch.sources.recent import RecentSet
from memsearch.sources.times import parse_time

PLATFORM = "openclaw"

#: What OpenClaw puts into a message for the model alone.
_INTERNAL = ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>")
#: How what subagents found begins where it is put before the user's words, and what is between.
_RUNTIME, _WORDS = "[OpenClaw runtime event]", "\n\nCurrent parent turn:\n\n"
#: When a message was sent, which older releases write before it.
_SENT = re.compile(
    r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d(?: [^\]\n]{1,40})?\] "
)
#: Where a message comes from when no person wrote it.
_NOT_HUMAN = frozenset({"inter_session", "internal_system"})
#: Models that are none: copies of what was sent to a channel.
_MIRRORS = frozenset({"delivery-mirror", "gateway-injected"})
#: Events that are no talk.
_SILENT = frozenset(
    {
        "branch_summary",
        "compaction",
        "custom",
        "custom_message",
        "label",
        "leaf",
        "model_change",
        "session",
        "session_info",
        "thinking_level_change",
    }
)
_SILENT_ROLES = frozenset(
    {"custom", "system", "bashExecution", "branchSummary", "compactionSummary"}
)
_SILENT_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning"})
#: Tools whose input is one command, which is given as it is.
_SHELLS = frozenset({"exec", "bash", "shell"})
#: Keys of a tool's input that are never cut.
_WHOLE_KEYS = frozenset({"command"})
#: How an answer ends that the model goes on after.
_GOES_ON = frozenset({"toolUse", "tool_use"})
#: Aliases that a turn keeps.
_MAX_ALIASES = 200
#: Events whose copies are recognised (about 100 bytes each).
_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A message of the user.

    Attributes:
        id: The event's id, which is the turn's.
        run: The id of the run that it began, by which a hook may name the turn.
        at: When it was sent.
        text: The words, without what is private or injected.
        raw: The same before that.
        private: Something in it was private.
        human: A person wrote it.
    """

    id: str
    run: str
    at: datetime | None
    text: str
    raw: str
    private: bool
    human: bool

    @property
    def opens(self) -> bool:
        """Whether it begins a turn."""
        return self.human and bool(self.text or self.private)


def read_asked(record: Record) -> Asked | None:
    """The user's message in an event; None when it holds none. Pure; takes any shape."""
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict):
        return None
    if message.get("role") != "user":
        return None
    parts: list[str] = []
    for block in blocks_of(message.get("content")):
        kind = text_of(block.get("type"))
        if kind == "text":
            parts.append(_own_words(strip_blocks(text_of(block.get("text")), *_INTERNAL)))
        elif kind == "image":
            parts.append("[image]")
    raw = "\n".join(part for part in parts if part.strip())
    words, private = strip_private(strip_injected(raw))
    origin = message.get("provenance")
    key = text_of(message.get("idempotencyKey"))
    run = key.removesuffix(":user") if key.endswith(":user") else ""
    return Asked(
        # Without an id turns could not be told apart: what they are called must not change.
        id=text_of(record.get("id")) or run or _made_up_id(record, raw),
        run=run,
        at=parse_time(message.get("timestamp")) or parse_time(record.get("timestamp")),
        text=words.strip(),
        raw=raw,
        private=private,
        human=not (isinstance(origin, dict) and origin.get("kind") in _NOT_HUMAN),
    )


def _own_words(text: str) -> str:
    """A message without what OpenClaw put before it. Pure."""
    text = _SENT.sub("", text, count=1) if _SENT.match(text) else text
    # What a subagent found may hold these words too: the user's begin behind the last ones.
    return text.rpartition(_WORDS)[2] if text.startswith(_RUNTIME) and _WORDS in text else text


def _made_up_id(record: Record, words: str) -> str:
    parts = (text_of(record.get("timestamp")), words)
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def run_of(record: Record) -> str:
    """The id of the run that wrote an event, where it says so."""
    message = record.get("message")
    about = message.get("__openclaw") if isinstance(message, dict) else None
    return text_of(about.get("runId")) if isinstance(about, dict) else ""


@dataclass(slots=True)
class _Run:
    """A turn that is going on."""

    id: str
    position: int
    at: datetime | None
    cwd: str | None
    steps: TurnBuilder = field(default_factory=TurnBuilder)
    private: bool = False
    ended: bool = False
    interrupted: bool = False
    #: The conversation was reset: nothing more comes.
    reset: bool = False
    last_is_answer: bool = False
    aliases: list[str] = field(default_factory=list)

    def alias(self, name: str) -> None:
        if name and name != self.id and name not in self.aliases:
            self.aliases.append(name)
            del self.aliases[:-_MAX_ALIASES]


class EventFold:
    """OpenClaw's events in, turns out.

    Args:
        pointer: The conversation.
        fallback: The time of turns whose events carry none.
        head: The conversation's first event, which says where the agent works.
    """

    def __init__(self, pointer: Pointer, fallback: datetime, head: Mapping[str, Any]) -> None:
        self.unknown: Counter[str] = Counter()
        self._session = pointer.session
        cwd = text_of(head.get("cwd"))
        self._cwd = cwd if os.path.isabs(cwd) else pointer.cwd
        # The database of today has another name; a file keeps this one when it is reset.
        key = "transcript" if ".jsonl" in os.path.basename(pointer.path) else "db"
        self._anchor = {key: os.path.abspath(pointer.path)}
        self._fallback = fallback
        self._seen = RecentSet(_REMEMBERED)
        self._current: _Run | None = None

    @property
    def resume(self) -> int | None:
        return self._current.position if self._current is not None else None

    def feed(self, record: Record, offset: int) -> list[Turn]:
        name = text_of(record.get("id"))
        kind = text_of(record.get("type"))
        if name and kind != "session" and not self._seen.add(name):
            return []
        if kind == "message":
            return self._message(record, offset)
        if kind == "reset":
            if self._current is not None:
                self._current.reset = True
        elif kind not in _SILENT:
            count(kind or "(no type)", self.unknown)
        return []

    def finish(self) -> list[Turn]:
        return [] if self._current is None else [self._build(self._current, next_began=False)]

    def _message(self, record: Record, offset: int) -> list[Turn]:
        message = record.get("message")
        details: dict[str, Any] = message if isinstance(message, dict) else {}
        role = text_of(details.get("role"))
        asked = read_asked(record)
        if asked is not None:
            return self._ask(asked, offset)
        if role in _SILENT_ROLES:
            return []
        if role not in ("assistant", "toolResult"):
            count(f"role:{role or '(none)'}", self.unknown)
        elif self._current is None or self._current.reset:
            count(f"{role} without a turn", self.unknown)
        else:
            if role == "assistant":
                self._answer(self._current, details)
            else:
                self._result(self._current, details)
            self._current.alias(run_of(record))
        return []

    def _ask(self, asked: Asked, offset: int) -> list[Turn]:
        if not asked.opens:
            if self._current is not None:
                # Nobody's words: what the agent does about them belongs to the turn before.
                self._current.alias(asked.id)
                self._current.alias(asked.run)
            return []
        run, self._current = (
            self._current,
            _Run(asked.id, offset, asked.at, self._cwd, private=asked.private),
        )
        self._current.alias(asked.run)
        if asked.text:
            self._current.steps.add("user", asked.text)
        return [] if run is None else [self._build(run, next_began=True)]

    def _answer(self, run: _Run, message: dict[str, Any]) -> None:
        if text_of(message.get("model")) in _MIRRORS:
            return
        run.interrupted = False
        for block in blocks_of(message.get("content")):
            kind = text_of(block.get("type"))
            if kind == "text":
                text = clean(text_of(block.get("text"))).strip()
                if text:
                    run.steps.add("assistant", text)
                    run.last_is_answer = True
            elif kind in ("toolCall", "tool_use"):
                self._call(run, block)
            elif kind == "image":
                run.steps.add("assistant", "[image]")
            elif kind not in _SILENT_BLOCKS:
                count(f"block:{kind or '(none)'}", self.unknown)
        reason = text_of(message.get("stopReason"))
        run.ended = bool(reason) and reason not in _GOES_ON
        if reason == "aborted":
            run.interrupted = True
            run.steps.add("note", "The user interrupted this turn.")
        elif reason == "error":
            why = beginning(clean(text_of(message.get("errorMessage"))), 400)
            run.steps.add("note", f"The provider failed: {why or 'no reason given'}")

    @staticmethod
    def _call(run: _Run, block: dict[str, Any]) -> None:
        name = clean(text_of(block.get("name"))) or "tool"
        asked = block.get("arguments", block.get("input"))
        command = asked.get("command") if isinstance(asked, dict) else None
        if name in _SHELLS and isinstance(command, str):
            text = clean(command)
        else:
            text = compact_input(asked, clean, _WHOLE_KEYS)
        run.steps.call(text_of(block.get("id")), name, text)
        run.last_is_answer = False

    @staticmethod
    def _result(run: _Run, message: dict[str, Any]) -> None:
        texts = [
            text_of(block.get("text")) if block.get("type") == "text" else "[image]"
            for block in blocks_of(message.get("content"))
        ]
        details = message.get("details")
        code = details.get("exitCode") if isinstance(details, dict) else 0
        failed = message.get("isError") is True or code not in (0, None)
        output = clean("\n".join(texts)).strip("\n")
        if run.steps.result(text_of(message.get("toolCallId")), output, failed=failed):
            run.last_is_answer = run.ended = False

    def _build(self, run: _Run, *, next_began: bool) -> Turn:
        state, notes = _ending(run, next_began=next_began or run.reset)
        return run.steps.build(
            platform=PLATFORM,
            id=run.id,
            session=self._session,
            at=run.at or self._fallback,
            cwd=run.cwd,
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
    if run.ended or (next_began and run.last_is_answer):
        return "finished", ()
    if next_began:
        return "interrupted", ("This turn was cut off before it ended.",)
    return "open", ()
