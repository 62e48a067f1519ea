"""Any model of sentence-transformers, on this machine (extra ``local``).

The model is fetched from its hub at its first use, by sentence-transformers itself; a folder's
path works without a hub.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

import numpy as np

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders.presets import LOCAL_MODEL, identity
from memsearch.sinks.types import Vectors

#: Texts in one pass at most.
BATCH_SIZE = 16


def prefixes(model: str) -> tuple[str, str]:
    """What the model wants before a question and before a passage."""
    name = model.rstrip("/").rsplit("/", 1)[-1].lower()
    if "e5-" in name and "instruct" not in name:
        return "query: ", "passage: "
    return "", ""


class LocalEmbedder:
    """Implements ``memsearch.sinks.types.Embedder``.

    Args:
        model: A name at the hub or a folder; the default when empty.
        batch_size: Texts in one pass at most; the default when 0.
    """

    paid: bool = False

    def __init__(self, model: str = "", *, batch_size: int = 0) -> None:
        self._name = model or LOCAL_MODEL
        self._query_prefix, self._passage_prefix = prefixes(self._name)
        self.model = identity("local", self._name, 0, "")
        self.dimension: int | None = None
        self.batch_size = batch_size or BATCH_SIZE
        self._encoder: Any = None
        self._lock = threading.Lock()

    def embed_passages(self, texts: list[str]) -> Vectors:
        """Vectors of stored texts, shape ``(len(texts), dimension)``, float32, L2 norm 1.

        Raises:
            MemsearchError: ``CONFIG`` when the extra is missing or the model cannot be
                loaded, ``BAD_ANSWER`` when it gives no vector.
        """
        if not texts:
            return np.empty((0, self.dimension or 0), np.float32)
        return self._encode([self._passage_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, shape ``(dimension,)``, float32, L2 norm 1."""
        vector: Vectors = self._encode([self._query_prefix + text])[0]
        return vector

    def estimate(self, texts: list[str]) -> tuple[int, float]:
        """See ``Embedder``: nothing leaves this machine."""
        del texts
        return 0, 0.0

    def close(self) -> None:
        """Let go of the model; the next call loads it again."""
        with self._lock:
            self._encoder = None

    def _encode(self, texts: list[str]) -> Vectors:
        with self._lock:
            if self._encoder is None:
                self._encoder = _load(self._name)
            vectors = np.asarray(
                self._encoder.encode(
                    texts,
                    batch_size=self.batch_size,
                    normalize_embeddings=True,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                ),
                np.float32,
            )
        if vectors.ndim != 2 or not np.all(np.linalg.norm(vectors, axis=1) > 0):
            raise MemsearchError(
                f"the model {self._name} gave no vector", kind=ErrorClass.BAD_ANSWER
            )
        self.dimension = int(vectors.shape[1])
        return vectors


def _load(name: str) -> Any:
    try:
        library = importlib.import_module("sentence_transformers")
    except ImportError as exc:
        raise MemsearchError(
            "the provider local needs sentence-transformers, which is not installed",
            kind=ErrorClass.CONFIG,
            hint='pip install "memsearch[local]", or set embedding.provider to onnx',
        ) from exc
    try:
        return library.SentenceTransformer(name)
    except (OSError, ValueError) as exc:
        raise MemsearchError(
            f"the model {name} cannot be loaded: {exc}",
            kind=ErrorClass.CONFIG,
            hint="embedding.model is a name at the hub or the path of a folder",
        ) from exc
