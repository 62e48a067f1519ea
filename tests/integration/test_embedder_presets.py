"""Each embedder preset against a stub that keeps its provider's rules, as documented.

The stubs refuse what the providers refuse, with their shapes of errors: fields they do not
know, too many texts or tokens in a request, a missing key. What is embedded is what an index
holds: short notes, Chinese chunks of full size, and one text that is far too long.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.schema import Embedding
from memsearch.sinks.embedders import create


def tokens(text: str) -> int:
    """Tokens by a tokenizer that is worse than the usual ones: 1.3 for a Han character."""
    han = sum("\u4e00" <= letter <= "\u9fff" for letter in text)
    return math.ceil(1.3 * han + (len(text) - han) / 3.5)


@dataclass(frozen=True)
class Rules:
    """What a provider takes.

    ``inputs`` and ``tokens`` bound a request, ``input_tokens`` a text (0: it is cut there
    without a word). ``error`` has a place for the message, by status.
    """

    model: str
    dimension: int
    inputs: int
    tokens: int
    input_tokens: int
    fields: frozenset[str]
    formats: frozenset[str | None]
    path: str = "/v1/embeddings"
    key: bool = True
    error: str = '{"error": {"message": "%s", "type": "invalid_request_error", "code": null}}'


_COMMON = frozenset({"model", "input", "encoding_format"})
_ANY = frozenset({"float", "base64"})
RULES: dict[str, Rules] = {
    "openai": Rules(
        "text-embedding-3-small", 1536, 2048, 300_000, 8192, _COMMON | {"dimensions", "user"}, _ANY
    ),
    "ollama": Rules("bge-m3", 1024, 10**6, 10**9, 0, _COMMON | {"dimensions"}, _ANY, key=False),
    "voyage": Rules(
        "voyage-3.5",
        1024,
        1000,
        320_000,
        32_000,
        _COMMON | {"input_type", "truncation", "output_dimension", "output_dtype"},
        frozenset({None, "base64"}),
        error='{"detail": "%s"}',
    ),
    "jina": Rules(
        "jina-embeddings-v3",
        1024,
        2048,
        10**6,
        8194,
        _COMMON | {"task", "dimensions", "late_chunking", "truncate"},
        _ANY,
        error='{"detail": "%s"}',
    ),
    "mistral": Rules(
        "mistral-embed",
        1024,
        256,
        16_384,
        8192,
        _COMMON | {"output_dimension", "output_dtype"},
        frozenset({"float", "base64"}),
        error='{"object": "error", "message": "%s", "type": "invalid_request_error", "code": 3210}',
    ),
    "google": Rules(
        "gemini-embedding-001",
        768,
        100,
        10**9,
        0,
        _COMMON | {"dimensions"},
        _ANY,
        path="/v1beta/openai/embeddings",
        error='[{"error": {"code": 400, "message": "%s", "status": "INVALID_ARGUMENT"}}]',
    ),
}


@dataclass
class Provider:
    """The stub of one provider."""

    rules: Rules
    requests: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    #: Requests that it answers at the same time; more are a 429.
    at_once: int = 10**6
    most_at_once: int = 0

    def __post_init__(self) -> None:
        provider = self
        self._flying = 0
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with provider._lock:
                    provider._flying += 1
                    provider.most_at_once = max(provider.most_at_once, provider._flying)
                    too_many = provider._flying > provider.at_once
                    provider.requests.append(body)
                try:
                    why = provider.refusal(self.path, self.headers["Authorization"], body)
                    if too_many:
                        threading.Event().wait(0.05)
                        self.send(429, provider.rules.error % "slow down", {"Retry-After": "7"})
                    elif why:
                        provider.refused.append(why)
                        status = 401 if "key" in why else 400
                        self.send(status, provider.rules.error % why, {})
                    else:
                        threading.Event().wait(0.05)
                        self.send(200, json.dumps(provider.answer(body)), {})
                finally:
                    with provider._lock:
                        provider._flying -= 1

            def send(self, status: int, text: str, headers: dict[str, str]) -> None:
                data = text.encode()
                self.send_response(status)
                headers |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def base_url(self) -> str:
        port = self.server.server_address[1]
        return f"http://127.0.0.1:{port}{self.rules.path.removesuffix('/embeddings')}"

    def refusal(self, path: str, key: str, body: dict[str, Any]) -> str:
        """Why a request is refused; empty when it is not."""
        rules, inputs = self.rules, body.get("input")
        if path != rules.path:
            return f"no {path} here"
        if rules.key and key != "Bearer right":
            return "Invalid API key"
        if body.get("model") != rules.model:
            return f"no model {body.get('model')}"
        if unknown := body.keys() - rules.fields:
            return f"Extra inputs are not permitted: {sorted(unknown)}"
        if body.get("encoding_format") not in rules.formats:
            return "encoding_format"
        if not isinstance(inputs, list) or not inputs or not all(inputs):
            return "input must be texts that are not empty"
        if len(inputs) > rules.inputs:
            return f"at most {rules.inputs} inputs"
        counts = [tokens(text) for text in inputs]
        if rules.input_tokens and max(counts) > rules.input_tokens:
            return f"an input of {max(counts)} tokens"
        if sum(counts) > rules.tokens:
            return f"{sum(counts)} tokens in a batch"
        return ""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        length = body.get("dimensions") or body.get("output_dimension") or self.natural
        data = []
        for index, text in enumerate(body["input"]):
            numbers = vector(text, length)
            packed: Any = numbers.tolist()
            if body.get("encoding_format") == "base64":
                packed = base64.b64encode(numbers.tobytes()).decode()
            data.append({"object": "embedding", "index": index, "embedding": packed})
        return {"object": "list", "data": data, "model": body["model"], "usage": {}}

    @property
    def natural(self) -> int:
        """Length of a vector that was not asked to be shorter."""
        return 3072 if self.rules.model.startswith("gemini") else self.rules.dimension

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def vector(text: str, length: int) -> Any:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=length).astype("<f4")


NOTES = [f"- User asked why the valve {number} leaks; it was tightened" for number in range(400)]
CHINESE = [
    f"第{number}次" + "备份脚本在凌晨超时了所以重试次数改为五次" * 74 for number in range(40)
]
LONG = ["a word and another " * 6_000]


@pytest.fixture(params=RULES)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    made = Provider(RULES[request.param])
    yield made
    made.close()


def embedder_of(provider: Provider, tmp_path: Path, key: str = "right") -> Any:
    name = next(name for name, rules in RULES.items() if rules is provider.rules)
    settings = Embedding(provider=name, base_url=provider.base_url, api_key=key)
    return create(settings, Home(str(tmp_path)), {})


def test_a_whole_index_is_within_the_providers_bounds(provider: Provider, tmp_path: Path) -> None:
    embedder = embedder_of(provider, tmp_path)
    texts = [*NOTES, *CHINESE, *LONG]
    vectors = embedder.embed_passages(texts)
    question = embedder.embed_query("why does the valve leak")
    embedder.close()
    assert not provider.refused
    assert vectors.shape == (len(texts), provider.rules.dimension)
    assert question.shape == (provider.rules.dimension,)
    for place in (0, 399, 420):  # in their order, whatever came back first
        wanted = vector(texts[place], provider.rules.dimension)
        assert vectors[place] == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-4)
    # As few requests as the bounds allow, with room for how tokens are estimated.
    assert sum(len(body["input"]) for body in provider.requests[:-1]) == len(texts)
    asked, share = embedder.estimate(texts)
    assert len(provider.requests) - 1 <= math.ceil(share) + 3
    assert asked >= 0.75 * sum(map(tokens, NOTES + CHINESE))
    assert 1 < provider.most_at_once <= 4


def test_a_wrong_key_is_one_request_and_said(tmp_path: Path) -> None:
    for rules in RULES.values():
        if not rules.key:
            continue
        provider = Provider(rules)
        embedder = embedder_of(provider, tmp_path, key="wrong")
        with pytest.raises(MemsearchError) as caught:
            embedder.embed_passages(["a"])
        assert caught.value.kind is ErrorClass.CREDENTIALS, caught.value
        assert len(provider.requests) == 1
        embedder.close()
        provider.close()


def test_a_limit_of_concurrency_is_told_with_its_pause(tmp_path: Path) -> None:
    """No storm: what is under way fails, nothing is begun after it, and the pause is passed on."""
    for rules in RULES.values():
        provider = Provider(rules, at_once=1)
        embedder = embedder_of(provider, tmp_path)
        with pytest.raises(MemsearchError) as caught:
            embedder.embed_passages(NOTES * 10)
        assert caught.value.kind is ErrorClass.RATE_LIMIT, caught.value
        assert caught.value.retry_after == 7.0
        assert len(provider.requests) <= 8
        embedder.close()
        provider.close()
