"""The built-in embedder: multilingual-e5-small on onnxruntime, without network or hub.

384 dimensions, a hundred languages in one space. A text gets the prefix that the model was
trained with ("query: " or "passage: "; Wang et al. 2024, "Multilingual E5 Text Embeddings"),
the last hidden states of its tokens are averaged, and the mean is scaled to length 1.

Memory decides the settings, since a background process keeps this loaded: no arena (freed
activations go back to the system), few tokens at a time, word embeddings read from the file.
``benchmarks/embedder.py`` prints what each is worth.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders.presets import BUILT_IN_DIMENSION, BUILT_IN_IDENTITY
from memsearch.sinks.types import Vectors

if TYPE_CHECKING:
    from memsearch.sinks.embedders.e5_tokenizer import E5Tokenizer
    from memsearch.sinks.embedders.e5_weights import Weights

QUERY_PREFIX = "query: "
PASSAGE_PREFIX = "passage: "

#: Tokens that one pass of the network takes, start and end token included.
MAX_TOKENS = 512

#: Passes for one passage at most. A chunk of 1,500 Chinese characters has about 1,000 tokens;
#: cutting at the first 512 would hide its second half from the search.
MAX_WINDOWS = 4

#: Texts in one pass at most. Batches save little here: the products are large enough alone.
MAX_BATCH = 8

#: Tokens in one pass at most, padding included: what bounds the memory of activations.
MAX_BATCH_TOKENS = 512

#: The shortest text of a batch has at least this share of the longest one's tokens, so that
#: little work goes into padding.
MIN_FILL = 0.75

#: Threads for one pass unless told otherwise.
DEFAULT_THREADS = 2


def plan(lengths: list[int]) -> list[list[int]]:
    """Group texts of similar length into batches.

    Args:
        lengths: Tokens of each text.

    Returns:
        Indices into ``lengths``, each exactly once, in batches that keep ``MAX_BATCH``,
        ``MAX_BATCH_TOKENS`` (a single longer text stands alone) and ``MIN_FILL``.
    """
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if (
            batches
            and len(batches[-1]) < MAX_BATCH
            and (len(batches[-1]) + 1) * longest <= MAX_BATCH_TOKENS
            and lengths[index] >= MIN_FILL * longest
        ):
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = lengths[index]
    return batches


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The model in memory. Whoever runs it holds a reference, so release() is safe."""

    tokenizer: E5Tokenizer
    weights: Weights
    session: Any  # onnxruntime.InferenceSession
    positions: Vectors  # position + type embeddings, shape (512, 384)
    bos: int
    eos: int

    def windows(self, text: str, limit: int) -> list[list[int]]:
        """Token ids of a text in pieces that the network takes, each with its ends."""
        inside = MAX_TOKENS - 2
        ids = self.tokenizer.encode(text, limit * inside)
        return [
            [self.bos, *ids[start : start + inside], self.eos]
            for start in range(0, max(1, len(ids)), inside)
        ]

    def means(self, windows: list[list[int]]) -> Vectors:
        """Mean of the last hidden states of each window, shape ``(len(windows), 384)``."""
        lengths = np.array([len(ids) for ids in windows])
        width = int(lengths.max())
        mask = (np.arange(width) < lengths[:, None]).astype(np.int32)
        tokens, places = np.unique(np.concatenate(windows), return_inverse=True)
        embeddings = np.zeros((len(windows), width, BUILT_IN_DIMENSION), np.float32)
        embeddings[mask.astype(bool)] = self.weights.word_rows(tokens)[places]
        embeddings += self.positions[:width]
        (states,) = self.session.run(
            ["last_hidden_state"], {"embeddings": embeddings, "attention_mask": mask}
        )
        weights = mask / lengths[:, None]
        means: Vectors = np.einsum("btd,bt->bd", states, weights.astype(np.float32))
        return means


