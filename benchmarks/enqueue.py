"""What a hook costs an agent: ``memsearch enqueue`` beside the least that Python could do.

    python benchmarks/enqueue.py [--runs 60] [--hooks 100] [--python PATH] [--json]

1. Medians of interleaved runs of the whole process: ``python -c "import json, sqlite3"``
   against ``memsearch enqueue`` by its console script, of the same installation; and
   ``context`` and ``hint``, in a project with 500 journals.
2. So many hooks at once, each timed from its start to its end, and their events counted.

Unless ``--python`` names an interpreter that has memsearch, the package of this checkout is
installed, normally and without its dependencies (``enqueue`` needs none), into a virtual
environment that is removed afterwards. No worker is started.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import site
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Folders of the checkout that an installation is made from.
CODE = ("config", "hooks", "memsearch", "pipeline", "recall", "sinks", "sources", "workers")
#: The goals: how many times the bare imports, and seconds.
MAX_RATIO = 1.6
MAX_P99_SECONDS = 1.0
#: The same for what a session and a prompt begin with, which read files as well.
MAX_CONTEXT_RATIO = 2.0
#: Journals of the project that they read, and entries of each.
JOURNALS, ENTRIES = 500, 20
BARE = ("-c", "import json, sqlite3")


def install(folder: Path) -> Path:
    """A virtual environment with this checkout's package, and nothing else; its Python."""
    source = folder / "source"
    source.mkdir()
    for name in CODE:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", source], check=True)
    return python


def install_whole(folder: Path) -> Path:
    """The same with the dependencies of the running interpreter; its Python."""
    python = install(folder)
    packages = next((python.parent.parent / "lib").glob("python*/site-packages"))
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return python


def payload(folder: Path, number: int) -> bytes:
    """A Stop hook's input of ordinary size."""
    return json.dumps(
        {
            "session_id": f"session-{number}",
            "prompt_id": f"turn-{number}",
            "transcript_path": str(folder / f"{number}.jsonl"),
            "cwd": str(folder),
            "hook_event_name": "Stop",
            "last_assistant_message": "The tests pass now. " * 20,
        }
    ).encode()


def project(folder: Path, home: Path) -> Path:
    """A project with a long memory, which this machine trusts."""
    memory = folder / "project" / ".memsearch" / "memory"
    memory.mkdir(parents=True)
    for number in range(JOURNALS):
        day = f"{2020 + number // 336}-{number // 28 % 12 + 1:02d}-{number % 28 + 1:02d}"
        entries = "".join(
            f"\n### 10:{entry:02d}\n- The retry policy of step {entry} was changed 重试\n"
            for entry in range(ENTRIES)
        )
        (memory / f"{day}.md").write_text(f"# {day}\n{entries}", encoding="utf-8")
    (home / "run").mkdir(parents=True, exist_ok=True)
    (home / "run" / "trusted").write_text(f"{memory.resolve()}\n", encoding="utf-8")
    return memory.parent.parent


def timed(argv: list[str], given: bytes, environ: dict[str, str], cwd: Path) -> float:
    """Seconds of a whole process; it must succeed (a word on stderr is no failure)."""
    started = time.perf_counter()
    done = subprocess.run(argv, input=given, env=environ, cwd=cwd, capture_output=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{argv} ended with {done.returncode}: {done.stderr.decode()}")
    return seconds


def events(home: Path) -> tuple[int, int]:
    """The hooks in a home's log, and those that wait in its spool."""
    database = sqlite3.connect(home / "state.db")
    try:
        number = database.execute(
            "SELECT COUNT(*) FROM events WHERE type = 'HookReceived'"
        ).fetchone()[0]
    finally:
        database.close()
    spool = home / "spool"
    return int(number), len(list(spool.glob("*.json")))


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of the values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)]


