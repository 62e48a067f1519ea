"""How well recall finds: in two languages, by identifiers, codes and paths, behind newer text.

The real model and Milvus Lite, filled directly with what the index stages would write. The sets
are small, our own, and meant to notice a step of the recipe that stops working.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from memsearch.config.paths import Home
from memsearch.config.project import Project
from memsearch.config.schema import Embedding
from memsearch.recall.dedupe import fold
from memsearch.recall.filters import make_filters
from memsearch.recall.legs import Asked, Ranker, Scope
from memsearch.recall.scan import Scan
from memsearch.recall.search import Answer, Means, SearchOptions, search
from memsearch.sinks.cache import EmbeddingCache
from memsearch.sinks.chunker import chunk_document, embedding_text
from memsearch.sinks.embedders import create
from memsearch.sinks.ids import chunk_hash
from memsearch.sinks.keywords import chunk_keywords, query_keywords
from memsearch.sinks.language import add_up, direction, shipped
from memsearch.sinks.store import MilvusStore
from memsearch.sinks.types import Chunk, Embedder, Filters, Row, Store, Vectors

DATA = Path(__file__).parent.parent / "data" / "recall"
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
    directions: Mapping[str, Vectors]

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
    """The chunks of journals that hold the texts, one entry each, in an order mixed by a stride."""
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
        source = f".memsearch/memory/{day}.md"
        yield from chunk_document("\n".join(lines) + "\n", source)


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
    return Row(
        chunk_hash=chunk_hash(chunk, model),
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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    found = Home(str(tmp_path_factory.mktemp("quality")))
    found.create()
    return found


@pytest.fixture(scope="module")
def embedder(home: Home) -> Iterator[Embedder]:
    made = create(Embedding(), home, os.environ)
    yield made
    made.close()


@pytest.fixture(scope="module")
def store(home: Home) -> Iterator[Store]:
    with MilvusStore(home.milvus_db, lock_path=home.store_lock) as opened:
        yield opened


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


BILINGUAL = load("bilingual.json")
CODE = load("code.json")


def bilingual_others(language: str) -> list[str]:
    """Notes of three bullets about each of the subjects."""
    subjects, happenings = BILINGUAL["others"][language].values()
    return [
        "\n- ".join(
            happenings[(first + step) % len(happenings)].format(subject) for step in (0, 3, 7)
        )
        for subject, first in product(subjects, range(len(happenings)))
    ]


@pytest.fixture(scope="module")
def bilingual(store: Store, embedder: Embedder, home: Home) -> Memory:
    others = [other for language in ("en", "zh") for other in bilingual_others(language)]
    assert len(set(others)) == 300
    texts = [note["text"] for note in BILINGUAL["notes"]]
    return fill(store, embedder, "bilingual", home, texts + others)


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


@pytest.fixture(scope="module")
def code(store: Store, embedder: Embedder, home: Home) -> Memory:
    others = code_others(500)
    assert len(set(others)) == 500
    texts = [item["text"] for group in CODE["groups"].values() for item in group]
    return fill(store, embedder, "code", home, texts + others)


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


@pytest.mark.parametrize(("entry", "question"), [("en", "zh"), ("zh", "en")])
def test_a_question_finds_its_note_in_the_other_language(
    bilingual: Memory, entry: str, question: str
) -> None:
    pairs = group(entry, question)
    assert len(pairs) >= 20
    with_step = hits((bilingual.search(asked), text) for asked, text in pairs)
    without = hits((bilingual.search(asked, cross_language=False), text) for asked, text in pairs)
    assert with_step >= 0.9 * len(pairs)
    assert without <= 0.4 * len(pairs)


@pytest.mark.parametrize(("entry", "question"), [("en", "zh"), ("zh", "en")])
def test_the_shipped_direction_serves_until_there_is_an_own_one(
    bilingual: Memory, entry: str, question: str
) -> None:
    general = shipped(bilingual.embedder.model)
    assert general is not None
    lent = replace(bilingual, directions={bilingual.collection: general})
    pairs = group(entry, question)
    assert hits((lent.search(asked), text) for asked, text in pairs) >= 0.8 * len(pairs)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_question_still_finds_its_note_in_its_own_language(
    bilingual: Memory, language: str
) -> None:
    pairs = group(language, language)
    assert hits((bilingual.search(asked), text) for asked, text in pairs) >= 0.95 * len(pairs)


@pytest.mark.parametrize("name", CODE["groups"])
def test_what_is_written_exactly_comes_first(code: Memory, name: str) -> None:
    """Two-word Chinese questions, camelCase names, error codes, file paths."""
    for item in CODE["groups"][name]:
        found = code.search(item["question"])
        assert found[0] == item["text"], item["question"]


GROUPS = [
    ("bilingual", f"{entry} {question}") for entry in ("en", "zh") for question in ("en", "zh")
]
GROUPS += [("code", name) for name in CODE["groups"]]


@pytest.mark.parametrize(("memory", "name"), GROUPS)
def test_both_legs_are_no_worse_than_the_better_one(
    memory: str, name: str, request: pytest.FixtureRequest
) -> None:
    """Hit@5, in every group of questions, with one question of slack."""
    filled: Memory = request.getfixturevalue(memory)
    if memory == "bilingual":
        entry, question = name.split()
        pairs = group(entry, question)
    else:
        pairs = [(item["question"], item["text"]) for item in CODE["groups"][name]]
    legs = [
        hits((filled.one_leg(leg, asked), text) for asked, text in pairs)
        for leg in ("dense", "keyword")
    ]
    assert hits((filled.search(asked), text) for asked, text in pairs) >= max(legs) - 1


@pytest.fixture(scope="module")
def near_equal(store: Store, embedder: Embedder, home: Home) -> Memory:
    """Two entries of January, and 300 near-equal ones of the months after it."""
    texts = [f"The nightly import of tenant {n} failed and was started again" for n in range(302)]
    chunks = []
    for n, text in enumerate(texts):
        day = date(2026, 1, 10 + n) if n < 2 else date(2026, 2, 1) + timedelta(days=n % 120)
        body = f"# {day}\n\n### 09:{n % 60:02d}\n- {text}\n"
        chunks += chunk_document(body, f".memsearch/memory/{n}/{day}.md")
    vectors = embedder.embed_passages([embedding_text(chunk.content) for chunk in chunks])
    store.ensure("near_equal", vectors.shape[1])
    rows = [
        row(chunk, vector, embedder.model) for chunk, vector in zip(chunks, vectors, strict=True)
    ]
    store.upsert("near_equal", rows)
    return Memory(store, embedder, "near_equal", home, {})


QUESTION = "nightly import failed"


@pytest.mark.parametrize(
    "narrowed", [{"until": "2026-01-31"}, {"since": "2026-01-10", "until": "2026-01-11"}]
)
def test_dates_find_old_entries_behind_newer_near_equal_ones(
    near_equal: Memory, narrowed: dict[str, str]
) -> None:
    plain = near_equal.ask(QUESTION).results
    assert all(item["day"] >= "2026-02-01" for item in plain)
    filters = make_filters(today=date(2026, 6, 1), base="/w", **narrowed)  # type: ignore[arg-type]
    for fusion in ("standardized", "rrf", "weighted"):
        found = near_equal.ask(QUESTION, filters=filters, fusion=fusion).results
        assert sorted(item["day"] for item in found) == ["2026-01-10", "2026-01-11"]


class TestTimeInTheQuestion:
    TODAY = date(2026, 6, 1)

    @pytest.mark.parametrize(
        "question", ["which imports failed on January 10th", "1月10日哪些导入失败了"]
    )
    def test_that_day_comes_first_and_others_fill_up(
        self, near_equal: Memory, question: str
    ) -> None:
        answer = near_equal.ask(question, today=self.TODAY)
        days = [item["day"] for item in answer.results]
        assert len(days) == 5
        assert days[0] == "2026-01-10"
        assert "2026-01-10" not in days[1:]
        scores = [item["score"] for item in answer.results]
        assert scores == sorted(scores, reverse=True)
        (note,) = [note for note in answer.notes if "2026-01-10" in note]
        assert "first" in note

    def test_a_full_day_answers_alone(self, near_equal: Memory) -> None:
        answer = near_equal.ask("imports that failed in March", today=self.TODAY)
        assert {item["day"][:7] for item in answer.results} == {"2026-03"}
        assert any("2026-03-01 to 2026-03-31" in note for note in answer.notes)

    def test_an_empty_day_is_told(self, near_equal: Memory) -> None:
        answer = near_equal.ask("imports that failed on 2025-12-24", today=self.TODAY)
        assert len(answer.results) == 5
        assert any("Nothing is from 2025-12-24" in note for note in answer.notes)

    def test_given_dates_win(self, near_equal: Memory) -> None:
        filters = make_filters(today=self.TODAY, base="/w", until="2026-01-31")
        answer = near_equal.ask("imports that failed in March", today=self.TODAY, filters=filters)
        assert {item["day"][:7] for item in answer.results} == {"2026-01"}
        assert answer.notes == []
