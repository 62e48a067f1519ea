"""Fixtures of the acceptance tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Helper modules lie beside the tests; importlib mode puts no folder on the path by itself.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from world import Session, World  # noqa: E402


@pytest.fixture
def world(tmp_path: Path, models_dir: Path) -> Iterator[World]:
    made = World(tmp_path / "a machine", models_dir)
    yield made
    made.stop()


@pytest.fixture
def session(world: World) -> Session:
    return Session(world)
