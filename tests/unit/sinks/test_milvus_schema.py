"""What fits the collection, told before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.milvus_schema import (
    FIELDS,
    HIT_FIELDS,
    batches,
    check_hash,
    check_name,
    check_vector,
    has_our_fields,
    hit,
    is_ours,
    row_data,
    size_of,
)
from memsearch.sinks.types import Hit, Row

ROW = Row(
    chunk_hash="0123456789abcdef",
    embedding=np.array([1, 0, 0, 0], np.float32),
    content="text",
    keywords="text",
    source="memory/2026-03-05.md",
    heading="10:00",
    heading_level=3,
    start_line=5,
    end_line=9,
    platform="claude-code",
    session="s",
    turn="t",
    day=20260305,
    kind="entry",
)
NAMES = {field.name for field in FIELDS}


def test_the_fields_are_those_of_the_shared_types() -> None:
    assert NAMES - {"sparse_vector"} == set(Row.__dataclass_fields__)
    assert {*HIT_FIELDS, "chunk_hash", "score"} == set(Hit.__dataclass_fields__)


def test_a_row_as_it_is_sent() -> None:
    data = row_data(ROW, 4)
    assert set(data) == NAMES - {"sparse_vector"}
    assert data["day"] == 20260305
    assert size_of(data) == 16 + sum(
        len(value) for value in data.values() if isinstance(value, str)
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"content": "x" * 65_536}, "content"),
        ({"content": "中" * 21_846}, "content"),  # 65,538 bytes
        ({"keywords": "x" * 65_536}, "keywords"),
        ({"source": "é" * 513}, "source"),
        ({"heading": "备" * 342}, "heading"),
        ({"session": "x" * 1025}, "session"),
        ({"turn": "x" * 1025}, "turn"),
        ({"platform": "x" * 257}, "platform"),
        ({"source": "caf\udce9.md"}, "source"),
        ({"content": "\ud800"}, "content"),
        ({"day": 2**63}, "day"),
        ({"start_line": -(2**63) - 1}, "start_line"),
        ({"chunk_hash": "ABCDEF0123"}, "chunk_hash"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(MemsearchError) as caught:
        row_data(replace(ROW, **change), 4)
    assert caught.value.kind is ErrorClass.BAD_REQUEST
    assert f"field {field} " in caught.value.message


@pytest.mark.parametrize(
    "change",
    [
        {"content": "x" * 65_535},
        {"content": "中" * 21_845},
        {"source": "备" * 341},
        {"keywords": ""},
        {"day": 0},
        {"content": "nul \0 and \b"},
    ],
)
def test_what_fits_to_the_last_byte(change: dict[str, Any]) -> None:
    assert row_data(replace(ROW, **change), 4)


@pytest.mark.parametrize(
    "key", ["", "xyz", "12 34", "a" * 65, "'", '"] or source != "', "a\n", "1%"]
)
def test_no_id(key: str) -> None:
    with pytest.raises(MemsearchError) as caught:
        check_hash(key)
    assert caught.value.kind is ErrorClass.BAD_REQUEST


def test_an_id() -> None:
    assert check_hash("0123ABCDEF") == "0123abcdef"
    with pytest.raises(MemsearchError, match="8 or more"):
        check_hash("0123abc", shortest=8)


@pytest.mark.parametrize(
    "name", ["", "1abc", "a-b", "a.b", "../x", "a b", "备份", "a" * 256, "a\n"]
)
def test_no_name(name: str) -> None:
    with pytest.raises(MemsearchError) as caught:
        check_name(name)
    assert caught.value.kind is ErrorClass.CONFIG


@pytest.mark.parametrize("name", ["memsearch_0123456789abcdef", "_", "Team", "a" * 255])
def test_a_name(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(3, np.float32),
        np.zeros((1, 4), np.float32),
        np.array([0, 1, 2, np.nan], np.float32),
        np.array([0, 1, 2, np.inf], np.float32),
    ],
)
def test_no_vector(vector: Any) -> None:
    with pytest.raises(MemsearchError) as caught:
        check_vector(vector, 4)
    assert caught.value.kind is ErrorClass.BAD_REQUEST


def test_requests_are_bounded_in_rows_and_bytes() -> None:
    row = row_data(ROW, 4)
    large = row_data(replace(ROW, content="x" * 60_000), 4)
    assert [len(batch) for batch in batches([row] * 7, 3, 10**6)] == [3, 3, 1]
    assert [len(batch) for batch in batches([large] * 5, 100, 130_000)] == [2, 2, 1]
    assert [len(batch) for batch in batches([row, large, row], 100, 1000)] == [1, 1, 1]
    assert batches([], 10, 10) == []


def test_a_hit() -> None:
    data = row_data(ROW, 4)
    found = hit("ab", 0.5, data)
    assert (found.chunk_hash, found.score, found.source) == ("ab", 0.5, ROW.source)


class Type:
    def __init__(self, name: str) -> None:
        self.name = name


def described(**changes: str | None) -> dict[str, Any]:
    types = {field.name: field.type for field in FIELDS} | changes
    return {"fields": [{"name": n, "type": Type(t)} for n, t in types.items() if t is not None]}


@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({}, True),
        ({"sparse_vector": None}, True),  # made by a server without BM25
        ({"source": None}, False),
        ({"day": "VARCHAR"}, False),
        ({"embedding": "SPARSE_FLOAT_VECTOR"}, False),
        ({"more": "INT64"}, False),
    ],
)
def test_whose_collection(changes: dict[str, str | None], ours: bool) -> None:
    assert is_ours(described(**changes)) is ours


def test_whose_collection_by_names() -> None:
    assert has_our_fields(NAMES)
    assert has_our_fields(NAMES - {"sparse_vector"})
    assert not has_our_fields(NAMES - {"source"})
    assert not has_our_fields(NAMES | {"more"})
