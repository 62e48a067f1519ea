"""Transcripts that their agent has packed: Codex turns ``x.jsonl`` into ``x.jsonl.zst``.

They are named as before they were packed, so that an anchor holds whatever happens to the
file; whoever opens ``x.jsonl`` gets what is in ``x.jsonl.zst`` when only that is there.
"""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO, cast

from memsearch.config.errors import ErrorClass, MemsearchError

#: What a packed file's name ends in.
SUFFIX = ".zst"
#: Bytes that are unpacked at once.
_BLOCK_BYTES = 1_000_000
#: Bytes that a packed transcript may have when it is unpacked.
MAX_UNPACKED_BYTES = 20_000_000_000


def is_packed(path: str) -> bool:
    """Whether a transcript is there in its packed form only."""
    return not os.path.exists(path) and os.path.isfile(path + SUFFIX)


def unpack(path: str, most: int = MAX_UNPACKED_BYTES) -> BinaryIO:
    """The content of a packed transcript as a file that can be read at any place.

    It lies in a temporary file without a name, which is gone when it is closed.

    Args:
        path: The transcript's name without the suffix.
        most: Bytes after which the rest is not wanted.

    Raises:
        MemsearchError: ``BAD_FILE`` when it cannot be unpacked.
        OSError: It cannot be read, or there is no room for it.
    """
    import zstandard

    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        with (
            open(path + SUFFIX, "rb") as packed,
            zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader,
        ):
            while most > 0 and (block := reader.read(min(_BLOCK_BYTES, most))):
                file.write(block)
                most -= len(block)
        file.seek(0)
    except zstandard.ZstdError as error:
        file.close()
        raise MemsearchError(
            f"{path}{SUFFIX} cannot be unpacked ({error})", kind=ErrorClass.BAD_FILE
        ) from error
    except BaseException:
        file.close()
        raise
    return cast("BinaryIO", file)
