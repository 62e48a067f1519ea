"""Transcripts of Claude Code, written record by record."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memsearch.sources.base import Pointer, Reading
from memsearch.sources.claude_code import ClaudeCode

Record = dict[str, Any]


class Transcript:
    """Writes records the way Claude Code does, and reads them back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.renumber()

    def renumber(self) -> None:
        """Begin ids and times anew."""
        self._numbers = itertools.count(1)

    def base(self, **more: Any) -> Record:
        number = next(self._numbers)
        return {
            "uuid": f"uuid-{number}",
            "timestamp": f"2026-03-25T10:{number // 60:02}:{number % 60:02}.000Z",
            "cwd": "/w/app",
            "sessionId": "session-1",
            "isSidechain": False,
            **more,
        }

    def user(self, content: Any, prompt: str | None = None, **more: Any) -> Record:
        if prompt is not None:
            more = {"promptId": prompt, **more}
        message = {"role": "user", "content": content}
        return self.base(type="user", message=message, **more)

    def answer(self, *blocks: Any, stop: str | None = "end_turn", **more: Any) -> Record:
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        message = {
            "id": more.pop("mid", f"msg-{next(self._numbers)}"),
            "role": "assistant",
            "model": more.pop("model", "claude-x"),
            "content": content,
            "stop_reason": stop,
        }
        return self.base(type="assistant", message=message, **more)

    def call(self, key: str, name: str = "Bash", **given: Any) -> Record:
        block = {"type": "tool_use", "id": key, "name": name, "input": given}
        return self.answer(block, stop="tool_use")

    def result(self, key: str, content: Any = "ok", error: bool = False, **more: Any) -> Record:
        block = {
            "type": "tool_result",
            "tool_use_id": key,
            "content": content,
            "is_error": error,
        }
        return self.user([block], **more)

    def system(self, subtype: str, **more: Any) -> Record:
        return self.base(type="system", subtype=subtype, **more)

    def queue(self, operation: str, content: str | None = None, **more: Any) -> Record:
        record = {**self.base(), "type": "queue-operation", "operation": operation, **more}
        del record["uuid"]
        if content is not None:
            record["content"] = content
        return record

    def write(self, *records: Record | str | bytes, end: bytes = b"\n") -> Path:
        lines = [
            each
            if isinstance(each, bytes)
            else (each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)).encode()
            for each in records
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"\n".join(lines) + end)
        return self.path

    def read(
        self,
        turn: str | None = None,
        *,
        start: int | None = 0,
        not_before: datetime | None = None,
        is_ours: Callable[[str], bool] = lambda _text: False,
    ) -> Reading:
        pointer = Pointer("claude-code", "session-1", str(self.path), turn=turn)
        return ClaudeCode().read(pointer, start=start, not_before=not_before, is_ours=is_ours)


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path / "projects" / "-w-app" / "session-1.jsonl")


@pytest.fixture(scope="session")
def recordings() -> Path:
    return Path(__file__).parents[2] / "data" / "claude-code" / "projects" / "-home-dev-demo"
