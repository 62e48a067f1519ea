"""The Python API: the memory of a project, searched and kept up to date from a program.

It goes the ways that the command line goes: recall to the workers, or to the index itself
where none run; changes of the index to the worker, or to this process in its place.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, write_atomic
from memsearch.config.project import Project, working_folder
from memsearch.recall import requests
from memsearch.recall.backend import answer

if TYPE_CHECKING:
    from memsearch.config.settings import Settings
    from memsearch.workers.watching import Watcher

#: Told of each change: ``indexed``, ``removed`` or ``failed``, the path, what went wrong.
OnEvent = Callable[[str, Path, str], None]

#: Folder, in a home, of the homes of instances whose settings differ from the user's.
INSTANCES = "instances"


class MemSearch:
    """The memory of one project. Thread-safe; also a context manager, sync and async.

    Without settings of its own an instance works on what the command line works on. With any
    of ``embedding_*``, ``milvus_*`` or ``collection`` it keeps a log, a cache and, unless
    ``milvus_uri`` says otherwise, an index of its own under ``MEMSEARCH_HOME``, so that it
    never disturbs the workers, whose settings are the user's. Equal settings share one.

    Args:
        paths: Markdown files and folders that ``index`` and ``watch`` are about; empty for the
            project's memory folder.
        project: A folder of the project; the current folder by default.
        embedding_provider, embedding_model, embedding_base_url, embedding_api_key: As in the
            section ``embedding`` of the settings.
        milvus_uri: A file of Milvus Lite, relative to the current folder, or a server.
        milvus_token: The server's.
        collection: Instead of the one that is named by the project's path.
        home: Instead of ``MEMSEARCH_HOME``.

    Raises:
        MemsearchError: ``CONFIG`` when a setting cannot be taken.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]] = (),
        *,
        project: str | os.PathLike[str] | None = None,
        embedding_provider: str = "",
        embedding_model: str = "",
        embedding_base_url: str = "",
        embedding_api_key: str = "",
        milvus_uri: str = "",
        milvus_token: str = "",
        collection: str = "",
        home: str | os.PathLike[str] | None = None,
    ) -> None:
        environ = dict(os.environ)
        if home is not None:
            environ["MEMSEARCH_HOME"] = os.path.abspath(os.fspath(home))
        if project is not None:
            # What is named wins over where the environment puts the memory.
            environ.pop("MEMSEARCH_DIR", None)
        self._cwd = working_folder(environ) if project is None else _folder(project)
        self._paths = tuple(os.path.abspath(os.fspath(path)) for path in paths)
        chosen = {
            "embedding.provider": embedding_provider,
            "embedding.model": embedding_model,
            "embedding.base_url": embedding_base_url,
            "embedding.api_key": embedding_api_key,
            "milvus.uri": _absolute(milvus_uri),
            "milvus.token": milvus_token,
        }
        chosen = {name: value for name, value in chosen.items() if value}
        self._home = Home.from_env(environ)
        if collection:
            root = self._resolve(environ).root
            chosen[f"projects.{json.dumps(root, ensure_ascii=False)}.collection"] = collection
        self._own = bool(chosen)
        if chosen:
            self._home = _instance(self._home, chosen)
            environ["MEMSEARCH_HOME"] = self._home.root
            for name in chosen:  # what is given here wins over the environment
                environ.pop("MEMSEARCH_" + name.upper().replace(".", "__"), None)
        self._environ = environ
        self._watchers: list[Watcher] = []
        self._settings()  # a wrong setting is told here and not at the first search

    @property
    def project(self) -> str:
        """The project's folder."""
        return self._resolve(self._environ).root

    @property
    def collection(self) -> str:
        """The project's collection."""
        return self._resolve(self._environ).collection

    # -- recall ----------------------------------------------------------------------------

    async def search(
        self, query: str, *, top_k: int | None = None, **how: Any
    ) -> list[dict[str, Any]]:
        """Find what was remembered.

        Args:
            query: The question.
            top_k: How many results; ``search.top_k`` by default.
            how: ``since``, ``until``, ``day`` (as the command line takes them), ``platform``,
                ``session``, ``source_prefix``, ``kinds``, ``archive``, ``all_projects``.

        Returns:
            Best first, each with the keys that ``docs/search.md`` lists.

        Raises:
            MemsearchError: ``BAD_REQUEST`` or ``CONFIG`` for what the caller has to mend.
        """
        found: list[dict[str, Any]] = (await self.answer(query, top_k=top_k, **how))["results"]
        return found

    async def answer(self, query: str, *, top_k: int | None = None, **how: Any) -> dict[str, Any]:
        """The same with all that is known about it.

        Returns:
            ``results``; ``freshness``: what is not indexed yet; ``notes``: what to know of the
            results; ``degraded``: the index had a fault.
        """
        request = requests.search_request(
            query, cwd=self._cwd, environ=self._environ, top_k=top_k, **how
        )
        return await self._ask("search", request)

    async def expand(self, chunk_hash: str) -> dict[str, Any]:
        """The whole section of a result, from its file as it is now; see ``docs/search.md``."""
        request = requests.expand_request(chunk_hash, cwd=self._cwd, environ=self._environ)
        return await self._ask("expand", request)

    async def transcript(
        self, target: str, *, turn: str = "", session: str = "", context: int = 3
    ) -> dict[str, Any]:
        """The conversation behind a result, an anchor or a path; see ``docs/search.md``."""
        request = requests.transcript_request(
            target,
            cwd=self._cwd,
            environ=self._environ,
            turn=turn,
            session=session,
            context=context,
        )
        return await self._ask("transcript", request)

    # -- the index -------------------------------------------------------------------------

    async def index(self, *, force: bool = False) -> int:
        """Bring the index up to date with ``paths``.

        Files that vanished from a folder leave the index; what did not change costs nothing.

        Args:
            force: Also what did not change.

        Returns:
            How many chunks of the project are indexed now.

        Raises:
            MemsearchError: What could not be indexed; the rest is.
        """
        return await asyncio.to_thread(self._index, self._paths, force=force)

    async def index_file(self, path: str | os.PathLike[str]) -> int:
        """The same with one file; one that is gone leaves the index."""
        return await asyncio.to_thread(self._index, (os.path.abspath(os.fspath(path)),))

    async def compact(
        self, *, older_than_days: int | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Turn old journals into a digest for each month, and move them to the archive.

        Args:
            older_than_days: Age in days from which a journal is old, at least 1;
                ``compact.older_than_days`` by default.
            dry_run: Only say what would be done.

        Returns:
            ``moved`` (each with ``journal`` and ``archive``), ``digests``, ``entries``, ``left``
            (each with ``path`` and ``why``), ``until``; of a dry run ``months``, ``left`` and
            ``until``.

        Raises:
            MemsearchError: ``BUDGET``, or what else stopped it; the journals of the months that
                are not done are where they were, and the next call goes on from there.
        """
        return await asyncio.to_thread(self._compact, older_than_days, dry_run)

    def watch(self, *, on_event: OnEvent | None = None, debounce_ms: int | None = None) -> Watcher:
        """Index what changes in ``paths`` from now on, from a thread, until it is stopped.

        Args:
            on_event: Called with ``"indexed"``, ``"removed"`` or ``"failed"``, the path, and
                what went wrong. A failure that may pass is tried again.
            debounce_ms: Quiet time after an edit; ``watch.debounce_ms`` by default.

        Returns:
            With ``stop()``; a context manager. ``close`` stops it too.
        """
        from memsearch.workers import watch_index

        def tell(kind: str, path: str, error: str) -> None:
            if on_event is not None:
                on_event(kind, Path(path), error)

        project = self._resolve(self._environ)
        folders = self._paths or (project.memory_dir,)
        for folder in () if self._paths else folders:
            os.makedirs(folder, exist_ok=True)
        self._home.create()
        settings = self._settings(project.root)
        request = {"cwd": self._cwd, "environ": requests.forwarded(self._environ)}
        place = watch_index.Place(self._home, self._environ, project, settings, request)
        quiet = settings.watch.debounce_ms if debounce_ms is None else debounce_ms
        watcher = watch_index.watch(place, folders, tell, debounce=quiet / 1000)
        self._watchers.append(watcher)
        return watcher

    # -- ending ----------------------------------------------------------------------------

    def close(self) -> None:
        """Stop what ``watch`` started. Nothing else is kept open between calls."""
        while self._watchers:
            self._watchers.pop().stop()

    def __enter__(self) -> MemSearch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> MemSearch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    # -- inside ----------------------------------------------------------------------------

    async def _ask(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(self._answer, operation, request)

    def _answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        found = answer(operation, request, self._home, self._environ)
        if not self._own:
            from memsearch.cli.home import start_for_next_time

            start_for_next_time(self._home, self._environ)
        return found

    def _index(self, paths: Sequence[str], *, force: bool = False) -> int:
        from memsearch.workers.asking import ask

        self._home.create()
        request = {
            "cwd": self._cwd,
            "environ": requests.forwarded(self._environ),
            "paths": list(paths),
            "force": force,
        }
        done = ask(self._home, self._environ, "index", request, wait=True)
        if done["failed"]:
            raise MemsearchError(
                "Not indexed: " + "; ".join(done["failed"]), kind=ErrorClass.BAD_FILE
            )
        if done["waiting"]:
            waiting = done["waiting"]
            raise MemsearchError(
                f"embedding {waiting['texts']} texts, about {waiting['tokens']} tokens, at"
                f" {waiting['model']} may cost money and waits",
                kind=ErrorClass.BUDGET,
                hint="index(force=True) agrees to it",
            )
        return int(done["chunks"])

    def _compact(self, older_than_days: int | None, dry_run: bool) -> dict[str, Any]:
        from memsearch.recall.dates import local_today
        from memsearch.workers.asking import ask

        self._home.create()
        today = local_today()
        until = ""
        if older_than_days is not None:
            until = (today - timedelta(days=older_than_days)).isoformat()
        request = {
            "cwd": self._cwd,
            "environ": requests.forwarded(self._environ),
            "today": today.isoformat(),
            "until": until,
            "dry_run": dry_run,
        }
        return ask(self._home, self._environ, "compact", request, wait=not dry_run)

    def _settings(self, project_root: str | None = None) -> Settings:
        from memsearch.config.settings import load

        return load(self._home, project_root, environ=self._environ, strict=True).settings

    def _resolve(self, environ: Mapping[str, str]) -> Project:
        from memsearch.config.project import resolve
        from memsearch.config.settings import load

        settings = load(self._home, None, environ=environ, strict=True).settings
        return resolve(
            self._cwd,
            environ,
            isolate_worktrees=settings.project.isolate_worktrees,
            collections=settings.collections(),
        )


def _folder(path: str | os.PathLike[str]) -> str:
    folder = os.path.abspath(os.path.expanduser(os.fspath(path)))
    if not os.path.isdir(folder):
        raise MemsearchError(f"{folder} is no folder", kind=ErrorClass.CONFIG)
    return folder


def _absolute(uri: str) -> str:
    """A Milvus Lite file from here; an address as it stands."""
    return os.path.abspath(os.path.expanduser(uri)) if uri and "://" not in uri else uri


def instances(base: Home) -> list[Home]:
    """The homes of instances with settings of their own, under a user's."""
    folder = os.path.join(base.root, INSTANCES)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    homes = [Home(os.path.join(folder, name)) for name in names]
    return [home for home in homes if os.path.exists(home.state_db)]


def _instance(base: Home, chosen: Mapping[str, str]) -> Home:
    """The home of instances with these settings: the user's with these in their place."""
    from memsearch.config.editing import set_key

    told = json.dumps(chosen, sort_keys=True).encode()
    home = Home(os.path.join(base.root, INSTANCES, hashlib.sha256(told).hexdigest()[:16]))
    base.create()
    os.makedirs(os.path.dirname(home.root), mode=0o700, exist_ok=True)
    home.create()
    _borrow(base.env_file, home.env_file)
    _borrow_models(base.models, home.models)
    try:
        text = Path(base.config_toml).read_bytes()
    except FileNotFoundError:
        text = b""
    draft = f"{home.config_toml}.{os.getpid()}"
    write_atomic(draft, text)
    try:
        for name, value in chosen.items():
            set_key(home, draft, name, value, project=False)
        os.replace(draft, home.config_toml)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
    return home


def _borrow(there: str, here: str) -> None:
    """A link to the user's own file, where there is one."""
    if os.path.exists(there) and not os.path.lexists(here):
        os.symlink(there, here)


def _borrow_models(there: str, here: str) -> None:
    """The converted model is some 100 MB: one is enough."""
    if not os.path.islink(here) and os.path.isdir(here) and not os.listdir(here):
        os.rmdir(here)
    if not os.path.lexists(here):
        os.makedirs(there, mode=0o700, exist_ok=True)
        os.symlink(there, here)
