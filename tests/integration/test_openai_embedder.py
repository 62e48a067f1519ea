"""The OpenAI-compatible embedder against an endpoint on a real socket."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.schema import Embedding
from memsearch.sinks.embedders import create
from memsearch.sinks.embedders.openai_api import EMPTY_TEXT, OpenAIEmbedder

#: What an answer is: status, headers, body.
Answer = tuple[int, dict[str, str], bytes]


def vector(text: str, dimension: int = 8) -> list[float]:
    """Numbers that depend on the text, not of length 1."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return [float(byte) - 100.5 for byte in digest[:dimension]]


def fine(body: dict[str, Any]) -> Answer:
    length = body.get("dimensions") or body.get("output_dimension") or 8
    return reply(
        [{"index": i, "embedding": vector(t, length)} for i, t in enumerate(body["input"])]
    )


def reply(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    content = data if isinstance(data, dict) else {"object": "list", "data": data, "model": "m"}
    return (
        status,
        {"Content-Type": "application/json"} | (headers or {}),
        json.dumps(content).encode(),
    )


def refusal(status: int, message: str = "no", headers: dict[str, str] | None = None) -> Answer:
    return reply({"error": {"message": message}}, status, headers)


class Endpoint:
    """Answers as ``order`` says, then as ``default`` does; keeps what was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.order: deque[Callable[[dict[str, Any]], Answer]] = deque()
        self.default: Callable[[dict[str, Any]], Answer] = fine
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with endpoint.lock:
                    endpoint.requests.append({"path": self.path} | body)
                    endpoint.keys.append(self.headers["Authorization"].removeprefix("Bearer "))
                    answer = endpoint.order.popleft() if endpoint.order else endpoint.default
                    endpoint.at_once += 1
                    endpoint.most_at_once = max(endpoint.most_at_once, endpoint.at_once)
                try:
                    status, headers, content = answer(body)
                    self.send_response(status)
                    for name, value in (headers | {"Content-Length": str(len(content))}).items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # the client has gone, as a test wanted
                finally:
                    with endpoint.lock:
                        endpoint.at_once -= 1

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def embedder(endpoint: Endpoint) -> Iterator[OpenAIEmbedder]:
    made = OpenAIEmbedder("m", endpoint.url, "key-1", batch_size=10)
    yield made
    made.close()


def unit(text: str, dimension: int = 8) -> Any:
    values = np.array(vector(text, dimension))
    return pytest.approx(values / np.linalg.norm(values), abs=1e-6)


def failure(call: Callable[[], object]) -> MemsearchError:
    with pytest.raises(MemsearchError) as caught:
        call()
    return caught.value


def test_a_question(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    dimensions = [embedder.dimension]
    answer = embedder.embed_query("重试 when?")
    assert answer == unit("重试 when?")
    assert answer.dtype == np.float32
    dimensions.append(embedder.dimension)
    assert dimensions == [None, 8]
    assert endpoint.requests == [
        {
            "path": "/v1/embeddings",
            "model": "m",
            "input": ["重试 when?"],
            "encoding_format": "float",
        }
    ]
    assert endpoint.keys == ["key-1"]


def test_passages_go_in_batches_and_come_back_in_order(
    endpoint: Endpoint, embedder: OpenAIEmbedder
) -> None:
    texts = [f"text {n}" for n in range(34)]
    vectors = embedder.embed_passages(texts)
    assert vectors.shape == (34, 8)
    for row, text in zip(vectors, texts, strict=True):
        assert row == unit(text)
    assert sorted(len(request["input"]) for request in endpoint.requests) == [4, 10, 10, 10]
    assert {request["encoding_format"] for request in endpoint.requests} == {"float"}
    assert embedder.embed_passages([]).shape == (0, 8)
    assert len(endpoint.requests) == 4


def test_batches_are_bounded_by_tokens_too(endpoint: Endpoint) -> None:
    embedder = OpenAIEmbedder("m", endpoint.url, batch_size=100, batch_tokens=1000)
    embedder.embed_passages(["x" * 900] * 7)  # 300 tokens each by our estimate
    embedder.close()
    assert sorted(len(request["input"]) for request in endpoint.requests) == [1, 3, 3]


def test_requests_under_way_are_bounded(endpoint: Endpoint) -> None:
    def slow(body: dict[str, Any]) -> Answer:
        time.sleep(0.05)
        return fine(body)

    endpoint.default = slow
    embedder = OpenAIEmbedder("m", endpoint.url, batch_size=1, concurrency=3)
    embedder.embed_passages([str(n) for n in range(12)])
    embedder.close()
    assert endpoint.most_at_once == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, ErrorClass.CREDENTIALS),
        (403, ErrorClass.CREDENTIALS),
        (400, ErrorClass.BAD_REQUEST),
        (404, ErrorClass.CONFIG),
        (429, ErrorClass.RATE_LIMIT),
        (500, ErrorClass.SERVER),
        (503, ErrorClass.SERVER),
    ],
)
def test_one_failure_is_one_request(
    endpoint: Endpoint, embedder: OpenAIEmbedder, status: int, kind: ErrorClass
) -> None:
    endpoint.default = lambda body: refusal(status, "the key key-1 says no")
    error = failure(lambda: embedder.embed_query("x"))
    assert error.kind is kind
    assert "127.0.0.1" in error.message
    assert "key-1" not in str(error)
    assert len(endpoint.requests) == 1
    endpoint.default = fine
    assert embedder.embed_query("x") == unit("x")


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [("17", 17, 17), (lambda: formatdate(time.time() + 60, usegmt=True), 50, 60)],
)
def test_a_rate_limit_says_how_long(
    endpoint: Endpoint, embedder: OpenAIEmbedder, value: Any, least: float, most: float
) -> None:
    headers = {"Retry-After": value if isinstance(value, str) else value()}
    endpoint.order.append(lambda body: refusal(429, "slow down", headers))
    error = failure(lambda: embedder.embed_query("x"))
    assert error.kind is ErrorClass.RATE_LIMIT
    assert error.retry_after is not None
    assert least <= error.retry_after <= most


def test_a_batch_that_fails_ends_the_call(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    one = OpenAIEmbedder("m", endpoint.url, batch_size=10, concurrency=1)
    endpoint.order.extend([fine, lambda body: refusal(500)])
    error = failure(lambda: one.embed_passages([str(n) for n in range(100)]))
    one.close()
    assert error.kind is ErrorClass.SERVER
    # What had not begun when the second failed is not sent any more; one may have begun.
    assert 2 <= len(endpoint.requests) <= 3


def test_a_batch_that_is_too_large_is_halved(endpoint: Endpoint) -> None:
    def at_most_three(body: dict[str, Any]) -> Answer:
        return fine(body) if len(body["input"]) <= 3 else refusal(400, "Too many tokens in batch")

    endpoint.default = at_most_three
    embedder = OpenAIEmbedder("m", endpoint.url, batch_size=12)
    texts = [str(n) for n in range(12)]
    vectors = embedder.embed_passages(texts)
    embedder.close()
    for row, text in zip(vectors, texts, strict=True):
        assert row == unit(text)
    assert [len(request["input"]) for request in endpoint.requests] == [12, 6, 3, 3, 6, 3, 3]


def test_a_text_that_is_refused_for_itself_is_found_with_few_requests(endpoint: Endpoint) -> None:
    endpoint.default = lambda body: refusal(400, "bad") if "bad" in body["input"] else fine(body)
    embedder = OpenAIEmbedder("m", endpoint.url, batch_size=64)
    error = failure(lambda: embedder.embed_passages(["ok"] * 40 + ["bad"] + ["ok"] * 23))
    embedder.close()
    assert error.kind is ErrorClass.BAD_REQUEST
    assert len(endpoint.requests) <= 13


def rows(*embeddings: Any, indices: list[Any] | None = None) -> Callable[[dict[str, Any]], Answer]:
    data: list[dict[str, Any]] = [{"embedding": embedding} for embedding in embeddings]
    for item, index in zip(data, indices or [], strict=False):
        item["index"] = index
    return lambda body: reply(data)


BAD_ANSWERS: dict[str, Callable[[dict[str, Any]], Answer]] = {
    "not json": lambda body: (200, {"Content-Type": "application/json"}, b"{nope"),
    "html": lambda body: (200, {"Content-Type": "text/html"}, b"<html>portal</html>"),
    "not utf-8": lambda body: (200, {"Content-Type": "application/json"}, b"\xff\xfe{}"),
    "empty": lambda body: (200, {"Content-Type": "application/json"}, b""),
    "a list": lambda body: (200, {"Content-Type": "application/json"}, b"[]"),
    "no data": lambda body: reply({"object": "list"}),
    "error with 200": lambda body: reply({"error": {"message": "quota"}}),
    "too few": rows([1.0, 2.0]),
    "too many": rows([1.0], [1.0], [1.0]),
    "one index twice": rows([1.0], [2.0], indices=[0, 0]),
    "index out of range": rows([1.0], [2.0], indices=[0, 5]),
    "index of text": rows([1.0], [2.0], indices=["a", "b"]),
    "two lengths": rows([1.0, 2.0], [1.0]),
    "zero length": rows([], []),
    "null": rows(None, None),
    "words": rows(["a", "b"], ["c", "d"]),
    "nested": rows([[1.0], [2.0]], [[1.0], [2.0]]),
    "nan": rows([1.0, float("nan")], [1.0, 2.0]),
    "infinity": rows([1.0, 1e39], [1.0, 2.0]),
    "zero": rows([0.0, 0.0], [1.0, 2.0]),
    "torn base64": rows("AAAA", "AAA"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_answer_that_is_not_what_was_asked(
    endpoint: Endpoint, embedder: OpenAIEmbedder, name: str
) -> None:
    endpoint.default = BAD_ANSWERS[name]
    error = failure(lambda: embedder.embed_passages(["one", "two"]))
    assert error.kind is ErrorClass.BAD_ANSWER
    assert len(endpoint.requests) == 1


def test_vectors_of_another_length_than_before(
    endpoint: Endpoint, embedder: OpenAIEmbedder
) -> None:
    embedder.embed_query("x")
    endpoint.default = rows([1.0, 2.0, 3.0])
    error = failure(lambda: embedder.embed_query("x"))
    assert error.kind is ErrorClass.BAD_ANSWER
    assert "3 numbers, not 8" in error.message


def test_shuffled_and_unnumbered_answers(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    texts = ["a", "b", "c"]

    def shuffled(body: dict[str, Any]) -> Answer:
        return reply([{"index": i, "embedding": vector(texts[i])} for i in (2, 0, 1)])

    def unnumbered(body: dict[str, Any]) -> Answer:
        return reply([{"embedding": vector(text)} for text in texts])

    endpoint.order.extend([shuffled, unnumbered])
    for _ in range(2):
        for row, text in zip(embedder.embed_passages(texts), texts, strict=True):
            assert row == unit(text)


def test_timeout_and_no_connection(endpoint: Endpoint) -> None:
    release = threading.Event()

    def never(body: dict[str, Any]) -> Answer:
        release.wait(10)
        return fine(body)

    endpoint.default = never
    embedder = OpenAIEmbedder("m", endpoint.url, query_timeout=0.2)
    assert failure(lambda: embedder.embed_query("x")).kind is ErrorClass.TIMEOUT
    embedder.close()
    release.set()
    assert len(endpoint.requests) == 1
    url = endpoint.url
    spare = Endpoint()
    gone = spare.url
    spare.close()
    assert url != gone
    dead = OpenAIEmbedder("m", gone)
    assert failure(lambda: dead.embed_query("x")).kind is ErrorClass.NETWORK
    dead.close()


def test_texts_that_endpoints_refuse(endpoint: Endpoint) -> None:
    embedder = OpenAIEmbedder("m", endpoint.url, input_tokens=10, passage_prefix="passage: ")
    embedder.embed_passages(["", " \n\t", "a\udc80b", "连" * 50])
    embedder.close()
    (request,) = endpoint.requests
    assert request["input"][:3] == [f"passage: {EMPTY_TEXT}"] * 2 + ["passage: a?b"]
    # Cut at 30 bytes, between characters.
    assert request["input"][3] == "passage: " + "连" * 7


def test_each_thread_may_ask_while_it_is_closed(endpoint: Endpoint) -> None:
    def slow(body: dict[str, Any]) -> Answer:
        time.sleep(0.02)
        return fine(body)

    endpoint.default = slow
    embedder = OpenAIEmbedder("m", endpoint.url)
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for n in range(5):
                assert embedder.embed_query(str(n)) == unit(str(n))
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        time.sleep(0.01)
        embedder.close()
    for thread in threads:
        thread.join()
    embedder.close()
    assert failures == []
    assert len(endpoint.requests) == 20


def test_a_changed_key_counts_with_the_next_request(endpoint: Endpoint) -> None:
    keys = iter(["first", "second", "second"])
    embedder = OpenAIEmbedder("m", endpoint.url, lambda: next(keys))
    for _ in range(3):
        embedder.embed_query("x")
    embedder.close()
    assert endpoint.keys == ["first", "second", "second"]


@pytest.mark.parametrize(
    ("provider", "query", "passage"),
    [
        ("openai", {}, {}),
        ("ollama", {}, {}),
        ("jina", {"task": "retrieval.query"}, {"task": "retrieval.passage"}),
        ("mistral", {}, {}),
        ("google", {"dimensions": 768}, {"dimensions": 768}),
    ],
)
def test_each_preset_speaks_its_endpoints_dialect(
    endpoint: Endpoint,
    tmp_path: Path,
    provider: Any,
    query: dict[str, Any],
    passage: dict[str, Any],
) -> None:
    endpoint.default = lambda body: reply(
        [{"index": i, "embedding": wide(t)} for i, t in enumerate(body["input"])]
    )
    settings = Embedding(provider=provider, base_url=endpoint.url, api_key="k")
    embedder = create(settings, Home(str(tmp_path)), {})
    assert embedder.dimension is not None
    lengths = embedder.dimension

    def wide(text: str) -> list[float]:
        return vector(text) + [0.0] * (lengths - 8)

    assert embedder.embed_query("q").shape == (lengths,)
    assert embedder.embed_passages(["p"]).shape == (1, lengths)
    embedder.close()
    base = {"path": "/v1/embeddings", "model": embedder.model.partition("/")[2].partition("@")[0]}
    asked, stored = endpoint.requests
    assert asked == base | {"input": ["q"], "encoding_format": "float"} | query
    assert stored == base | {"input": ["p"], "encoding_format": "float"} | passage


def test_voyage_wants_base64_and_its_own_words(endpoint: Endpoint, tmp_path: Path) -> None:
    def voyage(body: dict[str, Any]) -> Answer:
        if body["encoding_format"] == "float" or "dimensions" in body:
            return refusal(
                400, "Value 'float' supplied for argument 'encoding_format' is not valid"
            )
        data = [
            {
                "index": i,
                "embedding": base64.b64encode(np.array(vector(t, 16), "<f4").tobytes()).decode(),
            }
            for i, t in enumerate(body["input"])
        ]
        return reply(data)

    endpoint.default = voyage
    settings = Embedding(provider="voyage", base_url=endpoint.url, api_key="k", dimension=16)
    embedder = create(settings, Home(str(tmp_path)), {})
    assert embedder.embed_passages(["p"])[0] == unit("p", 16)
    assert embedder.embed_query("q") == unit("q", 16)
    embedder.close()
    assert [request["input_type"] for request in endpoint.requests] == ["document", "query"]
    assert {request["output_dimension"] for request in endpoint.requests} == {16}


def test_200_files_cost_no_more_requests_than_batches(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.default = lambda body: reply(
        [{"index": i, "embedding": vector(t)} for i, t in enumerate(body["input"])]
    )
    settings = Embedding(provider="openai", model="own", base_url=endpoint.url, batch_size=32)
    embedder = create(settings, Home(str(tmp_path)), {})
    embedder.embed_passages([f"chunk {n} of a file" for n in range(200)])
    embedder.close()
    assert len(endpoint.requests) == 7  # 200 / 32, rounded up
