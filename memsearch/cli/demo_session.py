"""The recorded session that the demo plays: its records, and the hooks that went with them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

#: The folder of the shipped recording.
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "demo")
#: What stands in the recording for the folder of the project and for the transcript's path.
PROJECT, TRANSCRIPT = "@PROJECT@", "@TRANSCRIPT@"


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One turn as the agent left it.

    Attributes:
        records: The lines that the agent wrote until its Stop hook ran, newlines included.
        hook: What its Stop hook got on standard input.
        asked: The user's words.
    """

    records: str
    hook: str
    asked: str

    @property
    def id(self) -> str:
        return str(json.loads(self.hook)["prompt_id"])

    @property
    def answered(self) -> str:
        """The agent's last words."""
        return str(json.loads(self.hook)["last_assistant_message"])


def session_id() -> str:
    """The recorded session's id."""
    return str(json.loads(_lines("stops.jsonl")[0])["session_id"])


def load(project: str, transcript: str) -> list[RecordedTurn]:
    """The recorded turns, as if they had happened in a project of this machine.

    Args:
        project: The project's folder, absolute.
        transcript: Where the session's records will be written.
    """
    places = {PROJECT: project, TRANSCRIPT: transcript}
    hooks = [_placed(line, places) for line in _lines("stops.jsonl")]
    turns: list[RecordedTurn] = []
    records: list[str] = []
    asked = ""
    for line in _lines("session.jsonl"):
        record = json.loads(line)
        # Claude Code writes this record when the Stop hooks have run: what stands before it
        # is what they found.
        if record.get("subtype") == "stop_hook_summary":
            turns.append(RecordedTurn("".join(records), hooks[len(turns)], asked))
            records = []
        records.append(_placed(line, places))
        if record.get("type") == "user" and isinstance(record["message"]["content"], str):
            asked = record["message"]["content"]
    return turns


def _lines(name: str) -> list[str]:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read().splitlines()


def _placed(line: str, places: dict[str, str]) -> str:
    """A line of JSON with its placeholders filled in, whatever characters the paths hold."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            for mark, path in places.items():
                value = value.replace(mark, path)
            return value
        if isinstance(value, list):
            return [fill(item) for item in value]
        if isinstance(value, dict):
            return {name: fill(item) for name, item in value.items()}
        return value

    return json.dumps(fill(json.loads(line)), ensure_ascii=False, separators=(",", ":")) + "\n"
