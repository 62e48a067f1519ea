"""The store against the real thing: Milvus Lite in a folder, the same as a server over TCP, and
any server that ``MEMSEARCH_TEST_MILVUS`` names by its address."""

from __future__ import annotations

import gc
import itertools
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks import milvus_client
from memsearch.sinks import store as store_module
from memsearch.sinks.milvus_client import import_pymilvus
from memsearch.sinks.store import NEXT, PREVIOUS, MilvusStore
from memsearch.sinks.types import Filters, Row, Vectors

#: What is random in the tests that kill, so that a fault can be met again.
SEED = int(os.environ.get("MEMSEARCH_TEST_SEED", "20260305"))

#: Address of a server that all of it is tried on too.
NAMED = os.environ.get("MEMSEARCH_TEST_MILVUS", "")

DIM = 8
ANY = Filters(kinds=())

_names = (f"memsearch_{number:016x}" for number in itertools.count(1))
_rng = np.random.default_rng(11)


def vector(dimension: int = DIM) -> Vectors:
    values = _rng.standard_normal(dimension).astype(np.float32)
    return np.asarray(values / np.linalg.norm(values), np.float32)


def row(number: int, **changes: Any) -> Row:
    made = Row(
        chunk_hash=f"{number:016x}",
        embedding=vector(),
        content=f"content {number}",
        keywords=f"word{number} shared",
        source="memory/2026-03-05.md",
        heading="### 10:00",
        heading_level=3,
        start_line=number,
        end_line=number + 3,
        platform="claude-code",
        session="s1",
        turn=f"t{number}",
        day=20260305,
        kind="entry",
    )
    return replace(made, **changes)


def found(hits: list[Any]) -> list[int]:
    return [int(hit.chunk_hash, 16) for hit in hits]


