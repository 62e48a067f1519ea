"""What an index costs: requests to an embedding endpoint, and imports where nothing changed.

Counted at a real endpoint on a socket and in the interpreter's own list of imports, since
seconds say little on a machine that others use too.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from stub_llm import StubLLM
from world import World

from memsearch.config.paths import Home
from memsearch.recall import client

#: Files of the memory, sections in each, and texts that one request takes.
FILES, SECTIONS, BATCH = 200, 3, 64
#: What all of them may cost: full batches, and one that was sent before the last file was read.
MOST = math.ceil(FILES * SECTIONS / BATCH) + 1


@pytest.fixture
def stub(world: World) -> Iterator[StubLLM]:
    with StubLLM(max_batch=BATCH) as stub:
        world.settings |= {
            "MEMSEARCH_EMBEDDING__PROVIDER": "openai",
            "MEMSEARCH_EMBEDDING__BASE_URL": stub.openai_url,
            "MEMSEARCH_EMBEDDING__API_KEY": "sk-test",
            "MEMSEARCH_EMBEDDING__MODEL": "stub-embed",
            "MEMSEARCH_EMBEDDING__BATCH_SIZE": str(BATCH),
        }
        yield stub


def write_files(world: World) -> None:
    world.memory.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        (world.memory / f"note-{number}.md").write_text(note(number), encoding="utf-8")


def note(number: int) -> str:
    return "\n".join(
        f"## Part {part} of note {number}\n\n- the valve {number}.{part} was tightened\n"
        for part in range(SECTIONS)
    )


def texts(stub: StubLLM) -> list[str]:
    """All texts that were sent to be embedded."""
    return [text for request in stub.of("embeddings") for text in request.body["input"]]


def index(world: World, *arguments: str) -> dict[str, int]:
    answer: dict[str, int] = json.loads(world.run("index", "--json", *arguments).stdout)
    return answer


class TestRequests:
    def test_200_files_without_workers(self, world: World, stub: StubLLM) -> None:
        write_files(world)
        assert index(world)["chunks"] == FILES * SECTIONS
        assert len(texts(stub)) == len(set(texts(stub))) == FILES * SECTIONS
        assert stub.calls("embeddings") <= MOST
        # The same text elsewhere, moved or again asks for nothing.
        (world.memory / "note-0.md").rename(world.memory / "moved.md")
        (world.memory / "copy.md").write_text(note(1), encoding="utf-8")
        sent = len(texts(stub))
        assert index(world)["queued"] == 3
        assert index(world, "--force")["chunks"] == (FILES + 1) * SECTIONS
        assert texts(stub)[sent:] == ["?"]  # --force asks how long the vectors are, once

    def test_200_files_with_workers(self, world: World, stub: StubLLM) -> None:
        write_files(world)
        world.start("workers", "--foreground")
        world.wait_for(lambda: is_served(world))
        assert index(world)["chunks"] == FILES * SECTIONS
        assert len(texts(stub)) == FILES * SECTIONS
        assert stub.calls("embeddings") <= MOST

    def test_200_files_that_a_worker_finds_by_itself(self, world: World, stub: StubLLM) -> None:
        world.memory.mkdir(parents=True)
        (world.memory / "first.md").write_text("- makes the project known\n", encoding="utf-8")
        index(world)
        write_files(world)
        world.start("workers", "--foreground")
        done = "SELECT COUNT(*) FROM documents WHERE state = 'done'"
        world.wait_for(lambda: world.sql(done) == [(FILES + 1,)])
        assert len(texts(stub)) == FILES * SECTIONS + 1
        assert stub.calls("embeddings") <= MOST + 1

    def test_a_line_at_the_top_sends_nothing_old_again(self, world: World, stub: StubLLM) -> None:
        world.memory.mkdir(parents=True)
        path = world.memory / "long.md"
        old = "\n".join(note(number) for number in range(30))
        path.write_text(old, encoding="utf-8")
        assert index(world)["chunks"] == 30 * SECTIONS
        before = len(texts(stub))
        path.write_text("A line that is new.\n\n" + old, encoding="utf-8")
        assert index(world)["chunks"] == 30 * SECTIONS + 1
        assert texts(stub)[before:] == ["A line that is new."]
        found = world.search("valve 29.2 was tightened", "-k", "1")
        assert found[0]["start_line"] == old[: old.index("## Part 2 of note 29")].count("\n") + 3


def is_served(world: World) -> bool:
    """Whether a worker listens."""
    return client.answers(Home(str(world.home)).socket)


#: Packages that a change of the index needs and none may load where nothing changed.
HEAVY = frozenset({"grpc", "milvus_lite", "onnxruntime", "openai", "pandas", "pyarrow", "pymilvus"})


def imported(world: World, *arguments: str) -> tuple[dict[str, int], set[str]]:
    """The answer of a command and the packages that its process loaded."""
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "memsearch._entry", *arguments],
        cwd=world.project,
        env=world.environ,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    names = re.findall(r"^import time:.*\|\s*(\w+)[\w.]*$", done.stderr, re.MULTILINE)
    return json.loads(done.stdout), set(names)


def test_an_index_of_1000_files_that_did_not_change_loads_nothing(
    world: World, stub: StubLLM
) -> None:
    world.memory.mkdir(parents=True)
    for number in range(1000):
        (world.memory / f"n{number}.md").write_text(f"# n{number}\n\n- fact {number}\n", "utf-8")
    index(world)
    sent = len(texts(stub))
    nothing = {"seen": 1000, "queued": 0, "chunks": 1000}
    answer, loaded = imported(world, "index", "--json")
    assert answer.items() >= nothing.items()
    assert not loaded & HEAVY
    world.start("workers", "--foreground")
    world.wait_for(lambda: is_served(world))
    answer, loaded = imported(world, "index", "--json")
    assert answer.items() >= nothing.items()
    # The worker has loaded what it takes: the command in front of it needs little.
    assert not loaded & HEAVY.union(("huey", "numpy", "sqlite3", "starlette", "structlog"))
    assert len(texts(stub)) == sent
