"""Which conversations there are: files under the agents' folders, in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from memsearch.sources.base import Conversation
from memsearch.sources.packed import SUFFIX, is_packed


def files_under(roots: Iterable[str], suffix: str) -> Iterator[str]:
    """Regular files under some folders whose names end so; folders that are missing have none.

    Symbolic links are not followed: a transcript is where its agent wrote it.
    """
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith(suffix) and not os.path.islink(path):
                    yield path


def of_file(platform: str, path: str, session: str) -> Iterator[Conversation]:
    """The conversation in a file, packed or not; none when the file went away meanwhile."""
    try:
        status = os.stat(path + SUFFIX if is_packed(path) else path)
    except OSError:
        return
    yield Conversation(
        platform=platform,
        session=session,
        path=path,
        changed=datetime.fromtimestamp(status.st_mtime, UTC),
        size=status.st_size,
    )
