"""What the three index stages share: a document read again, and the identity of the index."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsearch.config.project import ARCHIVE_FOLDER, JOURNAL_FOLDER
from memsearch.sinks import embedders
from memsearch.sinks.chunker import CHUNKER_VERSION, chunk_document
from memsearch.sinks.documents import load_document
from memsearch.sinks.keywords import KEYWORDS_VERSION, chunk_keywords
from memsearch.sinks.types import Row

if TYPE_CHECKING:
    import sqlite3

    from memsearch.pipeline.engine import Engine
    from memsearch.sinks.types import Chunk, Vectors


@dataclass(frozen=True, slots=True)
class Document:
    """A Markdown file as it is now, in pieces. ``hash`` is empty when the file is gone."""

    chunks: tuple[Chunk, ...]
    mtime_ns: int | None
    size: int | None
    hash: str

    @property
    def missing(self) -> bool:
        return not self.hash


MISSING = Document((), None, None, "")


def load(engine: Engine, row: sqlite3.Row) -> Document:
    """Read and chunk the document of a row.

    The stages read the file again instead of handing chunks on, so that no text lies between
    them; a file that changed meanwhile sends the document back to ``chunk``.

    Raises:
        MemsearchError: ``BAD_FILE`` or ``PERMISSION``.
    """
    path = row["path"]
    # A link is no document of its own: a pulled repository could put one in the place of an
    # indexed file, to something that was never meant to be searched.
    if os.path.islink(path) or not os.path.exists(path):
        return MISSING
    document = load_document(path)
    chunking = engine.settings(row["project"]).chunking
    chunks = chunk_document(
        document.text,
        row["source"],
        max_chunk_size=chunking.max_chunk_size,
        overlap_lines=chunking.overlap_lines,
        archived=is_archived(path),
    )
    return Document(tuple(chunks), document.state.mtime_ns, document.state.size, document.sha256)


def is_archived(path: str) -> bool:
    """Whether a document lies where compaction puts journals: ``archive/`` beside ``memory/``."""
    folder = os.path.dirname(path)
    return os.path.basename(folder) == ARCHIVE_FOLDER and os.path.isdir(
        os.path.join(os.path.dirname(folder), JOURNAL_FOLDER)
    )


def identity(engine: Engine) -> str:
    """What must be the same for two vectors or two keyword lists to be compared."""
    return identity_of(embedders.identity(engine.settings().embedding))


def identity_of(model: str) -> str:
    """The identity of an index with a model's vectors and the present rules.

    Args:
        model: As ``Embedder.model`` gives it.
    """
    return f"{model}/chunker-{CHUNKER_VERSION}/keywords-{KEYWORDS_VERSION}"


def model_of(identity: str) -> str:
    """The model in an identity."""
    return identity.partition("/chunker-")[0]


def row_of(name: str, chunk: Chunk, vector: Vectors) -> Row:
    """A chunk as it lies in the index.

    Args:
        name: Its id.
        chunk: The chunk.
        vector: Shape ``(dimension,)``.
    """
    return Row(
        chunk_hash=name,
        embedding=vector,
        content=chunk.content,
        keywords=chunk_keywords(chunk),
        source=chunk.source,
        heading=chunk.heading,
        heading_level=chunk.heading_level,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        platform=chunk.platform,
        session=chunk.session,
        turn=chunk.turn,
        day=chunk.day,
        kind=chunk.kind,
    )


#: ``error_class`` of a document that waits until somebody agrees to what embedding it costs.
COST = "cost"

OPEN = (
    "SELECT * FROM documents WHERE collection = ? AND stage = ? AND state = 'open'"
    f" AND (due IS NULL OR due <= ?) AND COALESCE(error_class, '') <> '{COST}'"
    " ORDER BY changed_at, stream LIMIT ?"
)
