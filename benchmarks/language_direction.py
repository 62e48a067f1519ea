"""The direction between Chinese and English that ships with the package, and what it is worth.

    python benchmarks/language_direction.py [--write]

Embeds the notes of ``data/bilingual.json``, put together to entries, in both languages with the
built-in model and takes the unit vector from the mean Chinese to the mean English one.
``--write`` stores it in ``sinks/language_direction.json``; without it the two are compared
(exit code 1 when their cosine is below 0.999).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from memsearch.config.paths import Home
from memsearch.config.schema import Embedding
from memsearch.sinks import language
from memsearch.sinks.embedders import create

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "sinks" / language.SHIPPED
#: Notes in one entry, as many as a journal's have.
BULLETS = 3
#: Digits of a component: the vectors themselves are not more exact.
DIGITS = 5


def entries(notes: list[str]) -> list[str]:
    """Entries as a journal's chunks are embedded: a heading and some notes."""
    return [
        f"### {9 + start % 9:02d}:{start % 60:02d}\n"
        + "\n".join(f"- {notes[(start + step) % len(notes)]}" for step in range(BULLETS))
        for start in range(len(notes))
    ]


def main() -> int:
    """Make the direction; returns the exit code."""
    data = json.loads((ROOT / "benchmarks/data/bilingual.json").read_text(encoding="utf-8"))
    embedder = create(Embedding(), Home.from_env(os.environ), os.environ)
    means = {}
    for name in ("en", "zh"):
        notes = [pair[name] for pair in data["pairs"]]
        means[name] = embedder.embed_passages(entries(notes)).mean(axis=0)
    embedder.close()
    difference = means["en"] - means["zh"]
    direction = difference / np.linalg.norm(difference)
    print(f"{len(data['pairs'])} pairs, length of the difference {np.linalg.norm(difference):.3f}")
    if "--write" in sys.argv[1:]:
        values = [round(float(value), DIGITS) for value in direction]
        text = json.dumps({"model": embedder.model, "direction": values})
        TARGET.write_text(text + "\n", encoding="utf-8")
        print(f"written to {TARGET}")
        return 0
    shipped = language.shipped(embedder.model)
    cosine = 0.0 if shipped is None else float(shipped @ direction)
    print(f"cosine with the shipped one: {cosine:.5f}")
    return 0 if cosine >= 0.999 else 1


if __name__ == "__main__":
    raise SystemExit(main())
