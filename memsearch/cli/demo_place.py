"""The demo's own world: a home, a user's folder and a project that vanish afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import site
import sys
import tempfile
import time
from collections.abc import Mapping

from memsearch.cli.home import stop_worker, wait_until
from memsearch.config import worker_lock
from memsearch.config.errors import MemsearchError
from memsearch.config.paths import Home

#: Seconds that a worker which has just been started has to say who it is.
PID_SECONDS = 5.0
#: What of the user's environment would lead out of the demo: settings, agents, their folders.
_OUTSIDE = ("MEMSEARCH_", "CLAUDE", "CODEX_", "OPENCODE_", "OPENCLAW_", "XDG_DATA_HOME")


class Place:
    """A temporary home, user folder and git project.

    Args:
        folder: The new folder that holds all of it.
        environ: The environment of the caller.

    Attributes:
        home: memsearch's own files.
        project: The project that the recorded session worked in.
        environ: The environment for every command of the demo.
    """

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.home = Home(os.path.join(folder, "home"))
        # As the agent and the project resolver would name it: without symbolic links.
        self.user = os.path.join(os.path.realpath(folder), "user")
        self.project = os.path.join(self.user, "mailer")
        # What a library leaves in the folder of temporary files goes with the rest.
        self.temporary = os.path.join(folder, "tmp")
        self.environ = demo_environ(environ, self.home.root, self.user, self.temporary)

    @classmethod
    def make(cls, environ: Mapping[str, str]) -> Place:
        """A new place in the system's temporary folder."""
        place = cls(tempfile.mkdtemp(prefix="memsearch-demo-"), environ)
        try:
            # What git looks for, so that the project is one whether or not git is installed.
            for name in ("objects", "refs"):
                os.makedirs(os.path.join(place.project, ".git", name))
            os.mkdir(place.temporary)
            with open(os.path.join(place.project, ".git", "HEAD"), "w", encoding="utf-8") as file:
                file.write("ref: refs/heads/main\n")
        except BaseException:
            place.remove()
            raise
        return place

    def transcript(self, session: str) -> str:
        """Where Claude Code would keep a session of the project."""
        slug = re.sub(r"[^A-Za-z0-9]", "-", self.project)
        folder = os.path.join(self.user, ".claude", "projects", slug)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, f"{session}.jsonl")

    def stop(self) -> None:
        """End the worker that the demo's hook has started.

        Raises:
            MemsearchError: It does not end.
        """
        # One that was started a moment ago holds the lock before it has written its pid.
        wait_until(self._worker_is_known, PID_SECONDS)
        stop_worker(self.home)
        with contextlib.suppress(OSError):
            os.unlink(self.home.socket)  # of a worker that had to be killed

    def _worker_is_known(self) -> bool:
        return not worker_lock.is_held(self.home) or worker_lock.holder_pid(self.home) is not None

    def remove(self) -> None:
        """Delete everything.

        Raises:
            OSError: Something stays.
        """
        for attempt in range(5):
            try:
                shutil.rmtree(self.folder)
                return
            except FileNotFoundError:
                if not os.path.exists(self.folder):
                    return
            except OSError:
                if attempt == 4:
                    raise
            time.sleep(0.2)

    def clean_up(self, *, keep: bool) -> list[str]:
        """End the worker and delete everything, whatever happened before.

        Args:
            keep: Leave the files.

        Returns:
            What could not be done, in words.
        """
        failures = []
        try:
            self.stop()
        except MemsearchError as error:
            failures.append(error.message)
        if not keep:
            try:
                self.remove()
            except OSError as error:
                failures.append(f"{self.folder} could not be deleted: {error}")
        return failures


def demo_environ(
    environ: Mapping[str, str], home: str, user: str, temporary: str
) -> dict[str, str]:
    """The environment of the demo's commands.

    Args:
        environ: The caller's.
        home: ``MEMSEARCH_HOME``.
        user: ``HOME``.
        temporary: ``TMPDIR``.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith(_OUTSIDE)}
    # A package that was installed with pip --user is found by way of the real HOME.
    if site.ENABLE_USER_SITE:
        kept["PYTHONUSERBASE"] = site.getuserbase()
    return kept | {
        "HOME": user,
        "MEMSEARCH_HOME": home,
        "TMPDIR": temporary,
        # No model is asked: the demo runs offline and spends nothing.
        "MEMSEARCH_SUMMARIZE__PROVIDER": "extractive",
        # What fails, fails while somebody looks.
        "MEMSEARCH_RETRY__ATTEMPTS": "3",
        "MEMSEARCH_RETRY__BASE_SECONDS": "1",
        # Should the demo be killed so that it cannot clean up, its worker does not stay.
        "MEMSEARCH_WORKERS__IDLE_EXIT_MINUTES": "2",
    }


def command(*words: str) -> list[str]:
    """A memsearch command of this very installation, as an argument list."""
    return [sys.executable, "-P", "-m", "memsearch._entry", *words]
