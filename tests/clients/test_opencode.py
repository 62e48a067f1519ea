"""The real OpenCode with memsearch in it: what a turn is, the memory, and out again.

One server serves most tests; each has sessions of its own.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import with_opencode
from machine import Machine, snapshot
from model import Model
from places import PLACES, QUESTION, assert_filed, assert_found, make_places
from servers import OpenCodeServer, wait_for

pytestmark = pytest.mark.client


def own(machine: Machine) -> dict[str, str]:
    """What a user or an installer wrote; OpenCode fetches packages of its own beside it."""
    folder = machine.root / ".config" / "opencode"
    names = ("opencode.json", "plugin/", "skill/", "memsearch/")
    return {name: value for name, value in snapshot(folder).items() if name.startswith(names)}


def finished(machine: Machine, words: str) -> bool:
    """Whether OpenCode has written the end of a turn."""
    path = machine.root / ".local" / "share" / "opencode" / "opencode.db"
    sql = (
        "SELECT count(*) FROM message AS a JOIN part AS p"
        " ON p.message_id = json_extract(a.data, '$.parentID')"
        " WHERE json_extract(a.data, '$.finish') = 'stop' AND p.data LIKE ?"
    )
    with closing(sqlite3.connect(path, timeout=10)) as db:
        return bool(db.execute(sql, (f"%{words}%",)).fetchone()[0])


@pytest.fixture(scope="module")
def installed(
    tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str], models_dir: Path
) -> Iterator[tuple[Machine, dict[str, str]]]:
    """A machine with OpenCode and memsearch, and its user's files as they were before."""
    with Model() as model:
        machine = Machine(tmp_path_factory.mktemp("opencode") / "me 我", model, models_dir)
        with_opencode(machine, program)
        make_places(machine)
        before = own(machine)
        machine.memsearch("install", "opencode")
        once = own(machine)
        machine.memsearch("install", "opencode")
        assert own(machine) == once != before
        yield machine, before


@pytest.fixture(scope="module")
def server(installed: tuple[Machine, dict[str, str]]) -> Iterator[OpenCodeServer]:
    with OpenCodeServer(installed[0]) as started:
        yield started


@pytest.fixture(scope="module")
def worker(installed: tuple[Machine, dict[str, str]]) -> Iterator[None]:
    with installed[0].worker():
        yield


