"""``memsearch doctor``: what is set up, what is not, and what to do about it. Reads only.

``status`` judges the work; this looks at what the work stands on.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memsearch import __version__
from memsearch.config import worker_lock
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, close_to_others, open_to_others, tilde, unusable

if TYPE_CHECKING:
    from memsearch.config.settings import Settings
    from memsearch.hooks.install.base import Agent
    from memsearch.hooks.install.place import Place

#: Free space below which appends and the index may fail soon, in bytes.
LOW_DISK_BYTES = 500 * 1024 * 1024
#: Folders of the home that hold programs.
PROGRAMS = ("agents", "venv")
#: Paths that one finding names.
MAX_SHOWN = 3
#: Projects that are looked at, those that were seen last.
MAX_PROJECTS = 50
#: Seconds that a store has to open: another process may have it.
STORE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        state: ``ok``, ``fault``, or ``note`` for what is worth knowing.
        text: How it is.
        next_step: What to do about a fault; empty otherwise.
    """

    name: str
    state: str
    text: str
    next_step: str = ""

    def as_dict(self) -> dict[str, str]:
        """As JSON."""
        return {
            "name": self.name,
            "state": self.state,
            "text": self.text,
            "next_step": self.next_step,
        }


def examine(place: Place) -> dict[str, Any]:
    """Look at everything.

    Args:
        place: The user's machine.

    Returns:
        ``ok``, ``version``, ``checks`` (each a finding) and ``agents`` by name, each with
        ``found``, ``version``, ``installed``, ``trusted``, ``last_hook``, ``last_capture``,
        ``faults`` and ``next_step``.
    """
    from memsearch.config.settings import load
    from memsearch.hooks.install.base import agent, names

    home, environ = place.home, place.environ
    loaded = load(home, None, environ=environ, strict=False)
    checks = [
        _home(home),
        _disk(home),
        _log(home),
        *(
            Finding("configuration", "fault", str(problem), problem.hint or "mend it")
            for problem in loaded.problems
            if problem.severity != "note"
        ),
        _attempt("index", lambda: _index(loaded.settings, home, environ)),
        _attempt("model", lambda: _model(loaded.settings, home, environ)),
        _worker(home),
        _command(place),
        *_set_up(home),
        *_foreign(home, environ),
    ]
    with ThreadPoolExecutor() as pool:
        agents = dict(
            zip(names(), pool.map(lambda name: _agent(agent(name), place), names()), strict=True)
        )
    faults = any(check.state == "fault" for check in checks) or any(
        found["faults"] for found in agents.values()
    )
    return {
        "ok": not faults,
        "version": __version__,
        "python": sys.version.split()[0],
        "home": home.root,
        "checks": [check.as_dict() for check in checks],
        "agents": agents,
    }


