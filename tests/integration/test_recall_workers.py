"""Searching beside living workers: while they index, many at once, all ways alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memsearch.config.paths import Home

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]
#: Searches at once.
TOGETHER = 20
FILES = 60


class World:
    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.memory = self.project / ".memsearch" / "memory"
        self.memory.mkdir(parents=True)
        self.environ = {
            "HOME": str(root),
            "MEMSEARCH_HOME": str(root / "home"),
            "MEMSEARCH_WORKERS__AUTOSTART": "false",
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        self.home = Home.from_env(self.environ)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.project,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A project of notes, indexed, and a worker."""
    made = World(tmp_path.resolve())
    for number in range(FILES):
        sections = (
            f"## Step {number}.{part}\n\n- the valve {number}.{part} was tightened\n"
            for part in range(5)
        )
        (made.memory / f"note-{number}.md").write_text("\n".join(sections), encoding="utf-8")
    worker = made.start("workers", "--foreground")
    try:
        deadline = time.monotonic() + 60
        while not os.path.exists(made.home.socket) and time.monotonic() < deadline:
            time.sleep(0.1)
        done = made.start("index", "--json")
        out, error = done.communicate(timeout=300)
        assert done.returncode == 0, error.decode()
        assert json.loads(out)["chunks"] == FILES * 5
        yield made
    finally:
        worker.terminate()
        worker.communicate(timeout=30)


def test_twenty_searches_during_an_index_all_succeed(world: World) -> None:
    index = world.start("index", "--force", "--json")
    searches = [
        world.start("search", f"the valve {number}.3 was tightened", "--json")
        for number in range(TOGETHER)
    ]
    answers = [search.communicate(timeout=300) for search in searches]
    codes = [search.returncode for search in searches]
    out, error = index.communicate(timeout=300)
    assert codes == [0] * TOGETHER, [error.decode() for _, error in answers]
    for number, (found, _) in enumerate(answers):
        results = json.loads(found)
        assert len(results) == 5
        assert f"valve {number}.3" in " ".join(item["content"] for item in results)
        assert all(item["ranks"]["dense"] or item["ranks"]["keyword"] for item in results)
    assert index.returncode == 0, error.decode()
    assert json.loads(out)["chunks"] == FILES * 5
