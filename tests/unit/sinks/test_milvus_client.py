"""pymilvus is imported without what it would do to the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memsearch.sinks.milvus_client import has_bm25

QUIET = """
import logging, logging.config, os, sys
handler = logging.FileHandler(sys.argv[1], encoding="utf-8")
closed = []
handler.close = lambda: closed.append(1)
logging.getLogger().addHandler(handler)
setup = logging.config.dictConfig
before = dict(os.environ)
from memsearch.sinks.milvus_client import import_pymilvus
assert "pymilvus" not in sys.modules and "grpc" not in sys.modules
pymilvus = import_pymilvus()
assert import_pymilvus() is pymilvus is sys.modules["pymilvus"]
assert not closed
assert logging.config.dictConfig is setup
assert dict(os.environ) == before, set(os.environ) ^ set(before)
logging.getLogger("pymilvus.decorators").error("noise")
logging.getLogger("milvus_lite.server").error("noise")
"""


def test_it_is_quiet_and_changes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", QUIET, str(log)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert log.read_text() == ""


@pytest.mark.parametrize(
    ("how", "leak"),
    [
        ("import pymilvus", "1"),
        ("from memsearch.sinks.milvus_client import import_pymilvus as i; i()", "None"),
    ],
)
def test_a_dotenv_file_is_not_read(how: str, leak: str, tmp_path: Path) -> None:
    """Imported plainly it reads one: from the folders above its own, or, without a script, from
    those above the current one, which is what a test can arrange."""
    (tmp_path / ".env").write_text("MEMSEARCH_TEST_LEAK=1\n")
    code = f"import os; {how}; print(os.environ.get('MEMSEARCH_TEST_LEAK'))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout.strip() == leak


@pytest.mark.parametrize(
    ("version", "able"),
    [
        ("v2.3.5-lite", False),
        ("2.4.17", False),
        ("v2.5.0", True),
        ("2.6.1", True),
        ("v3.0-beta", True),
        ("milvus_lite-3.2.2", True),
        ("Zilliz Cloud Vector Database(Compatible with Milvus 2.5)", True),
        ("unknown", True),
    ],
)
def test_who_can_search_by_keyword(version: str, able: bool) -> None:
    assert has_bm25(version) is able
