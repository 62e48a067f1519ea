"""Where an installation happens: the user's folders, and the script that finds memsearch."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files as resources

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, user_home
from memsearch.hooks.install.files import Edit, whole_file

#: The folder of what is installed, and the script and the note in it.
AGENTS_FOLDER = "agents"
LAUNCHER = "memsearch.sh"
COMMAND_FILE = "command"
#: What a console script of this package holds, as opposed to its namesake's.
OURS = b"memsearch._entry"


@dataclass(frozen=True, slots=True)
class Place:
    """One user's machine.

    Attributes:
        home: The home of memsearch.
        environ: The environment: where the agents keep their files, and the PATH.
    """

    home: Home
    environ: Mapping[str, str]

    @property
    def user(self) -> str:
        """The user's home folder."""
        return user_home(self.environ)

    @property
    def launcher(self) -> str:
        """The script that the agents run; it finds memsearch wherever it is by then."""
        return os.path.join(self.home.root, AGENTS_FOLDER, LAUNCHER)

    @property
    def command_file(self) -> str:
        """The note of where memsearch is now."""
        return os.path.join(self.home.root, AGENTS_FOLDER, COMMAND_FILE)

    def shell_launcher(self) -> str:
        """The script's path as a word of a shell command."""
        return shlex.quote(self.launcher)

    def which(self, program: str) -> str:
        """A program on the PATH, or empty."""
        return shutil.which(program, path=self.environ.get("PATH")) or ""


def asset(*parts: str) -> bytes:
    """A file that is shipped with the package."""
    return resources("memsearch.hooks").joinpath("assets", *parts).read_bytes()


def filled(data: bytes, **values: str) -> bytes:
    """An asset with its marks (``@NAME@``) filled in."""
    text = data.decode("utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text.encode("utf-8")


def skill(place: Place) -> bytes:
    """The skill for an installation without a plugin: the script's path is written out."""
    text = asset("claude-code", "skills", "memory-recall", "SKILL.md").decode("utf-8")
    mark = '"${CLAUDE_PLUGIN_ROOT}/hooks/assets/memsearch.sh"'
    path = place.launcher
    quoted = f'"{path}"' if not set(path) & set('$`"\\!\n') else shlex.quote(path)
    return text.replace(mark, quoted).encode("utf-8")


def shared_edits(place: Place, command: str) -> list[Edit]:
    """What every agent needs under MEMSEARCH_HOME: the script and the note."""
    return [
        whole_file(place.launcher, asset(LAUNCHER), 0o755),
        whole_file(place.command_file, f"{command}\n".encode(), 0o644),
    ]


def own_command(place: Place) -> tuple[str, bytes | None]:
    """The command that agents shall run, and a script to be made at that path if there is none.

    Raises:
        MemsearchError: ``CONFIG`` when its path cannot be written in one line.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "memsearch")
    for found in (beside, place.which("memsearch")):
        if found and is_ours(found):
            path = os.path.abspath(found)
            if "\n" in path:
                raise MemsearchError(f"{path!r} holds a line end", kind=ErrorClass.CONFIG)
            return path, None
    # Run from a checkout: a script that does what this process was started with.
    packages = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if not os.path.exists(os.path.join(packages, "memsearch", "hooks")):
        packages = os.path.dirname(packages)
    words = (sys.executable, "-P", "-m", "memsearch._entry")
    script = (
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(packages)}\nexport PYTHONPATH\n"
        f'exec {" ".join(map(shlex.quote, words))} "$@"\n'
    )
    return os.path.join(place.home.root, AGENTS_FOLDER, "memsearch"), script.encode("utf-8")


def is_ours(path: str) -> bool:
    """Whether a program is this package's command and not its namesake's."""
    try:
        with open(path, "rb") as file:
            return os.access(path, os.X_OK) and OURS in file.read(8192)
    except OSError:
        return False
