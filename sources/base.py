"""What a source gives: turns, whatever the agent and the format they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

#: A tool's output is kept to this many characters (head and tail, middle left out).
MAX_OUTPUT_CHARS = 2_000
#: One text of a turn (a user message, one block of an answer) is kept to this many.
MAX_TEXT_CHARS = 40_000
#: All items of one turn together are kept to this many.
MAX_TURN_CHARS = 200_000
#: One reading ends early (``Reading.more``) when its turns together hold this many.
MAX_READING_CHARS = 8_000_000

State = Literal["finished", "interrupted", "open"]


@dataclass(frozen=True, slots=True)
class Item:
    """One step of a turn.

    ``kind`` ``user`` and ``assistant`` carry ``text``. ``tool`` carries ``name``, ``text``
    (what was asked of it: a shell command whole, other inputs as compact JSON) and
    ``output`` (trimmed); ``failed`` says that the tool reported an error. ``note`` carries
    a fact of ours in ``text``, for instance that a provider error ended the turn.
    """

    kind: Literal["user", "assistant", "tool", "note"]
    text: str
    name: str = ""
    output: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One user message and everything the agent did until it stopped.

    Attributes:
        platform: ``claude-code``, ``codex``, ``openclaw`` or ``opencode``.
        id: The turn's own id; ``(platform, id)`` is its identity everywhere.
        session: The conversation it belongs to.
        at: When the user sent it, timezone-aware UTC.
        cwd: The agent's working directory at that moment, absolute; None if unknown.
        items: What was said and done, in order, bounded.
        state: ``open`` while the agent still works on it.
        anchor: Where its words lie: ``{"transcript": path}``, ``{"rollout": path}`` or
            ``{"db": path}``, absolute.
        position: Its place in the transcript (a byte offset or a row), for ordering
            turns of one session that carry the same time.
        truncated: Characters left out to stay within the bounds.
        aliases: Other ids by which a hook may name this turn, because the agent went on
            in it without a new message of the user (a background task ended, a local
            command ran). They are never the id of a turn of their own.
        private: Everything the user said was private: ``items`` is empty, and the turn is
            to be counted as skipped, not stored.
        copied: It was said in another conversation, which is gone, and has another id there:
            a turn of the same agent at the same moment is this one.
    """

    platform: str
    id: str
    session: str
    at: datetime
    cwd: str | None
    items: tuple[Item, ...]
    state: State
    anchor: Mapping[str, str]
    position: int = 0
    truncated: int = 0
    aliases: tuple[str, ...] = ()
    private: bool = False
    copied: bool = False

    def answers_to(self, name: str) -> bool:
        """Whether a hook that gives ``name`` means this turn."""
        return name == self.id or name in self.aliases


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a hook said: where to look, not what was said.

    ``path`` is the transcript or database, absolute; ``turn`` the hooked turn's id where
    the hook gave one. ``at`` is when the hook came (aware UTC), where that tells which turn
    it means: without ``turn`` the last one that had begun by then, and the last of all where
    none had.
    """

    platform: str
    session: str
    path: str
    turn: str | None = None
    cwd: str | None = None
    event: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)
    at: datetime | None = None

    def means(self, turn: Turn) -> bool:
        """Whether the hook may be about a turn; without an id the last such one is meant."""
        if self.turn is not None:
            return turn.answers_to(self.turn)
        return self.at is None or turn.at <= self.at


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look into a transcript gave.

    Attributes:
        turns: Every turn found from ``start`` on, oldest first, unfinished ones too.
        resume: Where the next look may begin so that nothing is missed: the byte offset
            of the first record of the last turn, finished or not (an agent can go on in
            a turn that looked finished), else the offset after the last whole line.
        unknown: Record types that were not known, and how often.
        skipped: Lines that could not be decoded, and why, by reason.
        torn: The last line is not whole yet.
        more: Turns were left out to stay within ``MAX_READING_CHARS``; they are got by
            reading on from ``resume``, which lies before them. The hooked turn is never
            left out.
        foreign: The conversation is not the user's: a subagent's, or our own summariser's.
    """

    turns: tuple[Turn, ...]
    resume: int
    unknown: Mapping[str, int]
    skipped: Mapping[str, int]
    torn: bool
    more: bool = False
    foreign: bool = False

    def find(self, name: str | None) -> Turn | None:
        """The turn that a hook means by ``name``; the last one when it gave none."""
        if name is None:
            return self.turns[-1] if self.turns else None
        return next((turn for turn in reversed(self.turns) if turn.answers_to(name)), None)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that an agent keeps, before it is read.

    Attributes:
        platform: The agent.
        session: Its id; empty where only its records say it.
        path: The transcript or database, absolute.
        changed: When something was last written to it, aware UTC.
        size: Bytes of its own file; 0 where many conversations share one.
        cwd: Where the agent worked, if the listing says so.
    """

    platform: str
    session: str
    path: str
    changed: datetime
    size: int = 0
    cwd: str | None = None


class Source(Protocol):
    """How one agent is read. One module per agent implements it."""

    #: The platform's name in events, anchors and ``--platform``.
    platform: str
    #: How the agent is called in notes, for instance ``Claude Code``.
    display_name: str
    #: Whether ``resume`` is a place in a file of one conversation. Where one database holds
    #: many, a look begins at the last turn that is known instead.
    resumable: bool
    #: Whether a hook's ``agent_id`` names a subagent, whose turns are not the user's.
    agent_is_subagent: bool
    #: Whether a root itself is a transcript: its releases may keep one file for each message.
    root_is_transcript: bool

    def conversations(self, environ: Mapping[str, str]) -> Iterator[Conversation]:
        """Every conversation of the user that the agent keeps, without reading any.

        Raises:
            MemsearchError: ``BAD_FILE`` for a database whose schema is not known.
        """
        ...

    def locate(self, session: str, environ: Mapping[str, str], agent: str = "") -> str | None:
        """Where a session lies that a hook named without a path; None: it is not kept.

        ``agent`` is the ``agent_id`` that the hook gave, for agents of which there are many.
        """
        ...

    def roots(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The folders under which this agent's files may be read, absolute real paths."""
        ...

    def read(
        self,
        pointer: Pointer,
        *,
        start: int | None,
        not_before: datetime | None,
        is_ours: Callable[[str], bool] = lambda _text: False,
    ) -> Reading:
        """Read turns in bounded memory.

        Args:
            pointer: Where to look.
            start: Byte offset to begin at (a ``resume`` of an earlier reading). None:
                read the shortest tail that holds the hooked turn whole and every turn
                that began at or after ``not_before``; without ``pointer.turn`` the last
                turn counts as the hooked one. An offset that cannot belong to this file
                (past its end, or inside a line) means 0.
            not_before: Turns that began before this are left out, except the hooked one.
                None: all turns.
            is_ours: Says that a user text is our own summariser's prompt; a session that
                begins with one gives no turns.

        Raises:
            MemsearchError: ``BAD_FILE`` when the path is missing or unreadable, with the
                path and the reason; ``PERMISSION`` when access is denied.
        """
        ...

    def conversation(
        self, path: str, session: str, turn: str | None, *, context: int = 3
    ) -> tuple[Turn, ...]:
        """The turn with ``context`` turns before and after it; without ``turn`` the last ones.

        Raises:
            MemsearchError: ``BAD_FILE`` when the file cannot be read or does not hold the
                turn; ``PERMISSION`` when access is denied.
        """
        ...