def test_opencode_run_loses_nothing(installed: tuple[Machine, dict[str, str]]) -> None:
    machine, _ = installed
    words = "我们决定把缓存换成 LMDB，因为 Redis 太重。[[SAY: 好的，已经记下：缓存用 LMDB。]]"
    machine.agent("opencode", "run", stdin=words)
    words = "Please list the files [[SH: echo tool-output-42]]"
    machine.agent("opencode", "run", "-c", stdin=words)
    # Killed before anything can tell of the end: only the database knows of this turn.
    killed = subprocess.Popen(
        [*machine.programs["opencode"], "run", "-c", "The run that was killed [[SAY: Done.]]"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=machine.environ | {"MEMSEARCH_DISABLE": "1"},
        cwd=machine.project,
        start_new_session=True,
    )
    try:
        wait_for(lambda: finished(machine, "The run that was killed"))
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait(30)
    machine.agent("opencode", "run", "-c", stdin="And one more run [[SAY: Yes.]]")
    machine.drain()

    assert machine.times_asked("我们决定把缓存换成 LMDB") == 1
    assert machine.times_asked("Please list the files") == 1
    assert machine.times_asked("The run that was killed") == 1
    assert machine.times_asked("And one more run") == 1
    assert "echo tool-output-42" in machine.journal()
    anchors = machine.anchors()
    assert len({each["session"] for each in anchors}) == 1
    assert len({each["turn"] for each in anchors}) == len(anchors) == 4
    assert all(each["turn"].startswith("msg_") for each in anchors)
    assert (machine.root / unquote(anchors[0]["db"]).removeprefix("~/")).is_file()


@pytest.mark.usefixtures("worker")
def test_a_new_session_has_the_memory_and_recalls(server: OpenCodeServer) -> None:
    machine = server.machine
    machine.note("2026-03-05", "rollout:~/.codex/sessions/x.jsonl", "The mail queue is a heap 堆")
    machine.model.clear()
    session = server.begin()
    server.say(session, "What did we decide about the cache?")
    asked = [r.text for r in machine.model.requests if "title generator" not in r.text]
    assert "<memsearch-memory>" in asked[-1]
    assert "缓存换成 LMDB" in asked[-1]
    assert "[memsearch] Memory available" in asked[-1]

    machine.model.clear()
    server.say(session, '[[CALL: memory_search {"query": "mail queue 堆", "top_k": 3}]]')
    machine.assert_recalled("The mail queue is a heap")

    (found, *_) = machine.search("缓存 LMDB", "--platform", "opencode")
    shown = machine.memsearch("transcript", found["chunk_hash"]).stdout
    assert "我们决定把缓存换成 LMDB，因为 Redis 太重。" in shown


@pytest.mark.usefixtures("worker")
def test_what_a_turn_is(server: OpenCodeServer) -> None:
    machine, model = server.machine, server.machine.model
    session = server.begin()
    server.say(session, "The first chapter is written [[SAY: It is.]]")

    model.release.clear()
    model.holding.clear()
    words = "The chapter that was aborted [[HOLD: never]]"
    server.act(session, "prompt_async", {"parts": [{"type": "text", "text": words}]})
    assert model.holding.wait(120)
    server.act(session, "abort")
    model.release.set()

    fork = str(server.act(session, "fork")["id"])
    server.say(fork, "The chapter in the fork [[SAY: Another way.]]")
    by = {"providerID": "stub", "modelID": "stub-model"}
    server.act(session, "summarize", by)
    server.say(session, "The chapter after the compaction [[SAY: Shorter now.]]")
    task = (
        '{"description": "write", "prompt": "The chapter of the subagent <<SAY: From below.>>",'
        ' "subagent_type": "general"}'
    )
    server.say(session, f"Have it written [[CALL: task {task}]]")
    # A resume by another process, beside the server.
    words = "The chapter of another process [[SAY: From beside.]]"
    machine.agent("opencode", "run", "-s", session, stdin=words)
    machine.settle("The chapter of another process", "The chapter in the fork")

    for words in (
        "The first chapter is written",
        "The chapter that was aborted",
        "The chapter in the fork",
        "The chapter after the compaction",
        "Have it written",
        "The chapter of another process",
    ):
        assert machine.times_asked(words) == 1, machine.journal()
    assert "User asked: The chapter of the subagent" not in machine.journal()
    aborted = machine.journal().partition("The chapter that was aborted")[2].partition("###")[0]
    assert "interrupted" in aborted
    assert "memsearch-memory" not in machine.journal()

    # A fork whose original is deleted has nothing that is new: all of it is known.
    server.call("DELETE", f"/session/{session}")
    server.say(fork, "The chapter after the original was deleted [[SAY: Alone.]]")
    machine.settle("The chapter after the original was deleted")
    assert machine.times_asked("The chapter after the original was deleted") == 1
    assert machine.times_asked("The first chapter is written") == 1
    again = machine.memsearch("backfill", "--platform", "opencode", "--yes").stderr
    assert "captured" not in again, again


@pytest.mark.usefixtures("worker")
def test_the_same_project_from_everywhere(server: OpenCodeServer) -> None:
    machine = server.machine
    sessions = {}
    for name, at in PLACES.items():
        folder = machine.root / at
        sessions[name] = server.begin(folder)
        words = f"Where is the {name} place? [[SAY: It lies at position {name}-77.]]"
        server.say(sessions[name], words, folder)
    machine.settle("Where is the deep place?", "Where is the tree place?")
    assert_filed(machine, "Where is the {} place?")

    call = f'[[CALL: memory_search {{"query": "{QUESTION}", "top_k": 5}}]]'
    assert_found(
        machine,
        "deep-77",
        lambda name: server.say(sessions[name], call, machine.root / PLACES[name]),
    )


def test_uninstalling_restores_the_files(
    server: OpenCodeServer, installed: tuple[Machine, dict[str, str]]
) -> None:
    machine, before = installed
    assert server.machine is machine
    machine.memsearch("uninstall", "opencode")
    assert own(machine) == before
