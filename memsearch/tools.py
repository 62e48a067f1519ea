"""The three tools that agents call: ``memory_search``, ``memory_get``, ``memory_transcript``.

MCP offers them, and the plugins of OpenCode and OpenClaw, which hand a call over as JSON.
All of them go through ``recall.backend``. What is answered is read by a model, so it comes
fenced as quoted data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from memsearch import answers
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.hooks.fence import RECALLED, escape, fence
from memsearch.mcp_front import read_tools
from memsearch.recall import requests

#: The longest answer, in characters; a transcript of long turns has more.
MAX_CHARS = 60_000


@cache
def tools() -> dict[str, tuple[str, dict[str, Any]]]:
    """Name → description and JSON schema of the arguments; the JS plugins read the same file."""
    return {name: (tool["description"], tool["parameters"]) for name, tool in read_tools().items()}


def call(name: str, arguments: Mapping[str, Any], *, cwd: str, environ: Mapping[str, str]) -> str:
    """Call a tool.

    Args:
        name: One of ``tools()``.
        arguments: As its schema has them.
        cwd: A folder of the project, absolute.
        environ: The environment.

    Returns:
        What the model shall read.

    Raises:
        MemsearchError: ``BAD_REQUEST`` for arguments that are wrong, and whatever recall raises.
    """
    check(name, arguments)
    environ = dict(environ)
    project = arguments.get("project")
    if project:
        cwd = os.path.abspath(os.path.expanduser(project))
        if not os.path.isdir(cwd):
            raise MemsearchError(f"{cwd} is no folder", kind=ErrorClass.BAD_REQUEST)
        environ.pop("MEMSEARCH_DIR", None)
    home = Home.from_env(environ)
    text, notes, told = _CALLS[name](arguments, cwd, environ, home)
    cut = len(text) - MAX_CHARS
    if cut > 0:
        notes = [f"{cut} characters more are left out", *notes]
    # What recall tells may name a file, and whoever made the file has named it.
    quoted = [text[:MAX_CHARS], "\n".join(f"Note: {_line(note)}" for note in told)]
    inside = "\n\n".join(part for part in quoted if part)
    parts = [fence(inside, about=RECALLED)] if inside else []
    parts += [f"Note: {_line(note)}" for note in notes]
    return "\n".join(parts)


def _line(note: str) -> str:
    return escape(" ".join(note.split()))


def check(name: str, arguments: Mapping[str, Any]) -> None:
    """See that a call names a tool and what it needs, and nothing else.

    Raises:
        MemsearchError: ``BAD_REQUEST``.
    """
    if name not in tools():
        raise MemsearchError(
            f"there is no tool {name!r}", kind=ErrorClass.BAD_REQUEST, hint=", ".join(tools())
        )
    schema = tools()[name][1]
    kinds = {"string": str, "integer": int, "boolean": bool}
    for key, value in arguments.items():
        found = schema["properties"].get(key)
        if found is None:
            known = ", ".join(schema["properties"])
            raise MemsearchError(
                f"{name} takes no {key!r}", kind=ErrorClass.BAD_REQUEST, hint=f"it takes {known}"
            )
        wanted = kinds[found["type"]]
        if value is not None and (
            not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))
        ):
            raise MemsearchError(
                f"{key} must be of type {found['type']}", kind=ErrorClass.BAD_REQUEST
            )
    for key in schema["required"]:
        if not arguments.get(key):
            raise MemsearchError(f"{name} needs {key!r}", kind=ErrorClass.BAD_REQUEST)


#: The text, our own notes on it, and what recall tells, which may quote what it found.
Answer = tuple[str, list[str], list[str]]


def _search(arguments: Mapping[str, Any], cwd: str, environ: dict[str, str], home: Home) -> Answer:
    from memsearch.recall.dates import local_today

    request = requests.search_request(
        arguments["query"],
        cwd=cwd,
        environ=environ,
        today=local_today().isoformat(),
        top_k=arguments.get("top_k"),
        since=arguments.get("since") or "",
        until=arguments.get("until") or "",
        platform=arguments.get("platform") or "",
        all_projects=bool(arguments.get("all_projects")),
    )
    answer = _ask("search", request, home, environ)
    text = answers.results_text(answer["results"])
    notes = [
        *answers.foreign_notes(answer["results"]),
        *answers.freshness_notes(answer["freshness"]),
    ]
    return text, notes if text else ["nothing was found", *notes], list(answer["notes"])


def _get(arguments: Mapping[str, Any], cwd: str, environ: dict[str, str], home: Home) -> Answer:
    request = requests.expand_request(arguments["id"], cwd=cwd, environ=environ)
    answer = _ask("expand", request, home, environ)
    notes = answers.foreign_notes([answer])
    return answers.section_text(answer), notes, list(answer["notes"])


def _transcript(
    arguments: Mapping[str, Any], cwd: str, environ: dict[str, str], home: Home
) -> Answer:
    context = arguments.get("context")
    request = requests.transcript_request(
        arguments["id"],
        cwd=cwd,
        environ=environ,
        turn=arguments.get("turn") or "",
        context=1 if context is None else context,
    )
    answer = _ask("transcript", request, home, environ)
    return answer["text"], [], list(answer["notes"])


_CALLS = {"memory_search": _search, "memory_get": _get, "memory_transcript": _transcript}


def _ask(
    operation: str, request: Mapping[str, Any], home: Home, environ: Mapping[str, str]
) -> dict[str, Any]:
    from memsearch.cli.home import start_for_next_time
    from memsearch.recall.backend import answer

    # A model cannot mend a configuration: what is broken in it is left at its default.
    found = answer(operation, request, home, environ, strict=False)
    start_for_next_time(home, environ)
    return found