def _attempt(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except MemsearchError as error:
        return Finding(name, "fault", error.message, error.hint or "memsearch status says more")


def _home(home: Home) -> Finding:
    """The home: there, ours, and closed to others."""
    where = tilde(home.root)
    try:
        os.stat(home.root)
    except FileNotFoundError:
        if why := unusable(home.root):
            step = "mend its permissions, or set MEMSEARCH_HOME to another folder"
            return Finding("home", "fault", f"{where} cannot be made: {why}", step)
        return Finding("home", "note", f"{where} is not there yet: nothing was captured")
    except OSError as error:
        return Finding("home", "fault", f"{where}: {error.strerror}", f"look at {where}")
    if not os.access(home.root, os.W_OK | os.X_OK):
        return Finding("home", "fault", f"{where} cannot be written", f"chmod u+rwx {where}")
    exposed = _exposed(home)
    if exposed:
        shown = ", ".join(tilde(path) for path in exposed[:MAX_SHOWN])
        more = f" and {len(exposed) - MAX_SHOWN} more" if len(exposed) > MAX_SHOWN else ""
        verb = "is" if len(exposed) == 1 else "are"
        return Finding(
            "home", "fault", f"{shown}{more} {verb} open to others", "memsearch doctor --fix"
        )
    return Finding("home", "ok", where)


def _set_up(home: Home) -> list[Finding]:
    """The last set-up of a plugin, where it failed; an environment from before is still used."""
    try:
        with open(os.path.join(home.run, "setup.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return []
    why = str(found.get("error") if isinstance(found, dict) else found)
    log = tilde(os.path.join(home.logs, "setup.log"))
    return [
        Finding(
            "set-up",
            "fault",
            f"the plugin could not be set up or renewed: {why}",
            f"see {log}; the next session tries again",
        )
    ]


def _exposed(home: Home) -> list[str]:
    """What of the home others can get at: all that is in one which they may enter."""
    return [
        path
        for path in open_to_others(home.root)
        # Programs, and no secret in them.
        if not path.startswith(tuple(os.path.join(home.root, name) for name in PROGRAMS))
    ]


def close_home(home: Home) -> list[str]:
    """Close to others what of the home is open to them and this user's own.

    Returns:
        What was closed.

    Raises:
        MemsearchError: ``PERMISSION`` where the file system refuses it.
    """
    try:
        return [path for path in _exposed(home) if close_to_others(path)]
    except OSError as error:
        raise MemsearchError(
            f"{error.filename} cannot be closed to others: {error.strerror}",
            kind=ErrorClass.PERMISSION,
        ) from error


def _disk(home: Home) -> Finding:
    folder = home.root
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.1f} GB free"
    if free < LOW_DISK_BYTES:
        return Finding("disk", "fault", text, f"make room on the disk of {tilde(folder)}")
    return Finding("disk", "ok", text)


def _log(home: Home) -> Finding:
    from memsearch.hooks import glance

    if not os.path.exists(home.state_db):
        return Finding("log", "note", "nothing was captured yet")
    db = glance.open_log(home)
    if db is None:
        return Finding(
            "log",
            "fault",
            f"{tilde(home.state_db)} cannot be read, or was written by another version",
            "update memsearch; if it is damaged, move it away: the Markdown is kept",
        )
    try:
        turns = db.execute("SELECT COUNT(*) FROM turns WHERE state = 'done'").fetchone()[0]
    finally:
        db.close()
    spooled = len(os.listdir(home.spool)) if os.path.isdir(home.spool) else 0
    return Finding("log", "ok", f"{turns} turns remembered, {spooled} in the spool")


def _index(settings: Settings, home: Home, environ: Mapping[str, str]) -> Finding:
    from memsearch.recall import client
    from memsearch.sinks import lite_files
    from memsearch.sinks.store import has_index, index_uri, open_store

    uri = tilde(index_uri(settings.milvus, home, environ))
    if client.answers(home.socket):
        return Finding("index", "ok", f"{uri}, open in the worker")
    if not has_index(settings.milvus, home, environ):
        return Finding("index", "note", f"{uri} is not there yet: nothing was indexed")
    damage = lite_files.fault(index_uri(settings.milvus, home, environ))
    if damage:
        return Finding("index", "fault", damage, "memsearch index makes the index anew")
    store = open_store(settings.milvus, home, environ, wait=STORE_SECONDS)
    try:
        store.exists("memsearch_")  # nothing is opened before a first question
    finally:
        store.close()
    return Finding("index", "ok", f"{uri} opens")


def _model(settings: Settings, home: Home, environ: Mapping[str, str]) -> Finding:
    """The model: whether what it needs is there; it is not loaded, and no network is asked."""
    from memsearch.sinks.embedders import check_present, create, identity

    name = identity(settings.embedding)
    if settings.embedding.provider == "onnx":
        from memsearch.sinks.embedders.e5_weights import find
        from memsearch.sinks.embedders.pins import BGE_M3_FILES
        from memsearch.sinks.embedders.presets import BGE_M3_IDENTITY

        check_present(settings.embedding, home)
        fetched = name == BGE_M3_IDENTITY
        place = BGE_M3_FILES.folder(home.models) if fetched else find()
        return Finding("model", "ok", f"{name} ({tilde(place)})")
    create(settings.embedding, home, environ).close()
    return Finding("model", "ok", name)


def _worker(home: Home) -> Finding:
    pid = worker_lock.holder_pid(home) if os.path.isdir(home.run) else None
    if fault := worker_lock.fault(home):
        what, _, then = fault.rpartition("; ")
        return Finding("worker", "fault", what, then)
    if pid is None:
        return Finding("worker", "note", "none runs; the next hook or search starts one")
    return Finding("worker", "ok", f"pid {pid}")


def _command(place: Place) -> Finding:
    """What ``memsearch`` is for a shell: this one, or its namesake."""
    from memsearch.hooks.install.place import is_ours

    found = place.which("memsearch")
    if not found:
        return Finding("command", "note", "memsearch is not on the PATH; agents find it anyway")
    if not is_ours(found):
        return Finding(
            "command",
            "fault",
            f"{tilde(found)} on the PATH is another memsearch, that of PyPI",
            "uninstall it, or put this one before it on the PATH",
        )
    return Finding("command", "ok", tilde(found))


def _foreign(home: Home, environ: Mapping[str, str]) -> list[Finding]:
    """The projects whose journals hold notes that this machine did not capture."""
    from memsearch.config.project import resolve, working_folder
    from memsearch.hooks import glance, trust

    settings, _ = glance.configuration(home)
    isolated = glance.isolates_worktrees(settings, environ)
    here = resolve(working_folder(environ), environ, isolate_worktrees=isolated)
    places = {here.memory_dir: here.root}
    db = glance.open_log(home)
    try:
        if db is not None:
            known = db.execute(
                "SELECT memory_dir, root FROM projects ORDER BY seen DESC LIMIT ?", (MAX_PROJECTS,)
            )
            places |= dict(known.fetchall())
        return [
            Finding(
                "foreign notes",
                "note",
                f"{held} of the last entries in {tilde(folder)} were not captured on this machine:"
                " they are searched and marked foreign, and not put before a new session",
                f"read them, then memsearch trust {_as_argument(root)}",
            )
            for folder, root in places.items()
            if (held := trust.held_back(home, folder, db))
        ]
    finally:
        if db is not None:
            db.close()


def _as_argument(root: str) -> str:
    """A folder as a command line takes it: quotes would keep a shell from reading a tilde."""
    quoted = shlex.quote(root)
    return tilde(root) if quoted == root else quoted


def _agent(agent: Agent, place: Place) -> dict[str, Any]:
    """One agent."""
    from memsearch.hooks.install.versions import printed

    program = place.which(agent.PROGRAM)
    present = bool(program) or os.path.isdir(agent.root(place))
    try:
        found = agent.look(place)
        installed, trusted, after = found.installed, found.trusted, found.next or agent.NEXT
        faults = [{"text": fault.what, "next_step": fault.next_step} for fault in found.faults]
    except MemsearchError as error:
        installed, trusted, after = False, None, agent.NEXT
        faults = [{"text": error.message, "next_step": error.hint or "mend it"}]
    if installed and not os.access(place.launcher, os.X_OK) and _uses_launcher(agent, place):
        faults.append(
            {
                "text": f"{tilde(place.launcher)}, which its hooks run, is gone",
                "next_step": f"memsearch install {agent.NAME}",
            }
        )
    hook, capture = _last(place.home, agent.NAME)
    next_step = faults[0]["next_step"] if faults else ""
    if not next_step and present and not installed:
        next_step = f"memsearch install {agent.NAME}"
    elif not next_step and installed and not hook:
        next_step = after
    return {
        "found": present,
        "program": program,
        "version": printed(program, place.environ) if program else "",
        "installed": installed,
        "trusted": trusted,
        "last_hook": hook,
        "last_capture": capture,
        "faults": faults,
        "next_step": next_step,
    }


def _uses_launcher(agent: Agent, place: Place) -> bool:
    """Whether it was installed by command; a plugin has a script of its own."""
    from memsearch.hooks.install.files import record_path

    return os.path.exists(record_path(place.home, agent.NAME))


def _last(home: Home, platform: str) -> tuple[str, str]:
    """When an agent's last hook ran and its last turn was captured; empty for never."""
    from memsearch.hooks import glance

    db = glance.open_log(home)
    if db is None:
        return "", ""
    try:
        hook = db.execute("SELECT MAX(at) FROM hooks WHERE platform = ?", (platform,)).fetchone()
        turn = db.execute("SELECT MAX(at) FROM turns WHERE platform = ?", (platform,)).fetchone()
    finally:
        db.close()
    return hook[0] or "", turn[0] or ""
