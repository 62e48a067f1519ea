"""Whether the files of a Milvus Lite folder look whole, told without opening any of it.

Looks at what a cut, a zeroed block or a file of something else leaves: a description that is
no JSON, a data file that is missing or is no Parquet file at its head and end. What is wrong
inside of a data file only opening tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from memsearch.sinks.milvus_errors import is_server

#: First and last bytes of a Parquet file (Apache Parquet format, "File Format").
_PARQUET = b"PAR1"
#: Both of them and the length of the footer, in bytes: no Parquet file is shorter.
_SHORTEST = 12


def fault(uri: str) -> str:
    """What is wrong with a folder of Milvus Lite.

    Args:
        uri: The folder; a server's address has no files here.

    Returns:
        The first fault, in words; empty when none is seen.
    """
    if is_server(uri):
        return ""
    return next(_faults(os.path.join(uri, "collections")), "")


def _faults(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return  # no index, or none that may be looked at: opening says which
    for name in names:
        collection = os.path.join(folder, name)
        manifest = os.path.join(collection, "manifest.json")
        if not os.path.exists(manifest):
            continue  # one that was just being made
        for path in (os.path.join(collection, "schema.json"), manifest):
            if _read(path) is None:
                yield f"{path} cannot be read"
        for path in _data_files(collection, _read(manifest) or {}):
            if not _is_parquet(path):
                yield f"{path} is missing or cut"


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _data_files(collection: str, manifest: dict[str, Any]) -> Iterator[str]:
    partitions = manifest.get("partitions")
    for name, partition in partitions.items() if isinstance(partitions, dict) else ():
        for kind in ("data_files", "delta_files"):
            for file in partition.get(kind) or ():
                if str(file).endswith(".parquet"):
                    yield os.path.join(collection, "partitions", name, str(file))


def _is_parquet(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            head = file.read(len(_PARQUET))
            if file.seek(0, os.SEEK_END) < _SHORTEST:
                return False
            file.seek(-len(_PARQUET), os.SEEK_END)
            return head == file.read() == _PARQUET
    except OSError:
        return False
