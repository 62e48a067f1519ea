"""Embeddings from any endpoint that speaks OpenAI's ``POST /embeddings``.

The client sends each request once: whether and when to try again is the pipeline's decision.
Vectors are asked for as floats, since many compatible servers know nothing else (a preset says
where it is otherwise); either form is read. Every answer is checked before it is used.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import ipaddress
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.embedders.presets import identity
from memsearch.sinks.openai_errors import classify
from memsearch.sinks.types import Vectors

#: Seconds that a batch of passages may wait for bytes of its answer.
PASSAGE_TIMEOUT = 60.0

#: Seconds for a question: somebody is waiting, and keywords can answer alone.
QUERY_TIMEOUT = 15.0

#: Requests under way at once.
CONCURRENCY = 4

#: UTF-8 bytes per token in our estimate: low for English, about right for Chinese and code,
#: so that batches stay below the provider's bound.
BYTES_PER_TOKEN = 3

#: What is called so costs nothing, wherever it runs.
FREE_NAME = "ollama"

#: Sent in place of a text without letters, which most endpoints refuse.
EMPTY_TEXT = "(empty)"

Role = Literal["query", "passage"]


def estimate_tokens(text: str) -> int:
    """Tokens that a text may have with any of the usual tokenizers, rather too many."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def batches(tokens: Sequence[int], batch_size: int, batch_tokens: int) -> list[range]:
    """Cut a list of texts into requests.

    Args:
        tokens: Estimated tokens of each text.
        batch_size: Texts in one request at most.
        batch_tokens: Tokens in one request at most; a single larger text stands alone.

    Returns:
        Ranges of indices, in order, that cover every text once.
    """
    cuts: list[range] = []
    start = total = 0
    for index, count in enumerate(tokens):
        if index > start and (index - start >= batch_size or total + count > batch_tokens):
            cuts.append(range(start, index))
            start, total = index, 0
        total += count
    if start < len(tokens):
        cuts.append(range(start, len(tokens)))
    return cuts


def is_loopback(base_url: str) -> bool:
    """The address is this machine's own."""
    host = (urlsplit(base_url).hostname or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


#: Endings of names that only a private network knows.
_PRIVATE_NAMES = (".local", ".lan", ".home", ".internal", ".intranet", ".home.arpa", ".localdomain")


def is_private(base_url: str) -> bool:
    """The address is this machine's own, or one of its private network: nobody bills for it.

    Told by the address as it is written; nothing is looked up. A name without a dot is one of
    the local network, as containers have.
    """
    if is_loopback(base_url):
        return True
    host = (urlsplit(base_url).hostname or "").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_NAMES)
    return address.is_private or address.is_link_local


