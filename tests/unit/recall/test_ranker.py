"""A ranking while workers write: at whatever moment the index changes, text on disk is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from memsearch.config.project import Project
from memsearch.recall import scan
from memsearch.recall.freshness import Freshness, Unindexed
from memsearch.recall.legs import Asked, Ranker, Scope
from memsearch.recall.scan import ChunkLimits, Scan
from memsearch.sinks.bm25 import Bm25Index
from memsearch.sinks.keywords import query_keywords
from memsearch.sinks.types import Filters, Hit, Vectors

LIMITS = ChunkLimits()
WORD = "flibbertigibbet"
OLD = "# Notes\n\n## One\n\nabout the heap\n"
#: What a human made of it, and what became of that while the question was answered.
STATES = {
    "a section is added": f"{OLD}\n## Two\n\nthe {WORD} is in the cellar\n",
    "a section is longer": f"{OLD}the {WORD} is in the cellar\n",
    "a section is split": f"# Notes\n\n## A\n\nabout the heap\n\n## B\n\nthe {WORD} is in it\n",
}


@dataclass
class Writing:
    """An index of real chunks, into which a worker writes before one of its calls."""

    scripts: dict[int, Callable[[Writing], None]]
    rows: dict[str, Hit] = field(default_factory=dict)
    calls: int = 0

    def put(self, hits: tuple[Hit, ...]) -> None:
        self.rows |= {hit.chunk_hash: hit for hit in hits}

    def drop(self, hits: tuple[Hit, ...]) -> None:
        for hit in hits:
            self.rows.pop(hit.chunk_hash, None)

    def _call(self) -> None:
        if self.calls in self.scripts:
            self.scripts[self.calls](self)
        self.calls += 1

    def dimension(self, collection: str) -> int:
        self._call()
        return 2

    def identity(self, collection: str) -> None:
        self._call()

    def ids(self, collection: str, source: str) -> set[str]:
        self._call()
        return {key for key, hit in self.rows.items() if hit.source == source}

    def dense(self, collection: str, vector: Vectors, limit: int, filters: Filters) -> list[Hit]:
        self._call()
        return []

    def keyword(self, collection: str, keywords: str, limit: int, filters: Filters) -> list[Hit]:
        self._call()
        weighing = Bm25Index()
        for key, hit in self.rows.items():
            weighing.put(key, scan.hit_keywords(hit))
        return [self.rows[key] for key, _ in weighing.search(keywords)[:limit]]


def cut(project: Project, text: str) -> tuple[Scan, tuple[Hit, ...]]:
    """A document that the index does not hold as it is now, read as a search reads it."""
    path = os.path.join(project.memory_dir, "notes.md")
    Path(path).write_text(text, encoding="utf-8")
    document = Unindexed(project, ".memsearch/memory/notes.md", path, 1, len(text))
    texts = scan.read([document], "m", LIMITS)
    return texts, texts.chunks[document]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    memory = tmp_path / ".memsearch" / "memory"
    memory.mkdir(parents=True)
    return Project(str(tmp_path), str(memory), str(tmp_path), "c1")


def ranked(project: Project, texts: Scan, index: Writing) -> list[str]:
    asked = Asked(WORD, query_keywords(WORD), np.ones(2, dtype=np.float32))
    scope = Scope(project, freshness=Freshness(documents=1, unindexed=tuple(texts.chunks)))
    return [item.hit.content for item in Ranker(asked, [scope], texts).rank(index, Filters())]


def writes(old: tuple[Hit, ...], new: tuple[Hit, ...]) -> list[Callable[[Writing], None]]:
    """What ``upsert`` does to the store, one call after the other."""
    gone = tuple(hit for hit in old if hit not in new)
    return [lambda index: index.put(new), lambda index: index.drop(gone)]


@pytest.mark.parametrize("state", STATES)
def test_a_document_that_comes_into_the_index_meanwhile(project: Project, state: str) -> None:
    _, old = cut(project, OLD)
    texts, new = cut(project, STATES[state])
    quiet = Writing({}, {hit.chunk_hash: hit for hit in old})
    assert any(WORD in text for text in ranked(project, texts, quiet))
    first, second = writes(old, new)
    moments = [(a, b) for a in range(quiet.calls + 1) for b in range(a, quiet.calls + 1)]
    assert len(moments) > 20
    for a, b in moments:
        both = {a: first, b: second}
        if a == b:
            both = {a: lambda index: [each(index) for each in (first, second)]}
        index = Writing(both, dict(quiet.rows))
        assert any(WORD in text for text in ranked(project, texts, index)), (a, b)


@pytest.mark.parametrize("state", STATES)
def test_a_document_that_is_edited_again_meanwhile(project: Project, state: str) -> None:
    """What was read is in the index already; its next state takes its place there."""
    texts, held = cut(project, STATES[state])
    _, later = cut(project, STATES[state].replace("the ", "one more: the "))
    quiet = Writing({}, {hit.chunk_hash: hit for hit in held})
    ranked(project, texts, quiet)
    first, second = writes(held, later)
    for a in range(quiet.calls + 1):
        for b in range(a + 1, quiet.calls + 2):
            index = Writing({a: first, b: second}, dict(quiet.rows))
            assert any(WORD in text for text in ranked(project, texts, index)), (a, b)


def test_what_the_index_holds_is_left_to_it(project: Project) -> None:
    """Nothing of a large document is weighed here but what the index lacks."""
    texts, hits = cut(project, "# N\n" + "".join(f"\n## S{n}\n\n{WORD} {n}\n" for n in range(50)))
    index = Writing({}, {hit.chunk_hash: hit for hit in hits[:-1]})
    asked = Asked(WORD, query_keywords(WORD), None)
    scope = Scope(project, freshness=Freshness(documents=1, unindexed=tuple(texts.chunks)))
    ranker = Ranker(asked, [scope], texts)
    ranker.rank(index, Filters())
    assert ranker.unindexed == {hits[-1].chunk_hash}
