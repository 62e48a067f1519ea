"""Fetching a model: from a server on a socket that cuts, lies and goes away; then running it."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders import hub
from memsearch.sinks.embedders.bge_m3 import BgeM3Embedder
from memsearch.sinks.embedders.pins import BGE_M3_FILES
from memsearch.sinks.embedders.presets import BGE_M3_DIMENSION

WORDS = ["<unk>", "<s>", "</s>", "valve", "pump", "阀门"]


def network() -> bytes:
    """A network with BGE-M3's inputs and output: each token's state is its row of a table."""
    table = np.random.default_rng(1).normal(size=(len(WORDS), BGE_M3_DIMENSION))
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("ReduceSum", ["mask"], ["length"], keepdims=0),
            helper.make_node("ReduceMean", ["rows", "axis"], ["mean"], keepdims=1),
            helper.make_node("Add", ["rows", "mean"], ["sums"]),
            helper.make_node("Div", ["sums", "length"], ["last_hidden_state"]),
        ],
        "tiny",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"]),
        ],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["batch", "length", BGE_M3_DIMENSION]
            )
        ],
        [
            numpy_helper.from_array(table.astype(np.float32), "table"),
            numpy_helper.from_array(np.array([1], np.int64), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def tokenizer() -> bytes:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return str(made.to_str()).encode()


class Hub(ThreadingHTTPServer):
    """Serves ``files`` as the real one does, with ranges; ``fault`` decides otherwise."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.ranges = True
        self.fault: Callable[[_Handler, bytes], bool] = lambda handler, data: False
        self.asked: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        given = self.headers.get("Range") or ""
        self.server.asked.append((self.path, given))
        if self.path.startswith("/moved"):
            self.path = self.path.removeprefix("/moved")
        elif "/resolve/" in self.path:  # the real hub sends one on to where the bytes lie
            self.send_response(302)
            self.send_header("Location", "/moved" + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = self.server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        if self.server.fault(self, data):
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", given)[1]) if given else 0  # type: ignore[index]
        if start and self.server.ranges:
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            data = data[start:]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def cut(after: int) -> Callable[[_Handler, bytes], bool]:
    """The connection ends after so many bytes of the first answer."""
    times = [0]

    def fault(handler: _Handler, data: bytes) -> bool:
        times[0] += 1
        if times[0] > 1:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:after])
        handler.wfile.flush()
        handler.close_connection = True
        return True

    return fault


@pytest.fixture(scope="module")
def content() -> dict[str, bytes]:
    return {"onnx/tiny.onnx": network(), "tokenizer.json": tokenizer()}


@pytest.fixture(scope="module")
def tiny(content: dict[str, bytes]) -> hub.Pinned:
    return hub.Pinned(
        "tiny",
        "somebody/tiny",
        "0123456789abcdef0123456789abcdef01234567",
        tuple(
            hub.PinnedFile(path, len(data), hashlib.sha256(data).hexdigest())
            for path, data in content.items()
        ),
    )


@pytest.fixture
def server(content: dict[str, bytes], tiny: hub.Pinned) -> Iterator[Hub]:
    base = f"/{tiny.repository}/resolve/{tiny.revision}/"
    running = Hub({base + path: data for path, data in content.items()})
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def names(tiny: hub.Pinned, models: Path) -> set[str]:
    return {name for name in os.listdir(tiny.folder(str(models))) if not name.startswith(".")}


def test_it_is_fetched_once_with_progress_and_then_runs(
    server: Hub, tiny: hub.Pinned, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    with pytest.raises(MemsearchError, match="memsearch model fetch tiny"):
        BgeM3Embedder(str(tmp_path), pinned=tiny).embed_query("valve")
    hub.fetch(tiny, str(tmp_path), server.url, lambda *now: told.append(now))
    assert names(tiny, tmp_path) == {"tiny.onnx", "tokenizer.json"}
    assert told[-1] == (tiny.size, tiny.size)
    assert told == sorted(told)
    asked = len(server.asked)
    hub.fetch(tiny, str(tmp_path), server.url)
    assert len(server.asked) == asked

    embedder = BgeM3Embedder(str(tmp_path), pinned=tiny)
    vectors = embedder.embed_passages(["valve pump", "阀门", "valve pump", "", "valve " * 5000])
    assert vectors.shape == (5, BGE_M3_DIMENSION)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[0], embedder.embed_query("valve pump"))
    assert not np.allclose(vectors[0], vectors[1])
    # The first token's state counts: it depends on the others, as far as they are looked at.
    assert np.array_equal(vectors[4], embedder.embed_query("valve " * 1022))
    embedder.close()
    assert np.array_equal(embedder.embed_query("阀门"), vectors[1])
    assert embedder.embed_passages([]).shape == (0, BGE_M3_DIMENSION)


