"""What stands in a Markdown file is found, by every way to it and in every phase of an index."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memsearch import tools
from memsearch.config.paths import Home
from memsearch.recall import backend, client
from memsearch.recall.requests import handle, search_request

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]
#: Entries, notes and edits that are written; each is looked for at once.
WRITES = 24
#: Seconds that a worker has to come up.
PATIENCE = 120.0

Search = Callable[[str], Mapping[str, Any]]


class World:
    """A home with a worker that indexes whatever is saved 20 ms later, and a project."""

    def __init__(self, root: Path, models: Path) -> None:
        self.project = root / "a 项目"
        self.memory = self.project / ".memsearch" / "memory"
        self.memory.mkdir(parents=True)
        self.environ = {
            "HOME": str(root),
            "MEMSEARCH_HOME": str(root / "home"),
            "MEMSEARCH_WORKERS__AUTOSTART": "false",
            "MEMSEARCH_WATCH__DEBOUNCE_MS": "20",
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        self.home = Home.from_env(self.environ)
        os.mkdir(self.home.root, 0o700)
        os.symlink(models, self.home.models)
        for number in range(10):
            self.save(f"note-{number}.md", f"# Note {number}\n\nabout valves and the heap\n")
        self.journal = self.memory / "2026-03-05.md"
        self.journal.write_text("# 2026-03-05\n", encoding="utf-8")
        self.run("index")
        self.worker: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str) -> None:
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        self.worker = subprocess.Popen(
            [*COMMAND, "workers", "--foreground"],
            cwd=self.project,
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE
        while not client.answers(self.home.socket):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.terminate()
            self.worker.wait(PATIENCE)
            self.worker = None

    def save(self, name: str, text: str) -> None:
        """As editors save: a new file takes the place of the old one."""
        aside = self.memory / f".{name}.tmp"
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, self.memory / name)

    def write(self, number: int, word: str) -> None:
        """An entry, a line more in one, or a note that a human saved."""
        if number % 3 == 2:
            name = f"note-{number % 7}.md"
            old = (self.memory / name).read_text("utf-8")
            self.save(name, f"{old}\n## Section {number}\n\nthe {word} is here\n")
            return
        entry = f"\n### 09:{number:02}\n<!-- session:s turn:t{number} rollout:~/x -->\n"
        with self.journal.open("a", encoding="utf-8") as file:
            file.write((entry if number % 3 == 0 else "") + f"- the {word} was repaired\n")

    # -- the ways ----------------------------------------------------------------------------

    def request(self, word: str) -> dict[str, Any]:
        return search_request(word, cwd=str(self.project), environ=self.environ, top_k=5)

    def by_socket(self, word: str) -> Mapping[str, Any]:
        return client.ask(self.home.socket, "search", self.request(word))

    def alone(self, word: str) -> Mapping[str, Any]:
        return backend.answer("search", self.request(word), self.home, self.environ)

    def directly(self, word: str) -> Mapping[str, Any]:
        """As in a sandbox: neither the socket nor the store opens."""
        access = backend.LocalAccess(
            self.home, self.environ, deadline=0.0, watch_socket=False, refused=True
        )
        try:
            return handle("search", self.request(word), access)
        finally:
            access.close()

    def by_tool(self, word: str) -> Mapping[str, Any]:
        """As over MCP and from the plugins."""
        text = tools.call(
            "memory_search", {"query": word}, cwd=str(self.project), environ=self.environ
        )
        return {"results": [{"content": text}] if "Found in the memory" in text else []}


@pytest.fixture
def world(tmp_path: Path, models_dir: Path) -> Iterator[World]:
    made = World(tmp_path.resolve(), models_dir)
    try:
        yield made
    finally:
        made.stop()


def word_of(chance: random.Random) -> str:
    return "zq" + "".join(chance.choices("bcdfghjklmnpqrstvwxz", k=8))


def found(search: Search, word: str) -> bool:
    return any(word in item["content"] for item in search(word)["results"])


def test_beside_a_worker_that_indexes(world: World) -> None:
    """Each write is looked for at once by three ways, and older ones all the time."""
    world.start()
    chance = random.Random(7)
    words: list[str] = []
    missed: list[str] = []
    looked = [0, 0]
    over = threading.Event()

    def look_back(seed: int) -> None:
        mine = random.Random(seed)
        while not over.is_set():
            for word in mine.sample(words, min(4, len(words))):
                if not found(world.by_socket, word):
                    missed.append(word)
                looked[seed] += 1

    threads = [threading.Thread(target=look_back, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(WRITES):
            word = word_of(chance)
            world.write(number, word)
            words.append(word)
            ways: list[Search] = [world.by_socket, world.by_tool]
            if number % 6 == 0:
                ways.append(world.directly)
            missed += [f"{word} {way.__name__}" for way in ways if not found(way, word)]
            time.sleep(chance.choice([0.0, 0.02, 0.1]))
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert missed == []
    assert min(looked) > WRITES


@pytest.mark.parametrize("living", [True, False], ids=["a worker lives", "no worker"])
def test_while_the_index_is_gone_or_made_anew(world: World, *, living: bool) -> None:
    """Somebody deletes the index, forces a new one, or resets it: nothing is out of reach."""
    chance = random.Random(8)
    words = [word_of(chance) for _ in range(3)]
    for number, word in enumerate(words):
        world.write(number, word)
    world.run("index")
    if living:
        world.start()
    before = json.dumps(world.alone(words[0])["freshness"])
    assert json.loads(before)["documents"] == 0
    missed: list[str] = []
    searched = 0

    def delete() -> None:
        shutil.rmtree(world.home.milvus_db)

    def force() -> None:
        world.run("index", "--force")

    def reset() -> None:
        world.run("reset", "--yes")

    actions = (delete, force, reset, force) if living else (force,)
    for action in actions:
        doing = threading.Thread(target=action)
        doing.start()
        while True:
            last = not doing.is_alive()
            for word in words:
                if not found(world.alone, word):
                    missed.append(f"{word} {action.__name__}")
                searched += 1
            if last:
                break
        doing.join()
    assert missed == []
    assert searched >= len(actions) * len(words)


def test_a_deleted_index_is_told_and_is_no_fault(world: World) -> None:
    shutil.rmtree(world.home.milvus_db)
    answer = world.alone("valves heap")
    assert "about valves" in answer["results"][0]["content"]
    assert answer["degraded"] is False
    assert "it is gone, and workers make it anew" in " ".join(answer["notes"])
    # Its vectors are in the cache: it is searched by meaning too.
    assert answer["results"][0]["ranks"]["dense"]
    assert not os.path.exists(world.home.milvus_db)


def test_more_than_one_search_reads_is_read_before_nothing_is_said(world: World) -> None:
    """A long history that was never indexed: its oldest page, when the newer ones are full."""
    line = "- valves were tightened and the heap was measured again\n"
    for number in range(8):
        path = world.memory / f"2026-02-0{number + 1}.md"
        text = f"# Day\n\n### 09:00\n- the zqold{'abcdefgh'[number]} is here\n"
        path.write_text(text + line * (300_000 // len(line)), encoding="utf-8")
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    told = world.alone("valves")
    assert told["freshness"]["unscanned"] > 0
    assert found(world.alone, "zqolda")
    answer = world.alone("zqolda")
    assert answer["freshness"]["unscanned"] == 0
    assert answer["results"][0]["indexed"] is False
