"""A stub model server on a real socket, with failures to order.

Speaks OpenAI Chat Completions (``POST /v1/chat/completions``), Anthropic Messages
(``POST /v1/messages``, streamed and whole), OpenAI embeddings (``POST /v1/embeddings``)
and ``GET /v1/models``. Standard library only, so that it also runs as a script::

    python tests/stub_llm.py PORT LOGDIR [BEHAVIOUR ...]

In a test::

    with StubLLM() as stub:
        stub.order("429:2", "fine")        # the next two model calls
        stub.default = "slow:0.2"          # all calls after them
        client = OpenAI(base_url=stub.openai_url, api_key="sk-test")
        ...
        assert stub.calls("chat") == 2
        assert "refresh token" in stub.text(0)

The answer is two bullets that repeat the first 80 characters of the user's words and of
the agent's last words in the request's turn, so that an entry can be matched with its turn.

Behaviours (``name`` or ``name:argument``):

``fine``            the bullets
``say:TEXT``        exactly TEXT (``\\n`` is a line break)
``slow:SECONDS``    the bullets, after a wait
``never``           no answer until the server closes or the client hangs up
``drip``            headers, then a space every 50 ms, for ever
``429[:SECONDS]``   too many requests, with ``Retry-After`` when seconds are given
``400 401 403 404 413 500 502 503 529``  that status with an error body of the protocol
``garbage``         status 200, a body that is no JSON
``empty``           an answer whose text is empty
``none``            an answer without any choice or block
``thinking``        thinking first, then the bullets
``thinking-only``   thinking and nothing else
``prose``           a paragraph without bullets
``refused``         the model declines (``refusal`` / ``stop_reason: refusal``)
``filtered``        ``finish_reason: content_filter`` without text
``length``          bullets, the last one cut (``finish_reason: length``)
``many``            ten bullets
``reset``           the connection is closed without an answer

While it runs, ``POST /_stub`` with ``{"default": "...", "order": ["..."]}`` changes the
behaviour from another process and ``GET /_stub`` counts the calls by kind.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
import select
import signal
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Characters of the user's and of the agent's words that an answer repeats.
ECHO_CHARS = 80
#: Seconds between two looks whether a waiting call's client is still there.
POLL_SECONDS = 0.05
#: Kinds of requests that take a behaviour from the schedule.
MODEL_KINDS = ("chat", "messages")

_STATUS = re.compile(r"(\d{3})(?::([\d.]+))?")
_DIRECTIVE = re.compile(r"\[\[(SH|SAY|SLOW):\s*(.*?)\]\]", re.S)


@dataclass(slots=True)
class Request:
    """One request as it came, and what became of it.

    ``kind`` is ``chat``, ``messages``, ``title`` (a client's own call for structured
    output), ``count``, ``embeddings``, ``models`` or ``other``; ``at`` is
    ``time.monotonic()``; ``hung_up`` says that the client left before the answer.
    """

    kind: str
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    size: int
    at: float = field(default_factory=time.monotonic)
    behaviour: str = ""
    hung_up: bool = False

    @property
    def user_text(self) -> str:
        """The text of the last user message."""
        for message in reversed(self.body.get("messages") or []):
            if message.get("role") == "user":
                return _text(message.get("content"))
        return ""

    @property
    def text(self) -> str:
        """All text of the request: system prompt and messages."""
        parts = [_text(self.body.get("system"))]
        parts += [_text(m.get("content")) for m in self.body.get("messages") or []]
        return "\n".join(part for part in parts if part)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))


def _words(text: str, role: str, *, last: bool) -> str:
    """The quoted lines under ``role:`` in a rendered turn, or nothing."""
    blocks: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("| "):
            if inside:
                blocks[-1].append(line[2:])
            continue
        inside = line == f"{role}:"
        if inside:
            blocks.append([])
    blocks = [block for block in blocks if block]
    if not blocks:
        return ""
    return " ".join(" ".join(blocks[-1 if last else 0]).split())


def bullets_for(text: str) -> str:
    """The stub's notes of a request, from the turn that it holds."""
    asked = _words(text, "user", last=False) or " ".join(text.split())
    said = _words(text, "assistant", last=True)
    lines = [f"- User asked: {asked[:ECHO_CHARS]}"]
    lines.append(f"- The agent answered: {said[:ECHO_CHARS] or 'nothing yet'}")
    return "\n".join(lines)


