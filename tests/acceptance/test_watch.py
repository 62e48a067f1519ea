"""``memsearch watch``, and the workers' own watch over the memory of known projects."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stub_llm import StubLLM
from world import COMMAND, PATIENCE, World


class Watching:
    """The command in a process of its own, and the lines that it prints."""

    def __init__(self, world: World, *arguments: str) -> None:
        self._out = world.root / "watch.out"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "watch", "--json", *arguments],
                cwd=world.project,
                env=world.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        world.started.append(self.process)  # so that it ends with its world
        world.wait_for(lambda: self.lines("ready") or self.process.poll() is not None)

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        text = self._out.read_text("utf-8")
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [line for line in found if not kinds or line["event"] in kinds]

    def names(self, kind: str) -> list[str]:
        return [Path(line["path"]).name for line in self.lines(kind)]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@pytest.fixture
def embedded(world: World) -> Iterator[StubLLM]:
    """An embedder that fails to order, and no waiting for its next try."""
    with StubLLM() as stub:
        world.settings |= {
            "MEMSEARCH_EMBEDDING__PROVIDER": "openai",
            "MEMSEARCH_EMBEDDING__BASE_URL": stub.openai_url,
            "MEMSEARCH_EMBEDDING__API_KEY": "sk-test",
            "MEMSEARCH_EMBEDDING__MODEL": "stub",
            "MEMSEARCH_RETRY__BASE_SECONDS": "3",
            "MEMSEARCH_WATCH__DEBOUNCE_MS": "100",
        }
        yield stub


@pytest.mark.parametrize("worker", [False, True])
def test_three_edits_with_the_embedder_failing_on_the_second(
    world: World, embedded: StubLLM, worker: bool
) -> None:
    docs = world.project / "docs"
    docs.mkdir()
    (docs / "first.md").write_text("# A\n\nThe wombat came first\n", "utf-8")
    if worker:
        world.run("workers", "start")
    embedded.order("503", kind="embeddings")
    watching = Watching(world, str(docs))
    (ready,) = watching.lines("ready")
    assert ready["seen"] == 1
    if not worker:  # living workers may have tried it again by now
        assert len(ready["failed"]) == 1
    world.wait_for(lambda: worker or "first.md" in watching.names("indexed"))
    for name, behaviour in (("numbat", "fine"), ("quoll", "503"), ("bilby", "fine")):
        embedded.order(behaviour, kind="embeddings")
        draft = docs / f".{name}.md.swp"
        draft.write_text(f"# B\n\nThe {name} sleeps here\n", "utf-8")
        os.replace(draft, docs / f"{name}.md")
        if behaviour == "fine":
            world.wait_for(lambda name=name: f"{name}.md" in watching.names("indexed"))
        else:
            world.wait_for(lambda: watching.lines("failed"))
    world.wait_for(lambda: "quoll.md" in watching.names("indexed"))
    failed = watching.lines("failed")
    assert {Path(line["path"]).name for line in failed} == {"quoll.md"}
    assert "503" in failed[0]["error"]
    (docs / "first.md").unlink()
    world.wait_for(lambda: "first.md" in watching.names("removed"))
    for name in ("numbat", "quoll", "bilby"):
        assert name in world.search(f"the {name}")[0]["content"]
    assert all("wombat" not in found["content"] for found in world.search("wombat"))
    assert watching.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_told_to(world: World, embedded: StubLLM, number: int) -> None:
    watching = Watching(world)
    assert watching.lines("watching")[0]["paths"] == [str(world.memory)]
    assert watching.end(number) == 0
    assert "does not exist" in world.run("watch", "no/such/place", check=2).stderr


def test_workers_watch_the_memory_of_known_projects_and_still_end(
    world: World, embedded: StubLLM
) -> None:
    world.memory.mkdir(parents=True)
    (world.memory / "rules.md").write_text("# Rules\n\nNo wombats\n", "utf-8")
    world.settings["MEMSEARCH_WORKERS__IDLE_EXIT_MINUTES"] = "0.2"
    world.run("workers", "start")
    world.wait_for(lambda: world.status()["workers"]["listening"])
    world.search("wombats")  # by this the project becomes known
    world.wait_for(lambda: world.sql("SELECT state FROM documents") == [("done",)])
    count = "SELECT COUNT(*) FROM events WHERE type = 'DocumentChanged' AND data LIKE ?"
    edits = iter(range(1000))

    def seen() -> bool:
        """Whether an edit was; what is written before the watch has begun is found without it."""
        text = f"# Mine\n\nThe bettong decides, {next(edits)}\n"
        (world.memory / "MEMORY.md").write_text(text, "utf-8")
        time.sleep(1)
        return bool(world.sql(count, '%"cause": "watch"%')[0][0])

    world.wait_for(seen)
    world.wait_for(
        lambda: (
            world.sql("SELECT state FROM documents WHERE source LIKE '%MEMORY.md'") == [("done",)]
        )
    )
    world.wait_for(lambda: world.status()["workers"]["pid"] is None)
    assert "bettong" in world.search("bettong")[0]["content"]
