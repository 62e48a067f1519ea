"""Events: the immutable facts of the log, and their types."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memsearch.config import statedb


class EventType(enum.StrEnum):
    """Everything that can happen, by the name it has in the log."""

    HOOK_RECEIVED = "HookReceived"
    HOOK_CAPTURED = "HookCaptured"
    TURN_CAPTURED = "TurnCaptured"
    TURN_SKIPPED = "TurnSkipped"
    TURN_SUMMARIZED = "TurnSummarized"
    TURN_APPENDED = "TurnAppended"
    TURN_FORGOTTEN = "TurnForgotten"
    DOCUMENT_CHANGED = "DocumentChanged"
    DOCUMENT_CHUNKED = "DocumentChunked"
    DOCUMENT_EMBEDDED = "DocumentEmbedded"
    DOCUMENT_INDEXED = "DocumentIndexed"
    DOCUMENT_REMOVED = "DocumentRemoved"
    STAGE_FAILED = "StageFailed"
    DEAD_LETTERED = "DeadLettered"
    REPLAYED = "Replayed"
    DISCARDED = "Discarded"
    BUDGET_PAUSED = "BudgetPaused"
    DIGEST_SUMMARIZED = "DigestSummarized"
    COMPACTED = "Compacted"
    COMPACT_FAILED = "CompactFailed"


@dataclass(frozen=True, slots=True)
class Event:
    """One fact.

    Attributes:
        stream: What it is about: ``hook:<id>``, ``turn:<platform>:<id>``,
            ``doc:<collection>/<source>`` or ``compact:<collection>``.
        type: What happened.
        data: JSON-able facts, without any text of a conversation.
        body: The text that belongs to it, kept in ``payloads`` so that it can be dropped.
        at: UTC, ISO 8601 with milliseconds.
        seq: The place in the log; 0 until it is written.
    """

    stream: str
    type: EventType
    data: Mapping[str, Any] = field(default_factory=dict)
    body: str | None = None
    id: str = field(default_factory=statedb.new_id)
    at: str = field(default_factory=statedb.utc_now)
    seq: int = 0


def turn_stream(platform: str, turn: str) -> str:
    """The stream of a turn; ``(platform, turn id)`` is its identity."""
    return f"turn:{platform}:{turn}"


def document_stream(collection: str, source: str) -> str:
    """The stream of a document: the same file in two collections is two documents."""
    return f"doc:{collection}/{source}"


def compact_stream(collection: str) -> str:
    """The stream of a project's compactions."""
    return f"compact:{collection}"


def session_key(platform: str, session: str) -> str:
    """The key of an append task: one session of one agent."""
    return f"{platform}:{session}"


def split_session_key(key: str) -> tuple[str, str]:
    """``(platform, session)`` of a session's key."""
    platform, _, session = key.partition(":")
    return platform, session
