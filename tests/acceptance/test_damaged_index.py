"""A damaged index: searches answer from the Markdown, and it is made anew without being asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from world import World

NOTE = "# 2026-03-05\n\n### 10:00\n- the valve of station 7 was replaced\n"


def data_file(world: World) -> Path:
    (found,) = (world.home / "milvus.db").rglob("*.parquet")
    return found


def zero_the_inside(path: Path) -> None:
    """What a bad block leaves: head and end of the file are as they were."""
    data = path.read_bytes()
    start, end = len(data) // 4, len(data) - 8
    path.write_bytes(data[:start] + bytes(end - start) + data[end:])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def is_whole(world: World) -> bool:
    """Whether a search is answered by the index; it says so when it is not."""
    done = world.run("search", "valve", check=None)
    assert "station 7" in done.stdout
    assert done.returncode in (0, 1)
    return done.returncode == 0


@pytest.fixture
def indexed(world: World) -> World:
    world.memory.mkdir(parents=True)
    (world.memory / "2026-03-05.md").write_text(NOTE, encoding="utf-8")
    world.run("index")
    assert is_whole(world)
    return world


def test_an_index_makes_it_anew_and_status_says_so_before(indexed: World) -> None:
    cut(data_file(indexed))
    assert not is_whole(indexed)
    reasons = indexed.status()["reasons"]
    assert any("the index is damaged" in reason for reason in reasons), reasons
    indexed.run("index")  # although no document has changed
    assert is_whole(indexed)
    assert indexed.status()["reasons"] == []


@pytest.mark.parametrize("damage", [zero_the_inside, cut])
def test_a_worker_does_it_after_the_first_search(
    indexed: World, damage: Callable[[Path], None]
) -> None:
    damage(data_file(indexed))
    indexed.start("workers", "--foreground")
    indexed.wait_for(lambda: indexed.status()["workers"]["listening"])
    indexed.wait_for(lambda: is_whole(indexed))
    assert list(indexed.home.glob("milvus.db.damaged-*"))
