"""What an agent waits for imports nothing that costs, counted in a fresh interpreter."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memsearch.config.paths import Home
from memsearch.config.worker_lock import take_lock

#: What each costs more than all of a hook's own work, or pulls in something that does.
DENIED = frozenset(
    """
    argparse asyncio click concurrent contextlib dataclasses filelock hashlib httpx huey inspect
    logging milvus_lite msgspec multiprocessing numpy onnx onnxruntime openai pathlib pydantic
    pymilvus random shutil socket sqlite_utils starlette structlog subprocess tempfile threading
    tokenizers tomlkit tomllib typing urllib uuid uvicorn watchdog
    """.split()
)
#: Small modules of the interpreter itself that a hook needs.
SMALL = frozenset({"__future__", "encodings.utf_8_sig", "fcntl", "select"})


def imported(argv: list[str], given: str, environ: dict[str, str]) -> set[str]:
    """The modules that a process loads, as the interpreter reports them (``-X importtime``)."""
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", *argv],
        input=given,
        env=environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return set(re.findall(r"^import time:.*\|\s*([\w.]+)$", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("living", [True, False], ids=["a worker lives", "autostart is off"])
def test_enqueue_imports_nothing_that_costs(tmp_path: Path, *, living: bool) -> None:
    home = Home(str(tmp_path / "home"))
    home.create()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "MEMSEARCH_HOME": home.root,
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    if not living:
        environ["MEMSEARCH_WORKERS__AUTOSTART"] = "false"
    payload = {"session_id": "s", "transcript_path": str(tmp_path / "s.jsonl"), "cwd": "/"}
    script = "from memsearch._entry import main; main()"
    lock = take_lock(home)
    assert lock is not None  # so that no worker is started: the way there is gone all the same
    try:
        loaded = imported(
            ["-c", script, "enqueue", "--platform", "claude-code"], json.dumps(payload), environ
        )
    finally:
        os.close(lock)
    assert "memsearch.hooks.enqueue" in loaded
    assert ("memsearch.hooks.spawn" in loaded) is living
    least = imported(["-c", "import json, sqlite3"], "", environ)
    more = {name for name in loaded - least if not name.startswith("memsearch")}
    assert not {name for name in more if name.split(".")[0] in DENIED}
    assert more <= SMALL
    assert (tmp_path / "home" / "state.db").exists()