@pytest.mark.parametrize("ranges", [True, False])
def test_what_was_cut_goes_on(server: Hub, tiny: hub.Pinned, tmp_path: Path, ranges: bool) -> None:
    server.fault = cut(1000)
    server.ranges = ranges
    with pytest.raises(MemsearchError) as caught:
        hub.fetch(tiny, str(tmp_path), server.url)
    assert caught.value.kind is ErrorClass.NETWORK
    assert "goes on" in caught.value.hint
    assert names(tiny, tmp_path) == {"tiny.onnx.part"}
    server.asked.clear()
    hub.fetch(tiny, str(tmp_path), server.url)
    assert server.asked[0][1] == server.asked[1][1] == "bytes=1000-"
    assert not tiny.missing(str(tmp_path))


def test_other_bytes_are_refused_and_not_kept(
    server: Hub, tiny: hub.Pinned, tmp_path: Path
) -> None:
    path = next(iter(server.files))
    good = server.files[path]
    for bad in (good[:-1] + bytes([good[-1] ^ 1]), good + b"!", good[:-1], b"<html>not here"):
        server.files[path] = bad
        with pytest.raises(MemsearchError) as caught:
            hub.fetch(tiny, str(tmp_path), server.url)
        assert caught.value.kind is ErrorClass.BAD_FILE, bad[:20]
        assert "pinned" in caught.value.message
        assert names(tiny, tmp_path) == set()
    server.files[path] = good
    hub.fetch(tiny, str(tmp_path), server.url)
    assert not tiny.missing(str(tmp_path))


def test_a_part_of_something_else_is_noticed_and_begun_anew(
    server: Hub, tiny: hub.Pinned, tmp_path: Path
) -> None:
    folder = Path(tiny.folder(str(tmp_path)))
    folder.mkdir()
    (folder / "tiny.onnx.part").write_bytes(b"x" * 5000)
    with pytest.raises(MemsearchError, match="SHA-256"):
        hub.fetch(tiny, str(tmp_path), server.url)
    hub.fetch(tiny, str(tmp_path), server.url)
    (folder / "tiny.onnx").unlink()
    (folder / "tiny.onnx.part").write_bytes(b"x" * (tiny.files[0].size + 1))
    hub.fetch(tiny, str(tmp_path), server.url)
    assert not tiny.missing(str(tmp_path))


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, ErrorClass.CONFIG), (401, ErrorClass.CONFIG), (503, ErrorClass.SERVER)],
)
def test_a_refusal_says_who_and_what(
    server: Hub, tiny: hub.Pinned, tmp_path: Path, status: int, kind: ErrorClass
) -> None:
    def fault(handler: _Handler, data: bytes) -> bool:
        del data
        handler.send_error(status)
        return True

    server.fault = fault
    with pytest.raises(MemsearchError, match=str(status)) as caught:
        hub.fetch(tiny, str(tmp_path), server.url)
    assert caught.value.kind is kind
    assert caught.value.hint


def test_without_network_the_next_step_is_named(tiny: hub.Pinned, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(MemsearchError) as caught:
            hub.fetch(tiny, str(tmp_path), url)
    assert caught.value.kind is ErrorClass.NETWORK
    assert "--from FOLDER" in caught.value.hint
    with pytest.raises(MemsearchError) as caught:
        hub.fetch(tiny, str(tmp_path), "no address")
    assert caught.value.kind is ErrorClass.CONFIG


def test_a_folder_will_do(content: dict[str, bytes], tiny: hub.Pinned, tmp_path: Path) -> None:
    source, models = tmp_path / "stick", tmp_path / "models"
    source.mkdir()
    with pytest.raises(MemsearchError, match=r"tiny\.onnx is not in"):
        hub.take(tiny, str(models), str(source))
    (source / "tiny.onnx").write_bytes(b"another")
    (source / "tokenizer.json").write_bytes(content["tokenizer.json"])
    with pytest.raises(MemsearchError):
        hub.take(tiny, str(models), str(source))
    assert len(tiny.missing(str(models))) == 2
    (source / "onnx").mkdir()
    (source / "onnx" / "tiny.onnx").write_bytes(content["onnx/tiny.onnx"])
    hub.take(tiny, str(models), str(source))
    assert not tiny.missing(str(models))


def test_what_is_pinned_is_well_formed() -> None:
    assert re.fullmatch("[0-9a-f]{40}", BGE_M3_FILES.revision)
    assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) for file in BGE_M3_FILES.files)
    assert BGE_M3_FILES.size > 500_000_000
