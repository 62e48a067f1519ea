"""The worker's log on a disk that takes nothing more."""

import logging
import os
from contextlib import suppress

import pytest

from memsearch.config.paths import Home
from memsearch.workers.logs import open_log


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said_once_and_again_after_it_had_room(tmp_path, capsys):
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    home = Home(str(tmp_path))
    note = open_log(home, echo=False)
    (handler,) = root.handlers
    try:
        for _ in range(2):
            whole = handler.stream
            with suppress(OSError), open("/dev/full", "w", encoding="utf-8") as full:
                handler.stream = full
                note("one")
                note("two")
            handler.stream = whole
            note("three")
    finally:
        handler.close()
        root.handlers[:] = before
        root.setLevel(level)
    said = capsys.readouterr().err
    assert said == f"{home.logs}/worker.log cannot be written: {os.strerror(28)}\n" * 2
    assert (tmp_path / "logs" / "worker.log").read_text("utf-8").count("three") == 2
