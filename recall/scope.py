"""Which projects a request is about, and where their Markdown lies."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import Project, resolve
from memsearch.recall import logview
from memsearch.recall.logview import LogView
from memsearch.recall.requests import text_of, with_forwarded

if TYPE_CHECKING:
    from memsearch.config.settings import Settings
    from memsearch.recall.access import Access


@dataclass(frozen=True, slots=True)
class Setting:
    """What a request is answered in.

    Attributes:
        cwd: The folder it was asked from.
        project: The project of that folder.
        environ: The environment that it is answered in.
        settings: The settings of that project.
        log: What the event log knows.
        notes: What the answer has to say about all this.
    """

    cwd: str
    project: Project
    environ: Mapping[str, str]
    settings: Settings
    log: LogView
    notes: tuple[str, ...]

    def projects(self, collection: str) -> tuple[Project, ...]:
        """The known projects that share a collection, the request's own first."""
        return tuple(item for item in self.all_projects() if item.collection == collection)

    def all_projects(self) -> tuple[Project, ...]:
        """The request's own project and every other known one."""
        others = (item for item in self.log.projects if item.memory_dir != self.project.memory_dir)
        return (self.project, *others)


def setting_of(request: Mapping[str, Any], access: Access, *, everything: bool) -> Setting:
    """Where a request is answered.

    Args:
        request: With ``cwd`` and ``environ``.
        access: The home's.
        everything: All collections are wanted from the log, not the project's alone.

    Raises:
        MemsearchError: ``BAD_REQUEST`` when it names no absolute folder.
    """
    cwd = text_of(request, "cwd")
    if not os.path.isabs(cwd):
        raise MemsearchError(
            f"cwd must be an absolute path, not {cwd!r}", kind=ErrorClass.BAD_REQUEST
        )
    environ = with_forwarded(access.environ, request)
    environ["MEMSEARCH_HOME"] = access.home.root
    mine = access.settings(None)
    project = resolve(
        cwd,
        environ,
        isolate_worktrees=mine.project.isolate_worktrees,
        collections=mine.collections(),
    )
    notes: list[str] = []
    log = LogView()
    try:
        log = logview.read(access.home.state_db, None if everything else (project.collection,))
    except MemsearchError as error:
        notes.append(f"How far the index is behind is not known: {error}")
    return Setting(cwd, project, environ, access.settings(project.root), log, tuple(notes))


@dataclass(frozen=True, slots=True)
class Memory:
    """The Markdown of a project's memory.

    Attributes:
        files: Absolute paths, each with whether it lies in the archive.
        unreadable: Why a folder of it could not be looked into.
    """

    files: tuple[tuple[str, bool], ...] = ()
    unreadable: tuple[str, ...] = ()


def memory_of(project: Project, exclude: Sequence[str], *, archive: bool) -> Memory:
    """What lies in a project's memory folder.

    Args:
        project: Whose.
        exclude: ``indexing.exclude``, so that nothing seems to wait that is never indexed.
        archive: Its archive too.
    """
    from memsearch.sinks.documents import walk

    files: list[tuple[str, bool]] = []
    unreadable: list[str] = []
    for folder, archived in ((project.memory_dir, False), (project.archive_dir, True)):
        if (archived and not archive) or not os.path.isdir(folder):
            continue
        found = walk((folder,), exclude)
        files += ((path, archived) for path in found.files)
        unreadable += map(str, found.unreadable)
    return Memory(tuple(files), tuple(unreadable))
