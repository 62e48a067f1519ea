"""A model for real agents: one server for the three protocols that they speak.

What stands in double brackets in the last user message chooses the reply:

    [[SH: command]]        call the agent's shell tool
    [[CALL: name {json}]]  call a tool by name; for what a subagent shall do, write << and >>
    [[SAY: text]]          reply with this text
    [[HOLD: text]]         the same, when a test releases it; an agent may be stopped till then

Anything else gets a short reply. Every request is kept, so that a test can read what an
agent put before its model.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_DIRECTIVE = re.compile(r"\[\[(SH|CALL|SAY|HOLD): ?(.*?)\]\]", re.DOTALL)
#: Seconds that a reply is held at the most.
HOLD_SECONDS = 120
_SHELLS = ("Bash", "exec_command", "shell", "shell_command", "bash", "exec")


@dataclass(frozen=True)
class Request:
    """What an agent asked."""

    path: str
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """All of it, as JSON with readable Chinese."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True)
class Reply:
    """What it is answered: a text, or a call of a tool."""

    text: str
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    held: bool = False


class Model(ThreadingHTTPServer):
    """The server; a context manager."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Request] = []
        #: Answers everything, where it is not empty.
        self.always = ""
        #: Lets go what is held, and says that something is.
        self.release = threading.Event()
        self.holding = threading.Event()
        self._lock = threading.Lock()
        self._number = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Model:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that leaves in the middle of an answer is no fault of a test."""

    def number(self) -> int:
        """A fresh number for ids."""
        with self._lock:
            self._number += 1
            return self._number

    def clear(self) -> None:
        """Forget what was asked."""
        self.requests.clear()

    def everything(self) -> str:
        """All requests since the last ``clear``."""
        return "\n".join(request.text for request in self.requests)


