"""The real OpenClaw with memsearch in it: what a turn is, the memory, and out again.

One gateway serves most tests, since OpenClaw takes long to start; each has sessions of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import with_openclaw
from machine import Machine
from model import Model
from places import PLACES, QUESTION, assert_filed, assert_found, make_places
from servers import Gateway, free_port, wait_for

pytestmark = pytest.mark.client


def config(machine: Machine) -> Path:
    return machine.root / ".openclaw" / "openclaw.json"


@pytest.fixture(scope="module")
def openclaws(
    tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str], models_dir: Path
) -> Iterator[Machine]:
    """A machine with OpenClaw and some agents of its user's."""
    with Model() as model:
        machine = Machine(tmp_path_factory.mktemp("openclaw") / "me 我", model, models_dir)
        make_places(machine)
        entries = {name: {"workspace": str(machine.root / at)} for name, at in PLACES.items()}
        entries["main"] = {}
        more = f', "entries": {json.dumps(entries, ensure_ascii=False)}'
        with_openclaw(machine, program, free_port(), more)
        yield machine


@pytest.fixture(scope="module")
def before(openclaws: Machine) -> bytes:
    """The user's configuration as it was before memsearch."""
    return config(openclaws).read_bytes()


@pytest.fixture(scope="module")
def installed(openclaws: Machine, before: bytes) -> Machine:
    assert b"// mine" in before
    openclaws.memsearch("install", "openclaw")
    return openclaws


@pytest.fixture(scope="module")
def gateway(installed: Machine) -> Iterator[Gateway]:
    with Gateway(installed) as server:
        yield server


@pytest.fixture(scope="module")
def worker(installed: Machine) -> Iterator[None]:
    with installed.worker():
        yield


def test_out_again_without_a_run_is_byte_for_byte(openclaw: Machine) -> None:
    before = config(openclaw).read_bytes()
    openclaw.memsearch("install", "openclaw")
    installed = config(openclaw).read_bytes()
    openclaw.memsearch("install", "openclaw")
    assert config(openclaw).read_bytes() == installed != before
    assert b"// mine" in installed
    openclaw.memsearch("uninstall", "openclaw")
    assert config(openclaw).read_bytes() == before
    assert not (openclaw.home / "agents").exists()


def test_turns_that_wait_for_a_worker_are_captured_once_each(gateway: Gateway) -> None:
    machine = gateway.machine
    # The first turn of all was sent before memsearch could know of OpenClaw, and more turns
    # end before a worker looks.
    gateway.say("one", "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，缓存用 LMDB。]]")
    gateway.say("one", "Please list the files [[SH: echo tool-output-42]]")
    gateway.say("one", "And a third turn of the same session")
    machine.wait_for_hooks(4)
    machine.drain()

    assert machine.times_asked("我们决定把缓存换成 LMDB") == 1
    assert machine.times_asked("Please list the files") == 1
    assert machine.times_asked("And a third turn") == 1
    assert "echo tool-output-42" in machine.journal()
    anchors = machine.anchors()
    assert len({each["turn"] for each in anchors}) == len(anchors) == 3
    assert len({each["session"] for each in anchors}) == 1
    assert (machine.root / unquote(anchors[0]["db"]).removeprefix("~/")).is_file()


@pytest.mark.usefixtures("worker")
def test_a_new_session_has_the_memory_and_recalls(gateway: Gateway) -> None:
    machine = gateway.machine
    machine.note("2026-03-05", "rollout:~/.codex/sessions/x.jsonl", "The mail queue is a heap 堆")
    machine.model.clear()
    gateway.say("memory", "What did we decide about the cache?")
    asked = machine.model.requests[-1].text
    assert "<memsearch-memory>" in asked
    assert "缓存换成 LMDB" in asked
    assert "[memsearch] Memory available" in asked

    machine.model.clear()
    # OpenClaw keeps most tools behind a search of its own, and calls them by name.
    arguments = {"id": "memory_search", "args": {"query": "mail queue 堆", "top_k": 3}}
    gateway.say("memory", f"[[CALL: tool_call {json.dumps(arguments, ensure_ascii=False)}]]")
    machine.assert_recalled("The mail queue is a heap")

    (found, *_) = machine.search("缓存 LMDB", "--platform", "openclaw")
    shown = machine.memsearch("transcript", found["chunk_hash"]).stdout
    assert "我们决定把缓存换成 LMDB，因为 Redis 太重。" in shown