class OpenAIEmbedder:
    """Implements ``memsearch.sinks.types.Embedder``. Nothing is sent before the first call.

    Args:
        model: The model's name at the endpoint.
        base_url: The endpoint, up to and with ``/v1``.
        api_key: The key, or a function that looks it up when a request is made (so that a key
            set later needs no restart). Empty where the endpoint wants none.
        name: What the identity of the model begins with: the provider.
        key_hint: What to do when a key is needed and there is none; empty: none is needed.
        batch_size: Texts in one request at most.
        batch_tokens: Estimated tokens in one request at most.
        input_tokens: Estimated tokens of one text at most; the rest of it is cut off.
        dimension: Length of the vectors if it is known.
        ask_dimension: Ask for vectors of that length.
        dimension_field: The request's field for it.
        encoding_format: The form in which vectors are asked for.
        query_body: Fields added to the request for a question.
        passage_body: Fields added to the request for passages.
        query_prefix: Put before a question.
        passage_prefix: Put before each passage.
        concurrency: Requests under way at once.
        query_timeout: Seconds.
        passage_timeout: Seconds.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str | Callable[[], str] = "",
        *,
        name: str = "openai",
        key_hint: str = "",
        batch_size: int = 64,
        batch_tokens: int = 100_000,
        input_tokens: int = 6_000,
        dimension: int | None = None,
        ask_dimension: bool = False,
        dimension_field: str = "dimensions",
        encoding_format: Literal["float", "base64"] = "float",
        query_body: dict[str, str] | None = None,
        passage_body: dict[str, str] | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        concurrency: int = CONCURRENCY,
        query_timeout: float = QUERY_TIMEOUT,
        passage_timeout: float = PASSAGE_TIMEOUT,
    ) -> None:
        asked = dimension if ask_dimension and dimension else 0
        self.model = identity(name, model, asked, passage_prefix)
        self.dimension = dimension
        self.paid = name != FREE_NAME and not is_private(base_url)
        self.batch_size = batch_size
        self._name = model
        self._base_url = base_url
        self._api_key = api_key
        self._key_hint = key_hint
        self._batch_tokens = batch_tokens
        self._input_bytes = input_tokens * BYTES_PER_TOKEN
        self._encoding_format = encoding_format
        length = {dimension_field: asked} if asked else {}
        self._bodies: dict[Role, dict[str, Any]] = {
            "query": length | (query_body or {}),
            "passage": length | (passage_body or {}),
        }
        self._prefixes: dict[Role, str] = {"query": query_prefix, "passage": passage_prefix}
        self._timeouts: dict[Role, float] = {"query": query_timeout, "passage": passage_timeout}
        self._concurrency = concurrency
        self._connection: _Connection | None = None
        self._lock = threading.Lock()
        self._what = f"the embedding endpoint {_address(base_url)}"

    def embed_passages(self, texts: list[str]) -> Vectors:
        """Vectors of stored texts, shape ``(len(texts), dimension)``, float32, L2 norm 1.

        Raises:
            MemsearchError: as ``memsearch.sinks.openai_errors.classify`` says, or
                ``BAD_ANSWER`` when the answer is not what was asked for. The error of the
                earliest batch that failed; no further request is begun after it.
        """
        if not texts:
            return np.empty((0, self.dimension or 0), np.float32)
        inputs = [self._input(text, "passage") for text in texts]
        cuts = batches([estimate_tokens(t) for t in inputs], self.batch_size, self._batch_tokens)
        if len(cuts) == 1:
            return self._embed(inputs, "passage")
        parts = self._all([inputs[cut.start : cut.stop] for cut in cuts])
        if len({part.shape[1] for part in parts}) > 1:
            raise self._bad_answer("its vectors have different lengths")
        return np.concatenate(parts)

    def embed_query(self, text: str) -> Vectors:
        """The vector of a question, shape ``(dimension,)``, float32, L2 norm 1.

        Raises:
            MemsearchError: as for ``embed_passages``.
        """
        vector: Vectors = self._send([self._input(text, "query")], "query")[0]
        return vector

    def estimate(self, texts: list[str]) -> tuple[int, float]:
        """Tokens of texts, rather too many, and the share of full requests that they make.

        The sum over all texts, rounded up, is the number of requests, nearly.
        """
        tokens = [estimate_tokens(self._input(text, "passage")) for text in texts]
        by_count = len(texts) / self.batch_size
        return sum(tokens), max(by_count, sum(tokens) / self._batch_tokens)

    def close(self) -> None:
        """Close the connections, those in use when their request ends; a call opens new ones."""
        with self._lock:
            self._retire()

    def _all(self, parts: list[list[str]]) -> list[Vectors]:
        with ThreadPoolExecutor(min(self._concurrency, len(parts))) as pool:
            futures: list[Future[Vectors]] = [
                pool.submit(self._embed, part, "passage") for part in parts
            ]
            wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                future.cancel()  # what has not begun; a no-op when all are done
        done = [future for future in futures if not future.cancelled()]
        return [future.result() for future in done]

    def _embed(self, inputs: list[str], role: Role) -> Vectors:
        """One batch; cut in two where the endpoint refuses it as it is.

        A batch may hold more tokens than we estimated, or one text that is refused for
        itself. Halving finds either with few requests, since the first text that is refused
        alone ends it.
        """
        try:
            return self._send(inputs, role)
        except MemsearchError as exc:
            if exc.kind is not ErrorClass.BAD_REQUEST or len(inputs) == 1:
                raise
        half = len(inputs) // 2
        return np.concatenate([self._embed(inputs[:half], role), self._embed(inputs[half:], role)])

    def _send(self, inputs: list[str], role: Role) -> Vectors:
        key = self._key()
        try:
            with self._client(key) as client:
                response = client.embeddings.with_raw_response.create(
                    model=self._name,
                    input=inputs,
                    encoding_format=self._encoding_format,
                    extra_body=self._bodies[role],
                    timeout=self._timeouts[role],
                )
            answer = json.loads(response.content)
        except Exception as exc:
            raise classify(exc, what=self._what, secret=key) from exc
        return self._vectors(answer, len(inputs))

    def _vectors(self, answer: Any, count: int) -> Vectors:
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list) or len(data) != count:
            got = len(data) if isinstance(data, list) else "no"
            raise self._bad_answer(f"{got} vectors for {count} texts")
        rows: list[npt.NDArray[np.float32] | None] = [None] * count
        for position, item in enumerate(data):
            index = item.get("index", position) if isinstance(item, dict) else -1
            if not isinstance(index, int) or not 0 <= index < count or rows[index] is not None:
                raise self._bad_answer("its vectors cannot be matched with the texts")
            rows[index] = self._row(item.get("embedding"))
        lengths = {len(row) for row in rows if row is not None}
        if len(lengths) != 1:
            raise self._bad_answer("its vectors have different lengths")
        (length,) = lengths
        if self.dimension is None and length:
            self.dimension = length
        if length != self.dimension:
            raise self._bad_answer(f"its vectors have {length} numbers, not {self.dimension}")
        matrix = np.stack([row for row in rows if row is not None])
        # In double precision: a vector of large numbers must not overflow its norm.
        norms = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
        if not np.all(np.isfinite(norms)) or not np.all(norms > 0):
            raise self._bad_answer("a vector of it is zero or not finite")
        unit: Vectors = (matrix / norms).astype(np.float32)
        return unit

    def _row(self, embedding: Any) -> npt.NDArray[np.float32]:
        try:
            if isinstance(embedding, str):
                return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
            with np.errstate(over="ignore"):  # infinity is refused with the norm
                row = np.array(embedding, np.float32)
        except (ValueError, TypeError, OverflowError, binascii.Error) as exc:
            raise self._bad_answer("a vector of it is no list of numbers") from exc
        if row.ndim != 1:
            raise self._bad_answer("a vector of it is no list of numbers")
        return row

    def _input(self, text: str, role: Role) -> str:
        text = self._prefixes[role] + (text if text.strip() else EMPTY_TEXT)
        raw = text.encode("utf-8", "replace")[: self._input_bytes]
        return raw.decode("utf-8", "ignore")

    def _key(self) -> str:
        key = self._api_key() if callable(self._api_key) else self._api_key
        if not key and self._key_hint:
            raise MemsearchError(
                f"no key is set for {self._what}",
                kind=ErrorClass.CREDENTIALS,
                hint=self._key_hint,
            )
        return key

    @contextlib.contextmanager
    def _client(self, key: str) -> Iterator[Any]:
        """A client with this key. One that is let go of meanwhile is closed after its use."""
        with self._lock:
            connection = self._connection
            if connection is None or connection.key != key:
                import openai

                self._retire()
                # The client insists on some key.
                client = openai.OpenAI(
                    api_key=key or "none", base_url=self._base_url, max_retries=0
                )
                connection = self._connection = _Connection(client, key)
            connection.users += 1
        try:
            yield connection.client
        finally:
            with self._lock:
                connection.users -= 1
                if connection is not self._connection and not connection.users:
                    connection.client.close()

    def _retire(self) -> None:
        """Let go of the present client; the lock is held."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.users:
            connection.client.close()

    def _bad_answer(self, why: str) -> MemsearchError:
        return MemsearchError(
            f"{self._what} did not answer what was asked (model {self._name}): {why}",
            kind=ErrorClass.BAD_ANSWER,
        )


@dataclass(slots=True)
class _Connection:
    """An ``openai.OpenAI`` and how many threads are using it."""

    client: Any
    key: str
    users: int = 0


def _address(base_url: str) -> str:
    """The endpoint for a message: without a user or password that the URL may hold."""
    parts = urlsplit(base_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
