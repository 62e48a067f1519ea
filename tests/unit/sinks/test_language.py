"""Languages of texts, and the direction between them."""

from __future__ import annotations

import numpy as np
import pytest

from memsearch.sinks.embedders.presets import BUILT_IN_DIMENSION, BUILT_IN_IDENTITY
from memsearch.sinks.language import (
    ENOUGH,
    Direction,
    Sums,
    add_up,
    direction,
    is_chinese,
    shipped,
    without,
)
from memsearch.sinks.types import Vectors


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("the backup failed", False),
        ("备份失败", True),
        ("Claude Code 把重试次数调到五次", True),  # 8 of 18 letters
        ("renamed getUserById to findUser, see 备份", False),  # 2 of 30
        ("abcd备", True),  # one of five
        ("abcde备", False),
        ("prüfe die Größe", False),
        ("12:30 — #42", None),
        ("", None),
    ],
)
def test_is_chinese(text: str, chinese: bool | None) -> None:
    assert is_chinese(text) is chinese


def vector(*values: float) -> Vectors:
    return np.array(values, np.float32)


def test_sums_add_up() -> None:
    sums = add_up(
        [("one", vector(1, 0)), ("备份", vector(0, 1)), ("two", vector(1, 1)), ("1", vector(9, 9))]
    )
    assert (sums.english, sums.chinese) == (2, 1)
    assert sums.english_sum is not None
    assert sums.english_sum.tolist() == [2, 1]
    assert add_up([]) == Sums()
    twice = sums + sums
    assert (twice.english, twice.chinese) == (4, 2)
    assert twice.english_sum is not None
    assert twice.english_sum.tolist() == [4, 2]


def test_the_direction_leads_from_chinese_to_english() -> None:
    english = Sums(0, ENOUGH, None, vector(3, 4) * ENOUGH)
    chinese = Sums(ENOUGH, 0, vector(0, 4) * ENOUGH, None)
    found = direction(english + chinese, "any model")
    assert found is not None
    assert found.vector.tolist() == [1, 0]
    assert found.middle.tolist() == [1.5, 4]
    few = Sums(ENOUGH - 1, 0, vector(0, 4), None)
    assert direction(english + few, "any model") is None
    alike = Sums(ENOUGH, 0, vector(3, 4) * ENOUGH, None)
    assert direction(english + alike, "any model") is None


def test_few_texts_borrow_the_shipped_direction_of_the_default_model() -> None:
    found = direction(Sums(), BUILT_IN_IDENTITY)
    assert found is not None
    assert found.vector.shape == found.middle.shape == (BUILT_IN_DIMENSION,)
    assert float(np.linalg.norm(found.vector)) == pytest.approx(1.0, abs=1e-5)
    # In the middle between the means of unit vectors: inside their sphere, on neither's side.
    assert 0.5 < float(np.linalg.norm(found.middle)) < 1
    assert shipped("openai/other") is None


def test_a_question_without_its_language() -> None:
    u = Direction(vector(1, 0, 0), vector(0, 0, 0))
    assert without(vector(0.6, 0.8, 0), u).tolist() == [0, 1, 0]
    assert float(without(vector(0.6, 0.0, 0.8), u) @ u.vector) == 0
    # Nothing would be left: then it stays as it is.
    assert without(u.vector, u).tolist() == u.vector.tolist()


def test_a_question_without_part_of_what_all_texts_share() -> None:
    u = Direction(vector(1, 0, 0), vector(0.2, 0.8, 0))
    assert without(vector(0, 0.6, 0.8), u).tolist() == pytest.approx([0, 0.05, 0.9988], abs=1e-3)
