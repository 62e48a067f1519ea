"""A worker stays for days beside somebody's work, so that what it has freed must be given back."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

from memsearch.sinks.embedders.onnx import trim

#: Number of glibc's setting for how many heaps its allocator keeps (``malloc.h``).
_M_ARENA_MAX = -8
#: So many heaps. By default there is one for every few threads, and none of them is ever wholly
#: free: 20 MB of a worker that had let everything go.
_HEAPS = 2


def be_frugal() -> None:
    """Have freed memory given back; for a process that is ours alone, before it has threads.

    Arrow gets the C library's allocator: its own keeps 30 MB for later.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when Arrow is loaded
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, _HEAPS)


def give_back() -> None:
    """Free what is held in circles, and return all freed memory to the system."""
    gc.collect()
    trim()