def vector(text: str, dimension: int, salt: str = "") -> list[float]:
    """A unit vector that depends on nothing but the words of ``text``, and on ``salt``.

    Each word and each Han character adds a hash-made direction, so texts that share
    words are near each other. Another salt is another model.
    """
    total = [0.0] * dimension
    for word in re.findall(r"[A-Za-z0-9_]+|[一-鿿]", text.lower()) or [text]:
        seed = hashlib.sha256((salt + word).encode()).digest()
        for index in range(dimension):
            byte = seed[index % len(seed)] ^ (index // len(seed) * 37 & 0xFF)
            total[index] += (byte - 127.5) / 127.5
    norm = math.sqrt(sum(value * value for value in total)) or 1.0
    return [value / norm for value in total]


class StubLLM:
    """The server; a context manager.

    Args:
        port: Port on 127.0.0.1; 0 takes a free one.
        log_dir: Folder that gets each request as ``NNNN-kind.json``; None: none.
        default: Behaviour of every model call that was not ordered otherwise.
        tokens: Usage that answers report, (input, output); None: no usage at all.
        dimension: Length of the embedding vectors.
        max_batch: Embedding inputs taken at once; more is a 400. 0: no limit.
        salt: Another one is another embedding model.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        log_dir: str | None = None,
        default: str = "fine",
        tokens: tuple[int, int] | None = (120, 20),
        dimension: int = 8,
        max_batch: int = 0,
        salt: str = "",
    ) -> None:
        self.default = default
        self.tokens = tokens
        self.dimension = dimension
        self.max_batch = max_batch
        self.salt = salt
        #: Behaviour of embedding requests that were not ordered otherwise.
        self.embeddings_default = "fine"
        #: Decides a model call's behaviour before schedule and default; None: pass on.
        self.decide: Callable[[Request], str | None] = lambda request: None
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.closing = threading.Event()
        self._in_flight = 0
        self._orders: dict[str, deque[str]] = {"model": deque(), "embeddings": deque()}
        self._lock = threading.Lock()
        self._log_dir = log_dir
        self._numbers = itertools.count(1)
        if log_dir is not None:
            os.makedirs(log_dir, exist_ok=True)
        self._server = _Server(self, port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    # ------------------------------------------------------------------ the test's side

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``, what ``ANTHROPIC_BASE_URL`` wants."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """``http://127.0.0.1:PORT/v1``, what an OpenAI client's ``base_url`` wants."""
        return f"{self.url}/v1"

    def __enter__(self) -> StubLLM:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End every call and the server; waits until all its threads are gone."""
        self.closing.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.drop_connections()
        self._server.server_close()

    def order(self, *behaviours: str, kind: str = "model") -> None:
        """Behaviours of the next calls of ``kind`` (``model`` or ``embeddings``), in order."""
        with self._lock:
            self._orders[kind].extend(behaviours)

    def calls(self, kind: str | None = None) -> int:
        """How many requests of a kind came; None: model calls of either protocol."""
        return len(self.of(kind))

    def of(self, kind: str | None = None) -> list[Request]:
        """The requests of a kind, oldest first; None: model calls of either protocol."""
        kinds = MODEL_KINDS if kind is None else (kind,)
        with self._lock:
            return [request for request in self.requests if request.kind in kinds]

    def text(self, index: int = -1) -> str:
        """All text of a model call."""
        return self.of()[index].text

    def everything(self) -> str:
        """Every body that came, as JSON text: where no secret may be found."""
        with self._lock:
            return "\n".join(json.dumps(r.body, ensure_ascii=False) for r in self.requests)

    def forget(self) -> None:
        """Drop what was counted and what was ordered."""
        with self._lock:
            self.requests.clear()
            self.most_at_once = 0
            for queue in self._orders.values():
                queue.clear()

    # ---------------------------------------------------------------- the server's side

    def note(self, request: Request) -> None:
        """Count a request and settle how it is answered."""
        with self._lock:
            self.requests.append(request)
            number = next(self._numbers)
            if request.kind in MODEL_KINDS:
                queue = self._orders["model"]
                request.behaviour = self.decide(request) or (
                    queue.popleft() if queue else self.default
                )
            elif request.kind == "embeddings":
                queue = self._orders["embeddings"]
                request.behaviour = queue.popleft() if queue else self.embeddings_default
        if self._log_dir is not None:
            record = {
                "method": request.method,
                "path": request.path,
                "headers": request.headers,
                "behaviour": request.behaviour,
                "body": request.body,
            }
            path = os.path.join(self._log_dir, f"{number:04d}-{request.kind}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(record, file, ensure_ascii=False, indent=1)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Counts how many model calls are answered at the same time."""
        with self._lock:
            self._in_flight += 1
            self.most_at_once = max(self.most_at_once, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(Counter(request.kind for request in self.requests))


class _Server(ThreadingHTTPServer):
    # Threads are joined at the close, so that no socket outlives a test.
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, stub: StubLLM, port: int) -> None:
        self.stub = stub
        self._connections: set[socket.socket] = set()
        self._connections_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._connections_lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._connections_lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        with self._connections_lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: Any) -> None:  # a test's output stays its own
        pass

    # -------------------------------------------------------------------------- routes

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/_stub":
            self._json(self.server.stub.counts())
            return
        kind = "models" if path.endswith("/models") else "other"
        self._received(kind, {}, 0)
        if kind == "other":
            self._json({"error": {"message": f"the stub has no {path}"}}, 404)
            return
        model = {"id": "stub-model", "object": "model", "type": "model", "display_name": "Stub"}
        self._json({"object": "list", "data": [model], "has_more": False})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {"_raw": raw[:2000].decode("latin-1")}
        path = self.path.split("?")[0]
        stub = self.server.stub
        if path == "/_stub":
            stub.default = body.get("default", stub.default)
            stub.order(*body.get("order", ()))
            self._json(stub.counts())
        elif path.endswith("/messages/count_tokens"):
            self._received("count", body, len(raw))
            self._json({"input_tokens": 100})
        elif path.endswith("/messages"):
            shape = body.get("output_config") or {}
            structured = shape.get("format") or body.get("output_format")
            request = self._received("title" if structured else "messages", body, len(raw))
            with stub.answering():
                self._model(request, _anthropic, _anthropic_error, _anthropic_stream)
        elif path.endswith("/chat/completions"):
            request = self._received("chat", body, len(raw))
            with stub.answering():
                self._model(request, _chat, _openai_error, _chat_stream)
        elif path.endswith("/embeddings"):
            self._embeddings(self._received("embeddings", body, len(raw)))
        else:
            self._received("other", body, len(raw))
            self._json({"error": {"message": f"the stub has no {path}"}}, 404)

    def _received(self, kind: str, body: dict[str, Any], size: int) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        for name in ("authorization", "x-api-key"):
            if name in headers:
                headers[name] = f"<{len(headers[name])} characters>"
        request = Request(kind, self.command, self.path, headers, body, size)
        self.server.stub.note(request)
        return request

    # --------------------------------------------------------------------- model calls

    def _model(
        self,
        request: Request,
        whole: Callable[[StubLLM, Request, _Answer], dict[str, Any]],
        error: Callable[[int, str], dict[str, Any]],
        stream: Callable[[dict[str, Any]], Iterator[tuple[str, dict[str, Any] | str]]],
    ) -> None:
        stub = self.server.stub
        if not self._transport(request, error):
            return
        message = whole(stub, request, _answer(request))
        if not request.body.get("stream"):
            self._json(message)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in stream(message):
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            prefix = f"event: {name}\n" if name else ""
            self.wfile.write(f"{prefix}data: {text}\n\n".encode())
            self.wfile.flush()

    def _transport(self, request: Request, error: Callable[[int, str], dict[str, Any]]) -> bool:
        """Do what an ordered failure of the connection asks; True: answer as usual."""
        name, _, argument = request.behaviour.partition(":")
        if match := _STATUS.fullmatch(request.behaviour):
            status = int(match[1])
            extra = {"Retry-After": match[2]} if match[2] else {}
            self._json(error(status, f"the stub was told to answer {status}"), status, extra)
            return False
        if name == "garbage":
            self._bytes(b"<html>this is no JSON</html>", "application/json")
            return False
        if name == "reset":
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return False
        if name == "slow":
            return self._wait(request, float(argument or 1))
        if name == "never":
            self._wait(request, math.inf)
            self.close_connection = True
            return False
        if name == "drip":
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            while self._wait(request, POLL_SECONDS) and not self.server.stub.closing.is_set():
                try:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                except OSError:
                    request.hung_up = True
            return False
        return True

    def _wait(self, request: Request, seconds: float) -> bool:
        """Wait; False when the client hung up or the server closes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.server.stub.closing.wait(min(POLL_SECONDS, left)) or self._gone():
                request.hung_up = not self.server.stub.closing.is_set()
                self.close_connection = True
                return False
        return not request.hung_up

    def _gone(self) -> bool:
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    # ---------------------------------------------------------------------- embeddings

    def _embeddings(self, request: Request) -> None:
        stub = self.server.stub
        if not self._transport(request, _openai_error):
            return
        body = request.body
        if body.get("encoding_format", "float") != "float":
            self._json(_openai_error(400, "encoding_format must be float"), 400)
            return
        given = body.get("input")
        inputs = [given] if isinstance(given, str) else list(given or [])
        if stub.max_batch and len(inputs) > stub.max_batch:
            self._json(_openai_error(400, f"at most {stub.max_batch} inputs"), 400)
            return
        if not inputs or not all(isinstance(text, str) and text for text in inputs):
            self._json(_openai_error(400, "input must be strings that are not empty"), 400)
            return
        dimension = int(body.get("dimensions") or stub.dimension)
        data = [
            {"object": "embedding", "index": index, "embedding": vector(text, dimension, stub.salt)}
            for index, text in enumerate(inputs)
        ]
        if request.behaviour == "empty":
            data = []
        tokens = sum(len(text) // 4 + 1 for text in inputs)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        self._json({"object": "list", "model": body.get("model"), "data": data, "usage": usage})

    # --------------------------------------------------------------------------- bytes

    def _json(self, data: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(data, ensure_ascii=False).encode()
        self._bytes(body, "application/json", status, headers)

    def _bytes(
        self, body: bytes, kind: str, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the client left first, which some tests want
            self.close_connection = True


# ------------------------------------------------------------------------ what is answered


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer apart from its protocol."""

    text: str | None
    thinking: str = ""
    finish: str = "stop"
    refusal: str | None = None
    command: str | None = None  # a shell command to call a tool with