@pytest.mark.usefixtures("worker")
def test_what_a_turn_is(gateway: Gateway) -> None:
    machine, model = gateway.machine, gateway.machine.model
    key = "agent:main:story"
    gateway.say("story", "The first chapter is written [[SAY: It is.]]")

    model.holding.clear()
    aside = gateway.say_aside("story", "The chapter that was aborted [[HOLD: never]]")
    assert model.holding.wait(120)
    gateway.rpc("sessions.abort", key=key)
    model.release.set()
    aside.join()

    gateway.rpc("sessions.create", parentSessionKey=key, fork=True, key="agent:main:forked")
    gateway.rpc("sessions.compact", key=key)
    gateway.say("story", "The chapter after the compaction [[SAY: Shorter now.]]")
    gateway.say("forked", "The chapter in the fork [[SAY: Another way.]]")
    task = {"task": "The chapter of the subagent <<SAY: From below.>>"}
    call = {"id": "sessions_spawn", "args": task}
    model.clear()
    gateway.say("story", f"Have it written [[CALL: tool_call {json.dumps(call)}]]")
    wait_for(lambda: any("From below" in r.text for r in model.requests), model.everything)
    gateway.rpc("sessions.reset", key=key)
    gateway.say("story", "The chapter after the reset [[SAY: Afresh.]]")
    machine.settle("The chapter after the reset", "The chapter in the fork")

    for words in (
        "The first chapter is written",
        "The chapter that was aborted",
        "The chapter after the compaction",
        "The chapter in the fork",
        "Have it written",
        "The chapter after the reset",
    ):
        assert machine.times_asked(words) == 1, machine.journal()
    assert "User asked: The chapter of the subagent" not in machine.journal()
    aborted = machine.journal().partition("The chapter that was aborted")[2].partition("###")[0]
    assert "interrupted" in aborted
    assert "memsearch-memory" not in machine.journal()
    status = json.loads(machine.memsearch("status", "--json", check=False).stdout)
    assert set(status["hooks"]) == {"done"}


@pytest.mark.usefixtures("worker")
def test_the_same_project_from_everywhere(gateway: Gateway) -> None:
    machine = gateway.machine
    for name in PLACES:
        words = f"Where is the {name} place? [[SAY: It lies at position {name}-77.]]"
        gateway.say("here", words, name)
    machine.settle("Where is the deep place?", "Where is the tree place?")
    assert_filed(machine, "Where is the {} place?")

    call = json.dumps({"id": "memory_search", "args": {"query": QUESTION, "top_k": 5}})
    assert_found(
        machine, "deep-77", lambda name: gateway.say("asked", f"[[CALL: tool_call {call}]]", name)
    )


@pytest.mark.usefixtures("worker")
def test_another_process_goes_on_and_uninstalling_leaves_what_is_not_ours(
    gateway: Gateway, before: bytes
) -> None:
    machine = gateway.machine
    gateway.stop()  # it lets no other process at its sessions
    words = "The turn of another process [[SAY: From beside.]]"
    options = ("--local", "--agent", "main", "--session-key", "agent:main:one", "--message", words)
    machine.agent("openclaw", "agent", *options)
    machine.settle("The turn of another process")
    assert machine.times_asked("The turn of another process") == 1
    assert machine.times_asked("And a third turn") == 1
    written_anew = b"// mine" not in config(machine).read_bytes()
    machine.memsearch("uninstall", "openclaw")
    left = config(machine).read_bytes()
    # OpenClaw writes its configuration anew when it likes: then our part alone goes.
    assert left == before or written_anew
    assert b"memsearch" not in left
    assert b"stub-token" in left
    assert not (machine.home / "agents" / "openclaw").exists()
