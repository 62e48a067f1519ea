"""The layers that settings come from: files, environment, flags.

Each layer is read into flat, checked values and the problems met on the way; nothing here
raises for what a user wrote. Whether a problem stops a command is ``settings.load``'s choice.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memsearch.config import keys
from memsearch.config.foreign import foreign_key
from memsearch.config.keys import Key, Path, Section
from memsearch.config.paths import tilde

#: How environment variables begin that are settings. ``MEMSEARCH_HOME`` and its like have no
#: double underscore and are none.
ENVIRONMENT_PREFIX = "MEMSEARCH_"

#: Between section and key in a variable's name.
ENVIRONMENT_SEPARATOR = "__"

#: Bytes of a configuration file that is still believed to be one: a project's file comes from
#: whoever wrote the repository.
MAX_FILE = 1 << 20

#: Keys that one message lists before it only counts the rest.
MAX_LISTED = 6

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the configuration that the user should know.

    Attributes:
        severity: ``error`` stops a command that a person runs (hooks and workers go on with
            the default); ``warning`` and ``note`` are only shown. A ``note`` needs no action.
        origin: The file (with ``~``) or the variable.
        key: The dotted name, or empty when the whole file is meant.
        message: What is wrong.
        hint: What to do; may be empty.
    """

    severity: Severity
    origin: str
    key: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        what = f"{self.origin}: {self.key}: " if self.key else f"{self.origin}: "
        return what + self.message + (f" ({self.hint})" if self.hint else "")


@dataclass(slots=True)
class Layer:
    """Values of one origin, each checked."""

    origin: str
    values: dict[Path, object] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: Origins of single values, where they differ (one variable each).
    origins: dict[Path, str] = field(default_factory=dict)

    def add(self, severity: Severity, path: Path, message: str, hint: str = "") -> None:
        """Note a problem of this origin."""
        self.problems.append(Problem(severity, self.origin, keys.dotted(path), message, hint))

    def unknown(self, path: Path) -> None:
        """Note a name that is no setting."""
        near = keys.nearest(path)
        hint = f"did you mean {near}?" if near else "memsearch config list --resolved shows all"
        self.add("error", path, "there is no such setting", hint)

    def take(self, key: Key, path: Path, value: object) -> None:
        """Check a value and take it, or what can be taken of it."""
        why = key.check(value)
        if why:
            near = key.suggestion(value)
            self.add("error", path, why, f"did you mean {near}?" if near else "")
            value = key.usable_part(value)
            if value is None or value == key.default:
                return
        self.values[path] = key.settle(value)


def read_table(path: str) -> tuple[dict[str, Any], Problem | None]:
    """The content of a TOML file; empty when there is none or it cannot be read.

    Args:
        path: The file. Only a regular file of bounded size is read.

    Returns:
        Its tables, and what kept it from being read.
    """
    origin = tilde(path)
    try:
        data = _read_regular(path)
        return tomllib.loads(data.decode("utf-8-sig")), None
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except OSError as error:
        why, hint = f"it cannot be read: {error.strerror or error}", ""
    except UnicodeDecodeError as error:
        why, hint = f"it is not UTF-8 (byte {error.start})", "save it as UTF-8"
    except RecursionError:
        why, hint = "it is nested too deeply", ""
    except ValueError as error:  # TOMLDecodeError, and Python's bound on the digits of a number
        why, hint = f"it is not valid TOML: {error}", "correct it, or move it out of the way"
    return {}, Problem("error", origin, "", why, hint)