def measure(python: Path, folder: Path, runs: int, hooks: int) -> dict[str, object]:
    """Both measurements.

    Args:
        python: An interpreter whose ``bin`` also holds ``memsearch``.
        folder: An empty folder for the home.
        runs: Runs of each command.
        hooks: Hooks at once.
    """
    home = folder / "home"
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "MEMSEARCH_HOME": str(home),
        "MEMSEARCH_WORKERS__AUTOSTART": "false",
    }
    bare = [str(python), *BARE]
    enqueue = [str(python.parent / "memsearch"), "enqueue", "--platform", "claude-code"]
    for _ in range(3):  # byte code, page cache, the database
        timed(bare, b"", environ, folder)
        timed(enqueue, payload(folder, 0), environ, folder)
    place = project(folder, home)
    asked = {"session_id": "s", "cwd": str(place), "prompt": "why was the retry policy changed?"}
    given = json.dumps(asked).encode()
    said = {name: [enqueue[0], name, "--platform", "claude-code"] for name in ("context", "hint")}
    before = sum(events(home))
    least, whole = [], []
    others: dict[str, list[float]] = {name: [] for name in said}
    for number in range(runs):
        least.append(timed(bare, b"", environ, folder))
        whole.append(timed(enqueue, payload(folder, number), environ, folder))
        for name, argv in said.items():
            others[name].append(timed(argv, given, environ, folder))
    after = sum(events(home))
    with ThreadPoolExecutor(hooks) as pool:
        # What the machine needs for so many processes, whatever they do.
        floor = list(pool.map(lambda _: timed(bare, b"", environ, folder), range(hooks)))
        together = list(
            pool.map(
                lambda number: timed(enqueue, payload(folder, number), environ, folder),
                range(hooks),
            )
        )
    logged, spooled = events(home)
    lost = (runs - (after - before)) + (hooks - (logged + spooled - after))
    ratio = statistics.median(whole) / statistics.median(least)
    ratios = {
        name: statistics.median(values) / statistics.median(least)
        for name, values in others.items()
    }
    return {
        "runs": runs,
        "bare_median_seconds": statistics.median(least),
        "enqueue_median_seconds": statistics.median(whole),
        "ratio": ratio,
        "ratio_goal": MAX_RATIO,
        "context_ratio": ratios["context"],
        "hint_ratio": ratios["hint"],
        "context_ratio_goal": MAX_CONTEXT_RATIO,
        "hooks": hooks,
        "bare_together_p99_seconds": percentile(floor, 0.99),
        "together_p50_seconds": percentile(together, 0.5),
        "together_p99_seconds": percentile(together, 0.99),
        "p99_goal_seconds": MAX_P99_SECONDS,
        "spooled": spooled,
        "lost": lost,
        "reached": bool(
            ratio <= MAX_RATIO
            and max(ratios.values()) <= MAX_CONTEXT_RATIO
            and percentile(together, 0.99) < MAX_P99_SECONDS
            and lost == 0
        ),
    }


def table(found: dict[str, object]) -> str:
    """The figures for a person."""

    def ms(name: str) -> str:
        return f"{float(str(found[name])) * 1000:.1f} ms"

    rows = [
        ("what", "measured", "goal"),
        (
            f'python -c "import json, sqlite3", median of {found["runs"]}',
            ms("bare_median_seconds"),
            "",
        ),
        (f"memsearch enqueue, median of {found['runs']}", ms("enqueue_median_seconds"), ""),
        ("ratio", f"{found['ratio']:.2f}", f"at most {found['ratio_goal']}"),
        *(
            (
                f"memsearch {name}, {JOURNALS} journals, ratio",
                f"{found[f'{name}_ratio']:.2f}",
                f"at most {found['context_ratio_goal']}",
            )
            for name in ("context", "hint")
        ),
        (f"{found['hooks']} bare at once, p99", ms("bare_together_p99_seconds"), ""),
        (f"{found['hooks']} hooks at once, p50", ms("together_p50_seconds"), ""),
        (
            f"{found['hooks']} hooks at once, p99",
            ms("together_p99_seconds"),
            f"below {float(str(found['p99_goal_seconds'])) * 1000:.0f} ms",
        ),
        ("hooks in the spool (swept by the next worker)", str(found["spooled"]), ""),
        ("events lost", str(found["lost"]), "0"),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{what:<{widths[0]}}  {measured:>{widths[1]}}  {goal}".rstrip()
        for what, measured, goal in rows
    )


def main() -> int:
    """Run the benchmark; exit 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=60, help="runs of each command (60)")
    parser.add_argument("--hooks", type=int, default=100, help="hooks at once (100)")
    parser.add_argument("--python", type=Path, help="an interpreter that has memsearch")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memsearch-bench-") as name:
        folder = Path(name)
        python = arguments.python or install(folder)
        found = measure(python.absolute(), folder, arguments.runs, arguments.hooks)
    print(json.dumps(found, indent=2) if arguments.json else table(found))
    return 0 if found["reached"] else 1


if __name__ == "__main__":
    sys.exit(main())
