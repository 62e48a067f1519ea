"""Memories to measure recall on: the two sets of ``data/recall``, put into an index.

The real model and Milvus Lite, filled directly with what the index stages would write. The
tests of recall's quality and ``benchmarks/recall.py`` share this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from memsearch.config.paths import Home
from memsearch.config.project import Project
from memsearch.pipeline.stages.documents import row_of
from memsearch.recall.dedupe import fold
from memsearch.recall.legs import Asked, Ranker, Scope
from memsearch.recall.scan import Scan
from memsearch.recall.search import Answer, Means, SearchOptions, search
from memsearch.sinks.cache import EmbeddingCache
from memsearch.sinks.chunker import chunk_document, embedding_text
from memsearch.sinks.ids import chunk_hash
from memsearch.sinks.keywords import query_keywords
from memsearch.sinks.language import Direction, add_up, direction
from memsearch.sinks.types import Chunk, Embedder, Filters, Row, Store, Vectors

DATA = Path(__file__).parent / "data" / "recall"
#: Entries of one journal.
A_DAY = 12
FIRST_DAY = date(2026, 1, 5)


@dataclass
class Memory:
    """A collection and the ways to ask it."""

    store: Store
    embedder: Embedder
    collection: str
    home: Home
    directions: Mapping[str, Direction]

    def search(self, question: str, **options: Any) -> list[str]:
        """The texts of the results, without heading and bullet."""
        return [text_of(item["content"]) for item in self.ask(question, **options).results]

    def ask(self, question: str, **options: Any) -> Answer:
        project = Project("/w", "/w/.memsearch/memory", "/w", self.collection)
        means = Means(
            store=nullcontext(self.store),
            model=self.embedder.model,
            embedder=lambda: self.embedder,
            directions=lambda names: {n: self.directions[n] for n in names if n in self.directions},
            cache=lambda: EmbeddingCache(self.home.embeddings_db, read_only=True),
        )
        chosen = replace(SearchOptions(), **options)
        answer = search(question, chosen, scopes=[Scope(project)], means=means)
        assert answer.degraded is False
        return answer

    def one_leg(self, leg: str, question: str) -> list[str]:
        """The same with one leg alone."""
        dense = leg == "dense"
        asked = Asked(
            question,
            "" if dense else query_keywords(question),
            self.embedder.embed_query(question) if dense else None,
        )
        project = Project("/w", "/w/.memsearch/memory", "/w", self.collection)
        ranker = Ranker(asked, [Scope(project)], Scan({}), directions=self.directions)
        folded = fold(ranker.rank(self.store, Filters()), asked.top_k)
        return [text_of(item.fused.hit.content) for item in folded]


def text_of(content: str) -> str:
    """A note as it was given: the bullets without heading and anchor."""
    return content[content.index("\n- ") + 3 :].strip()


def journals(texts: Sequence[str]) -> Iterator[Chunk]:
    """The chunks of the journals of ``journal_texts``."""
    for source, text in journal_texts(texts):
        yield from chunk_document(text, source)


def journal_texts(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Journals that hold the texts, one entry each, in an order mixed by a stride.

    Returns:
        Their paths in the project, and what stands in them.
    """
    order = sorted(range(len(texts)), key=lambda n: (n * 7919) % 10_007)
    for start in range(0, len(order), A_DAY):
        day = FIRST_DAY + timedelta(days=start // A_DAY)
        lines = [f"# {day}", "", "## Session 09:00"]
        for place, number in enumerate(order[start : start + A_DAY]):
            lines += [
                "",
                f"### {9 + place:02d}:{number % 60:02d}",
                f"<!-- session:s{start} turn:t{number} transcript:~/.claude/projects/s.jsonl -->",
                f"- {texts[number]}",
            ]
        yield f".memsearch/memory/{day}.md", "\n".join(lines) + "\n"


def fill(
    store: Store, embedder: Embedder, collection: str, home: Home, texts: Sequence[str]
) -> Memory:
    chunks = list(journals(texts))
    assert len(chunks) == len(texts)
    bodies = [embedding_text(chunk.content) for chunk in chunks]
    vectors = embedder.embed_passages(bodies)
    store.ensure(collection, vectors.shape[1])
    store.upsert(
        collection, [row(*pair, embedder.model) for pair in zip(chunks, vectors, strict=True)]
    )
    own = direction(add_up(zip(bodies, vectors, strict=True)), embedder.model)
    return Memory(store, embedder, collection, home, {} if own is None else {collection: own})


def write(
    store: Store, collection: str, chunks: Sequence[Chunk], vectors: Vectors, model: str
) -> None:
    pairs = zip(chunks, vectors, strict=True)
    store.upsert(collection, [row(chunk, vector, model) for chunk, vector in pairs])


def row(chunk: Chunk, vector: Vectors, model: str) -> Row:
    """As the index stages write it."""
    return row_of(chunk_hash(chunk, model), chunk, vector)


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


BILINGUAL = load("bilingual.json")
CODE = load("code.json")
#: Notes with a question in the other language that shares no name with its note.
ACROSS = load("across.json")


def bilingual_others(language: str) -> list[str]:
    """Notes of three bullets about each of the subjects."""
    subjects, happenings = BILINGUAL["others"][language].values()
    return [
        "\n- ".join(
            happenings[(first + step) % len(happenings)].format(subject) for step in (0, 3, 7)
        )
        for subject, first in product(subjects, range(len(happenings)))
    ]


def code_others(count: int) -> list[str]:
    """Notes with names, codes and paths of the same kind as those that are asked for."""
    parts = CODE["others"]
    names = [
        f"{verb}{noun}{tail}"
        for noun, tail, verb in product(parts["nouns"], parts["tails"], parts["verbs"])
    ]
    made = []
    for n in range(count):
        noun = parts["nouns"][n % len(parts["nouns"])]
        made.append(
            parts["happenings"][n % len(parts["happenings"])].format(
                name=names[n % len(names)],
                path=parts["paths"][n % len(parts["paths"])].format(noun=noun.lower(), n=n),
                code=parts["codes"][n % len(parts["codes"])].format(n=1000 + n),
            )
        )
    return made


def group(entry_language: str, question_language: str) -> list[tuple[str, str]]:
    """Pairs of a question and the note that answers it."""
    return [
        (note[question_language], note["text"])
        for note in BILINGUAL["notes"]
        if note["language"] == entry_language
    ]


def hits(found: Iterable[tuple[list[str], str]]) -> int:
    """How many questions have their note among their results."""
    return sum(text in results for results, text in found)


def texts_of(memory: str) -> list[str]:
    """All texts of a memory: 48 notes in two languages among 300 others (``bilingual``), or 40
    with names, codes and paths among 500 others (``code``)."""
    if memory == "bilingual":
        notes = [note["text"] for note in BILINGUAL["notes"]]
        others = [other for language in ("en", "zh") for other in bilingual_others(language)]
        assert len(set(others)) == 300
    else:
        notes = [item["text"] for group in CODE["groups"].values() for item in group]
        others = code_others(500)
        assert len(set(others)) == 500
    return notes + others


def bilingual_memory(store: Store, embedder: Embedder, home: Home) -> Memory:
    """The notes in two languages among the others."""
    return fill(store, embedder, "bilingual", home, texts_of("bilingual"))


def code_memory(store: Store, embedder: Embedder, home: Home) -> Memory:
    """The notes with names, codes and paths among the others."""
    return fill(store, embedder, "code", home, texts_of("code"))


def across_memory(store: Store, embedder: Embedder, home: Home) -> Memory:
    """The notes of ``ACROSS`` among 300 others, half in each language."""
    others = [
        parts["form"].format(what, where, how)
        for parts in ACROSS["others"].values()
        for what, where, how in product(parts["whats"], parts["wheres"], parts["hows"])
    ]
    assert len(set(others)) == 300
    texts = [note["text"] for note in ACROSS["notes"]]
    return fill(store, embedder, "across", home, texts + others)


#: The groups of questions: the memory that they are asked of, and their name.
GROUPS = [("bilingual", " ".join(pair)) for pair in product(("en", "zh"), repeat=2)]
GROUPS += [("code", name) for name in CODE["groups"]]


def pairs_of(memory: str, name: str) -> list[tuple[str, str]]:
    """The questions of a group, each with the note that answers it."""
    if memory == "bilingual":
        entry, question = name.split()
        return group(entry, question)
    return [(item["question"], item["text"]) for item in CODE["groups"][name]]
