"""Secrets by reference (``env:NAME``), and keeping the rest out of what is printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from memsearch.config.checks import ENV_PREFIX
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home, tilde

#: What is printed in the place of a secret.
MASK = "********"


def resolve_secret(value: str, home: Home, environ: Mapping[str, str]) -> str:
    """A setting's value, with ``env:NAME`` looked up: in the environment, else in the home's
    ``env`` file. To be called when the value is used, so that a changed variable counts.

    Args:
        value: As it stands in the settings.
        home: The home.
        environ: The environment.

    Returns:
        The value; a text that does not begin with ``env:`` as it is.

    Raises:
        MemsearchError: ``CREDENTIALS``, when neither place has the name, or the file cannot
            be read.
    """
    if not value.startswith(ENV_PREFIX):
        return value
    name = value[len(ENV_PREFIX) :].strip()
    found = environ.get(name) or read_env_file(home).get(name)
    if not found:
        raise MemsearchError(
            f"A setting reads {value}, but there is no {name} in the environment "
            f"or in {tilde(home.env_file)}",
            kind=ErrorClass.CREDENTIALS,
            hint=f"add a line {name}=… to {tilde(home.env_file)}: "
            "workers do not have your shell's environment",
        )
    return found


def read_env_file(home: Home) -> dict[str, str]:
    """The ``NAME=value`` lines of the home's ``env`` file; empty when there is none.

    Blank lines and ``#`` lines are passed over, a leading ``export`` and one pair of quotes
    around the value are taken off; nothing is expanded.

    Raises:
        MemsearchError: ``CREDENTIALS``, when it cannot be read.
    """
    try:
        with open(home.env_file, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise MemsearchError(
            f"{tilde(home.env_file)} cannot be read: {why}", kind=ErrorClass.CREDENTIALS
        ) from error
    found: dict[str, str] = {}
    for line in lines:
        name, equals, text = line.strip().partition("=")
        name = name.removeprefix("export ").strip()
        if not equals or not name or name.startswith("#"):
            continue
        text = text.strip()
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        found[name] = text
    return found


def open_to_others(home: Home) -> bool:
    """Whether other users may read the home's ``env`` file."""
    try:
        return bool(os.stat(home.env_file).st_mode & 0o077)
    except OSError:
        return False


def masked(value: object, *, secret: bool) -> object:
    """A value as it may be printed.

    Args:
        value: The value.
        secret: Whether its key is one of secrets. A reference (``env:NAME``) stays, since it
            is not the secret; in any other key a password within a URL is masked.
    """
    if not isinstance(value, str) or not value or value.startswith(ENV_PREFIX):
        return value
    if secret:
        return MASK
    if "://" in value and "@" in value:
        try:
            parts = urlsplit(value)
        except ValueError:
            return MASK
        if "@" in parts.netloc:
            host = parts.netloc.rpartition("@")[2]
            return parts._replace(netloc=f"{MASK}@{host}").geturl()
    return value
