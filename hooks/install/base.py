"""What is known of each agent: how memsearch gets into it, and how to see that it is there."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from memsearch.config.errors import ErrorClass, MemsearchError

if TYPE_CHECKING:
    from memsearch.hooks.install.files import Edit
    from memsearch.hooks.install.place import Place


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that keeps an agent from remembering, and what to do about it.

    Attributes:
        what: It.
        next_step: What to do.
        expected: Every installation leaves this to its user, and says so (``Agent.NEXT``).
    """

    what: str
    next_step: str
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Installed:
    """What is installed in one agent.

    Attributes:
        installed: Whether our hooks or plugin are there.
        faults: What is wrong with them.
        trusted: Whether the agent runs them; None where it asks nobody.
        next: What to do after an installation, where this machine's release of the agent
            differs from ``Agent.NEXT``.
    """

    installed: bool
    faults: tuple[Fault, ...] = ()
    trusted: bool | None = None
    next: str = ""


class Agent(Protocol):
    """One agent: a module of this package."""

    #: As ``--platform`` names it.
    NAME: str
    #: As people name it.
    DISPLAY: str
    #: Its program.
    PROGRAM: str
    #: What to do after an installation.
    NEXT: str

    def root(self, place: Place) -> str:
        """The folder of its configuration."""
        ...

    def edits(self, place: Place) -> list[Edit]:
        """Our part of its files."""
        ...

    def look(self, place: Place) -> Installed:
        """What is installed."""
        ...


#: Name → module. A new agent is one module and one line here.
_AGENTS = {
    "claude-code": "memsearch.hooks.install.claude_code",
    "codex": "memsearch.hooks.install.codex",
    "opencode": "memsearch.hooks.install.opencode",
    "openclaw": "memsearch.hooks.install.openclaw",
}


def names() -> tuple[str, ...]:
    """All agents that memsearch can be installed in."""
    return tuple(_AGENTS)


def agent(name: str) -> Agent:
    """One agent.

    Raises:
        MemsearchError: ``CONFIG`` for one that is not known.
    """
    if name not in _AGENTS:
        raise MemsearchError(
            f"there is no agent {name!r}",
            kind=ErrorClass.CONFIG,
            hint=f"known are: {', '.join(_AGENTS)}",
        )
    return cast("Agent", import_module(_AGENTS[name]))
