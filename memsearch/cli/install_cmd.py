"""``install`` and ``uninstall``: memsearch in the agents' own configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memsearch.cli import output
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, tilde

if TYPE_CHECKING:
    from memsearch.hooks.install.base import Agent
    from memsearch.hooks.install.files import Change
    from memsearch.hooks.install.place import Place

F = TypeVar("F", bound=Callable[..., Any])


def _common(command: F) -> F:
    command = click.option("--dry-run", is_flag=True, help="Show the change, make none.")(command)
    command = click.option("--all", "everything", is_flag=True, help="Every agent that is found.")(
        command
    )
    return click.argument("agents", nargs=-1, metavar="AGENT...")(command)


@click.command()
@_common
def install(agents: tuple[str, ...], everything: bool, dry_run: bool) -> None:
    """Install memsearch in agents: claude-code, codex, opencode, openclaw.

    It is merged into the configuration that is there; twice is once. uninstall puts each
    file back as it was, byte for byte where nobody has changed it since.

    \b
    Examples:
      memsearch install claude-code
      memsearch install --all --dry-run
    """
    with output.reported():
        from memsearch.hooks.install import run

        place = _place()
        for agent in _chosen(agents, everything, place):
            changes = run.plan(agent, place) if dry_run else run.install(agent, place)
            _tell(agent, changes, "installed", dry_run)
            if not dry_run:
                _tell_what_is_next(agent, place)


@click.command()
@_common
def uninstall(agents: tuple[str, ...], everything: bool, dry_run: bool) -> None:
    """Take memsearch out of agents again. What it remembers stays.

    \b
    Examples:
      memsearch uninstall codex
      memsearch uninstall --all
    """
    with output.reported():
        from memsearch.hooks.install import run

        place = _place()
        for agent in _chosen(agents, everything, place, removal=True):
            changes = run.plan(agent, place, removal=True) if dry_run else run.remove(agent, place)
            _tell(agent, changes, "taken out", dry_run)


def _tell_what_is_next(agent: Agent, place: Place) -> None:
    """What its user has to do, and what keeps this machine's release from working."""
    found = agent.look(place)
    faults = [fault for fault in found.faults if not fault.expected]
    for fault in faults:
        output.note(f"{agent.DISPLAY}: {fault.what}")
    output.note(f"next: {faults[0].next_step if faults else found.next or agent.NEXT}")


def _place() -> Place:
    from memsearch.hooks.install.place import Place

    return Place(Home.from_env(os.environ), dict(os.environ))


def _chosen(
    words: Sequence[str], everything: bool, place: Place, *, removal: bool = False
) -> list[Agent]:
    """The agents that are meant; all of them are checked before any is touched."""
    from memsearch.hooks.install.base import agent, names

    if everything == bool(words):
        raise MemsearchError(
            "name the agents, or say --all",
            kind=ErrorClass.CONFIG,
            hint=f"known are: {', '.join(names())}",
        )
    if not everything:
        return [agent(name) for name in dict.fromkeys(words)]
    known = [agent(name) for name in names()]
    if removal:
        return known
    found = [each for each in known if is_here(each, place)]
    if not found:
        raise MemsearchError(
            "none of the agents is on this machine",
            kind=ErrorClass.CONFIG,
            hint=f"name one to install it all the same: {', '.join(names())}",
        )
    return found


def is_here(agent: Agent, place: Place) -> bool:
    """Whether an agent is on this machine: its program, or the folder of its settings."""
    return bool(place.which(agent.PROGRAM)) or os.path.isdir(agent.root(place))


def _tell(agent: Agent, changes: Sequence[Change], what: str, dry_run: bool) -> None:
    from memsearch.hooks.install.files import difference

    needed = [change for change in changes if change.needed]
    if dry_run:
        for change in needed:
            output.put(difference(change))
    if not needed:
        output.note(f"{agent.DISPLAY}: nothing to change")
    elif dry_run:
        output.note(f"{agent.DISPLAY}: {len(needed)} files would change; nothing was changed")
    else:
        places = ", ".join(tilde(change.path) for change in needed)
        output.note(f"{agent.DISPLAY}: {what} ({places})")