def _read_regular(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(0, "it is not a regular file")
        if state.st_size > MAX_FILE:
            raise OSError(0, f"it is larger than {MAX_FILE} bytes")
        return file.read(MAX_FILE)


def from_file(path: str, *, project: bool = False) -> Layer:
    """The layer of a file.

    Args:
        path: The file.
        project: Whether it is a project's own, which may set few keys.
    """
    layer = Layer(tilde(path))
    table, problem = read_table(path)
    if problem:
        layer.problems.append(problem)
    foreign: dict[Path, list[Path]] = {}
    refused: list[Path] = []
    for names, value, found in _leaves(table, keys.root(), ()):
        strange = foreign_key(names) if found is None else None
        if strange:
            foreign.setdefault(strange[0], []).extend(_below(names, value))
        elif found is None:
            layer.unknown(names)
        elif isinstance(found, Section):
            layer.add("error", names, f"this is a section; expected a table, found {_kind(value)}")
        elif project and not found.project:
            refused.append(names)
        else:
            layer.take(found, names, value)
    for prefix, paths in foreign.items():
        advice = (foreign_key(prefix) or ((), ""))[1]
        what = "a key" if len(paths) == 1 else f"{len(paths)} keys"
        listed = "" if paths == [prefix] else f": {_listed(paths)}"
        message = f"{what} of the memsearch of PyPI without effect here{listed}"
        layer.add("note", prefix, message, advice)
    if refused:
        layer.problems.append(
            Problem(
                "warning",
                layer.origin,
                _listed(refused),
                "a project's file may not set this, it is ignored",
                "set it in your own config.toml",
            )
        )
    return layer


def _leaves(
    table: Mapping[str, object], section: Section, path: Path
) -> Iterator[tuple[Path, object, Key | Section | None]]:
    """Values with the keys they are for; ``None`` for unknown names, a section where a table
    was expected and something else found."""
    for name, value in table.items():
        below = (*path, name)
        child = section.child(name)
        if isinstance(child, Section) and isinstance(value, dict):
            yield from _leaves(value, child, below)
        else:
            yield below, value, child


def _below(path: Path, value: object) -> list[Path]:
    """The paths of all values below one."""
    if not isinstance(value, dict) or not value:
        return [path]
    return [leaf for name, child in value.items() for leaf in _below((*path, name), child)]


def _listed(paths: list[Path]) -> str:
    names = [keys.dotted(path) for path in paths[:MAX_LISTED]]
    more = len(paths) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _kind(value: object) -> str:
    kinds: dict[type, str] = {str: "a text", list: "a list", bool: "true or false"}
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "a date")


def from_environment(environ: Mapping[str, str]) -> Layer:
    """The layer of the environment: ``MEMSEARCH_SECTION__KEY``.

    A key's ``-`` is written ``_`` (``MEMSEARCH_SUMMARIZE__PLATFORMS__CLAUDE_CODE__MODEL``).
    """
    layer = Layer("the environment")
    known = {_variable(key.path): key for key in keys.walk() if keys.ANY not in key.path}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or ENVIRONMENT_SEPARATOR not in variable:
            continue
        single = Layer(variable)
        key = known.get(variable)
        if key is None:
            rest = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            names = tuple(part for part in rest.split(ENVIRONMENT_SEPARATOR) if part)
            if names:
                single.unknown(names)
        else:
            single.take(key, key.path, key.parse(text))
        layer.problems += single.problems
        layer.values |= single.values
        layer.origins |= dict.fromkeys(single.values, variable)
    return layer


def _variable(path: Path) -> str:
    parts = (name.upper().replace("-", "_") for name in path)
    return ENVIRONMENT_PREFIX + ENVIRONMENT_SEPARATOR.join(parts)


def from_flags(overrides: Mapping[str, object]) -> Layer:
    """The layer of a command's flags.

    Args:
        overrides: Values by dotted name; texts are read as the key's type. ``None`` is a flag
            that was not given.
    """
    layer = Layer("the command line")
    for name, value in overrides.items():
        if value is None:
            continue
        path = keys.parse_name(name) or (name,)
        key = keys.find(path)
        if not isinstance(key, Key):
            layer.unknown(path)
            continue
        if isinstance(value, tuple):
            value = list(value)
        layer.take(key, path, key.parse(value) if isinstance(value, str) else value)
    return layer
