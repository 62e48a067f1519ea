"""The direction between Chinese and English that ships with the package, and what it is worth.

    python benchmarks/language_direction.py [--write]

Embeds the notes of ``data/bilingual.json``, put together to entries, in both languages with the
built-in model and takes the unit vector from the mean Chinese to the mean English one, and the
middle of the two.
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
    direction = language.between(means["zh"], means["en"])
    assert direction is not None
    length = np.linalg.norm(means["en"] - means["zh"])
    print(f"{len(data['pairs'])} pairs, length of the difference {length:.3f}")
    if "--write" in sys.argv[1:]:
        made = {
            "model": embedder.model,
            "direction": [round(float(value), DIGITS) for value in direction.vector],
            "middle": [round(float(value), DIGITS) for value in direction.middle],
        }
        TARGET.write_text(json.dumps(made) + "\n", encoding="utf-8")
        print(f"written to {TARGET}")
        return 0
    shipped = language.shipped(embedder.model)
    if shipped is None:
        print("none is shipped for this model")
        return 1
    cosine = float(shipped.vector @ direction.vector)
    away = float(np.linalg.norm(shipped.middle - direction.middle))
    print(f"cosine with the shipped one: {cosine:.5f}; middles apart by {away:.5f}")
    return 0 if cosine >= 0.999 and away <= 0.01 else 1


if __name__ == "__main__":
    raise SystemExit(main())
