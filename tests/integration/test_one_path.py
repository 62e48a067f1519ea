"""Recall is one path: the same question gives the same ids by every way there is to ask it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from memsearch import MemSearch
from memsearch.config.paths import Home
from memsearch.pipeline.engine import Engine
from memsearch.pipeline.log import EventLog
from memsearch.workers.service import Service

COMMAND = [sys.executable, "-P", "-m", "memsearch._entry"]
SKILLS = Path(__file__).parents[2] / "hooks" / "assets"

QUESTIONS = ["what became of the turbine", "备份脚本失败", "maxRetryCount", "yesterday's pump"]
TOP_K = 4

IDS = re.compile(r"^\d+\. ([0-9a-f]{16})\b", re.MULTILINE)

Found = list[list[str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with notes in both languages, indexed; the current folder."""
    folder = tmp_path / "it's a 项目"
    memory = folder / ".memsearch" / "memory"
    memory.mkdir(parents=True)
    for number in range(1, 9):
        (memory / f"2026-03-0{number}.md").write_text(
            f"# 2026-03-0{number}\n\n"
            f"### 09:00\n- The turbine of station {number} was replaced by a pump\n\n"
            f"### 10:00\n- 备份脚本第{number}次上传超时，已改为重试\n\n"
            f"### 11:00\n- Raised maxRetryCount to {number} in src/mail/send_{number}.py\n",
            encoding="utf-8",
        )
    for name in [name for name in os.environ if name.startswith("MEMSEARCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MEMSEARCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMSEARCH_WORKERS__AUTOSTART", "false")
    monkeypatch.chdir(folder)
    assert asyncio.run(MemSearch().index()) == 24
    # Behind the index: what was written since is found the same way.
    (memory / "fresh.md").write_text("# Fresh\n\n- the turbine hums again\n", encoding="utf-8")
    return folder


def by_python() -> Found:
    memory = MemSearch()
    answers = [asyncio.run(memory.search(text, top_k=TOP_K)) for text in QUESTIONS]
    return [[item["chunk_hash"] for item in found] for found in answers]


def by_command() -> Found:
    """As the skills say it."""
    answers = [run(["search", text, "--top-k", str(TOP_K), "--json-output"]) for text in QUESTIONS]
    return [[item["chunk_hash"] for item in json.loads(text)] for text in answers]


def by_text() -> Found:
    return [IDS.findall(run(["search", "-k", str(TOP_K), text])) for text in QUESTIONS]


def by_plugin() -> Found:
    """As the plugins of OpenCode and OpenClaw call."""
    given = [{"arguments": {"query": text, "top_k": TOP_K}} for text in QUESTIONS]
    return [IDS.findall(run(["tool", "memory_search"], json.dumps(each))) for each in given]


def by_mcp() -> Found:
    async def talk() -> Found:
        parameters = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], "mcp"], env=dict(os.environ), cwd=os.getcwd()
        )
        found = []
        async with (
            stdio_client(parameters) as (reader, writer),
            ClientSession(reader, writer) as session,
        ):
            await session.initialize()
            for text in QUESTIONS:
                asked = {"query": text, "top_k": TOP_K}
                (content,) = (await session.call_tool("memory_search", asked)).content
                assert content.type == "text"
                found.append(IDS.findall(content.text))
        return found

    return anyio.run(talk)


def run(arguments: list[str], given: str = "") -> str:
    done = subprocess.run(
        [*COMMAND, *arguments], input=given.encode(), capture_output=True, timeout=120, check=True
    )
    return done.stdout.decode()


@contextmanager
def service() -> Iterator[None]:
    """The workers' service in this process."""
    home = Home(os.environ["MEMSEARCH_HOME"])
    log = EventLog(home.state_db)
    engine = Engine(home, dict(os.environ), log)
    serving = Service(engine)
    serving.start()
    try:
        yield
    finally:
        serving.stop()
        engine.close()
        log.close()


def test_every_way_gives_the_same_ids(project: Path) -> None:
    here = by_python()
    assert [len(found) for found in here] == [TOP_K] * len(QUESTIONS)
    with service():
        for way in (by_python, by_command, by_text, by_plugin, by_mcp):
            assert way() == here, way.__name__
    # Without workers each process opens the index itself, as this one did at first.
    assert by_mcp() == here


def test_the_skills_ask_by_that_command() -> None:
    known = run(["search", "--help"])
    skills = sorted(SKILLS.rglob("SKILL.md"))
    assert skills
    for skill in skills:
        options = re.findall(r"search [^\n`]*?(--[a-z-]+)", skill.read_text(encoding="utf-8"))
        assert all(option in known for option in options), skill