def _answer(request: Request) -> _Answer:
    bullets = bullets_for(request.user_text)
    name, _, argument = request.behaviour.partition(":")
    simple: dict[str, _Answer] = {
        "say": _Answer(argument.replace("\\n", "\n")),
        "empty": _Answer(""),
        "none": _Answer(None),
        "thinking": _Answer(bullets, thinking="- This thought must not become a note."),
        "thinking-only": _Answer(None, thinking="- This thought must not become a note."),
        "prose": _Answer("The turn was about several things and it all went rather well."),
        "refused": _Answer(None, finish="refusal", refusal="I can't help with that."),
        "filtered": _Answer(None, finish="content_filter"),
        "length": _Answer(bullets + "\n- The agent then went on to say that the", finish="length"),
        "many": _Answer("\n".join(f"- Fact number {n} of the turn" for n in range(1, 11))),
    }
    if name in simple:
        return simple[name]
    if request.kind == "title":
        return _Answer(json.dumps({"title": "Stub title"}))
    return _directed(request) or _Answer(bullets)


def _directed(request: Request) -> _Answer | None:
    """What words in a real client's prompt ask for: a tool call or a given reply."""
    messages = request.body.get("messages") or [{}]
    content = messages[-1].get("content")
    blocks = content if isinstance(content, list) else []
    if messages[-1].get("role") == "tool" or any(b.get("type") == "tool_result" for b in blocks):
        return _Answer("Done: the tool has answered.")
    found = _DIRECTIVE.findall(request.user_text)
    if not found:
        return None
    word, argument = found[-1]
    if word == "SAY":
        return _Answer(argument.strip())
    if word == "SH":
        return _Answer("A command will be run.", finish="tool", command=argument.strip())
    time.sleep(min(float(argument), 120.0))
    return _Answer("That took a while.")


