"""Which language a text is in, and the direction in which a model keeps two languages apart.

A small multilingual embedder ranks any text in the question's language above the right text in
another: most of the difference between a Chinese and an English passage is the language. That
difference is one direction, nearly the same for all texts, and a question without its share of
it is answered from both languages alike.

What is left is still mostly what all texts of such a model share, whatever they say: two of
them are hardly less alike than a question and its answer. A question that keeps only part of
that tells the texts of the other language apart better (Mu and Viswanath, "All-but-the-Top",
ICLR 2018, take it from all vectors; here the stored ones stay as they are).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memsearch.sinks.types import Vectors

#: Share of Han letters among all letters from which a text is Chinese: notes about code are
#: full of English names.
CHINESE_SHARE = 0.2
#: Texts of each language from which a collection's own direction is taken.
ENOUGH = 20
#: How much of the middle of both languages is taken from a question. On two sets of questions
#: across the languages the right text was among the first five of the vector leg for 59 to
#: 92 % with 0, for 91 to 100 % with 0.5 and more; near 1 it costs first places within a language.
COMMON_SHARE = 0.7
#: Length of the difference of two means below which it has no direction.
NO_DIFFERENCE = 1e-3
#: The shipped direction, in this package; ``benchmarks/language_direction.py`` makes it.
SHIPPED = "language_direction.json"

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True)
class Sums:
    """Vectors of texts added up by language.

    ``chinese`` and ``english`` (all that is not Chinese) count texts; the sums have shape
    ``(dimension,)``, float32, and are None where there is no text.
    """

    chinese: int = 0
    english: int = 0
    chinese_sum: Vectors | None = None
    english_sum: Vectors | None = None

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.chinese + other.chinese,
            self.english + other.english,
            _plus(self.chinese_sum, other.chinese_sum),
            _plus(self.english_sum, other.english_sum),
        )


@dataclass(frozen=True, slots=True)
class Direction:
    """Where a model keeps two languages.

    Attributes:
        vector: Unit vector u from the mean Chinese to the mean English text, shape
            ``(dimension,)``, float32.
        middle: The point m in the middle of the two means, of the same shape.
    """

    vector: Vectors
    middle: Vectors


def is_chinese(text: str) -> bool | None:
    """Whether a text is Chinese; None when it has no letter."""
    letters = sum(map(str.isalpha, text))
    return len(_HAN.findall(text)) >= CHINESE_SHARE * letters if letters else None


def add_up(texts: Iterable[tuple[str, Vectors]]) -> Sums:
    """The sums of texts with their vectors; those without a letter are left out."""
    sums = Sums()
    for text, vector in texts:
        chinese = is_chinese(text)
        if chinese is not None:
            sums += Sums(1, 0, vector, None) if chinese else Sums(0, 1, None, vector)
    return sums


def direction(sums: Sums, model: str) -> Direction | None:
    """The direction from the mean Chinese to the mean English text, and their middle.

    Args:
        sums: Of a collection.
        model: Identity of the model of its vectors.

    Returns:
        While a language has fewer than ``ENOUGH`` texts, the shipped one, for the model that it
        was made with; else None.
    """
    if min(sums.chinese, sums.english) < ENOUGH:
        return shipped(model)
    import numpy as np

    assert sums.chinese_sum is not None
    assert sums.english_sum is not None
    chinese = sums.chinese_sum / np.float32(sums.chinese)
    return between(chinese, sums.english_sum / np.float32(sums.english))


def between(chinese: Vectors, english: Vectors) -> Direction | None:
    """The direction from one mean vector to the other; None when they are the same.

    Args:
        chinese: Mean of the vectors of Chinese texts, shape ``(dimension,)``.
        english: The same of English ones.
    """
    import numpy as np

    difference = english - chinese
    length = float(np.linalg.norm(difference))
    if length <= NO_DIFFERENCE:
        return None
    return Direction(
        np.asarray(difference / length, np.float32),
        np.asarray((english + chinese) / 2, np.float32),
    )


def without(query: Vectors, direction: Direction) -> Vectors:
    """A question's vector without its language, and without most of what all texts share.

    With c = q - ``COMMON_SHARE`` m it is c - (c·u)u, of norm 1.

    Args:
        query: The question's vector q, of norm 1.
        direction: u and m.
    """
    import numpy as np

    rest = query - COMMON_SHARE * direction.middle
    rest = rest - float(rest @ direction.vector) * direction.vector
    length = float(np.linalg.norm(rest))
    return np.asarray(rest / length, np.float32) if length > NO_DIFFERENCE else query


@functools.lru_cache(maxsize=4)
def shipped(model: str) -> Direction | None:
    """The direction that comes with the package; None for every model but one."""
    found = json.loads((resources.files(__package__) / SHIPPED).read_text(encoding="utf-8"))
    if found["model"] != model:
        return None
    import numpy as np

    vector = np.array(found["direction"], np.float32)
    middle = np.array(found["middle"], np.float32)
    return Direction(np.asarray(vector / np.linalg.norm(vector), np.float32), middle)


def _plus(one: Vectors | None, other: Vectors | None) -> Vectors | None:
    if one is None or other is None:
        return other if one is None else one
    total: Vectors = one + other
    return total
