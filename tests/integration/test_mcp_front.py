"""The first words over MCP: as the SDK says them, before the SDK is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, types
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

from memsearch.mcp import make_server
from memsearch.mcp_front import VERSIONS, Opening, reply

COMMAND = [sys.executable, "-P", "-X", "importtime", "-m", "memsearch._entry", "mcp"]
#: Seconds that an answer may take on a machine that is busy with other things.
PATIENCE = 60.0


def initialize(key: object = 0, version: str = VERSIONS[-1]) -> dict[str, Any]:
    given = {
        "protocolVersion": version,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "c", "title": "C", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": key, "method": "initialize", "params": given}


def ask(method: str, key: object = 1, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params}


READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def of_the_sdk(version: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the SDK alone answers to ``initialize`` and ``tools/list``."""

    async def run() -> tuple[dict[str, Any], dict[str, Any]]:
        server = make_server({})
        async with (
            create_client_server_memory_streams() as (client, own),
            anyio.create_task_group() as group,
        ):
            group.start_soon(server.run, own[0], own[1], server.create_initialization_options())
            async with ClientSession(*client) as session:
                request = types.ClientRequest(
                    types.InitializeRequest(
                        params=types.InitializeRequestParams.model_validate(
                            initialize(version=version)["params"]
                        )
                    )
                )
                first = await session.send_request(request, types.InitializeResult)
                await session.send_notification(
                    types.ClientNotification(types.InitializedNotification())
                )
                tools = await session.list_tools()
            group.cancel_scope.cancel()
        return (
            first.model_dump(by_alias=True, exclude_none=True, mode="json"),
            tools.model_dump(by_alias=True, exclude_none=True, mode="json"),
        )

    return anyio.run(run)


@pytest.mark.parametrize("version", [*VERSIONS, "1999-01-01"])
def test_the_first_answers_are_those_of_the_sdk(version: str) -> None:
    first, tools = of_the_sdk(version)
    answer = reply(line(initialize(version=version)))
    assert answer == {"jsonrpc": "2.0", "id": 0, "result": first}
    assert reply(line(ask("tools/list", "a"))) == {"jsonrpc": "2.0", "id": "a", "result": tools}


def test_the_versions_are_those_of_the_sdk() -> None:
    assert list(VERSIONS) == sorted(SUPPORTED_PROTOCOL_VERSIONS)


@pytest.mark.parametrize(
    "said",
    [
        b"no json",
        b"[]",
        line({"id": 1, "method": "ping"}),
        line(ask("ping", None)),
        line(ask("ping", True)),
        line({**ask("ping"), "params": [1]}),
        line(ask("tools/call", name="memory_search")),
        line(ask("initialize")),
        line(ask("initialize", capabilities={}, clientInfo={}, protocolVersion=3)),
        line({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
    ],
)
def test_all_else_is_the_sdks(said: bytes) -> None:
    assert reply(said) is None


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_words_in_pieces(size: int) -> None:
    """However the bytes come, all are answered here or handed on, in their order."""
    source, there = os.pipe()
    back, target = os.pipe()
    words = [initialize(), READY, ask("ping", 5), ask("tools/list"), ask("tools/list", 2)]
    data = b"".join(map(line, words))
    pid = os.fork()
    if pid == 0:
        for start in range(0, len(data), size):
            os.write(there, data[start : start + size])
        os._exit(0)
    os.close(there)
    opening = Opening()
    opening.run(source, target)
    os.waitpid(pid, 0)
    with os.fdopen(source, "rb") as file:
        left = opening.said + file.read()
    os.close(target)
    with os.fdopen(back, "rb") as file:
        answers = [json.loads(text) for text in file]
    assert [answer["id"] for answer in answers] == [0, 5, 1]
    assert left == line(words[0]) + line(words[1]) + line(words[4])
    assert opening.answered == [0]


class Server:
    """The real command, spoken to line by line."""

    def __init__(self, cwd: Path) -> None:
        self.errors = cwd / "errors"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=cwd
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def say(self, *messages: object) -> None:
        self.stdin.write(b"".join(map(line, messages)))
        self.stdin.flush()

    def hear(self) -> dict[str, Any]:
        text = self.stdout.readline()
        found: dict[str, Any] = json.loads(text)
        return found

    def imported(self) -> int:
        """How many modules it has loaded by now."""
        return self.errors.read_bytes().count(b"\n")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.stdin.close()
    made.stdout.close()
    assert made.process.wait(PATIENCE) == 0


def test_the_tools_are_told_before_the_sdk_is_there(server: Server) -> None:
    server.say(initialize())
    assert server.hear()["id"] == 0
    server.say(READY, ask("tools/list"))
    before = server.imported()
    tools = server.hear()["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["memory_search", "memory_get", "memory_transcript"]
    assert before < 150
    # What comes then is the SDK's, which says nothing again that was said.
    server.say(ask("tools/list", 2))
    again = server.hear()
    assert (again["id"], again["result"]["tools"]) == (2, tools)
    assert server.imported() > 500
    server.say(ask("tools/call", 3, name="memory_get", arguments={"id": "no id"}))
    called = server.hear()
    assert (called["id"], called["result"]["isError"]) == (3, True)
    server.say(ask("ping", 4))
    assert server.hear() == {"jsonrpc": "2.0", "id": 4, "result": {}}


def test_a_client_that_asks_for_something_else_first(server: Server) -> None:
    server.say(initialize("first"), ask("prompts/list", "second"))
    assert server.hear()["id"] == "first"
    refused = server.hear()
    assert (refused["id"], "error" in refused) == ("second", True)
    server.say(READY, ask("tools/call", 3, name="memory_get", arguments={"id": "no id"}))
    assert server.hear()["id"] == 3


def test_a_client_that_leaves_at_once(server: Server) -> None:
    server.say(initialize())
    assert server.hear()["id"] == 0
    server.stdin.close()
    assert server.process.wait(PATIENCE) == 0
    assert server.imported() < 150
