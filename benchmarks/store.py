"""The store on Milvus Lite: opening, writing and searching, with and without a filter.

Prints a table for 1,000 and 10,000 chunks of 384 numbers, in milliseconds (the least of some
runs) and as a ratio to one search by meaning at 1,000 chunks in the same run. Memory is what
the process holds beyond the imports.

    python benchmarks/store.py
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date

import numpy as np

from memsearch.sinks.store import MilvusStore
from memsearch.sinks.types import Filters, Row, Vectors

DIMENSION = 384
SIZES = (1_000, 10_000)
COLLECTION = "memsearch_benchmark"
RUNS = 7

#: Words of a chunk, drawn as words are: few often, many seldom.
WORDS = 80


def main() -> None:
    rng = np.random.default_rng(1)
    imports = import_seconds()
    table: list[tuple[str, list[float]]] = []
    memory: list[float] = []
    unit = 0.0
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            figures, held = measure(folder, [row(n, rng) for n in range(size)])
        unit = unit or figures["search by meaning"]
        memory.append(held)
        for number, (what, seconds) in enumerate(figures.items()):
            if size == SIZES[0]:
                table.append((what, []))
            table[number][1].append(seconds)
    print(f"{'':34}" + "".join(f"{size:>14,}" for size in SIZES))
    for what, values in table:
        cells = "".join(f"{1000 * v:9.1f} ms{v / unit:6.1f}x" for v in values)
        print(f"{what:34}{cells}")
    print(f"{'memory beyond the imports':34}" + "".join(f"{held:11.0f} MB " for held in memory))
    print(
        f"{'importing pymilvus and Milvus Lite':34}{1000 * imports:9.1f} ms{imports / unit:6.1f}x"
    )


def measure(folder: str, rows: list[Row]) -> tuple[dict[str, float], float]:
    """Seconds of each operation, and megabytes held at the end."""
    figures: dict[str, float] = {}
    with MilvusStore(os.path.join(folder, "m.db")) as store:
        store.exists(COLLECTION)
        gc.collect()
        before = resident()
        store.ensure(COLLECTION, DIMENSION)
        started = time.perf_counter()
        for first in range(0, len(rows), 500):
            store.upsert(COLLECTION, rows[first : first + 500])
        figures["write 1,000 chunks"] = (time.perf_counter() - started) * 1000 / len(rows)
        store.close()
        figures["open"] = timed(lambda: reopen(store))
        store.close()
        figures["open and first keyword search"] = once(
            lambda: store.keyword(COLLECTION, "w5", 30, Filters())
        )
        question: Vectors = rows[7].embedding
        words = " ".join(rows[7].keywords.split()[:12])
        month = Filters(since=date(2026, 1, 10), until=date(2026, 1, 20))
        one = Filters(source_prefix="d77.md")
        figures |= {
            "search by meaning": timed(lambda: store.dense(COLLECTION, question, 30, Filters())),
            "  eleven days of it": timed(lambda: store.dense(COLLECTION, question, 30, month)),
            "  one document of it": timed(lambda: store.dense(COLLECTION, question, 30, one)),
            "search by keyword": timed(lambda: store.keyword(COLLECTION, words, 30, Filters())),
            "  eleven days of it ": timed(lambda: store.keyword(COLLECTION, words, 30, month)),
            "  one document of it ": timed(lambda: store.keyword(COLLECTION, words, 30, one)),
            "ids of one document": timed(lambda: store.ids(COLLECTION, "d77.md")),
            "one chunk by its id": timed(lambda: store.get(COLLECTION, rows[7].chunk_hash)),
            "counts of all documents": timed(lambda: store.counts(COLLECTION)),
            "one chunk written, then found": timed(lambda: replace_one(store, rows[7], question)),
        }
        held = resident() - before
    return figures, held


def reopen(store: MilvusStore) -> None:
    store.close()
    assert store.dimension(COLLECTION) == DIMENSION


def replace_one(store: MilvusStore, row: Row, question: Vectors) -> None:
    store.upsert(COLLECTION, [row])
    assert store.dense(COLLECTION, question, 1, Filters())[0].chunk_hash == row.chunk_hash


def row(number: int, rng: np.random.Generator) -> Row:
    vector = rng.standard_normal(DIMENSION).astype(np.float32)
    words = " ".join(f"w{min(word, 40_000)}" for word in rng.zipf(1.2, WORDS))
    return Row(
        chunk_hash=f"{number:016x}",
        embedding=np.asarray(vector / np.linalg.norm(vector), np.float32),
        content=f"{words} {words}",
        keywords=words,
        source=f"d{number // 10}.md",
        heading="### 10:00",
        heading_level=3,
        start_line=1,
        end_line=9,
        platform="claude-code",
        session=f"s{number // 50}",
        turn=f"t{number}",
        day=20260101 + number % 28,
        kind="entry",
    )


def once(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def timed(work: Callable[[], object]) -> float:
    work()
    return min(once(work) for _ in range(RUNS))


def import_seconds() -> float:
    code = "from memsearch.sinks.milvus_client import import_pymilvus; import_pymilvus()"
    code += "; import milvus_lite.adapter.grpc.servicer"
    command = [sys.executable, "-P", "-c", code]
    plain = [sys.executable, "-P", "-c", "pass"]
    return min(run(command) for _ in range(3)) - min(run(plain) for _ in range(3))


def run(command: list[str]) -> float:
    return once(lambda: subprocess.run(command, check=True))


def resident() -> float:
    """Megabytes of memory that the process holds (Linux; elsewhere 0)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
