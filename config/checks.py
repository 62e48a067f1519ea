"""Whether a well-typed value can work at all. Each check answers why not, or an empty text."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from memsearch.config import patterns

#: What begins a value that names a variable instead of giving the value itself.
ENV_PREFIX = "env:"


def _address(value: str, schemes: tuple[str, ...]) -> str:
    """Why a URL is no address of a server; empty when it is one."""
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:  # "Port out of range 0-65535", "Invalid IPv6 URL"
        return str(error).lower()
    if parts.scheme.lower() not in schemes:
        return "it begins with none of " + ", ".join(f"{scheme}://" for scheme in schemes)
    if not parts.hostname:
        return "it names no host"
    return "port 0 is none" if port == 0 else ""


def endpoint(value: str) -> str:
    """The address of an HTTP endpoint; empty for the provider's own."""
    if not value or value.startswith(ENV_PREFIX):
        return ""
    return _address(value, ("http", "https"))


def milvus_uri(value: str) -> str:
    """A file of Milvus Lite or a server (what pymilvus takes); empty for the default."""
    if not value or value.startswith(ENV_PREFIX):
        return ""
    if value.lower().startswith("unix:"):
        return ""
    if "://" in value:
        return _address(value, ("http", "https", "tcp"))
    if "\0" in value:
        return "it holds a NUL"
    return "" if value.endswith(".db") else "a local path must end in .db"


def pattern(value: str) -> str:
    """A regular expression of Python's ``re`` that no text can make slow."""
    return patterns.fault(value)


def collection(value: str) -> str:
    """A collection's name by Milvus' rules; empty for the derived one."""
    if not value or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,254}", value):
        return ""
    return "a collection's name has letters, digits and _ only, 255 at most, no digit first"


def file_suffix(value: str) -> str:
    """A part of a file's name, such as a host's."""
    if re.fullmatch(r"[\w.-]{0,64}", value):
        return ""
    return "it becomes part of a file name: letters, digits, _ . and - only, 64 at most"


def variable(value: str) -> str:
    """A secret: given itself, or by the name of a variable that can exist."""
    name = value.removeprefix(ENV_PREFIX)
    if name != value and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return "env: is followed by the name of a variable"
    return ""
