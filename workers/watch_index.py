"""Watched folders of any place, indexed as they change: by living workers, or by this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import path_of, source_of
from memsearch.workers.asking import Note, ask
from memsearch.workers.walking import rules_for
from memsearch.workers.watching import Watcher

if TYPE_CHECKING:
    from memsearch.config.paths import Home
    from memsearch.config.project import Project
    from memsearch.config.settings import Settings

#: What ``pipeline`` says of a failure that it tries again by itself.
_AGAIN = "(it is tried again)"

#: Told of each change: ``indexed``, ``removed`` or ``failed``, the path, what went wrong.
Tell = Callable[[str, str, str], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where watched documents belong.

    Attributes:
        home: Whose index.
        environ: The process's environment.
        project: The project.
        settings: Its settings.
        request: ``cwd`` and ``environ`` as in recall's requests.
        log: As ``asking.ask`` takes it.
    """

    home: Home
    environ: Mapping[str, str]
    project: Project
    settings: Settings
    request: Mapping[str, Any]
    log: Callable[[Home], Note] | None = None


def watch(
    place: Place,
    paths: Sequence[str],
    tell: Tell,
    *,
    debounce: float,
    notice: Callable[[str], None] | None = None,
) -> Watcher:
    """Index what changes in some folders and files from now on, until it is stopped.

    Args:
        place: Where the documents belong.
        paths: What is watched.
        tell: Told of each change, from a thread.
        debounce: Seconds of quiet after an edit.
        notice: Told when the system's watches cannot be had.

    Raises:
        MemsearchError: ``BAD_REQUEST`` when a path does not exist.
    """

    def changed(found: Sequence[str]) -> None:
        try:
            failures = index_changed(place, found)
        except MemsearchError as error:
            for path in found:
                tell("failed", path, str(error))
            raise
        for path in found:
            if path in failures:
                tell("failed", path, failures[path])
            else:
                tell("indexed" if os.path.exists(path) else "removed", path, "")
        again = [text for text in failures.values() if text.endswith(_AGAIN)]
        if again:
            raise MemsearchError(again[0], kind=ErrorClass.BUSY)

    return Watcher(
        paths,
        changed,
        debounce=debounce,
        notice=notice,
        rules=lambda root: rules_for(place.project, root, place.settings.indexing),
    )


def waiting_of(place: Place, done: Mapping[str, Any]) -> list[str]:
    """The documents that an index could not take in yet, and that are to be tried again."""
    return [
        path_of(place.project, failure.split(": ", 1)[0])
        for failure in done["failed"]
        if failure.endswith(_AGAIN)
    ]


def index_changed(place: Place, paths: Sequence[str]) -> dict[str, str]:
    """Bring the index up to date with some documents; one that is gone leaves it.

    Returns:
        What went wrong, by path.

    Raises:
        MemsearchError: Nothing could be done at all.
    """
    request = {**place.request, "paths": list(paths), "gone": True}
    done = ask(place.home, place.environ, "index", request, wait=True, log=place.log)
    waiting = done.get("waiting")
    failures: dict[str, str] = {}
    for path in paths:
        source = source_of(place.project, path)
        for failure in done["failed"]:
            if failure.startswith((f"{source}: ", f"{path}: ")):
                failures[path] = failure.split(": ", 1)[1]
        if waiting and path not in failures and os.path.exists(path):
            failures[path] = "embedding it may cost money: memsearch index --force starts it"
    return failures
