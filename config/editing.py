"""Changing one key in a TOML file that a person also edits: comments and order stay."""

from __future__ import annotations

import copy
import errno
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import filelock
import tomlkit
from tomlkit.exceptions import TOMLKitError

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.foreign import foreign_key
from memsearch.config.keys import Key, Path, dotted, find, nearest, parse_name, toml_value
from memsearch.config.layers import read_table
from memsearch.config.paths import FILE_MODE, Home, tilde, write_atomic

#: Seconds to wait for another command that changes a setting.
LOCK_SECONDS = 10.0

#: Mode of a new project file: it is meant to be committed and read by others.
PROJECT_FILE_MODE = 0o644


def known_key(name: str) -> tuple[Path, Key]:
    """The key of a dotted name.

    Raises:
        MemsearchError: ``CONFIG``, when there is none; it names the nearest.
    """
    path = parse_name(name)
    if path is None:
        raise _error(f"{name!r} is no name of a setting", "names look like search.top_k")
    key = find(path)
    if isinstance(key, Key):
        return path, key
    strange = foreign_key(path)
    if strange:
        raise _error(
            f"{dotted(path)} is a setting of the memsearch of PyPI and has no effect here",
            strange[1],
        )
    if key is not None:
        inside = ", ".join(f"{dotted(path)}.{child}" for child in list(key.children)[:4])
        raise _error(f"{dotted(path)} is a section", f"name a setting in it, such as {inside}")
    near = nearest(path)
    raise _error(
        f"There is no setting {dotted(path)}",
        f"did you mean {near}?" if near else "memsearch config list --resolved shows all",
    )


def set_key(home: Home, file: str, name: str, text: str, *, project: bool) -> tuple[Path, Key]:
    """Set a key in a file, which is made when it is not there.

    Args:
        home: The home, whose lock keeps two changes apart.
        file: The TOML file.
        name: The key's dotted name.
        text: Its value as text.
        project: Whether the file is a project's, which may set few keys.

    Returns:
        The key's path and the key.

    Raises:
        MemsearchError: ``CONFIG`` when the key, the value or the file cannot be taken;
            ``PERMISSION``, ``DISK_FULL`` or ``BAD_FILE`` when the file cannot be written.
            Nothing was changed.
    """
    path, key = known_key(name)
    if project and not key.project:
        raise _error(
            f"A project's file may not set {dotted(path)}",
            "a cloned repository is not the user; set it without --project",
        )
    if project and os.path.dirname(os.path.realpath(file)) != os.path.realpath(
        os.path.dirname(file)
    ):
        raise _error(
            f"{tilde(file)} is a link that leads out of the project, and is left as it is",
            "replace it by a file",
        )
    value = key.parse(text)
    why = key.check(value)
    if why:
        near = key.suggestion(value)
        raise _error(f"{dotted(path)}: {why}", f"did you mean {near}?" if near else "")

    def change(tables: MutableMapping[str, Any]) -> None:
        for part in path[:-1]:
            tables = tables.setdefault(part, {})
            if not isinstance(tables, MutableMapping):
                raise _error(f"In {tilde(file)}, {part} is a value; expected a section")
        tables[path[-1]] = value

    _edit(home, file, change, FILE_MODE if not project else None, shown=(path, value))
    return path, key


def unset_key(home: Home, file: str, name: str) -> tuple[Path, bool]:
    """Take a key, known or not, out of a file.

    Returns:
        Its path, and whether it was there.

    Raises:
        MemsearchError: ``CONFIG`` when there is no such key, neither in the file nor at all,
            or the file cannot be read; ``PERMISSION``, ``DISK_FULL`` or ``BAD_FILE`` when it
            cannot be written. Nothing was changed.
    """
    path = parse_name(name)
    table = _table(file)
    here: Any = table
    for part in path or ("",):
        here = here.get(part) if isinstance(here, dict) else None
    if path is None or here is None:
        return known_key(name)[0], False

    def change(tables: MutableMapping[str, Any]) -> None:
        for part in path[:-1]:
            tables = tables[part]
        del tables[path[-1]]

    _edit(home, file, change, None)
    return path, True


def create(home: Home, file: str, text: str, mode: int) -> None:
    """Write a new file.

    Raises:
        MemsearchError: ``CONFIG`` when it is there already, else as in ``set_key``.
    """
    with _exclusive(home):
        if os.path.lexists(file):
            raise _error(
                f"{tilde(file)} is there already and is left as it is",
                "memsearch config list shows what it sets, "
                "memsearch config list --resolved all there is to set",
            )
        _write(file, text, mode)


