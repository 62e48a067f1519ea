"""How texts are grouped into batches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memsearch.sinks.embedders.onnx import MAX_BATCH, MAX_BATCH_TOKENS, MIN_FILL, plan


@given(st.lists(st.integers(2, 512), max_size=120))
def test_every_batch_keeps_the_bounds(lengths: list[int]) -> None:
    batches = plan(lengths)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        counts = [lengths[index] for index in batch]
        assert len(batch) <= MAX_BATCH
        assert len(batch) == 1 or len(batch) * max(counts) <= MAX_BATCH_TOKENS
        assert min(counts) >= MIN_FILL * max(counts)


def test_examples() -> None:
    assert plan([]) == []
    assert plan([2000]) == [[0]]
    # Eight of one length go together, the ninth alone.
    assert [len(batch) for batch in plan([50] * 9)] == [8, 1]
    # Two of 256 fill a pass.
    assert [len(batch) for batch in plan([256] * 4)] == [2, 2]
    assert [len(batch) for batch in plan([512] * 2)] == [1, 1]
    # A short text does not ride with a long one.
    assert plan([10, 400, 12]) == [[1], [2, 0]]


def test_making_one_loads_and_writes_nothing() -> None:
    script = (
        "import sys\n"
        "from memsearch.sinks.embedders.onnx import OnnxEmbedder\n"
        "OnnxEmbedder('/nowhere/at/all').close()\n"
        "print([m for m in ('onnxruntime', 'onnx', 'tokenizers', 'filelock') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_onnxruntime_is_loaded_with_its_telemetry_off(tmp_path: Path) -> None:
    """Its official builds for Linux report to their maker; the first thing that they do for it
    is to keep an identifier in the folder of temporary files."""
    script = "from memsearch.sinks.embedders.onnx import session_options; session_options(1)"
    # Where CI is set it is off by itself.
    environ = {name: value for name, value in os.environ.items() if name != "CI"}
    for name in ("ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS"):
        environ.pop(name, None)
    environ |= {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-P", "-c", script], env=environ, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(tmp_path.iterdir()) == []
