"""Cost: a mass of embedding at a provider that bills for it waits until somebody agrees.

What a turn appends, and what a person edits, is embedded as it comes. A changed model, or a
folder of a thousand files, is not: its documents stop before ``embed`` with an estimate, and
``memsearch index --force`` (or a yes at its question) lets them go on.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsearch.pipeline.events import Event, EventType
from memsearch.pipeline.stages.documents import COST, model_of
from memsearch.sinks.chunker import embedding_text
from memsearch.sinks.milvus_errors import is_server
from memsearch.sinks.store import index_uri

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from memsearch.pipeline.engine import Engine
    from memsearch.pipeline.log import EventLog, Transaction
    from memsearch.pipeline.stages.documents import Document
    from memsearch.sinks.types import Embedder

#: Texts that are embedded unasked when several documents change at once: some 60,000 tokens.
ORDINARY_TEXTS = 200
#: Seconds until the next look, while documents are still being cut: only all of them together
#: tell whether it is a mass.
TOGETHER_SECONDS = 0.3
#: The command that lets it go on.
COMMAND = "memsearch index --force"


@dataclass(frozen=True, slots=True)
class Need:
    """What a document's embedding would take.

    Attributes:
        texts: Texts without a vector.
        agreed: Somebody agreed to it.
        appended: A captured turn changed the document, or something in it was forgotten.
        renewed: Its text is indexed; another model is to embed it.
    """

    texts: int
    agreed: bool = False
    appended: bool = False
    renewed: bool = False

    @property
    def is_free(self) -> bool:
        """It goes on whatever the others are."""
        return not self.texts or self.agreed or self.appended


def held_back(needs: Sequence[Need]) -> list[bool]:
    """Which of the documents that come together wait for somebody to agree. Pure.

    Args:
        needs: Of all documents that are to be embedded now.

    Returns:
        For each, whether it waits: of a changed model all, of new text all when they are more
        than ``ORDINARY_TEXTS``.
    """
    new = sum(need.texts for need in needs if not need.is_free and not need.renewed)
    return [not need.is_free and (need.renewed or new > ORDINARY_TEXTS) for need in needs]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What waits in a collection, and what it would take."""

    collection: str
    model: str
    documents: int
    texts: int
    tokens: int
    requests: int

    def __str__(self) -> str:
        return (
            f"{self.texts:,} texts of {self.documents} documents, about {self.tokens:,} tokens"
            f" in {self.requests:,} requests to {self.model}"
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON, with the command that lets it go on."""
        return {
            "collection": self.collection,
            "model": self.model,
            "documents": self.documents,
            "texts": self.texts,
            "tokens": self.tokens,
            "requests": self.requests,
            "command": COMMAND,
        }


def estimates(log: EventLog | Transaction) -> list[Estimate]:
    """What waits, by collection."""
    return [
        Estimate(
            row["collection"],
            row["model"],
            row["n"],
            row["texts"],
            row["tokens"],
            max(1, math.ceil(row["share"] - 1e-9)),
        )
        for row in log.rows(
            "SELECT d.collection, MAX(e.model) AS model, COUNT(*) AS n, SUM(e.texts) AS texts,"
            " SUM(e.tokens) AS tokens, SUM(e.share) AS share"
            " FROM documents AS d JOIN estimates AS e ON e.stream = d.stream"
            f" WHERE d.state = 'open' AND d.error_class = '{COST}' GROUP BY d.collection"
        )
    ]


def is_incomplete(engine: Engine, collection: str) -> bool:
    """Whether documents are still on their way to ``embed``, so that it looks again later."""
    now = time.time()
    if not engine.log.value(
        "SELECT COUNT(*) FROM documents WHERE collection = ? AND state = 'open'"
        " AND stage = 'chunk' AND (due IS NULL OR due <= ?)",
        (collection, now),
    ):
        return False
    with engine.log.transaction() as tx:
        tx.add_task("embed", collection, now + TOGETHER_SECONDS)
    return True


def hold(
    engine: Engine, embedder: Embedder, loaded: list[tuple[sqlite3.Row, Document]]
) -> list[tuple[sqlite3.Row, Document]]:
    """Take out of the documents that are to be embedded those that wait for somebody to agree.

    Args:
        engine: The engine.
        embedder: One that is ``paid``.
        loaded: Every document of a collection that is to be embedded now.

    Returns:
        Those that go on.
    """
    hashes = [chunk.content_hash for _, document in loaded for chunk in document.chunks]
    known = engine.cache().known(embedder.model, hashes, dimension=embedder.dimension)
    counted: set[str] = set()
    is_lite = not is_server(index_uri(engine.settings().milvus, engine.home, engine.environ))
    needs: list[Need] = []
    texts: list[list[str]] = []
    for row, document in loaded:
        unknown = {
            chunk.content_hash: embedding_text(chunk.content)
            for chunk in document.chunks
            if chunk.content_hash not in known
        }
        # A text that several documents have is embedded once, but each of them waits for it.
        texts.append([text for name, text in unknown.items() if name not in counted])
        counted.update(unknown)
        needs.append(
            Need(
                len(unknown),
                *_why(engine.log, row, is_lite=is_lite),
                renewed=row["indexed_hash"] == document.hash
                and model_of(row["identity"] or embedder.model) != embedder.model,
            )
        )
    going: list[tuple[sqlite3.Row, Document]] = []
    waits = held_back(needs)
    for (row, document), own, wait in zip(loaded, texts, waits, strict=True):
        if not wait:
            going.append((row, document))
            continue
        tokens, share = embedder.estimate(own)
        with engine.commit(row) as tx:
            if tx is None:
                continue
            data = {"stage": "embed", "reason": COST, "texts": len(own), "tokens": tokens}
            tx.append(Event(row["stream"], EventType.BUDGET_PAUSED, data))
            tx.execute(
                "INSERT OR REPLACE INTO estimates VALUES (?, ?, ?, ?, ?, ?)",
                (row["stream"], row["collection"], embedder.model, len(own), tokens, share),
            )
    if any(waits):
        engine.note("embedding_waits", documents=sum(waits), model=embedder.model)
    return going


def release(engine: Engine, collection: str | None = None, *, agreed: bool) -> int:
    """Let documents go on that wait.

    Args:
        engine: The engine.
        collection: Which; None for all.
        agreed: Somebody agreed to the cost; else they are only judged again.

    Returns:
        How many.
    """
    with engine.log.transaction() as tx:
        rows = tx.rows(
            f"SELECT stream, collection FROM documents WHERE state = 'open'"
            f" AND error_class = '{COST}' AND (? IS NULL OR collection = ?)",
            (collection, collection),
        )
        for row in rows:
            data: dict[str, Any] = {"stage": "embed", "by": COST}
            if agreed:
                data["agreed"] = True
            tx.append(Event(row["stream"], EventType.REPLAYED, data))
            tx.execute("DELETE FROM estimates WHERE stream = ?", (row["stream"],))
        for name in {row["collection"] for row in rows}:
            tx.add_task("embed", name)
    return len(rows)


def look(engine: Engine) -> None:
    """Judge what waits again when it waits for another model than the present one."""
    if not engine.log.value(
        f"SELECT COUNT(*) FROM documents WHERE state = 'open' AND error_class = '{COST}'"
    ):
        return
    embedder = engine.embedder()
    if not embedder.paid or any(
        estimate.model != embedder.model for estimate in estimates(engine.log)
    ):
        release(engine, agreed=False)


def _why(log: EventLog, row: sqlite3.Row, *, is_lite: bool) -> tuple[bool, bool]:
    """Whether somebody agreed to what a document costs, and whether a turn changed it."""
    rows = log.rows(
        "SELECT json_extract(data, '$.agreed') AS agreed, json_extract(data, '$.cause') AS cause"
        " FROM events WHERE stream = ? AND seq >= ? AND type IN (?, ?)",
        (
            row["stream"],
            row["change"],
            EventType.DOCUMENT_CHANGED.value,
            EventType.REPLAYED.value,
        ),
    )
    # What was forgotten must leave a server's index at once. Milvus Lite's is made anew, which
    # sends every document.
    free = ("append",) if is_lite else ("append", "forget")
    return any(each["agreed"] for each in rows), any(each["cause"] in free for each in rows)
