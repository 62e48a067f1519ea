"""The direct reader: the command in a sandbox that refuses sockets and every write.

A mount namespace whose only writable folder is nowhere, as agents' sandboxes make it: home and
project are read-only and the workers' socket cannot be seen.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsearch.config.paths import Home

COMMAND = [sys.executable, "-P", "-B", "-m", "memsearch._entry"]
#: Bytes that a search reads of what is not indexed, and the direct reader does not stop at.
SCAN_BYTES = 1_000_000

JOURNAL = """# 2026-03-05

### 09:00
- Moved the sessions from Redis to PostgreSQL since evictions logged people out

### 10:00
- 修复了备份脚本上传超时的问题

### 11:00
- The espresso machine of the office was repaired
"""


def can_unshare() -> bool:
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return done.returncode == 0


pytestmark = pytest.mark.skipif(not can_unshare(), reason="no user namespaces here")


class World:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "it's a 项目"
        self.memory = self.project / ".memsearch" / "memory"
        self.memory.mkdir(parents=True)
        self.environ = {
            "HOME": str(root),
            "MEMSEARCH_HOME": str(root / "home"),
            "MEMSEARCH_WORKERS__AUTOSTART": "false",
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        self.home = Home.from_env(self.environ)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=180,
            check=False,
        )

    def index(self) -> None:
        done = self.run(*COMMAND, "index")
        assert done.returncode == 0, done.stderr

    def confined(self, *arguments: str) -> tuple[list[dict[str, Any]], str]:
        """A search in the sandbox: its results and what it says."""
        root, run = shlex.quote(str(self.root)), shlex.quote(os.path.dirname(self.home.store_lock))
        script = (
            f"mount --bind {root} {root} && mount -o remount,bind,ro {root}"
            f" && mount -t tmpfs -o ro none {run}"
            f" && ! touch {root}/x 2>/dev/null"
            f" && cd {shlex.quote(str(self.project))}"
            f" && exec {shlex.join([*COMMAND, 'search', '--json', *arguments])}"
        )
        done = self.run("unshare", "-rm", "--propagation", "private", "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    def state(self) -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in self.root.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path.resolve())
    (made.memory / "2026-03-05.md").write_text(JOURNAL, encoding="utf-8")
    made.index()
    return made


def test_both_legs_answer_from_the_files(world: World) -> None:
    before = world.state()
    results, told = world.confined("why were people logged out")
    assert "PostgreSQL" in results[0]["content"]
    assert results[0]["ranks"]["dense"] == 1
    assert results[0]["similarity"] > 0.4
    assert results[0]["indexed"] is True
    assert "The Markdown itself was read" in told
    assert world.state() == before
    # The same ids and the same order as outside.
    outside = json.loads(
        world.run(*COMMAND, "search", "--json", "why were people logged out").stdout
    )
    assert [item["chunk_hash"] for item in results] == [item["chunk_hash"] for item in outside]
    assert results[0]["similarity"] == pytest.approx(outside[0]["similarity"], abs=0.001)
    chinese, _ = world.confined("备份脚本失败")
    assert "备份脚本" in chinese[0]["content"]


def test_filters_and_times_hold(world: World) -> None:
    (world.memory / "2026-03-06.md").write_text("# 2026-03-06\n\n- sessions again\n")
    assert [item["day"] for item in world.confined("sessions", "--day", "2026-03-06")[0]] == [
        "2026-03-06"
    ]
    found, told = world.confined("sessions on March 6th 2026")
    assert found[0]["day"] == "2026-03-06"
    assert found[0]["indexed"] is False
    assert "2026-03-06" in told


def test_all_journals_are_read_and_not_a_part(world: World) -> None:
    """The rare word is in the oldest of more than a search otherwise reads."""
    filler = "- the ordinary work of an ordinary day went on as it does\n" * 500
    for number in range(60):
        name = f"2025-{number // 28 + 1:02d}-{number % 28 + 1:02d}"
        rare = "- the XQZ9 certificate was renewed\n" if number == 0 else ""
        path = world.memory / f"{name}.md"
        path.write_text(f"# {name}\n\n{rare}\n{filler}", encoding="utf-8")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    assert sum(path.stat().st_size for path in world.memory.iterdir()) > SCAN_BYTES * 1.5
    results, told = world.confined("XQZ9")
    assert "XQZ9" in results[0]["content"]
    assert results[0]["indexed"] is False
    assert "too much to read" not in told


@pytest.fixture
def working(world: World) -> Iterator[World]:
    """The same with a worker, which holds the log, the cache and the index open."""
    with subprocess.Popen(
        [*COMMAND, "workers", "--foreground"],
        cwd=world.project,
        env=world.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as worker:
        try:
            deadline = time.monotonic() + 60
            while not os.path.exists(world.home.socket) and time.monotonic() < deadline:
                time.sleep(0.1)
            yield world
        finally:
            worker.terminate()
            worker.wait(30)


def test_beside_a_worker_that_cannot_be_asked(working: World) -> None:
    path = working.memory / "2026-03-06.md"
    path.write_text("# 2026-03-06\n\n- The turbine of station seven was replaced\n")
    working.index()
    started = time.monotonic()
    results, told = working.confined("which turbine was replaced")
    assert time.monotonic() - started < 60  # it does not wait for the index to be let go
    assert "turbine" in results[0]["content"]
    # What the worker has written into its databases a moment ago counts.
    assert results[0]["indexed"] is True
    assert results[0]["ranks"]["dense"] == 1
    assert "The Markdown itself was read" in told