class OnnxEmbedder:
    """Implements ``memsearch.sinks.types.Embedder``.

    Nothing is loaded, read or written before the first call. ``release`` lets the model go
    and the next call loads it again (under a second).

    Args:
        models_dir: Folder that the converted network is kept in.
        threads: Threads for one pass; ``min(2, CPUs)`` when None.
    """

    model: str = BUILT_IN_IDENTITY
    dimension: int | None = BUILT_IN_DIMENSION
    paid: bool = False
    batch_size: int = MAX_BATCH

    def __init__(self, models_dir: str, *, threads: int | None = None) -> None:
        self._models_dir = models_dir
        self._threads = threads or min(DEFAULT_THREADS, available_cpus())
        self._loaded: _Loaded | None = None
        self._loading = threading.Lock()
        # One batch of passages at a time, so that memory stays bounded however many threads
        # index; questions do not wait for it.
        self._batch = threading.Lock()

    @property
    def loaded(self) -> bool:
        """The model is in memory."""
        return self._loaded is not None

    def embed_passages(self, texts: list[str]) -> Vectors:
        """Vectors of stored texts, shape ``(len(texts), 384)``, float32, L2 norm 1.

        A text longer than one pass is the mean of its passes, weighted by their tokens; text
        beyond ``MAX_WINDOWS`` passes is not looked at.

        Raises:
            MemsearchError: see ``load``; ``BUG`` when the network fails.
        """
        if not texts:
            return np.empty((0, BUILT_IN_DIMENSION), np.float32)
        model = self._load()
        owners: list[int] = []
        windows: list[list[int]] = []
        for owner, text in enumerate(texts):
            for ids in model.windows(PASSAGE_PREFIX + text, MAX_WINDOWS):
                owners.append(owner)
                windows.append(ids)
        sums = np.zeros((len(texts), BUILT_IN_DIMENSION), np.float32)
        batches = plan([len(ids) for ids in windows])
        for batch in batches:
            with self._batch:
                means = _run(model, [windows[i] for i in batch])
            for i, mean in zip(batch, means, strict=True):
                sums[owners[i]] += mean * (len(windows[i]) - 2)
        if len(batches) > 1:
            trim()
        return _normalise(sums)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, shape ``(384,)``, float32, L2 norm 1.

        Its first 510 tokens count.

        Raises:
            MemsearchError: see ``load``; ``BUG`` when the network fails.
        """
        model = self._load()
        means = _run(model, model.windows(QUERY_PREFIX + text, 1)[:1])
        vector: Vectors = _normalise(means)[0]
        return vector

    def estimate(self, texts: list[str]) -> tuple[int, float]:
        """See ``Embedder``: nothing leaves this machine."""
        del texts
        return 0, 0.0

    def load(self) -> None:
        """Load the model now, converting it first if that was never done.

        Raises:
            MemsearchError: ``CONFIG`` when the weights or onnxruntime are not installed,
                ``BAD_FILE`` when the weights are other ones, ``DISK_FULL`` or ``BUSY`` when
                the network cannot be written.
        """
        self._load()

    def release(self) -> None:
        """Let go of the model and its memory; the next call loads it again."""
        with self._loading:
            if self._loaded is None:
                return
            self._loaded = None
        gc.collect()
        trim()

    def close(self) -> None:
        """The same as ``release``."""
        self.release()

    def _load(self) -> _Loaded:
        loaded = self._loaded
        if loaded is None:
            with self._loading:
                loaded = self._loaded
                if loaded is None:
                    loaded = self._loaded = _load(self._models_dir, self._threads)
                    trim()
        return loaded


def _load(models_dir: str, threads: int) -> _Loaded:
    from memsearch.sinks.embedders import e5_graph
    from memsearch.sinks.embedders.e5_tokenizer import E5Tokenizer
    from memsearch.sinks.embedders.e5_weights import Weights

    weights = Weights()
    try:
        try:
            graph = e5_graph.ensure(models_dir, weights)
        except MemsearchError as exc:
            if exc.kind is not ErrorClass.PERMISSION:
                raise
            # A sandbox that may not write into the home can still search: the graph is made
            # in memory each time, which takes a tenth of a second.
            graph = e5_graph.build(weights)
        session = _session(graph, threads)
        vocabulary = weights.vocabulary()
        size = weights.geometry
        positions = weights.floats("emb.pos").reshape(size.positions, size.hidden)
        first_type = weights.floats("emb.type")[: size.hidden]
        return _Loaded(
            tokenizer=E5Tokenizer(vocabulary),
            weights=weights,
            session=session,
            positions=positions + first_type,
            bos=vocabulary.bos,
            eos=vocabulary.eos,
        )
    except BaseException:
        weights.close()
        raise


def session_options(threads: int) -> Any:
    """The ``onnxruntime.SessionOptions`` of a small footprint.

    Raises:
        MemsearchError: ``CONFIG`` when onnxruntime cannot be loaded.
    """
    # Since 1.29 onnxruntime reports to its maker unless this is set before it is loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as exc:
        from memsearch.sinks.embedders.e5_weights import OTHER_PROVIDERS

        raise MemsearchError(
            f"onnxruntime cannot be loaded: {exc}", kind=ErrorClass.CONFIG, hint=OTHER_PROVIDERS
        ) from exc
    onnxruntime.disable_telemetry_events()  # and once more, in the library's own way
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Idle threads sleep instead of spinning: the process waits most of its life.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors
    return options


def _session(graph: bytes, threads: int) -> Any:
    options = session_options(threads)
    import onnxruntime

    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _run(model: _Loaded, windows: list[list[int]]) -> Vectors:
    try:
        return model.means(windows)
    except MemsearchError:
        raise
    except Exception as exc:
        sizes = [len(ids) for ids in windows]
        raise MemsearchError(
            f"the embedding model failed on texts of {sizes} tokens: {exc}", kind=ErrorClass.BUG
        ) from exc


def _normalise(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
        raise MemsearchError("the embedding model gave no vector", kind=ErrorClass.BAD_ANSWER)
    unit: npt.NDArray[np.float32] = (vectors / norms).astype(np.float32)
    return unit


def available_cpus() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def trim() -> None:
    """Give freed memory back to the system where the C library keeps it (glibc).

    It takes 3 ms and is worth 40 MB after a batch, since activations are freed in another
    order than they were made.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
