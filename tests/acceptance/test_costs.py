"""Embedding that may cost money: counted at an endpoint that is not on this machine.

The endpoint has a public name; the requests reach the stub as their proxy.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from collections.abc import Iterator

import pytest
from stub_llm import StubLLM
from world import COMMAND, PATIENCE, Session, World

#: Texts in a request.
BATCH = 32


@pytest.fixture
def stub() -> Iterator[StubLLM]:
    with StubLLM(dimension=12, max_batch=BATCH) as running:
        yield running


def free(world: World, stub: StubLLM) -> None:
    """A model that costs nothing: its endpoint is on this machine."""
    world.settings |= {
        "MEMSEARCH_EMBEDDING__PROVIDER": "openai",
        "MEMSEARCH_EMBEDDING__BASE_URL": stub.openai_url,
        "MEMSEARCH_EMBEDDING__API_KEY": "sk-test",
        "MEMSEARCH_EMBEDDING__MODEL": "free",
        "MEMSEARCH_EMBEDDING__BATCH_SIZE": str(BATCH),
        "http_proxy": stub.url,
        "no_proxy": "127.0.0.1",
    }


def paid(world: World) -> None:
    """The same behind a name that others own."""
    world.settings |= {
        "MEMSEARCH_EMBEDDING__BASE_URL": "http://embeddings.example.com/v1",
        "MEMSEARCH_EMBEDDING__MODEL": "paid",
    }


def sent(stub: StubLLM) -> list[list[str]]:
    """The texts of each request to the paid model; questions are left out."""
    return [
        each.body["input"]
        for each in stub.of("embeddings")
        if each.body["model"] == "paid" and not each.body["input"][0].startswith("valve")
    ]


def write(world: World, files: int, sections: int) -> None:
    world.memory.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        (world.memory / f"note-{number}.md").write_text(
            "".join(
                f"## Part {part}\n\nValve {number}.{part} leaks.\n\n" for part in range(sections)
            ),
            encoding="utf-8",
        )


def test_another_model_waits_for_a_yes_while_turns_go_on(
    world: World, session: Session, stub: StubLLM
) -> None:
    free(world, stub)
    write(world, files=10, sections=5)
    # A copy costs nothing more, but is not embedded before the other either.
    (world.memory / "z-copy.md").write_bytes((world.memory / "note-1.md").read_bytes())
    world.run("index")
    paid(world)

    # Workers spend nothing on it, and say what waits.
    world.drain()
    assert not sent(stub)
    status = world.status()
    assert status["state"] == "paused"
    (cost,) = status["costs"]
    assert (cost["documents"], cost["texts"], cost["requests"]) == (11, 50, 2)
    assert cost["tokens"] > 50
    assert any(cost["command"] in reason for reason in status["reasons"])
    assert status["renewals"][0]["waits"]

    # Keywords answer, and say so.
    done = world.run("search", "valve 7.3", "--json")
    first = json.loads(done.stdout)[0]
    assert first["source"].endswith("note-7.md")
    assert first["ranks"]["dense"] is None
    assert "memsearch index --force" in done.stderr

    # Nor does an index without a yes.
    done = world.run("index", "--json", check=1)
    assert json.loads(done.stdout)["waiting"] == cost
    assert "50 texts" in done.stderr
    assert "memsearch index --force" in done.stderr
    assert not sent(stub)

    # A turn is embedded as ever, and nothing else with it.
    world.hook(session.payload(turn=session.turn("Check the gasket now", "The gasket holds.")))
    world.drain()
    (turn,) = sent(stub)
    assert all("gasket" in text.lower() for text in turn)
    assert "gasket" in world.search("gasket")[0]["content"].lower()
    assert world.status()["costs"][0]["texts"] == 50

    # A yes: as many requests as were told.
    world.run("index", "--force")
    assert len(sent(stub)) - 1 == cost["requests"]
    assert sum(map(len, sent(stub)[1:])) == 50
    assert world.status()["state"] == "ok"
    first = world.search("valve 7.3")[0]
    assert first["ranks"]["dense"] is not None

    # Back to the free one: its vectors are in the cache.
    calls = stub.calls("embeddings")
    free(world, stub)
    world.run("index")
    assert stub.calls("embeddings") - calls <= 1  # the turn's own
    assert world.search("gasket")[0]["ranks"]["dense"] is not None


def test_a_mass_of_new_text_waits_and_little_does_not(world: World, stub: StubLLM) -> None:
    free(world, stub)
    paid(world)
    write(world, files=4, sections=5)
    assert world.run("index").returncode == 0
    assert sum(map(len, sent(stub))) == 20

    write(world, files=60, sections=5)
    world.run("index", check=1)
    (cost,) = world.status()["costs"]
    assert cost["texts"] == 280
    assert sum(map(len, sent(stub))) == 20
    # Found all the same, by reading the Markdown.
    assert world.search("valve 55.2")[0]["source"].endswith("note-55.md")

    # Asked on a terminal: a no spends nothing, a yes starts it.
    assert "280 texts" in ask(world, "n\n")
    assert sum(map(len, sent(stub))) == 20
    before = len(sent(stub))
    ask(world, "y\n")
    assert len(sent(stub)) - before == cost["requests"]
    assert sum(map(len, sent(stub))) == 300
    assert not world.status()["costs"]


def test_nothing_waits_for_a_provider_that_costs_nothing(world: World, stub: StubLLM) -> None:
    free(world, stub)
    paid(world)
    write(world, files=60, sections=5)
    world.run("index", check=1)
    world.settings["MEMSEARCH_EMBEDDING__PROVIDER"] = "ollama"
    world.drain()
    assert sum(map(len, sent(stub))) == 300
    assert world.status()["state"] == "ok"


def ask(world: World, answer: str) -> str:
    """``index`` with a terminal, and what was typed there."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, "index"],
            cwd=world.project,
            env=world.environ,
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
        ) as process:
            said = b""
            while b"[y/N]" not in said:
                assert select.select([ours], [], [], PATIENCE)[0], said
                said += os.read(ours, 1000)
            os.write(ours, answer.encode())
            process.wait(PATIENCE)
        return said.decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_rate_limit_is_waited_for_as_long_as_it_says(world: World, stub: StubLLM) -> None:
    free(world, stub)
    world.settings["MEMSEARCH_RETRY__BASE_SECONDS"] = "0.1"
    write(world, files=2, sections=2)
    stub.order("429:2", "500", kind="embeddings")
    world.run("index", check=None)  # it ends before or after the pause, as the machine is fast
    world.drain("--wait")
    first, second, *later = (each.at for each in stub.of("embeddings"))
    assert second - first >= 2
    assert later
    assert world.search("valve 1.1")[0]["ranks"]["dense"] is not None


def test_a_limit_that_lets_something_through_is_no_failed_try(world: World, stub: StubLLM) -> None:
    free(world, stub)
    world.settings |= {"MEMSEARCH_RETRY__BASE_SECONDS": "0.1", "MEMSEARCH_RETRY__ATTEMPTS": "2"}
    write(world, files=12, sections=BATCH)
    stub.order("fine", *["429:0.3", "fine"] * 8, kind="embeddings")
    world.run("index", check=None)
    world.drain("--wait")
    assert not world.sql("SELECT 1 FROM events WHERE type = 'DeadLettered'")
    assert world.status()["waiting"] == []
    taken = [each for each in stub.of("embeddings") if each.behaviour == "fine"]
    assert sum(len(each.body["input"]) for each in taken) <= 12 * BATCH + 4 * BATCH
