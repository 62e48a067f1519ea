"""What a worker costs while nobody needs it: memory and processor time.

    python benchmarks/workers.py [--chunks 1000] [--seconds 30] [--python PATH] [--json]

A worker is started, indexes a project of so many chunks (their vectors lie in the cache) and
answers a search, so that it holds the model and the index. Then it is left alone, and again
after it has let them go (``workers.model_idle_minutes``, here a fraction of a minute). Memory
is ``VmRSS``, of which ``RssAnon`` is its own and the rest is files that the system may drop.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from enqueue import install_whole
from search import fill, timed

#: The goals, in MB and as a share of one core.
MAX_LOADED_MB, MAX_RELEASED_MB, MAX_SHARE = 600, 200, 0.01
#: ``workers.model_idle_minutes`` of the trial.
IDLE_MINUTES = 0.75
#: Seconds that a step may take.
PATIENCE = 300.0


def memory(pid: int) -> dict[str, int]:
    """Memory of a process, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines())
    return {name: int(lines[name].split()[0]) // 1024 for name in ("VmRSS", "RssAnon")}


def processor(pid: int) -> float:
    """Processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(pid: int, seconds: float) -> float:
    """The share of one core that it uses during so many seconds."""
    before, started = processor(pid), time.monotonic()
    time.sleep(seconds)
    return (processor(pid) - before) / (time.monotonic() - started)


def wait_for(done: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come about")
        time.sleep(0.2)


def measure(python: Path, folder: Path, chunks: int, seconds: float) -> dict[str, object]:
    """Start a worker and look at it.

    Args:
        python: An interpreter whose ``bin`` also holds ``memsearch``.
        folder: An empty folder for the home and the project.
        chunks: Chunks in the index.
        seconds: How long it is left alone, each time.
    """
    home, project = folder / "home", folder / "project"
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "MEMSEARCH_HOME": str(home),
        "MEMSEARCH_WORKERS__AUTOSTART": "false",
        "MEMSEARCH_WORKERS__IDLE_EXIT_MINUTES": "0",
        "MEMSEARCH_WORKERS__MODEL_IDLE_MINUTES": str(IDLE_MINUTES),
    }
    fill(home, project, chunks)
    memsearch = str(python.parent / "memsearch")
    search = [memsearch, "search", "--json", "why was the lease renamed"]
    for command in ([memsearch, "index"], search):  # converts the model, once for a machine
        timed(command, b"", environ, project)
    worker = subprocess.Popen(
        [memsearch, "workers", "--foreground"],
        cwd=project,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: any(home.joinpath("run").glob("*.sock")))
        started = memory(worker.pid)
        timed([memsearch, "index", "--force"], b"", environ, project)
        timed(search, b"", environ, project)
        loaded = memory(worker.pid)
        loaded_share = share(worker.pid, min(seconds, IDLE_MINUTES * 40))
        wait_for(lambda: memory(worker.pid)["VmRSS"] < loaded["VmRSS"] * 0.85)
        time.sleep(1.0)
        released = memory(worker.pid)
        released_share = share(worker.pid, seconds)
        timed(search, b"", environ, project)
        again = memory(worker.pid)
    finally:
        worker.terminate()
        worker.wait(30)
    return {
        "chunks": chunks,
        "started_mb": started,
        "loaded_mb": loaded,
        "loaded_share": loaded_share,
        "released_mb": released,
        "released_share": released_share,
        "loaded_again_mb": again,
        "reached": loaded["VmRSS"] < MAX_LOADED_MB
        and released["VmRSS"] < MAX_RELEASED_MB
        and max(loaded_share, released_share) < MAX_SHARE,
    }


def table(found: dict[str, object]) -> str:
    """The figures for a person."""

    def mb(name: str) -> str:
        part = found[name]
        assert isinstance(part, dict)
        return f"{part['VmRSS']} MB ({part['RssAnon']} its own)"

    rows = [
        ("what", "measured", "goal"),
        ("just started", mb("started_mb"), ""),
        (f"model and index of {found['chunks']} chunks", mb("loaded_mb"), f"< {MAX_LOADED_MB} MB"),
        ("left alone with them", f"{found['loaded_share']:.2%} of a core", f"< {MAX_SHARE:.0%}"),
        ("after it let them go", mb("released_mb"), f"< {MAX_RELEASED_MB} MB"),
        ("left alone without", f"{found['released_share']:.2%} of a core", f"< {MAX_SHARE:.0%}"),
        ("after the next search", mb("loaded_again_mb"), ""),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c}".rstrip() for a, b, c in rows)


def main() -> int:
    """Run the benchmark; exit 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, default=1000, help="chunks in the index (1000)")
    parser.add_argument("--seconds", type=float, default=30, help="how long it is left alone (30)")
    parser.add_argument("--python", type=Path, help="an interpreter that has memsearch")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsearch-bench-") as name:
        folder = Path(name)
        python = arguments.python or install_whole(folder)
        found = measure(python.absolute(), folder, arguments.chunks, arguments.seconds)
    print(json.dumps(found, indent=2) if arguments.json else table(found))
    return 0 if found["reached"] else 1


if __name__ == "__main__":
    sys.exit(main())
