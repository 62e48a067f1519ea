"""BGE-M3 on onnxruntime: 1,024 numbers, a hundred languages, better and slower than the default.

The 8-bit weights are fetched from their hub when somebody asks for them (``hub``). The vector
of a text is the last hidden state of its first token, scaled to length 1, and neither questions
nor passages get a prefix (Chen et al. 2024, "M3-Embedding"; only its dense vectors are used).
"""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders import hub
from memsearch.sinks.embedders.onnx import DEFAULT_THREADS, available_cpus, session_options, trim
from memsearch.sinks.embedders.pins import BGE_M3_FILES
from memsearch.sinks.embedders.presets import BGE_M3_DIMENSION, BGE_M3_IDENTITY
from memsearch.sinks.types import Vectors

#: Tokens of a text that are looked at, start and end included. A chunk of 1,500 Chinese
#: characters has about 1,000; the memory of a pass grows with their square.
MAX_TOKENS = 1_024

#: Texts between two writes into the cache. Each goes through the network alone: its products
#: are large enough, and padding would be wasted.
BATCH_SIZE = 8


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The model in memory. Whoever runs it holds a reference."""

    session: Any  # onnxruntime.InferenceSession
    tokenizer: Any  # tokenizers.Tokenizer


class BgeM3Embedder:
    """Implements ``memsearch.sinks.types.Embedder``; nothing is loaded before the first call.

    Args:
        models_dir: Folder of all models.
        pinned: The files; tests have smaller ones.
        threads: Threads for one pass; ``min(2, CPUs)`` when None.
    """

    model: str = BGE_M3_IDENTITY
    dimension: int | None = BGE_M3_DIMENSION
    paid: bool = False
    batch_size: int = BATCH_SIZE

    def __init__(
        self, models_dir: str, *, pinned: hub.Pinned = BGE_M3_FILES, threads: int | None = None
    ) -> None:
        self._models_dir = models_dir
        self._pinned = pinned
        self._threads = threads or min(DEFAULT_THREADS, available_cpus())
        self._loaded: _Loaded | None = None
        self._loading = threading.Lock()
        # One passage at a time, so that memory stays bounded; questions do not wait for it.
        self._passage = threading.Lock()

    def embed_passages(self, texts: list[str]) -> Vectors:
        """Vectors of stored texts, shape ``(len(texts), 1024)``, float32, L2 norm 1.

        Raises:
            MemsearchError: ``CONFIG`` when the model is not on this machine; ``BUG`` when the
                network fails.
        """
        vectors = np.empty((len(texts), BGE_M3_DIMENSION), np.float32)
        for place, text in enumerate(texts):
            with self._passage:
                vectors[place] = self._vector(text)
        if texts:
            trim()
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, shape ``(1024,)``, float32, L2 norm 1."""
        return self._vector(text)

    def estimate(self, texts: list[str]) -> tuple[int, float]:
        """See ``Embedder``: nothing leaves this machine."""
        del texts
        return 0, 0.0

    def close(self) -> None:
        """Let go of the model and its memory; the next call loads it again."""
        with self._loading:
            if self._loaded is None:
                return
            self._loaded = None
        gc.collect()
        trim()

    def _vector(self, text: str) -> Vectors:
        model = self._load()
        encoded = model.tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"))
        ids = np.array([encoded.ids], np.int64)
        try:
            (states,) = model.session.run(
                ["last_hidden_state"], {"input_ids": ids, "attention_mask": np.ones_like(ids)}
            )
        except Exception as error:
            raise MemsearchError(
                f"the embedding model failed on a text of {ids.shape[1]} tokens: {error}",
                kind=ErrorClass.BUG,
            ) from error
        first: Vectors = np.asarray(states[0, 0], np.float32)
        norm = float(np.linalg.norm(first))
        if first.shape != (BGE_M3_DIMENSION,) or not np.isfinite(norm) or norm == 0:
            raise MemsearchError("the embedding model gave no vector", kind=ErrorClass.BAD_ANSWER)
        return first / np.float32(norm)

    def _load(self) -> _Loaded:
        loaded = self._loaded
        if loaded is None:
            with self._loading:
                loaded = self._loaded
                if loaded is None:
                    folder = hub.require(self._pinned, self._models_dir)
                    loaded = self._loaded = _load(folder, self._pinned, self._threads)
        return loaded


def _load(folder: str, pinned: hub.Pinned, threads: int) -> _Loaded:
    options = session_options(threads)
    import onnxruntime
    from tokenizers import Tokenizer

    network, words = (os.path.join(folder, file.name) for file in pinned.files)
    try:
        tokenizer = Tokenizer.from_file(words)
        tokenizer.enable_truncation(MAX_TOKENS)
        session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise MemsearchError(
            f"the model in {folder} cannot be loaded: {error}",
            kind=ErrorClass.BAD_FILE,
            hint=f"delete that folder; {hub.COMMAND} {pinned.name} loads it anew",
        ) from error
    return _Loaded(session, tokenizer)