def decide(user: str, tools: list[str], result: str | None) -> Reply:
    """What is answered to the last words of the user, or to a tool's result."""
    if result is not None:
        return Reply(f"Done, the tool has answered: {result}")
    found = _DIRECTIVE.findall(user)
    if not found:
        return Reply(f"I have looked into it: {' '.join(user.split())[-40:]}")
    word, argument = found[-1]
    argument = argument.strip()
    if word in ("SAY", "HOLD"):
        return Reply(argument, held=word == "HOLD")
    if word == "SH":
        name = next((name for name in _SHELLS if name in tools), "")
        if not name:
            return Reply(f"There is no shell among {tools}")
        key = "cmd" if name == "exec_command" else "command"
        value: Any = ["bash", "-lc", argument] if name == "shell" else argument
        extra = {"description": "Run a command"} if name in ("Bash", "bash") else {}
        return Reply("I will run it.", name, {key: value, **extra})
    name, _, given = argument.replace("<<", "[[").replace(">>", "]]").partition(" ")
    name = next((tool for tool in tools if tool == name or tool.endswith(f"__{name}")), name)
    return Reply("I will use a tool.", name, json.loads(given or "{}"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or [] if isinstance(part, dict))


class _Handler(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        model = {"id": "stub-model", "object": "model", "type": "model", "display_name": "Stub"}
        self._json({"object": "list", "data": [model], "models": []})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        encoding = self.headers.get("content-encoding", "")
        if encoding == "gzip":
            raw = gzip.decompress(raw)
        elif encoding == "zstd":
            raw = subprocess.run(["zstd", "-dc"], input=raw, capture_output=True, check=True).stdout
        body = json.loads(raw or b"{}")
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 100})
            return
        self.server.requests.append(Request(path, body))
        if path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        else:
            self._json({"error": {"message": f"no route {path}"}}, 404)

    def _decide(self, user: str, tools: list[str], result: str | None) -> Reply:
        always = self.server.always
        reply = Reply(always) if always else decide(user, tools, result)
        if reply.held:
            self.server.holding.set()
            self.server.release.wait(HOLD_SECONDS)
        return reply

    # -- the three protocols -------------------------------------------------------------------

    def _anthropic(self, body: dict[str, Any]) -> None:
        last = next(m for m in reversed(body["messages"]) if m["role"] == "user")["content"]
        blocks = last if isinstance(last, list) else [{"type": "text", "text": last}]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        result = _text(results[-1].get("content")) if results else None
        texts = [b["text"] for b in blocks if b.get("type") == "text"]
        user = "\n".join(text for text in texts if not text.startswith("<system-reminder>"))
        names = [tool.get("name", "") for tool in body.get("tools") or []]
        reply = self._decide(user, names, result)
        if body.get("output_config", {}).get("format") or body.get("output_format"):
            reply = Reply(json.dumps({"title": "A title"}))
        number = self.server.number()
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
        if reply.tool:
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": reply.tool}
            content.append({**call, "input": reply.arguments})
        stop = "tool_use" if reply.tool else "end_turn"
        usage = {
            "input_tokens": 100,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 20,
        }
        whole = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "stub-model"),
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            self._json(whole)
            return
        self._stream(_anthropic_events(whole), named=True)

    def _responses(self, body: dict[str, Any]) -> None:
        items = body.get("input")
        items = items if isinstance(items, list) else [{"role": "user", "content": items}]
        result = None
        if str(items[-1].get("type", "")).endswith("_output"):
            output = items[-1].get("output")
            result = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        users = [item for item in items if item.get("role") == "user"]
        names: dict[str, str] = {}
        for tool in body.get("tools") or []:
            inner = tool.get("tools") if tool.get("type") == "namespace" else [tool]
            space = tool.get("name", "") if tool.get("type") == "namespace" else ""
            names |= {str(each.get("name") or each.get("type")): space for each in inner or []}
        reply = self._decide(_text(users[-1].get("content")) if users else "", list(names), result)
        number = self.server.number()
        if reply.tool:
            item: dict[str, Any] = {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "name": reply.tool,
                "arguments": json.dumps(reply.arguments, ensure_ascii=False),
            }
            if names.get(reply.tool):
                item["namespace"] = names[reply.tool]
        else:
            item = {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
            }
        response = {"id": f"resp_{number}", "object": "response"}
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**response, "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        ]
        self._stream(iter(events), named=True)

    def _chat(self, body: dict[str, Any]) -> None:
        messages = body.get("messages") or []
        names = [tool.get("function", {}).get("name", "") for tool in body.get("tools") or []]
        result = None
        if messages and messages[-1].get("role") == "tool":
            result = _text(messages[-1].get("content"))
        user: list[str] = []
        for message in reversed(messages):
            if message.get("role") == "assistant":
                break
            if message.get("role") == "user":
                user.insert(0, _text(message.get("content")))
        reply = self._decide("\n".join(user), names, result)
        number = self.server.number()
        delta: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.tool:
            arguments = json.dumps(reply.arguments, ensure_ascii=False)
            function = {"name": reply.tool, "arguments": arguments}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            delta["tool_calls"] = [{"index": 0, **call}]
        base = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": "stub-model"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        finish = "tool_calls" if reply.tool else "stop"
        if not body.get("stream"):
            choice = {"index": 0, "message": delta, "finish_reason": finish}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._json(whole)
            return
        base["object"] = "chat.completion.chunk"
        chunks: list[Any] = [
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**base, "choices": [], "usage": usage},
            "[DONE]",
        ]
        self._stream(iter(chunks), named=False)

    # -- bytes ---------------------------------------------------------------------------------

    def _json(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[Any], *, named: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            head = f"event: {event['type']}\n" if named else ""
            data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
            self.wfile.write(f"{head}data: {data}\n\n".encode())
        self.wfile.flush()


def _anthropic_events(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    start = {**whole, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            given = json.dumps(block["input"], ensure_ascii=False)
            delta = {"type": "input_json_delta", "partial_json": given}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}
