"""Installing and removing, agent by agent."""

from __future__ import annotations

import os

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import tilde
from memsearch.hooks.install import files
from memsearch.hooks.install.base import Agent, names
from memsearch.hooks.install.files import Change, Edit, whole_file
from memsearch.hooks.install.place import Place, own_command, shared_edits

#: The record of what all agents share.
SHARED = "shared"


def plan(agent: Agent, place: Place, *, removal: bool = False) -> list[Change]:
    """What would change in an agent's files.

    Raises:
        MemsearchError: A file cannot be read or edited; it is named.
    """
    record = files.load(files.record_path(place.home, agent.NAME))
    make = files.plan_removal if removal else files.plan_install
    return make(agent.edits(place), record)


def install(agent: Agent, place: Place) -> list[Change]:
    """Install memsearch in an agent; what changed.

    Raises:
        MemsearchError: Nothing was changed, or what was can be made good by doing it again.
    """
    changes = plan(agent, place)
    _install_shared(place)
    path = files.record_path(place.home, agent.NAME)
    files.install(changes, path, files.load(path))
    return [change for change in changes if change.needed]


def remove(agent: Agent, place: Place) -> list[Change]:
    """Take memsearch out of an agent; what changed.

    Raises:
        MemsearchError: As ``install``.
    """
    changes = plan(agent, place, removal=True)
    path = files.record_path(place.home, agent.NAME)
    files.remove(changes, path, files.load(path))
    if not any(os.path.exists(files.record_path(place.home, name)) for name in names()):
        shared = files.record_path(place.home, SHARED)
        record = files.load(shared)
        files.remove(files.plan_removal([], record), shared, record)
    return [change for change in changes if change.needed]


def _install_shared(place: Place) -> None:
    command, script = own_command(place)
    edits: list[Edit] = shared_edits(place, command)
    if script is not None:
        edits.append(whole_file(command, script, 0o755))
    try:
        os.makedirs(place.home.root, mode=0o700, exist_ok=True)
    except OSError as error:
        raise MemsearchError(
            f"{tilde(place.home.root)} cannot be made: {error.strerror}",
            kind=ErrorClass.PERMISSION,
            hint="check the permissions of its folder, or set MEMSEARCH_HOME to another one",
        ) from error
    path = files.record_path(place.home, SHARED)
    record = files.load(path)
    files.install(files.plan_install(edits, record), path, record)
