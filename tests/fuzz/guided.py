"""One target of ``fuzz.py`` under atheris: inputs that are led by the branches they take.

    python -P tests/fuzz/guided.py TARGET SECONDS

The bytes that atheris makes are what hypothesis draws its values from, so that both have the
same targets. The process ends with the time, or at the first input that fails.
"""

from __future__ import annotations

import os
import sys
import tempfile

import atheris

sys.path.insert(0, os.path.dirname(__file__))
with atheris.instrument_imports(include=["memsearch"]):
    import fuzz


def main(name: str, seconds: str) -> None:
    """Fuzz, and end the process."""
    # Where atheris puts an input that failed; it is in the traceback as well.
    folder = tempfile.mkdtemp(prefix="memsearch-fuzz-")
    once = fuzz.test_of(name, [0])
    options = [f"-max_total_time={seconds}", "-max_len=4096", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/"], once_with(once))
    atheris.Fuzz()


def once_with(once: object) -> object:
    """A function of bytes."""
    feed = once.hypothesis.fuzz_one_input  # type: ignore[attr-defined]

    def target(data: bytes) -> None:
        feed(data)

    return target


if __name__ == "__main__":
    main(*sys.argv[1:])
