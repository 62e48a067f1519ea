"""Fixtures of the pipeline's tests."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

from memsearch.pipeline.log import EventLog  # noqa: E402


@pytest.fixture
def log(tmp_path):
    opened = EventLog(str(tmp_path / "state.db"))
    yield opened
    opened.close()
