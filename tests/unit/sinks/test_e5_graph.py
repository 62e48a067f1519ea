"""The graph on disk: written once, whole, private, and again when it is not whole."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders import e5_graph
from memsearch.sinks.embedders.e5_weights import Weights


@pytest.fixture(scope="module")
def weights() -> Weights:
    return Weights()


class Builds:
    """Counts how often the graph is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._build = e5_graph.build
        monkeypatch.setattr(e5_graph, "build", self)

    def __call__(self, weights: Weights) -> bytes:
        self.count += 1
        return self._build(weights)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    return Builds(monkeypatch)


def test_it_is_small_and_always_the_same(weights: Weights, models_dir: Path) -> None:
    built = e5_graph.build(weights)
    assert 10_000_000 < len(built) < 16_000_000
    assert built == Path(e5_graph.graph_path(str(models_dir))).read_bytes()


def test_it_is_a_valid_model_with_4_bit_weights(weights: Weights) -> None:
    import onnx

    model = onnx.load_model_from_string(e5_graph.build(weights))
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("MatMulNBits") == 12 * 6
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            attributes = {a.name: a.i for a in node.attribute}
            assert (attributes["bits"], attributes["block_size"]) == (4, 32)


def test_it_is_written_once_and_for_its_owner_alone(
    weights: Weights, builds: Builds, tmp_path: Path
) -> None:
    folder = tmp_path / 'it\'s 模型 "x"' / "models"
    first = e5_graph.ensure(str(folder), weights)
    assert e5_graph.ensure(str(folder), weights) == first
    assert builds.count == 1
    path = Path(e5_graph.graph_path(str(folder)))
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    # The form of sha256sum, so that a person can check it with that.
    digest, name = Path(f"{path}.sha256").read_text(encoding="utf-8").split()
    assert (digest, name) == (hashlib.sha256(first).hexdigest(), path.name)
    assert not [p for p in folder.iterdir() if p.suffix == ".tmp"]


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "no checksum", "old checksum"])
def test_a_file_that_is_not_whole_is_written_again(
    weights: Weights, builds: Builds, models_dir: Path, tmp_path: Path, damage: str
) -> None:
    whole = Path(e5_graph.graph_path(str(models_dir))).read_bytes()
    path = Path(e5_graph.graph_path(str(tmp_path)))
    checksum = Path(f"{path}.sha256")
    path.write_bytes(whole)
    checksum.write_bytes(Path(f"{e5_graph.graph_path(str(models_dir))}.sha256").read_bytes())
    assert e5_graph.ensure(str(tmp_path), weights) == whole
    assert builds.count == 0
    if damage == "cut":
        path.write_bytes(whole[:-1])
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "changed":
        path.write_bytes(whole[:5_000_000] + b"x" + whole[5_000_001:])
    elif damage == "no checksum":
        checksum.unlink()
    else:
        checksum.write_text("0" * 64 + f"  {path.name}\n", encoding="utf-8")
    assert e5_graph.ensure(str(tmp_path), weights) == whole
    assert builds.count == 1
    assert path.read_bytes() == whole
    assert e5_graph.ensure(str(tmp_path), weights) == whole
    assert builds.count == 1


def test_of_several_processes_one_writes_and_the_others_take_it(tmp_path: Path) -> None:
    script = (
        "import sys, hashlib\n"
        "from memsearch.sinks.embedders import e5_graph\n"
        "from memsearch.sinks.embedders.e5_weights import Weights\n"
        "built = []\n"
        "real = e5_graph.build\n"
        "e5_graph.build = lambda w: built.append(1) or real(w)\n"
        "data = e5_graph.ensure(sys.argv[1], Weights())\n"
        "print(len(built), hashlib.sha256(data).hexdigest())\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = [process.communicate(timeout=120)[0].split() for process in running]
    assert sorted(count for count, _ in answers) == ["0", "0", "0", "1"]
    assert len({digest for _, digest in answers}) == 1


def test_a_full_disk_is_named_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from memsearch.sinks.embedders import e5_graph\n"
        "from memsearch.sinks.embedders.e5_weights import Weights\n"
        "from memsearch.config.errors import MemsearchError\n"
        "try:\n"
        "    e5_graph.ensure(sys.argv[1], Weights())\n"
        "except MemsearchError as error:\n"
        "    print(error.kind.value)\n"
    )
    limit = (5_000_000, 5_000_000)
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.stdout.strip() == "disk_full"
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, ErrorClass.DISK_FULL),
        (errno.EROFS, ErrorClass.PERMISSION),
        (errno.EACCES, ErrorClass.PERMISSION),
    ],
)
def test_what_a_refused_write_is_taken_for(
    weights: Weights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, kind: ErrorClass
) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(e5_graph, "write_atomic", refuse)
    with pytest.raises(MemsearchError) as caught:
        e5_graph.ensure(str(tmp_path), weights)
    assert caught.value.kind is kind
    assert e5_graph.graph_path(str(tmp_path)) in caught.value.message


def test_a_lock_that_is_never_freed_is_not_waited_for_ever(
    weights: Weights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from filelock import FileLock

    monkeypatch.setattr(e5_graph, "LOCK_SECONDS", 0.05)
    held = FileLock(e5_graph.graph_path(str(tmp_path)) + ".lock")
    with held, pytest.raises(MemsearchError) as caught:
        e5_graph.ensure(str(tmp_path), weights)
    assert caught.value.kind is ErrorClass.BUSY
