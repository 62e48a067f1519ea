"""What was put aside: found, kept for a while, deleted whole."""

from __future__ import annotations

import os
import time

import pytest

from memsearch.config.paths import Home
from memsearch.pipeline import put_aside

DAMAGED = ("embeddings.db.damaged-20260101-000000", "state.db.damaged-20260101-000001")


@pytest.fixture
def home(tmp_path) -> Home:
    home = Home(str(tmp_path))
    home.create()
    for name in (*DAMAGED, DAMAGED[1] + "-wal", "state.db", "state.db.backup-1", "spool/1.json"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    index = tmp_path / "milvus.db.damaged-20260101-000002"
    (index / "inner").mkdir(parents=True)
    (index / "inner" / "file").write_text("x", encoding="utf-8")
    (tmp_path / "spool" / "bad").mkdir()
    (tmp_path / "spool" / "bad" / "2.json").write_text("{", encoding="utf-8")
    return home


def names(home: Home) -> list[str]:
    return [os.path.relpath(aside.path, home.root) for aside in put_aside.everything(home)]


def test_all_of_it_is_found_and_nothing_else(home: Home) -> None:
    index = "milvus.db.damaged-20260101-000002"
    assert names(home) == [DAMAGED[0], index, DAMAGED[1], "spool/bad/2.json"]


def test_what_is_old_goes_with_all_that_belongs_to_it(home: Home) -> None:
    now = time.time()
    assert put_aside.delete_old(home, 30, now + 29 * 86_400) == 0
    assert put_aside.delete_old(home, 0, now + 400 * 86_400) == 0
    assert put_aside.delete_old(home, 30, now + 31 * 86_400) == 4
    assert names(home) == []
    left = sorted(os.listdir(home.root))
    assert left == ["logs", "models", "run", "spool", "state.db", "state.db.backup-1"]
    assert sorted(os.listdir(home.spool)) == ["1.json", "bad"]


def test_what_is_gone_by_then_is_no_error(home: Home) -> None:
    put_aside.delete(os.path.join(home.root, "nobody"))
