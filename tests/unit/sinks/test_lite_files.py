"""Damage that is seen without opening Milvus Lite."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memsearch.sinks.lite_files import fault

PARQUET = b"PAR1 rows and a footer PAR1"


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """A collection as Milvus Lite lays it out (the tests of the store meet real ones)."""
    found = tmp_path / "milvus.db" / "collections" / "memsearch_1"
    data = found / "partitions" / "_default" / "data"
    data.mkdir(parents=True)
    (data / "data_1.parquet").write_bytes(PARQUET)
    files = {"data_files": ["data/data_1.parquet"], "delta_files": []}
    (found / "manifest.json").write_text(json.dumps({"partitions": {"_default": files}}))
    (found / "schema.json").write_text("{}")
    return found


DAMAGE: dict[str, Callable[[Path], object]] = {
    "schema.json cannot": lambda at: (at / "schema.json").write_bytes(b"\0" * 40),
    "manifest.json cannot": lambda at: (at / "manifest.json").write_text('{"partitions": {'),
    "data_1.parquet is missing": lambda at: data(at).unlink(),
    "data_1.parquet is missing or cut": lambda at: data(at).write_bytes(PARQUET[:-3]),
    "data_1.parquet": lambda at: data(at).write_bytes(b""),
    "/data_1.parquet": lambda at: data(at).write_bytes(b"garbage that is long enough"),
}


def data(collection: Path) -> Path:
    return collection / "partitions" / "_default" / "data" / "data_1.parquet"


@pytest.mark.parametrize("words", DAMAGE)
def test_damage_is_seen(collection: Path, words: str) -> None:
    uri = str(collection.parents[1])
    assert fault(uri) == ""
    DAMAGE[words](collection)
    assert words in fault(uri)


def test_what_is_no_damage(collection: Path, tmp_path: Path) -> None:
    half = collection.parent / "memsearch_2"
    half.mkdir()  # killed while it was made
    assert fault(str(collection.parents[1])) == ""
    assert fault(str(tmp_path / "nothing.db")) == ""
    assert fault("http://milvus.example:19530") == ""
