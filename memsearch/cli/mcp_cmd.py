"""``mcp`` and ``tool``: recall for agents, over MCP or one call at a time."""

from __future__ import annotations

import json
import os
import sys

import click

from memsearch.cli import output
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import working_folder


@click.command()
def mcp() -> None:
    """Serve the memory tools over MCP, on standard input and output.

    For any client that speaks the Model Context Protocol: memory_search, memory_get,
    memory_transcript. It serves the project of the folder that it is started in.

    \b
    Example, for Claude Code:
      claude mcp add memsearch -- memsearch mcp
    """
    from memsearch.mcp_front import main

    main()


@click.command()
@click.argument("name")
def tool(name: str) -> None:
    """Call one memory tool (for the plugins of OpenCode and OpenClaw).

    Reads a JSON object from standard input: {"cwd": FOLDER, "arguments": {…}}. What the model
    shall read goes to standard output, an error's words too.

    \b
    Example:
      echo '{"arguments": {"query": "retry policy"}}' | memsearch tool memory_search
    """
    from memsearch import tools

    try:
        given = _given()
        cwd = given.get("cwd") or working_folder(os.environ)
        arguments = given.get("arguments") or {}
        if not isinstance(cwd, str) or not isinstance(arguments, dict):
            raise MemsearchError("cwd is a text, arguments an object", kind=ErrorClass.BAD_REQUEST)
        output.put(tools.call(name, arguments, cwd=cwd, environ=os.environ))
    except MemsearchError as error:
        from memsearch.hooks.fence import escape

        output.put(f"error: {escape(str(error))}")
        raise SystemExit(output.exit_code(error)) from None


def _given() -> dict[str, object]:
    data = sys.stdin.buffer.read()
    try:
        found = json.loads(data.decode("utf-8", "replace") or "{}")
    except ValueError as error:
        raise MemsearchError(
            f"the input is not JSON: {error}", kind=ErrorClass.BAD_REQUEST
        ) from error
    if not isinstance(found, dict):
        raise MemsearchError("the input is no JSON object", kind=ErrorClass.BAD_REQUEST)
    return found
