"""How well recall finds, with each step of the recipe and without it.

    python benchmarks/recall.py

Hit@1 and hit@5 of the test sets' groups of questions (``tests/data/recall``), by fusion, with
single legs, and without the language step. Exits with 1 when the default is worse than the
better leg by more than one question in a group, or finds less than 0.9 across languages.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from recall_sets import GROUPS, Memory, bilingual_memory, code_memory, pairs_of

from memsearch.config.paths import Home
from memsearch.config.schema import Embedding
from memsearch.sinks.embedders import create
from memsearch.sinks.store import MilvusStore

Ask = Callable[[Memory, str], list[str]]

#: The ways that are compared, the default first.
WAYS: dict[str, Ask] = {
    "default": lambda memory, question: memory.search(question),
    "rrf": lambda memory, question: memory.search(question, fusion="rrf"),
    "weighted": lambda memory, question: memory.search(question, fusion="weighted"),
    "one language": lambda memory, question: memory.search(question, cross_language=False),
    "vectors": lambda memory, question: memory.one_leg("dense", question),
    "keywords": lambda memory, question: memory.one_leg("keyword", question),
}
#: Across languages, hit@5.
GOAL = 0.9


def main() -> int:
    """Measure; 1 when a goal is missed."""
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="memsearch-bench-") as folder:
        home = Home(folder)
        home.create()
        embedder = create(Embedding(), home, os.environ)
        with MilvusStore(home.milvus_db, lock_path=home.store_lock) as store:
            memories = {
                "bilingual": bilingual_memory(store, embedder, home),
                "code": code_memory(store, embedder, home),
            }
            print(f"{'note, question':<16}{'n':>4}  " + "".join(f"{way:>15}" for way in WAYS))
            for memory, name in GROUPS:
                pairs = pairs_of(memory, name)
                found = {}
                for way, ask in WAYS.items():
                    answers = [(ask(memories[memory], question), text) for question, text in pairs]
                    first = sum(results[:1] == [text] for results, text in answers)
                    found[way] = (first, sum(text in results for results, text in answers))
                cells = "".join(f"{f'{first} / {five}':>15}" for first, five in found.values())
                print(f"{name:<16}{len(pairs):>4}  {cells}")
                default = found["default"][1]
                if default < max(found["vectors"][1], found["keywords"][1]) - 1:
                    missed.append(f"{name}: worse than a single leg")
                if name in ("en zh", "zh en") and default < GOAL * len(pairs):
                    missed.append(f"{name}: below {GOAL}")
        embedder.close()
    print("hit@1 / hit@5" + "".join(f"\nmissed: {text}" for text in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
