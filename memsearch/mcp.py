"""``memsearch mcp``: the tools over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import io
import os
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import McpError

from memsearch import __version__, tools
from memsearch.config.errors import MemsearchError
from memsearch.config.project import working_folder
from memsearch.hooks.fence import escape
from memsearch.mcp_front import ANNOTATIONS, INSTRUCTIONS, NAME, Opening, Rest, Unanswered

#: Variables by which clients tell their servers where the project is.
PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR",)

#: Seconds that a client has to say which folder it works in.
ROOTS_SECONDS = 2.0


def make_server(environ: dict[str, str]) -> Server[Any]:
    """The server with its three tools.

    Args:
        environ: The environment that calls are answered in.
    """
    server: Server[Any] = Server(NAME, version=__version__, instructions=INSTRUCTIONS)

    async def list_tools() -> list[types.Tool]:
        return [
            types.Tool(
                name=name,
                description=description,
                inputSchema=schema,
                annotations=types.ToolAnnotations.model_validate(ANNOTATIONS),
            )
            for name, (description, schema) in tools.tools().items()
        ]

    async def call_tool(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        folder = await client_root(server) or project_folder(environ)

        def run() -> str:
            return tools.call(name, arguments, cwd=folder, environ=environ)

        try:
            # In a thread: a first search loads a model, and pings must be answered meanwhile.
            text = await anyio.to_thread.run_sync(run)
        except MemsearchError as error:
            return _result(escape(str(error)), failed=True)
        return _result(text)

    server.list_tools()(list_tools)  # type: ignore[no-untyped-call]
    server.call_tool()(call_tool)
    return server


def _result(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=failed)


async def client_root(server: Server[Any]) -> str:
    """The first folder that the client says it works in; empty for one that does not say."""
    session = server.request_context.session
    able = types.ClientCapabilities(roots=types.RootsCapability())
    if not session.check_client_capability(able):
        return ""
    with anyio.move_on_after(ROOTS_SECONDS):
        try:
            for root in (await session.list_roots()).roots:
                url = urlsplit(str(root.uri))
                folder = unquote(url.path)
                if url.scheme == "file" and os.path.isdir(folder):
                    return folder
        except McpError:
            return ""  # it can, and does not want to: where it started us is as good
    return ""


def project_folder(environ: dict[str, str]) -> str:
    """The folder that a client works in: what it says, else where it started us."""
    for name in PROJECT_VARIABLES:
        if os.path.isdir(environ.get(name, "")):
            return environ[name]
    return working_folder(environ)


async def serve(environ: dict[str, str], opening: Opening) -> None:
    """Serve on standard input and output until the client closes them.

    Args:
        environ: The environment that calls are answered in.
        opening: What was said before.
    """
    server = make_server(environ)
    lines = io.TextIOWrapper(
        io.BufferedReader(Rest(opening.said, 0)), encoding="utf-8", errors="replace"
    )
    answers = cast("io.TextIOWrapper", Unanswered(1, opening.answered))
    async with stdio_server(anyio.wrap_file(lines), anyio.wrap_file(answers)) as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def main(opening: Opening) -> None:
    """Run the server; see ``mcp_front``, which begins the talk."""
    anyio.run(serve, dict(os.environ), opening)
