"""How well recall finds: in two languages, by identifiers, codes and paths, behind newer text.

The sets are small, our own, and meant to notice a step of the recipe that stops working;
``recall_sets`` says what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

import pytest
from recall_sets import (
    ACROSS,
    BILINGUAL,
    CODE,
    GROUPS,
    Memory,
    across_memory,
    bilingual_memory,
    bilingual_others,
    code_memory,
    fill,
    group,
    hits,
    pairs_of,
    write,
)

from memsearch.config.paths import Home
from memsearch.config.schema import Embedding
from memsearch.recall.filters import make_filters
from memsearch.sinks.chunker import chunk_document, embedding_text
from memsearch.sinks.embedders import create
from memsearch.sinks.language import shipped
from memsearch.sinks.store import MilvusStore
from memsearch.sinks.types import Embedder, Store


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


@pytest.fixture(scope="module")
def bilingual(store: Store, embedder: Embedder, home: Home) -> Memory:
    return bilingual_memory(store, embedder, home)


@pytest.fixture(scope="module")
def code(store: Store, embedder: Embedder, home: Home) -> Memory:
    return code_memory(store, embedder, home)


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


def test_questions_that_share_no_name_with_their_note(
    store: Store, embedder: Embedder, home: Home
) -> None:
    memory = across_memory(store, embedder, home)
    for language in ("en", "zh"):
        notes = [note for note in ACROSS["notes"] if note["language"] == language]
        pairs = [(note["question"], note["text"]) for note in notes]
        assert len(pairs) >= 30
        with_step = hits((memory.search(asked), text) for asked, text in pairs)
        without = hits((memory.search(asked, cross_language=False), text) for asked, text in pairs)
        assert with_step >= 0.85 * len(pairs)
        assert without <= 0.5 * len(pairs)


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
def test_a_few_notes_in_another_language_are_found(
    store: Store, embedder: Embedder, home: Home, language: str
) -> None:
    """Too few for a direction of their own, and for a share of the vector leg."""
    few = [note for note in BILINGUAL["notes"] if note["language"] != language][:12]
    texts = [note["text"] for note in few]
    memory = fill(store, embedder, f"few_{language}", home, texts + bilingual_others(language))
    general = shipped(embedder.model)
    assert general is not None
    assert memory.directions[memory.collection] is general
    found = hits((memory.search(note[language]), note["text"]) for note in few)
    assert found >= 0.8 * len(few)


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


@pytest.mark.parametrize(("memory", "name"), GROUPS)
def test_both_legs_are_no_worse_than_the_better_one(
    memory: str, name: str, request: pytest.FixtureRequest
) -> None:
    """Hit@5, in every group of questions, with one question of slack."""
    filled: Memory = request.getfixturevalue(memory)
    pairs = pairs_of(memory, name)
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
    write(store, "near_equal", chunks, vectors, embedder.model)
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
