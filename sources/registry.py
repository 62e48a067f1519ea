"""Which agents can be read. Their modules are imported when they are asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import cast

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources.base import Source

#: Platform → module and class of its source. A new agent is one module and one line here.
_SOURCES = {
    "claude-code": ("memsearch.sources.claude_code", "ClaudeCode"),
    "codex": ("memsearch.sources.codex", "Codex"),
    "opencode": ("memsearch.sources.opencode", "OpenCode"),
    "openclaw": ("memsearch.sources.openclaw", "OpenClaw"),
}


def platforms() -> tuple[str, ...]:
    """The names of all agents that can be read."""
    return tuple(_SOURCES)


@cache
def get(platform: str) -> Source:
    """The source of one agent.

    Raises:
        MemsearchError: ``CONFIG`` for an agent that is not known, naming those that are.
    """
    try:
        module, name = _SOURCES[platform]
    except KeyError:
        raise MemsearchError(
            f"there is no agent {platform!r}",
            kind=ErrorClass.CONFIG,
            hint=f"known are: {', '.join(platforms())}",
        ) from None
    return cast("Source", getattr(import_module(module), name)())
