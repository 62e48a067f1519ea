"""The network of multilingual-e5-small as an ONNX graph with 4-bit weights.

The weights stay as they are quantised: a Q4_0 block of 32 is exactly what onnxruntime's
``MatMulNBits`` multiplies with, only the halves of its bytes lie in another order. The word
embeddings are left out: they are looked up in the weights file itself (``Weights.word_rows``),
which makes the graph 14 MB instead of 116 and keeps the table out of memory.

The graph takes ``embeddings`` (float32, batch x tokens x 384: word + position + type, before
the first layer norm) and ``attention_mask`` (int32, batch x tokens, 1 for a token, 0 for
padding) and gives ``last_hidden_state`` (float32, batch x tokens x 384). The encoder is BERT's
(Devlin et al. 2018): post-layer-norm, exact GELU.

Operators of the domain ``com.microsoft``:
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import write_atomic
from memsearch.sinks.disk import disk_error
from memsearch.sinks.embedders.e5_weights import BLOCK, Bytes, Floats, Weights

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Raised whenever ``build`` makes another graph, so that an older file is not taken for it.
GRAPH_VERSION = 1

#: How long to wait for another process that is writing the graph, in seconds. It takes one.
LOCK_SECONDS = 120.0

#: ``accuracy_level`` of MatMulNBits: 4 multiplies in int8, the fast path of x86-64 and arm64
#: (and what the engine of the weights' own package does).
ACCURACY_LEVEL = 4

_OPSET = 17
_IR_VERSION = 9
_DOMAIN = "com.microsoft"
# Score of a padded place before the softmax: far below any real one, and finite.
_MASKED = -1e9


def graph_path(models_dir: str) -> str:
    """Where the graph lies in a folder of models."""
    return str(Path(models_dir) / f"multilingual-e5-small-q4-{GRAPH_VERSION}.onnx")


def ensure(models_dir: str, weights: Weights) -> bytes:
    """The graph, written to the folder of models if it is not whole there yet.

    Beside it lies its checksum (``….onnx.sha256``, the form of ``sha256sum``). A file that
    does not match, because a write was cut or somebody touched it, is written again. Any
    number of processes may call at once: one writes, the others wait and read.

    Args:
        models_dir: The folder; it is made when missing.
        weights: Where the graph is made from.

    Returns:
        The serialised graph, checked.

    Raises:
        MemsearchError: ``DISK_FULL``, ``PERMISSION``, or ``BUSY`` when another process has
            held the lock for ``LOCK_SECONDS``.
    """
    path = graph_path(models_dir)
    try:
        data = _read_checked(path)
        if data is not None:
            return data
        Path(models_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(path + ".lock"):
            data = _read_checked(path)
            if data is None:
                data = build(weights)
                write_atomic(path, data)
                # Last: a graph without its checksum counts as unfinished.
                write_atomic(_checksum_path(path), _checksum_line(path, data))
    except OSError as exc:
        raise disk_error(exc, f"the embedding model (14 MB) cannot be kept at {path}") from exc
    return data


def build(weights: Weights) -> bytes:
    """Make the graph from the weights; no file is touched.

    Returns:
        A serialised ``onnx.ModelProto`` of 14 MB.
    """
    graph = _Graph()
    size = weights.geometry
    x = graph.add(
        "LayerNormalization",
        ["embeddings", *graph.norm("embedding_norm", weights, "emb.ln")],
        "layer_0",
        epsilon=size.epsilon,
        axis=-1,
    )
    for layer in range(size.layers):
        x = _layer(graph, weights, layer, x)
    return graph.serialise(inputs_width=size.hidden, output=x)


def _layer(graph: _Graph, weights: Weights, layer: int, x: str) -> str:
    size = weights.geometry
    at = f"layer_{layer}"
    source = f"l{layer}"

    def linear(x: str, name: str, rows: int) -> str:
        return graph.linear(x, f"{at}/{name}", weights, f"{source}.{name}", rows)

    def add_and_norm(x: str, residual: str, name: str, output: str) -> str:
        return graph.add(
            "SkipLayerNormalization",
            [x, residual, *graph.norm(f"{at}/{name}", weights, f"{source}.{name}")],
            output,
            domain=_DOMAIN,
            epsilon=size.epsilon,
        )

    query, key, value = (linear(x, name, size.hidden) for name in "qkv")
    context = graph.add(
        "MultiHeadAttention",
        [query, key, value, "", "attention_mask"],
        f"{at}/context",
        domain=_DOMAIN,
        num_heads=size.heads,
        mask_filter_value=_MASKED,
    )
    x = add_and_norm(linear(context, "ao", size.hidden), x, "aln", f"{at}/attended")
    wide = linear(x, "fi", size.intermediate)
    wide = graph.add("Gelu", [wide], f"{at}/gelu", domain=_DOMAIN)
    return add_and_norm(linear(wide, "fo", size.hidden), x, "oln", f"layer_{layer + 1}")


class _Graph:
    """Collects nodes and constants; ``onnx`` is imported here and nowhere else."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self._helper = helper
        self._numpy_helper = numpy_helper
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node with one output; return the output's name."""
        self._nodes.append(self._helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, values: Floats | Bytes) -> str:
        self._constants.append(self._numpy_helper.from_array(values, name))
        return name

    def norm(self, name: str, weights: Weights, source: str) -> tuple[str, str]:
        """The scale and shift of a layer norm."""
        return (
            self.constant(f"{name}/scale", weights.floats(f"{source}.w")),
            self.constant(f"{name}/shift", weights.floats(f"{source}.b")),
        )

    def linear(self, x: str, name: str, weights: Weights, source: str, rows: int) -> str:
        """``x @ W.T + b`` with the quantised W, ``rows`` outputs wide."""
        scales, values = weights.quantised(f"{source}.w", rows)
        # MatMulNBits has weight 2j in the low and 2j + 1 in the high half of byte j, and a
        # zero point of 8 when none is given, as Q4_0 has.
        packed: Bytes = np.bitwise_or(values[:, :, 0::2], values[:, :, 1::2] * np.uint8(16))
        inputs = [
            x,
            self.constant(f"{name}/weights", packed),
            self.constant(f"{name}/scales", scales.reshape(-1)),
            "",
            "",
            self.constant(f"{name}/bias", weights.floats(f"{source}.b")),
        ]
        return self.add(
            "MatMulNBits",
            inputs,
            name,
            domain=_DOMAIN,
            K=scales.shape[1] * BLOCK,
            N=rows,
            bits=4,
            block_size=BLOCK,
            accuracy_level=ACCURACY_LEVEL,
        )

    def serialise(self, inputs_width: int, output: str) -> bytes:
        from onnx import TensorProto

        helper = self._helper
        self.add("Identity", [output], "last_hidden_state")
        shape = ["batch", "tokens", inputs_width]
        graph = helper.make_graph(
            self._nodes,
            "multilingual-e5-small-q4",
            [
                helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, shape),
                helper.make_tensor_value_info("attention_mask", TensorProto.INT32, shape[:2]),
            ],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape)],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_DOMAIN, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        serialised: bytes = model.SerializeToString()
        return serialised


def _read_checked(path: str) -> bytes | None:
    """The graph if it is there and matches its checksum."""
    try:
        checksum = Path(_checksum_path(path)).read_bytes()
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    return data if checksum == _checksum_line(path, data) else None


def _checksum_path(path: str) -> str:
    return path + ".sha256"


def _checksum_line(path: str, data: bytes) -> bytes:
    return f"{hashlib.sha256(data).hexdigest()}  {Path(path).name}\n".encode()


@contextlib.contextmanager
def _lock(path: str) -> Iterator[None]:
    from filelock import FileLock, Timeout

    # Not the singleton of filelock: two threads of one process must wait for each other too.
    lock = FileLock(path, timeout=LOCK_SECONDS, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout as exc:
        raise MemsearchError(
            f"another process has been writing the embedding model for {LOCK_SECONDS:.0f} s",
            kind=ErrorClass.BUSY,
            hint=f"its lock is {path}",
        ) from exc
    try:
        yield
    finally:
        lock.release()
