"""The shapes that the sinks exchange: chunks, rows of the index, hits, filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors: TypeAlias = npt.NDArray[np.float32]
else:
    Vectors = Any  # numpy costs 0.1 s to import, and journals are read without it

Kind = Literal["entry", "note", "digest", "archive"]

#: Keys of what ``Store.identity`` holds: what the rows were made by (model and rules), and
#: whether some of them have no vector of that model, so that none may be compared.
IDENTITY, PARTIAL = "identity", "partial"


@dataclass(frozen=True, slots=True)
class Section:
    """One ATX section of a document.

    ``line`` is the 1-based number of its heading (or of its first body line when it has
    no heading), ``end_line`` of its last line, inclusive. ``body`` leaves the heading
    line out.
    """

    heading: str
    level: int
    line: int
    end_line: int
    body: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document, within the limits of the index.

    ``start_line`` and ``end_line`` are 1-based and inclusive. ``content_hash`` is the
    SHA-256 hex of the content in UTF-8. ``platform``, ``session``, ``turn`` come from the
    entry's anchor and ``day`` from the file's name; empty or 0 when there are none.
    """

    source: str
    heading: str
    heading_level: int
    start_line: int
    end_line: int
    content: str
    content_hash: str
    kind: Kind = "note"
    platform: str = ""
    session: str = ""
    turn: str = ""
    day: int = 0  # yyyymmdd


@dataclass(frozen=True, slots=True)
class Row:
    """A chunk as it lies in the index: the schema of the collection, in its order."""

    chunk_hash: str
    embedding: Vectors  # shape (dimension,), float32, L2 norm 1
    content: str
    keywords: str
    source: str
    heading: str
    heading_level: int
    start_line: int
    end_line: int
    platform: str
    session: str
    turn: str
    day: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Hit:
    """One row that a leg found. ``score`` is the leg's own, larger is better."""

    chunk_hash: str
    score: float
    content: str
    source: str
    heading: str
    heading_level: int
    start_line: int
    end_line: int
    platform: str
    session: str
    turn: str
    day: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions applied inside each leg, before ranking. Empty means no condition.

    ``since`` and ``until`` are inclusive. ``source_prefix`` is compared character by
    character with the stored source. ``kinds`` are the kinds that may answer.
    """

    since: date | None = None
    until: date | None = None
    platform: str = ""
    session: str = ""
    source_prefix: str = ""
    kinds: tuple[Kind, ...] = ("entry", "note", "digest")


class Embedder(Protocol):
    """Text to vectors. Thread-safe; heavy things are loaded at the first call."""

    #: Identity of the model, for the cache and the index: for instance
    #: ``onnx/multilingual-e5-small-q4``.
    model: str
    #: Length of a vector, or None while an endpoint has not told yet.
    dimension: int | None
    #: Calls may cost money: they go to somebody else's machine, and not to an Ollama there.
    paid: bool
    #: Texts that one call or request takes at the most.
    batch_size: int

    def embed_passages(self, texts: list[str]) -> Vectors:
        """Vectors of stored texts: shape ``(len(texts), dimension)``, float32, L2 norm 1.

        Raises:
            MemsearchError: with the class of the provider's failure.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question: shape ``(dimension,)``, float32, L2 norm 1."""
        ...

    def estimate(self, texts: list[str]) -> tuple[int, float]:
        """What ``embed_passages`` would take: tokens, and requests with their fraction.

        Only of interest where ``paid``.
        """
        ...

    def close(self) -> None:
        """Let go of the model."""
        ...


class Store(Protocol):
    """The shadow index: collections of rows, searched by vector and by keyword.

    Thread-safe. Every method raises ``MemsearchError``: ``BUSY`` when another process
    holds the database, ``PERMISSION``, ``DAMAGED``, ``NETWORK``/``TIMEOUT`` for a server.
    """

    def ensure(self, collection: str, dimension: int) -> None:
        """Create the collection with the schema of the design if it is missing; load it."""
        ...

    def exists(self, collection: str) -> bool: ...

    def dimension(self, collection: str) -> int | None:
        """Length of the collection's vectors; None when there is no such collection."""
        ...

    def drop(self, collection: str) -> None:
        """Drop the collection; a missing one is no error."""
        ...

    def swap(self, collection: str) -> None:
        """Put the collection that was built aside in place of the old one, which goes."""
        ...

    def identity(self, collection: str) -> dict[str, Any] | None:
        """What ``set_identity`` stored; None when there is nothing, or no such collection."""
        ...

    def set_identity(self, collection: str, identity: Mapping[str, Any]) -> None:
        """Store with the collection what its rows were made by, durably."""
        ...

    def upsert(self, collection: str, rows: list[Row]) -> None:
        """Write rows by their id, in batches."""
        ...

    def delete(self, collection: str, chunk_hashes: list[str]) -> None: ...

    def ids(self, collection: str, source: str) -> set[str]:
        """The ids of one document's rows, read with strong consistency."""
        ...

    def rows_of(self, collection: str, source: str) -> list[Hit]:
        """All rows of one document, with score 1."""
        ...

    def counts(self, collection: str) -> dict[str, int]:
        """Rows per source, of the whole collection."""
        ...

    def get(self, collection: str, chunk_hash: str) -> Hit | None:
        """One row by its id, or by a prefix of at least 8 hex digits.

        Raises:
            MemsearchError: ``BAD_REQUEST`` for what is no id, and for the beginning of several.
        """
        ...

    def dense(self, collection: str, vector: Vectors, limit: int, filters: Filters) -> list[Hit]:
        """Nearest rows by cosine, best first; an absent or empty collection gives []."""
        ...

    def keyword(self, collection: str, keywords: str, limit: int, filters: Filters) -> list[Hit]:
        """Best rows by BM25 over ``keywords`` (already run through ``sinks.keywords``)."""
        ...

    def close(self) -> None:
        """Let go of the database, so that another process can open it at once."""
        ...


@dataclass(frozen=True, slots=True)
class Anchor:
    """The HTML comment of a journal entry: where the turn's own words lie.

    ``platform`` is told by the keys when the comment names none: ``transcript`` Claude
    Code, ``rollout`` Codex, ``db`` OpenCode or OpenClaw by the path.
    """

    session: str = ""
    turn: str = ""
    platform: str = ""
    transcript: str = ""
    rollout: str = ""
    db: str = ""
    extra: tuple[tuple[str, str], ...] = field(default=())

    @property
    def path(self) -> str:
        """The file that holds the words, with ``~`` as written."""
        return self.transcript or self.rollout or self.db


@dataclass(frozen=True, slots=True)
class Entry:
    """What the pipeline asks the journal to hold: one turn, in its own local day and time."""

    session: str
    turn: str
    day: date
    time: str  # HH:MM, local time of the user's message
    anchor: Anchor
    bullets: tuple[str, ...]  # without the leading "- ", one line each
