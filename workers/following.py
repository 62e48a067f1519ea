"""A worker's watch over the memory of known projects: edits are indexed as they are made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memsearch.config.errors import MemsearchError
from memsearch.config.project import Project
from memsearch.config.schema import Settings
from memsearch.pipeline.projects import known_projects
from memsearch.sinks.ignoring import Rules
from memsearch.workers.reconcile import send_changed
from memsearch.workers.watching import Watcher

if TYPE_CHECKING:
    from memsearch.pipeline.engine import Engine

#: Projects that are watched, those with the latest work first: each costs the system a watch.
#: What changes in the others is found by the sweep of every minute.
MAX_PROJECTS = 64


class MemoryWatch:
    """Watches the memory folders of known projects, and their archives.

    It keeps no worker from ending: an edit that nobody has seen is found when the next one
    starts.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._watcher: Watcher | None = None
        self._projects: dict[str, Project] = {}

    def look(self) -> None:
        """Take in projects that became known, folders that were made or taken away."""
        folders = {
            folder: project
            for project in known_projects(self._engine.log, MAX_PROJECTS)
            for folder in (project.memory_dir, project.archive_dir)
            if os.path.isdir(folder)
        }
        real = {os.path.realpath(folder): project for folder, project in folders.items()}
        self._projects = real | folders
        if self._watcher is not None:
            self._watcher.set_paths(folders)
            if not self._watcher.polling:
                notices_of(self._engine).clear()
        elif folders:
            self._watcher = Watcher(
                list(folders),
                self._changed,
                debounce=self._debounce,
                failed=lambda error: self._engine.note(
                    "watch_failed", level="warning", error=type(error).__name__
                ),
                notice=self._notice,
                rules=self._rules,
                must_exist=False,
            )

    def stop(self) -> None:
        """End it; what it was about to send is found by the next start."""
        if self._watcher is not None:
            self._watcher.stop(timeout=2.0)
            self._watcher = None

    def _notice(self, words: str) -> None:
        self._engine.note("watch_polls", level="warning", why=words)
        notices_of(self._engine)[:] = [words]

    def _project_of(self, path: str) -> Project | None:
        projects = self._projects
        folder = os.path.dirname(path)
        while folder not in projects and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        return projects.get(folder)

    def _debounce(self, path: str) -> float:
        return self._settings(self._project_of(path)).watch.debounce_ms / 1000

    def _rules(self, root: str) -> Rules:
        return Rules(root, self._settings(self._projects.get(root)).indexing.exclude)

    def _settings(self, project: Project | None) -> Settings:
        try:
            return self._engine.settings(project.root if project is not None else None)
        except MemsearchError:
            # Told where it matters. Raised from here it would end the system's telling.
            return Settings()

    def _changed(self, paths: Sequence[str]) -> None:
        by_folder: dict[str, tuple[Project, list[str]]] = {}
        for path in paths:
            project = self._project_of(path)
            if project is not None:
                by_folder.setdefault(project.memory_dir, (project, []))[1].append(path)
        for project, found in by_folder.values():
            with self._engine.in_use():
                sent = send_changed(self._engine, project, found, "watch")
            if sent:
                self._engine.note("watched_changes", level="debug", documents=sent)


def notices_of(engine: Engine) -> list[str]:
    """Why the worker looks at folders now and then instead of being told; empty when it is told."""
    found: list[str] = engine.part("watch notices", list)
    return found
