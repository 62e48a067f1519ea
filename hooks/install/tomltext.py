"""A table at the end of a TOML file, put in and taken out without touching the rest."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence

from memsearch.config.errors import ErrorClass, MemsearchError


def parse(text: str) -> dict[str, object]:
    """A TOML file as Python's types.

    Raises:
        MemsearchError: ``BAD_FILE``: it is no TOML, with the place.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise MemsearchError(f"it is no TOML: {error}", kind=ErrorClass.BAD_FILE) from error


def get(values: object, path: Sequence[str]) -> object:
    """A value at a path of names; None when there is none."""
    for name in path:
        if not isinstance(values, Mapping) or name not in values:
            return None
        values = values[name]
    return values


def append_table(text: str, path: Sequence[str], values: Mapping[str, object]) -> str:
    """A text with a table more at its end; as it is when it has the same table already.

    Raises:
        MemsearchError: ``BAD_FILE``: it is no TOML, has another table of that name, or
            defines what is around it in a way that cannot be added to.
    """
    found = get(parse(text), path)
    name = ".".join(path)
    if found is not None:
        if found == dict(values):
            return text
        raise MemsearchError(
            f"it has a table [{name}] of somebody else",
            kind=ErrorClass.BAD_FILE,
            hint=f"take it out or rename it: [{name}]",
        )
    import tomlkit

    table = tomlkit.table()
    for key, value in values.items():
        table[key] = value
    document = tomlkit.document()
    holder = tomlkit.table(is_super_table=True)
    document[path[0]] = holder
    for part in path[1:-1]:
        inner = tomlkit.table(is_super_table=True)
        holder[part] = inner
        holder = inner
    holder[path[-1]] = table
    block = document.as_string()
    if "\r\n" in text:
        block = block.replace("\n", "\r\n")
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    made = text + gap + block
    if get(parse(made), path) != dict(values):
        raise MemsearchError(f"[{name}] cannot be added to it", kind=ErrorClass.BAD_FILE)
    return made


def remove_table(text: str, path: Sequence[str]) -> str:
    """A text without a table; as it is when it has none, or is no TOML."""
    try:
        if get(parse(text), path) is None:
            return text
    except MemsearchError:
        return text  # nothing of ours can be told apart in it
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        holder = document
        for name in path[:-1]:
            holder = holder[name]
        del holder[path[-1]]
        return document.as_string()
    except (TOMLKitError, KeyError, TypeError) as error:
        raise MemsearchError(
            f"[{'.'.join(path)}] cannot be taken out of it: {error}", kind=ErrorClass.BAD_FILE
        ) from error