# -- where it runs -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusStore]:
    home = tmp_path_factory.mktemp("home")
    with MilvusStore(str(home / "milvus.db"), lock_path=str(home / "run" / "store.lock")) as store:
        yield store


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusStore]:
    """Milvus Lite's own server, in a process of its own, on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "milvus_lite", "server", "--host", "127.0.0.1"]
    options = ["--port", str(port), "--data-dir", str(tmp_path_factory.mktemp("server"))]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with MilvusStore(f"http://127.0.0.1:{port}") as store:
            wait_for(lambda: reachable(store))
            yield store
    finally:
        process.terminate()
        process.wait()


def reachable(store: MilvusStore) -> bool:
    try:
        store.exists("memsearch_x")
    except MemsearchError as error:
        if error.kind is not ErrorClass.NETWORK:
            raise
        return False
    return True


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def named() -> Iterator[MilvusStore]:
    with MilvusStore(NAMED) as store:
        yield store


@pytest.fixture(params=["lite", "server", *(["named"] if NAMED else [])])
def store(request: pytest.FixtureRequest) -> MilvusStore:
    chosen: MilvusStore = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def name(store: MilvusStore) -> Iterator[str]:
    """A collection that is dropped afterwards."""
    collection = next(_names)
    yield collection
    store.drop(collection)


@pytest.fixture
def local(lite: MilvusStore) -> Iterator[tuple[MilvusStore, str]]:
    """Milvus Lite with an empty collection."""
    collection = next(_names)
    lite.ensure(collection, DIM)
    yield lite, collection
    lite.drop(collection)


def keyword_able(store: MilvusStore) -> bool:
    return store._milvus.bm25


# -- collections ---------------------------------------------------------------------------


def test_a_collection_comes_and_goes(store: MilvusStore, name: str) -> None:
    assert not store.exists(name)
    assert store.dimension(name) is None
    store.drop(name)
    store.ensure(name, DIM)
    store.ensure(name, DIM)
    assert store.exists(name)
    assert store.dimension(name) == DIM
    assert name in store.collections()
    store.drop(name)
    assert not store.exists(name)


def test_another_dimension_is_refused(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    with pytest.raises(MemsearchError, match="holds vectors of 8 numbers") as caught:
        store.ensure(name, DIM + 1)
    assert caught.value.kind is ErrorClass.CONFIG
    with pytest.raises(MemsearchError) as caught:
        store.upsert(name, [row(1, embedding=vector(DIM + 1))])
    assert caught.value.kind is ErrorClass.BAD_REQUEST
    with pytest.raises(MemsearchError) as caught:
        store.dense(name, vector(DIM + 1), 5, ANY)
    assert caught.value.kind is ErrorClass.BAD_REQUEST


def test_what_is_not_there_is_empty(store: MilvusStore) -> None:
    missing = "memsearch_ffffffffffffffff"
    assert store.ids(missing, "a.md") == set()
    assert store.counts(missing) == {}
    assert store.get(missing, "0123456789") is None
    assert store.dense(missing, vector(), 5, ANY) == []
    assert store.keyword(missing, "word", 5, ANY) == []
    assert store.identity(missing) is None
    store.delete(missing, ["0123456789"])
    with pytest.raises(MemsearchError, match="there is no collection") as caught:
        store.upsert(missing, [row(1)])
    assert caught.value.kind is ErrorClass.SERVER  # tried again, and made before it


def test_an_empty_collection_answers(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)

    def empty() -> None:
        assert store.dense(name, vector(), 5, Filters()) == []
        assert store.counts(name) == {}
        assert store.ids(name, "a.md") == set()
        if keyword_able(store):
            assert store.keyword(name, "shared", 5, Filters()) == []

    empty()
    store.upsert(name, [row(1), row(2)])
    store.delete(name, [row(1).chunk_hash, row(2).chunk_hash])
    empty()


def test_the_identity_stays_with_the_collection(store: MilvusStore, name: str) -> None:
    with pytest.raises(MemsearchError):
        store.set_identity(name, {})
    store.ensure(name, DIM)
    assert store.identity(name) is None
    identity = {"model": 'onnx/多语 "e5"', "dimension": DIM, "chunker": 1, "sums": [0.5, -1e-9]}
    store.set_identity(name, identity)
    assert store.identity(name) == identity
    store.upsert(name, [row(1)])
    store.close()
    assert store.identity(name) == identity
    store.set_identity(name, {"model": "other"})
    assert store.identity(name) == {"model": "other"}


def test_a_collection_built_aside_takes_the_place(store: MilvusStore, name: str) -> None:
    with pytest.raises(MemsearchError, match="no collection was built"):
        store.swap(name)
    for collection, number in ((name, 1), (name + NEXT, 2)):
        store.ensure(collection, DIM)
        store.upsert(collection, [row(number)])
    store.set_identity(name + NEXT, {"model": "new"})
    store.swap(name)
    assert found(store.dense(name, vector(), 5, ANY)) == [2]
    assert store.identity(name) == {"model": "new"}
    assert not store.exists(name + NEXT)
    assert not store.exists(name + PREVIOUS)
    # The first one of all, and with other vectors.
    store.drop(name)
    store.ensure(name + NEXT, DIM + 1)
    store.swap(name)
    assert store.dimension(name) == DIM + 1
    store.upsert(name, [row(3, embedding=vector(DIM + 1))])
    assert found(store.dense(name, vector(DIM + 1), 5, ANY)) == [3]


def test_what_another_machine_did_is_seen_after_an_error(server: MilvusStore) -> None:
    name = next(_names)
    server.ensure(name, DIM)
    server.upsert(name, [row(1)])
    with MilvusStore(server.uri) as other:
        other.drop(name)
    with pytest.raises(MemsearchError) as caught:
        server.dense(name, vector(), 5, ANY)
    assert caught.value.kind is ErrorClass.SERVER
    assert server.dense(name, vector(), 5, ANY) == []
    server.ensure(name, DIM)
    assert server.counts(name) == {}
    server.drop(name)


@pytest.mark.parametrize(
    ("left", "answers"),
    [
        ([PREVIOUS, NEXT], 2),  # killed after the first rename
        (["", PREVIOUS], 2),  # killed after the second
        ([PREVIOUS], 1),  # the new one was dropped by hand
    ],
)
def test_a_killed_swap_is_finished(
    store: MilvusStore, name: str, left: list[str], answers: int
) -> None:
    for ending in left:
        store.ensure(name + ending, DIM)
        store.upsert(name + ending, [row(1 if ending == PREVIOUS else 2)])
    store.close()
    assert found(store.dense(name, vector(), 5, ANY)) == [answers]
    store.drop(name)
    assert [n for n in store.collections() if n.startswith(name)] == []


def test_another_tools_collection_is_left_alone(store: MilvusStore, name: str) -> None:
    store.exists(name)  # connects
    client = store._milvus._client
    client.create_collection(name, dimension=DIM, auto_id=False)
    client.insert(name, [{"id": 7, "vector": vector().tolist(), "source": "theirs"}])
    refusals: list[Callable[[], object]] = [
        lambda: store.ensure(name, DIM),
        lambda: store.exists(name),
        lambda: store.drop(name),
        lambda: store.upsert(name, [row(1)]),
        lambda: store.delete(name, ["0123456789"]),
        lambda: store.dense(name, vector(), 5, ANY),
        lambda: store.keyword(name, "x", 5, ANY),
        lambda: store.set_identity(name, {}),
        lambda: store.counts(name),
    ]
    for refusal in refusals:
        with pytest.raises(MemsearchError, match="made by another tool") as caught:
            refusal()
        assert caught.value.kind is ErrorClass.CONFIG
    client.load_collection(name)
    rows = client.query(name, filter="id == 7", output_fields=["*"], consistency_level="Strong")
    assert rows[0]["source"] == "theirs"
    client.drop_collection(name)


# -- rows ----------------------------------------------------------------------------------


def test_rows_are_found_as_they_were_written(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    store.upsert(name, [])
    rows = [
        row(1, content='"quoted" \\ back\\slash\nnewline\ttab %', source='a "b" \\c.md'),
        row(2, content="中文 😀", heading="", source="笔记/三月.md", kind="note", day=0),
        row(3, content="", keywords="", platform="", session="", turn=""),
    ]
    store.upsert(name, rows)
    for written in rows:
        hit = store.get(name, written.chunk_hash)
        assert hit is not None
        for field in ("content", "source", "heading", "kind", "day", "platform", "turn"):
            assert getattr(hit, field) == getattr(written, field)
        assert (hit.start_line, hit.end_line) == (written.start_line, written.end_line)
        assert store.ids(name, written.source) == {written.chunk_hash}
    assert store.counts(name) == {written.source: 1 for written in rows}


def test_a_row_is_known_by_its_id(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    store.upsert(name, [row(1), row(1, content="last"), row(2)])
    store.upsert(name, [row(2, source="moved.md")])
    assert store.counts(name) == {"memory/2026-03-05.md": 1, "moved.md": 1}
    hit = store.get(name, row(1).chunk_hash)
    assert hit is not None
    assert hit.content == "last"
    # Deleted and restored, twice (a unique constraint would object).
    for _ in range(2):
        store.delete(name, [row(1).chunk_hash, "feedfeedfeedfeed"])
        assert store.get(name, row(1).chunk_hash) is None
        store.upsert(name, [row(1)])
    assert store.ids(name, "memory/2026-03-05.md") == {row(1).chunk_hash}


def test_a_prefix_is_enough_while_it_is_unique(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    ids = ["aaaaaaaa00000001", "aaaaaaaa00000002", "aaaaaaaa", "ffffffff00000003"]
    store.upsert(name, [row(n, chunk_hash=key) for n, key in enumerate(ids)])
    wanted = {
        "aaaaaaaa00000001": 0,
        "AAAAAAAA00000002": 1,
        "aaaaaaaa": 2,  # an id of its own, though others begin with it
        "ffffffff": 3,
        "ffffffff0": 3,
        "bbbbbbbb": None,
        "ffffffff00000003f": None,
    }
    for key, number in wanted.items():
        hit = store.get(name, key)
        assert (hit.start_line if hit else None) == number, key
    with pytest.raises(MemsearchError, match="Several chunks begin with aaaaaaaa0") as caught:
        store.get(name, "aaaaaaaa0")
    assert caught.value.kind is ErrorClass.BAD_REQUEST
    assert caught.value.hint.endswith("aaaaaaaa00000001, aaaaaaaa00000002")
    for bad in ("aaaaaaa", "", "zzzzzzzzzz", "aaaaaaaa%", 'aaaaaaaa" or day > 0', "aaaaaaaa\n"):
        with pytest.raises(MemsearchError) as caught:
            store.get(name, bad)
        assert caught.value.kind is ErrorClass.BAD_REQUEST


def test_a_row_that_does_not_fit_is_refused_with_all_the_others(
    store: MilvusStore, name: str
) -> None:
    store.ensure(name, DIM)
    with pytest.raises(MemsearchError, match="field heading ") as caught:
        store.upsert(name, [row(1), row(2, heading="备" * 400)])
    assert caught.value.kind is ErrorClass.BAD_REQUEST
    assert store.counts(name) == {}
    full = row(3, content="中" * 21_845, keywords="k" * 65_535, source="备" * 341)
    store.upsert(name, [full])
    assert store.ids(name, full.source) == {full.chunk_hash}


def test_counts_and_ids_are_complete(
    store: MilvusStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "PAGE_ROWS", 30)
    monkeypatch.setattr(store_module, "BATCH_IDS", 40)
    monkeypatch.setattr(store_module, "FLUSH_ROWS", 70)
    store.ensure(name, DIM)
    rows = [row(n, source=f"d{n % 3}.md") for n in range(250)]
    store.upsert(name, rows)
    store.upsert(name, rows[:100])
    store.delete(name, [r.chunk_hash for r in rows[:100]])
    left = rows[100:]
    assert store.counts(name) == {
        f"d{d}.md": sum(r.source == f"d{d}.md" for r in left) for d in range(3)
    }
    for d in range(3):
        source = f"d{d}.md"
        assert store.ids(name, source) == {r.chunk_hash for r in left if r.source == source}


def test_more_rows_than_milvus_returns_at_once(local: tuple[MilvusStore, str]) -> None:
    store, name = local
    count = 17_000  # 16,384 is the limit of a server
    vectors = _rng.standard_normal((count, DIM)).astype(np.float32)
    store.upsert(name, [row(n, embedding=vectors[n], source="one.md") for n in range(count)])
    assert store.counts(name) == {"one.md": count}
    assert len(store.ids(name, "one.md")) == count


# -- search --------------------------------------------------------------------------------


def test_dense_ranks_by_cosine(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    axes = np.eye(DIM, dtype=np.float32)
    mixed = np.asarray((axes[0] + axes[1]) / np.sqrt(2), np.float32)
    store.upsert(
        name,
        [
            row(1, embedding=axes[0]),
            row(2, embedding=mixed),
            row(3, embedding=axes[1]),
            row(4, embedding=-axes[0]),
        ],
    )
    hits = store.dense(name, axes[0], 10, ANY)
    assert found(hits) == [1, 2, 3, 4]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.7071, 0, -1], abs=1e-4)
    assert found(store.dense(name, axes[0], 2, ANY)) == [1, 2]
    assert store.dense(name, axes[0], 0, ANY) == []
    assert hits[0].content == "content 1"


def test_dense_is_exact(local: tuple[MilvusStore, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many flushes and compactions, 3,000 random vectors and 100 questions."""
    monkeypatch.setattr(store_module, "FLUSH_ROWS", 300)
    store, _ = local
    name, dimension = next(_names), 32
    store.ensure(name, dimension)
    vectors = _rng.standard_normal((3000, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    store.upsert(name, [row(n, embedding=vectors[n]) for n in range(3000)])
    for question in _rng.standard_normal((100, dimension)).astype(np.float32):
        best = np.argsort(-(vectors @ question), kind="stable")[:10]
        assert found(store.dense(name, question, 10, ANY)) == best.tolist()
    store.drop(name)


def test_keyword_ranks_by_bm25(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    if not keyword_able(store):
        with pytest.raises(MemsearchError, match="too old") as caught:
            store.keyword(name, "rare", 5, ANY)
        assert caught.value.kind is ErrorClass.CONFIG
        return
    texts = ["common common rare", "common", "common other words that make it long", "nothing"]
    store.upsert(name, [row(n, keywords=text) for n, text in enumerate(texts)])
    hits = store.keyword(name, "rare", 10, ANY)
    assert found(hits) == [0]
    assert hits[0].score > 0
    hits = store.keyword(name, "common", 10, ANY)
    assert set(found(hits)) == {0, 1, 2}
    assert found(hits)[-1] == 2
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(store.keyword(name, "common", 2, ANY)) == 2
    for nothing in ("", "   ", "absent"):
        assert store.keyword(name, nothing, 10, ANY) == []
    # What is written over and what is deleted no longer answers.
    store.upsert(name, [row(0, keywords="changed")])
    store.delete(name, [row(1).chunk_hash])
    assert store.keyword(name, "rare", 10, ANY) == []
    assert found(store.keyword(name, "common changed", 10, ANY)) == [0, 2]


def test_new_rows_rank_like_old_ones(
    local: tuple[MilvusStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lite alone scores each file by its own statistics: the few newest rows would lose."""
    monkeypatch.setattr(store_module, "FLUSH_ROWS", 500)
    store, name = local
    rng = random.Random(5)
    words = [f"w{n}" for n in range(300)]
    old = [row(n, keywords=" ".join(rng.choices(words, k=20))) for n in range(500)]
    store.upsert(name, old)
    new = [row(1000 + n, keywords=f"unique{n} w1 w2 w3") for n in range(5)]
    store.upsert(name, new)
    for n in range(5):
        assert found(store.keyword(name, f"w1 w7 unique{n} w9", 3, ANY))[0] == 1000 + n
    before = store.keyword(name, "w1 w2 unique1", 50, ANY)
    store.close()  # writes a file for the new ones, then reads all of it again
    after = store.keyword(name, "w1 w2 unique1", 50, ANY)
    assert found(after) == found(before)
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before])


FILTERED = [
    (Filters(), {1, 2, 3, 5}),
    (Filters(kinds=()), {1, 2, 3, 4, 5}),
    (Filters(kinds=("archive",)), {4}),
    (Filters(since=date(2026, 3, 5)), {2, 3}),
    (Filters(until=date(2026, 3, 5)), {1, 2}),
    (Filters(since=date(2026, 3, 5), until=date(2026, 3, 5)), {2}),
    (Filters(since=date(2026, 4, 1), until=date(2026, 3, 1)), set()),
    (Filters(platform="codex"), {2}),
    (Filters(session='s"2'), {3}),
    (Filters(source_prefix="memory/"), {1, 2}),
    (Filters(source_prefix="memory/a%"), {1}),
    (Filters(source_prefix="memory/a_"), {2}),
    (Filters(source_prefix="备"), {3, 5}),
    (Filters(source_prefix="备份"), {3}),
    (Filters(source_prefix="\\"), set()),
    (Filters(source_prefix="memory/", platform="codex", since=date(2026, 1, 1)), {2}),
]


def test_filters_apply_in_both_legs(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    store.upsert(
        name,
        [
            row(1, source="memory/a%b.md", day=20260301),
            row(2, source="memory/a_b.md", day=20260305, platform="codex"),
            row(3, source="备份/c.md", day=20260401, session='s"2', kind="digest"),
            row(4, source="archive/axb.md", day=20260301, kind="archive"),
            row(5, source="备注.md", day=0, kind="note"),
        ],
    )
    for filters, expected in FILTERED:
        assert set(found(store.dense(name, vector(), 10, filters))) == expected, filters
        if keyword_able(store):
            assert set(found(store.keyword(name, "shared", 10, filters))) == expected, filters


def test_few_that_pass_are_found_behind_many(store: MilvusStore, name: str) -> None:
    """The filter works inside the legs: 300 better rows do not hide the two that pass."""
    store.ensure(name, DIM)
    axis = np.eye(DIM, dtype=np.float32)[0]
    store.upsert(
        name,
        [row(n, embedding=axis, keywords="shared shared", day=20260601) for n in range(300)]
        + [
            row(900 + n, embedding=vector(), keywords="shared with other words", day=20260101 + n)
            for n in range(2)
        ],
    )
    early = Filters(until=date(2026, 1, 31))
    assert set(found(store.dense(name, axis, 5, early))) == {900, 901}
    if keyword_able(store):
        assert found(store.keyword(name, "shared", 5, early)) == [900, 901]
        assert found(store.keyword(name, "shared", 1, early)) == [900]


def test_a_keyword_search_looks_up_its_hits_alone(
    local: tuple[MilvusStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, since it is what a search of 10,000 rows took longest for on Milvus Lite."""
    store, name = local
    store.upsert(name, [row(n, day=20260101 + n % 28) for n in range(400)])
    store.keyword(name, "shared", 30, Filters())  # builds what it ranks by
    from milvus_lite.engine.collection import Collection

    looks: list[str] = []
    for way in ("get", "query"):  # by id, and through all rows
        monkeypatch.setattr(Collection, way, noting(looks, way, getattr(Collection, way)))
    assert len(store.keyword(name, "shared", 30, Filters())) == 30
    assert looks == ["get"]
    assert len(store.keyword(name, "shared", 30, Filters(since=date(2026, 1, 15)))) == 30
    assert looks == ["get"] * 3
    assert len(store.keyword(name, "word399", 30, Filters())) == 1
    assert looks == ["get"] * 4
    # Only where the filter lets few pass, all rows are asked for once.
    store.upsert(name, [row(900, keywords="shared with other words", platform="codex")])
    looks.clear()
    assert found(store.keyword(name, "shared", 10, Filters(platform="codex"))) == [900]
    assert looks == ["get", "get", "query", "get"]


def noting(notes: list[str], word: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        notes.append(word)
        return call(*arguments, **options)

    return noted


ODD = [
    'q"uote.md', "back\\slash", "trailing\\", "\\n", "\\u4e2d", "new\nline", "cr\rx", "tab\tx",
    "ctl\x01\x08\x0c\x1fx", "nul\0x", "del\x7fx", "per%cent", "under_score", "'single'",
    "{brace}", "[list]", "$meta", "中文/备份.md", "𠀀ext-b", "emoji😀", "\u2028ls", "x or true",
    '" or source != "', "é", "e\u0301", " ", "A", "a",
]  # fmt: skip


def test_odd_sources_are_found_and_nothing_else(store: MilvusStore, name: str) -> None:
    store.ensure(name, DIM)
    store.upsert(name, [row(n, source=source) for n, source in enumerate(ODD)])
    assert store.counts(name) == dict.fromkeys(ODD, 1)
    for number, source in enumerate(ODD):
        assert store.ids(name, source) == {row(number).chunk_hash}, source
        hits = store.dense(name, vector(), 50, Filters(source_prefix=source, kinds=()))
        assert set(found(hits)) == {n for n, s in enumerate(ODD) if s.startswith(source)}, source


SOURCE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sources=st.lists(SOURCE, min_size=1, max_size=5, unique=True), prefix=SOURCE)
def test_any_source_is_found_by_its_own_filter_alone(
    local: tuple[MilvusStore, str], sources: list[str], prefix: str
) -> None:
    store, name = local
    numbers = range(1, len(sources) + 1)
    store.upsert(name, [row(n, source=source) for n, source in zip(numbers, sources, strict=True)])
    for n, source in zip(numbers, sources, strict=True):
        assert store.ids(name, source) == {row(n).chunk_hash}
    for start in (prefix, sources[0][:1]):
        hits = store.dense(name, vector(), 50, Filters(source_prefix=start, kinds=()))
        wanted = {n for n, s in zip(numbers, sources, strict=True) if s.startswith(start)}
        assert set(found(hits)) == wanted
    store.delete(name, [row(n).chunk_hash for n in numbers])


# -- threads -------------------------------------------------------------------------------


def test_searches_miss_nothing_while_rows_are_written(
    local: tuple[MilvusStore, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight threads search for rows that are there while one writes, flushes and deletes."""
    monkeypatch.setattr(store_module, "FLUSH_ROWS", 40)
    store, name = local
    axis = np.eye(DIM, dtype=np.float32)[0]
    store.upsert(name, [row(1, embedding=axis, keywords="needle", source="kept.md")])
    stop, faults, searches = threading.Event(), [], itertools.count()

    def search() -> None:
        try:
            while not stop.is_set():
                assert found(store.dense(name, axis, 1, ANY)) == [1]
                assert found(store.keyword(name, "needle", 1, Filters())) == [1]
                assert store.ids(name, "kept.md") == {row(1).chunk_hash}
                assert store.get(name, row(1).chunk_hash) is not None
                next(searches)
        except BaseException as error:
            faults.append(error)
            stop.set()

    threads = [threading.Thread(target=search) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for batch in range(15):
            numbers = range(100 + batch * 20, 120 + batch * 20)
            store.upsert(name, [row(n, embedding=-axis, source=f"d{batch}.md") for n in numbers])
            store.delete(name, [row(n).chunk_hash for n in numbers[:5]])
            assert len(store.ids(name, f"d{batch}.md")) == 15
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert next(searches) > 8
    assert sum(store.counts(name).values()) == 1 + 15 * 15


# -- processes -----------------------------------------------------------------------------

CHILD = """
import sys, time
sys.path[:0] = {path!r}
from memsearch.sinks.store import MilvusStore
store = MilvusStore(sys.argv[1], lock_path=sys.argv[2] or None, wait=float(sys.argv[3]))
print(store.exists("memsearch_x"), flush=True)
if len(sys.argv) > 4:
    time.sleep(float(sys.argv[4]))
store.close()
print("closed", flush=True)
"""


def child(*args: object, code: str = CHILD, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "error", "-c", code.format(path=sys.path), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, str]:
    """A database and its lock file."""
    return str(tmp_path / "milvus.db"), str(tmp_path / "run" / "store.lock")


def test_a_second_process_waits_and_is_told_who_holds(places: tuple[str, str]) -> None:
    uri, lock = places
    process = child(uri, lock, 0, 1.5)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "False\n"
        store = MilvusStore(uri, lock_path=lock, wait=0.2)
        with pytest.raises(MemsearchError, match=f"in use by process {process.pid}") as caught:
            store.exists("memsearch_x")
        assert caught.value.kind is ErrorClass.BUSY
        assert store.lock_holder == process.pid
        with pytest.raises(MemsearchError) as caught:
            MilvusStore(uri, lock_path=lock, wait=60, on_wait=lambda _: True).exists("memsearch_x")
        assert caught.value.kind is ErrorClass.BUSY
        with MilvusStore(uri, lock_path=lock, wait=30) as patient:
            assert not patient.exists("memsearch_x")
    finally:
        process.kill()
        process.communicate()


def test_a_program_that_does_not_know_our_lock(places: tuple[str, str]) -> None:
    uri, lock = places
    process = child(uri, "", 0, 1.0)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "False\n"
        with pytest.raises(MemsearchError, match="in use by another program") as caught:
            MilvusStore(uri, lock_path=lock, wait=0.1).exists("memsearch_x")
        assert caught.value.kind is ErrorClass.BUSY
        asked: list[float] = []
        waits = MilvusStore(
            uri, lock_path=lock, wait=30, on_wait=lambda waited: bool(asked.append(waited))
        )
        with waits:
            assert not waits.exists("memsearch_x")
        assert asked
    finally:
        process.kill()
        process.communicate()


def test_closing_lets_the_next_one_in_at_once(places: tuple[str, str]) -> None:
    uri, lock = places
    store = MilvusStore(uri, lock_path=lock)
    store.ensure("memsearch_x", DIM)
    store.upsert("memsearch_x", [row(1)])
    for _ in range(2):
        store.close()
        store.close()
        done = child(uri, lock, 0)
        out, errors = done.communicate()
        assert (out, errors, done.returncode) == ("True\nclosed\n", "", 0)
        assert store.get("memsearch_x", row(1).chunk_hash) is not None
    store.close()
    assert os.listdir(os.path.dirname(lock)) == ["store.lock"]


def test_a_process_that_does_not_close_ends_and_loses_nothing(places: tuple[str, str]) -> None:
    uri, lock = places
    code = (
        "import sys; sys.path[:0] = {path!r}\n"
        "import numpy as np\n"
        "from memsearch.sinks.store import MilvusStore\n"
        "from memsearch.sinks.types import Row\n"
        "store = MilvusStore(sys.argv[1], lock_path=sys.argv[2])\n"
        "store.ensure('memsearch_x', 4)\n"
        "store.upsert('memsearch_x', [Row('ab' * 8, np.ones(4, np.float32), 'c', 'k', 's', 'h',"
        " 1, 1, 1, '', '', '', 0, 'note')])\n"
    )
    process = child(uri, lock, code=code)
    out, errors = process.communicate(timeout=60)
    assert (out, errors, process.returncode) == ("", "", 0)
    with MilvusStore(uri, lock_path=lock) as store:
        assert store.ids("memsearch_x", "s") == {"ab" * 8}


@pytest.mark.skipif(not os.path.exists("/proc/self/net/tcp"), reason="needs /proc")
def test_nothing_listens_on_tcp(lite: MilvusStore) -> None:
    lite.exists("memsearch_x")
    ours = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            ours.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in ours:
                listening.append(fields[1])
    assert listening == []


@pytest.mark.parametrize("folder", ['it\'s "odd" 100%25 #?', "备份", "l" * 100])
def test_any_home_will_do(folder: str, tmp_path: Path) -> None:
    home = tmp_path / folder
    home.mkdir()
    with MilvusStore(str(home / "m.db"), lock_path=str(home / "run" / "lock")) as store:
        store.ensure("memsearch_x", DIM)
        store.upsert("memsearch_x", [row(1)])
        assert found(store.dense("memsearch_x", vector(), 5, ANY)) == [1]
        private = store._milvus.lite
        assert private is not None
        path = private.uri.removeprefix("unix:")
        assert os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
    assert not os.path.exists(path)
    assert os.stat(home / "m.db").st_mode & 0o077 == 0


def test_reading_writes_nothing(places: tuple[str, str]) -> None:
    uri, lock = places
    with MilvusStore(uri, lock_path=lock) as store:
        store.ensure("memsearch_x", DIM)
        store.upsert("memsearch_x", [row(n) for n in range(20)])
        store.delete("memsearch_x", [row(3).chunk_hash])

    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in Path(uri).rglob("*")
            if path.is_file()
        }

    before = state()
    with MilvusStore(uri, lock_path=lock) as store:
        assert store.keyword("memsearch_x", "nonsense", 5, ANY) == []
        assert len(store.dense("memsearch_x", vector(), 50, ANY)) == 19
        assert store.counts("memsearch_x") == {"memory/2026-03-05.md": 19}
        assert store.dense("memsearch_missing", vector(), 5, ANY) == []
        assert store.get("memsearch_x", row(3).chunk_hash) is None
    assert state() == before


# -- faults --------------------------------------------------------------------------------

KILLED = """
import random, sys
sys.path[:0] = {path!r}
import numpy as np
from memsearch.sinks import store as module
from memsearch.sinks.types import Row
module.FLUSH_ROWS = 25
module.BATCH_ROWS = 7
start, seed = int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)
store = module.MilvusStore(sys.argv[1], lock_path=sys.argv[2])
store.ensure("memsearch_x", 8)
print("ready", flush=True)
number = start
while True:
    size = rng.randint(1, 20)
    rows = [
        Row(f"{{n:016x}}", np.full(8, n + 1, np.float32), "c", f"w{{n}}", f"d{{n % 5}}.md", "h",
            1, 1, 1, "", "", "", 0, "note")
        for n in range(number, number + size)
    ]
    store.upsert("memsearch_x", rows)
    number += size
    print("+", number, flush=True)
    if rng.random() < 0.3:
        gone = rng.randint(start, number - 1)
        print("?", gone, flush=True)
        store.delete("memsearch_x", [f"{{gone:016x}}"])
        print("-", gone, flush=True)
"""


def test_kill_9_in_the_midst_of_writing_loses_nothing(places: tuple[str, str]) -> None:
    """Ten rounds: what was written stays, what was deleted stays away, writing again heals."""
    uri, lock = places
    rng = random.Random(SEED)
    there: set[int] = set()
    uncertain: set[int] = set()
    first = 0
    for seed in range(SEED, SEED + 10):
        process = child(uri, lock, first, seed, code=KILLED)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        timer = threading.Timer(rng.uniform(0.05, 0.6), process.kill)
        timer.start()
        reached = first
        for line in process.stdout:
            if not line.endswith("\n"):
                break
            sign, number = line[0], int(line[2:])
            if sign == "+":
                there |= set(range(reached, number))
                reached = number
            elif sign == "?":
                uncertain.add(number)
                there.discard(number)
            else:
                uncertain.discard(number)
        timer.join()
        assert process.stderr is not None
        process.stderr.close()
        process.stdout.close()
        process.wait()
        # The batch that was under way may be there, in part.
        under_way = set(range(reached, reached + 20))
        with MilvusStore(uri, lock_path=lock) as store:
            held = {int(key, 16) for d in range(5) for key in store.ids("memsearch_x", f"d{d}.md")}
            assert there <= held, (seed, there - held)
            assert held <= there | under_way | uncertain, (seed, held - there)
            assert sum(store.counts("memsearch_x").values()) == len(held)
            for number in rng.sample(sorted(there), min(5, len(there))):
                hits = store.keyword("memsearch_x", f"w{number}", 3, ANY)
                assert found(hits) == [number]
            nearest = store.dense("memsearch_x", np.ones(8, np.float32), len(held) + 5, ANY)
            assert sorted(found(nearest)) == sorted(held)  # each once
            again = sorted(there | under_way)
            store.upsert(
                "memsearch_x",
                [row(n, keywords=f"w{n}", source=f"d{n % 5}.md") for n in again],
            )
            store.delete("memsearch_x", [f"{number:016x}" for number in uncertain])
            assert sum(store.counts("memsearch_x").values()) == len(again)
        there, uncertain, first = set(again), set(), reached + 20
    assert len(there) > 200


def test_a_collection_that_was_killed_while_it_was_made(places: tuple[str, str]) -> None:
    uri, lock = places
    with MilvusStore(uri, lock_path=lock) as store:
        store.exists("memsearch_x")
        os.mkdir(f"{uri}/collections/memsearch_x")  # made, schema not yet written
        assert not store.exists("memsearch_x")
        store.ensure("memsearch_x", DIM)
        store.upsert("memsearch_x", [row(1)])
        # A drop got as far as the manifest; then one without its indexes.
        os.mkdir(f"{uri}/collections/memsearch_y")
        shutil.copy(f"{uri}/collections/memsearch_x/schema.json", f"{uri}/collections/memsearch_y/")
        assert store.dense("memsearch_y", vector(), 5, ANY) == []
        store.ensure("memsearch_y", DIM)
        store.upsert("memsearch_y", [row(2)])
        assert found(store.keyword("memsearch_y", "word2", 5, ANY)) == [2]


def files(uri: str, pattern: str) -> list[Path]:
    chosen = sorted(Path(uri).glob(f"collections/memsearch_x/{pattern}"))
    assert chosen
    return chosen


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path) -> None:
    path.write_bytes(b"")


DATA, MANIFESTS = "partitions/_default/data/*.parquet", "manifest.json*"


@pytest.mark.parametrize(
    ("pattern", "break_it"),
    [
        (DATA, cut),
        (DATA, zero),
        (DATA, empty),
        (DATA, Path.unlink),
        (MANIFESTS, cut),
        (MANIFESTS, empty),
        ("manifest.json", zero),
        ("schema.json", cut),
        ("schema.json", empty),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_damage_is_told_and_dropping_heals(
    pattern: str, break_it: Callable[[Path], object], places: tuple[str, str]
) -> None:
    uri, lock = places
    with MilvusStore(uri, lock_path=lock) as store:
        for collection in ("memsearch_x", "memsearch_y"):
            store.ensure(collection, DIM)
            store.upsert(collection, [row(n) for n in range(20)])
    for path in files(uri, pattern):
        break_it(path)
    with MilvusStore(uri, lock_path=lock) as store:
        for _ in range(2):
            with pytest.raises(MemsearchError, match="is damaged") as caught:
                store.dense("memsearch_x", vector(), 5, ANY)
            assert caught.value.kind is ErrorClass.DAMAGED
            assert "`memsearch index`" in caught.value.hint
        with pytest.raises(MemsearchError) as caught:
            store.ensure("memsearch_x", DIM)
        assert caught.value.kind is ErrorClass.DAMAGED
        # One collection's fault is its own.
        assert len(store.ids("memsearch_y", "memory/2026-03-05.md")) == 20
        store.drop("memsearch_x")
        store.ensure("memsearch_x", DIM)
        store.upsert("memsearch_x", [row(1)])
        assert found(store.dense("memsearch_x", vector(), 5, ANY)) == [1]


def test_a_damaged_collection_is_built_aside_and_swapped(places: tuple[str, str]) -> None:
    uri, lock = places
    with MilvusStore(uri, lock_path=lock) as store:
        store.ensure("memsearch_x", DIM)
        store.upsert("memsearch_x", [row(1)])
    empty(files(uri, DATA)[0])
    with MilvusStore(uri, lock_path=lock) as store:
        store.ensure("memsearch_x" + NEXT, DIM)
        store.upsert("memsearch_x" + NEXT, [row(1), row(2)])
        store.swap("memsearch_x")
        assert store.counts("memsearch_x") == {"memory/2026-03-05.md": 2}
        assert store.collections() == ["memsearch_x"]


def test_a_log_that_is_cut_counts_fewer_rows(places: tuple[str, str]) -> None:
    """What cannot be told from a kill by the files alone: the counts tell it."""
    uri, lock = places
    code = KILLED.replace("FLUSH_ROWS = 25", "FLUSH_ROWS = 10**6")
    process = child(uri, lock, 0, 1, code=code)
    assert process.stdout is not None
    reached = 0
    for line in process.stdout:
        if line.startswith("+") and (reached := int(line[2:])) > 60:
            break
    process.kill()
    process.communicate()
    cut(files(uri, "wal/wal_data_*.arrow")[0])
    with MilvusStore(uri, lock_path=lock) as store:
        assert 0 < sum(store.counts("memsearch_x").values()) < reached
        assert any("WAL recovery stopped" in note for note in store.notes())


def test_a_database_file_of_version_2_is_left_alone(places: tuple[str, str]) -> None:
    import sqlite3

    uri, lock = places
    connection = sqlite3.connect(uri)
    connection.execute("CREATE TABLE collection_meta(name)")
    connection.commit()
    connection.close()
    before = Path(uri).read_bytes()
    with pytest.raises(MemsearchError, match="Milvus Lite 2") as caught:
        MilvusStore(uri, lock_path=lock).exists("memsearch_x")
    assert caught.value.kind is ErrorClass.CONFIG
    assert "milvus.uri" in caught.value.hint
    assert Path(uri).read_bytes() == before
    Path(uri).write_text("something else")
    with pytest.raises(MemsearchError, match="something else lies there") as caught:
        MilvusStore(uri, lock_path=lock).exists("memsearch_x")
    assert caught.value.kind is ErrorClass.CONFIG
    assert Path(uri).read_text() == "something else"


def as_user(uri: str, lock: str) -> str:
    """What a process without root's rights is told."""
    code = (
        "import os, sys, tempfile; sys.path[:0] = {path!r}\n"
        "from memsearch.config.errors import MemsearchError\n"
        "from memsearch.sinks.store import MilvusStore\n"
        # All that is imported on the way is imported while it may still be read.
        "with tempfile.TemporaryDirectory() as folder, MilvusStore(folder + '/m.db') as store:\n"
        "    store.ensure('memsearch_x', 8)\n"
        "    store.counts('memsearch_x')\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    with MilvusStore(sys.argv[1], lock_path=sys.argv[2] or None, wait=0.2) as store:\n"
        "        store.ensure('memsearch_x', 8)\n"
        "        print('fine', store.counts('memsearch_x'))\n"
        "except MemsearchError as error:\n"
        "    print(error.kind.value, error.message)\n"
    )
    process = child(uri, lock, code=code)
    out, errors = process.communicate(timeout=60)
    assert errors == ""
    return out


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A temporary folder that another user can come to."""
    import tempfile

    path = Path(tempfile.mkdtemp(dir="/tmp"))
    path.chmod(0o777)
    yield path
    for folder in path.rglob("*"):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o700)
    shutil.rmtree(path)


def test_what_may_not_be_read_is_told_apart(open_path: Path) -> None:
    uri, lock = str(open_path / "m.db"), ""
    assert as_user(uri, lock).startswith("fine")
    os.chmod(uri, 0)
    told = as_user(uri, lock)
    assert told.startswith("permission ")
    assert "may not be opened" in told
    os.chmod(uri, 0o700)
    assert as_user(uri, lock).startswith("fine")
    os.chmod(open_path / "m.db" / "collections" / "memsearch_x", 0)
    assert as_user(uri, lock).startswith("permission ")
    os.chmod(open_path / "m.db" / "collections" / "memsearch_x", 0o700)
    locks = open_path / "run"
    locks.mkdir(mode=0o700)
    if os.getuid() == 0:
        assert as_user(uri, str(locks / "store.lock")).startswith("permission ")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    path = tmp_path / "disk"
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # Lite's, as it fails
def test_a_full_disk_loses_nothing_that_was_written(small_disk: Path, tmp_path: Path) -> None:
    uri, lock = str(small_disk / "m.db"), str(tmp_path / "store.lock")
    ballast = small_disk / "ballast"
    with MilvusStore(uri, lock_path=lock) as store:
        store.ensure("memsearch_x", DIM)
        written = 0
        with pytest.raises(MemsearchError, match="disk is full") as caught:
            while True:
                rows = [row(n, content="x" * 5000) for n in range(written, written + 20)]
                store.upsert("memsearch_x", rows)
                written += 20
                if not ballast.exists():
                    ballast.write_bytes(bytes(2_000_000))
        assert caught.value.kind is ErrorClass.DISK_FULL
        assert written >= 20
        ballast.unlink()
        assert store.get("memsearch_x", row(0).chunk_hash) is not None
        more = [row(n) for n in range(written, written + 20)]
        store.upsert("memsearch_x", more)
        # As a kill would leave it: nothing is closed, all is read from the files again.
        copy = tmp_path / "copy.db"
        shutil.copytree(uri, copy)
    with MilvusStore(str(copy)) as store:
        assert sum(store.counts("memsearch_x").values()) == written + 20
    gc.collect()


# -- the network ---------------------------------------------------------------------------


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(5)
        store = MilvusStore(f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(MemsearchError, match="does not answer in time") as caught:
            store.exists("memsearch_x")
        assert time.monotonic() - started < 10
        assert caught.value.kind is ErrorClass.TIMEOUT
        store.close()


def test_no_server() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for host in (f"127.0.0.1:{port}", "no-such-host.invalid:19530"):
        with (
            MilvusStore(f"http://{host}", timeout=5) as store,
            pytest.raises(MemsearchError, match="cannot be reached") as caught,
        ):
            store.exists("memsearch_x")
        assert caught.value.kind is ErrorClass.NETWORK


def test_a_server_that_goes_and_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in time while it is away; the same store works when it is back."""
    import_pymilvus()
    from milvus_lite.adapter.grpc.server import start_server_in_thread

    running, engine, port = start_server_in_thread(str(tmp_path / "s"))
    store = MilvusStore(f"http://127.0.0.1:{port}", timeout=1)
    store.ensure("memsearch_x", DIM)
    store.upsert("memsearch_x", [row(1)])
    running.stop(0).wait()
    engine.close()
    started = time.monotonic()
    with pytest.raises(MemsearchError) as caught:
        store.dense("memsearch_x", vector(), 5, ANY)
    assert caught.value.kind in (ErrorClass.NETWORK, ErrorClass.TIMEOUT)
    assert time.monotonic() - started < 10
    running, engine, _ = start_server_in_thread(str(tmp_path / "s"), port=port)
    wait_for(lambda: answers(store))
    assert store.get("memsearch_x", row(1).chunk_hash) is not None
    store.close()
    running.stop(0).wait()
    engine.close()


def answers(store: MilvusStore) -> bool:
    try:
        store.close()
        return store.exists("memsearch_x")
    except MemsearchError:
        return False


def test_a_refused_token() -> None:
    import_pymilvus()
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from pymilvus.grpc_gen import milvus_pb2_grpc

    class Refusing(milvus_pb2_grpc.MilvusServiceServicer):  # type: ignore[misc]
        def Connect(self, request: Any, context: Any) -> None:  # noqa: N802
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure")

    running = grpc.server(ThreadPoolExecutor(2))
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(Refusing(), running)
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    try:
        with (
            MilvusStore(f"http://127.0.0.1:{port}", token="root:S3cret") as store,
            pytest.raises(MemsearchError, match="refuses the credentials") as caught,
        ):
            store.exists("memsearch_x")
    finally:
        running.stop(0).wait()
    assert caught.value.kind is ErrorClass.CREDENTIALS
    assert "S3cret" not in str(caught.value)


def test_a_server_without_bm25_searches_by_meaning(
    server: MilvusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Milvus before 2.5: the schema leaves out what it does not know."""
    from memsearch.sinks import store_connection

    monkeypatch.setattr(store_connection, "has_bm25", lambda _: False)
    name = next(_names)
    with MilvusStore(server.uri) as old:
        old.ensure(name, DIM)
        old.upsert(name, [row(1)])
        assert found(old.dense(name, vector(), 5, Filters())) == [1]
        with pytest.raises(MemsearchError, match="too old to search by keyword") as caught:
            old.keyword(name, "word1", 5, ANY)
        assert caught.value.kind is ErrorClass.CONFIG
        old.drop(name)
    assert milvus_client.has_bm25("2.4.0") is False


# -- quiet ---------------------------------------------------------------------------------

NOISE = """
import sys
sys.path[:0] = {path!r}
import numpy as np
from pathlib import Path
from memsearch.config.errors import MemsearchError
from memsearch.sinks.store import MilvusStore
uri = sys.argv[1]
store = MilvusStore(uri)
store.ensure("memsearch_x", 4)
client = store._milvus._client
for wrong in ("no such (", "day in (", "'"):
    try:
        client.query("memsearch_x", filter=wrong)
    except Exception:
        pass
store.close()
Path(uri, "collections", "memsearch_x", "manifest.json").write_text("broken")
Path(uri, "collections", "memsearch_x", "manifest.json.prev").write_text("broken")
for address in (uri, "http://127.0.0.1:9", "https://127.0.0.1:9"):
    with MilvusStore(address, timeout=2) as store:
        try:
            store.counts("memsearch_x")
        except MemsearchError as error:
            print(error.kind.value)
"""


def test_nothing_is_printed(places: tuple[str, str]) -> None:
    process = child(places[0], code=NOISE)
    out, errors = process.communicate(timeout=60)
    assert (out, errors) == ("damaged\nnetwork\nnetwork\n", "")


def test_notes_are_short_and_bounded(places: tuple[str, str]) -> None:
    uri, lock = places
    with MilvusStore(uri, lock_path=lock) as store:
        assert store.notes() == ()
        store.exists("memsearch_x")
        import logging

        logger = logging.getLogger("milvus_lite.engine")
        for number in range(80):
            logger.warning("a\nlong %s note %d", "x" * 1000, number)
        logger.info("not kept")
        notes = store.notes()
        assert len(notes) == 50
        assert all(len(note) <= 300 and "\n" not in note for note in notes)
    assert store.notes() == ()
    assert re.fullmatch("a long x+", notes[-1])