def _tool_name(request: Request, names: tuple[str, ...]) -> str:
    offered = [
        str(tool.get("name") or (tool.get("function") or {}).get("name") or "")
        for tool in request.body.get("tools") or []
    ]
    return next((name for name in offered if name.lower() in names), "Bash")


def _chat(stub: StubLLM, request: Request, answer: _Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
        if answer.text is not None:
            # Some compatible servers give blocks instead of a string.
            message["content"] = [
                {"type": "thinking", "thinking": answer.thinking},
                {"type": "text", "text": answer.text},
            ]
    if answer.refusal:
        message["refusal"] = answer.refusal
    if answer.command is not None:
        name = _tool_name(request, ("bash", "exec", "shell"))
        arguments = json.dumps({"command": answer.command, "description": "Run a command"})
        message["tool_calls"] = [
            {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
        ]
    finish = {"tool": "tool_calls", "refusal": "stop"}.get(answer.finish, answer.finish)
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    if request.behaviour == "none":
        choices = []
    whole: dict[str, Any] = {
        "id": f"chatcmpl-stub{len(stub.requests)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.body.get("model", "stub-model"),
        "choices": choices,
    }
    if stub.tokens is not None:
        tokens_in, tokens_out = stub.tokens
        whole["usage"] = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }
    return whole


def _chat_stream(whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | str]]:
    base = {key: whole[key] for key in ("id", "created", "model")}
    base["object"] = "chat.completion.chunk"
    for choice in whole["choices"]:
        message = choice["message"]
        delta: dict[str, Any] = {"role": "assistant", "content": _text(message["content"])}
        if "tool_calls" in message:
            delta["tool_calls"] = [{"index": 0, **call} for call in message["tool_calls"]]
        yield "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
        yield "", {**base, "choices": [end]}
    if "usage" in whole:
        yield "", {**base, "choices": [], "usage": whole["usage"]}
    yield "", "[DONE]"