def _edit(
    home: Home,
    file: str,
    change: Callable[[MutableMapping[str, Any]], None],
    mode: int | None,
    *,
    shown: tuple[Path, object] | None = None,
) -> None:
    """Change a file's tables and nothing else of it."""
    with _exclusive(home):
        wanted = copy.deepcopy(_table(file))
        change(wanted)
        proposals = _proposals(_text(file), change, shown)
        new = next((text for text in proposals if _reads_as(text, wanted)), None)
        if new is None:
            raise _error(
                f"{tilde(file)} is laid out in a way that cannot be changed safely",
                "change it in an editor",
            )
        _write(file, new, mode if mode is not None else _mode_of(file))


def _proposals(
    text: str,
    change: Callable[[MutableMapping[str, Any]], None],
    shown: tuple[Path, object] | None,
) -> Iterator[str]:
    """Ways to write the change, the best first. None is trusted: tomlkit too loses keys in
    some layouts (a new table between two of the same parent), so the caller reads each."""
    uncommented = _uncommented(text, *shown) if shown else None
    if uncommented is not None:
        yield uncommented
    try:
        document = tomlkit.parse(text)
        change(document)
        yield tomlkit.dumps(document)
    except TOMLKitError:
        pass  # the next proposal, or the caller's error
    if shown:
        path, value = shown
        gap = "" if not text or text.endswith("\n") else "\n"
        line = f"{dotted(path[-1:])} = {toml_value(value)}"
        yield f"{text}{gap}\n[{dotted(path[:-1])}]\n{line}\n"


def _uncommented(text: str, path: Path, value: object) -> str | None:
    """The text with the ``#key = …`` line of a template switched on; ``None`` without one.

    So that a setting stands below its explanation instead of at the end of its section. Read
    line by line, hence only a proposal: the caller checks what it reads as.
    """
    lines = text.splitlines(keepends=True)
    header, begin = f"[{dotted(path[:-1])}]", f"#{dotted(path[-1:])} = "
    inside = False
    for number, line in enumerate(lines):
        if line.startswith("["):
            inside = line.split("#")[0].strip() == header
        elif inside and line.startswith(begin):
            ending = line[len(line.rstrip("\r\n")) :]
            lines[number] = f"{dotted(path[-1:])} = {toml_value(value)}{ending}"
            return "".join(lines)
    return None


def _reads_as(text: str, wanted: dict[str, Any]) -> bool:
    """Whether a text has these values (a table without any may be there or not)."""
    try:
        return bool(_without_empty(tomllib.loads(text)) == _without_empty(wanted))
    except (ValueError, RecursionError):
        return False


def _without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    children = {name: _without_empty(child) for name, child in value.items()}
    return {name: child for name, child in children.items() if child != {}}


def _table(file: str) -> dict[str, Any]:
    table, problem = read_table(file)
    if problem:
        raise _error(str(problem), problem.hint)
    return table


def _text(file: str) -> str:
    try:
        # newline="": what an editor of another system wrote keeps its line ends.
        with open(file, encoding="utf-8-sig", newline="") as opened:
            return opened.read()
    except FileNotFoundError:
        return ""


def _mode_of(file: str) -> int:
    try:
        return stat.S_IMODE(os.stat(file).st_mode)
    except FileNotFoundError:
        return PROJECT_FILE_MODE


def _write(file: str, text: str, mode: int) -> None:
    try:
        write_atomic(file, text.encode("utf-8"), mode)
    except OSError as error:
        raise _failed(file, error) from error


@contextmanager
def _exclusive(home: Home) -> Iterator[None]:
    """Keep two changes apart, also those of two terminals."""
    lock = filelock.FileLock(os.path.join(home.run, "config.lock"), mode=FILE_MODE)
    try:
        home.create()
        lock.acquire(timeout=LOCK_SECONDS)
    except filelock.Timeout as error:
        raise MemsearchError(
            "Another command is changing the settings",
            kind=ErrorClass.BUSY,
            hint="try again in a moment",
        ) from error
    except OSError as error:
        raise _failed(home.root, error) from error
    try:
        yield
    finally:
        lock.release()


def _failed(path: str, error: OSError) -> MemsearchError:
    kinds = {
        errno.ENOSPC: ErrorClass.DISK_FULL,
        errno.EDQUOT: ErrorClass.DISK_FULL,
        errno.EACCES: ErrorClass.PERMISSION,
        errno.EPERM: ErrorClass.PERMISSION,
        errno.EROFS: ErrorClass.PERMISSION,
    }
    return MemsearchError(
        f"{tilde(path)} cannot be written: {error.strerror}",
        kind=kinds.get(error.errno or 0, ErrorClass.BAD_FILE),
    )


def _error(message: str, hint: str = "") -> MemsearchError:
    return MemsearchError(message, kind=ErrorClass.CONFIG, hint=hint)