def _openai_error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "stub_error", "code": str(status)}}


def _anthropic(stub: StubLLM, request: Request, answer: _Answer) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": "c3R1Yg=="})
    if answer.text is not None:
        blocks.append({"type": "text", "text": answer.text})
    if answer.command is not None:
        blocks.append(
            {
                "type": "tool_use",
                "id": f"toolu_stub{len(stub.requests)}",
                "name": _tool_name(request, ("bash",)),
                "input": {"command": answer.command, "description": "Run a command"},
            }
        )
    stop = {
        "stop": "end_turn",
        "tool": "tool_use",
        "length": "max_tokens",
        "content_filter": "refusal",
    }.get(answer.finish, answer.finish)
    tokens_in, tokens_out = stub.tokens or (0, 0)
    return {
        "id": f"msg_stub{len(stub.requests)}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "stub-model"),
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens_in,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": tokens_out,
        },
    }


def _anthropic_stream(whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | str]]:
    start = {**whole, "content": [], "stop_reason": None}
    start["usage"] = {**whole["usage"], "output_tokens": 1}
    yield "message_start", {"type": "message_start", "message": start}
    for index, block in enumerate(whole["content"]):
        empty = dict(block)
        deltas: list[dict[str, Any]]
        if block["type"] == "text":
            empty["text"] = ""
            deltas = [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "thinking":
            empty |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        else:
            empty["input"] = {}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        opened = {"type": "content_block_start", "index": index, "content_block": empty}
        yield "content_block_start", opened
        for delta in deltas:
            change = {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_delta", change
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def _anthropic_error(status: int, message: str) -> dict[str, Any]:
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


def main(argv: list[str]) -> int:
    """Run until interrupted; the first line printed is the address."""
    if len(argv) < 2:
        print("usage: stub_llm.py PORT LOGDIR [BEHAVIOUR ...]", file=sys.stderr)
        return 2
    with StubLLM(port=int(argv[0]), log_dir=argv[1]) as stub:
        stub.order(*argv[2:])
        print(stub.url, flush=True)
        ended = threading.Event()
        # Both, since a shell starts background commands deaf to SIGINT.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        ended.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
