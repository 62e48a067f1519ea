"""The one line at a prompt."""

import json
import os
import subprocess
import sys

import pytest

from memsearch.config.marks import MEMORY_HINT
from memsearch.hooks import hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("go on", 5),
        ("  go on  ", 5),
        ("继续", 4),
        ("为什么要换掉", 12),
        ("ｗｉｄｅ", 8),
        ("é", 1),
        ("🙂", 2),
    ],
)
def test_columns(text, expected):
    assert hint.columns(text, 1000) == expected


def test_a_long_prompt_is_not_counted_to_its_end():
    assert hint.columns("x" * 10_000_000, 10) == 10


def ask(folder, prompt, **payload):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "memsearch._entry", "hint", "--platform", "codex"],
        input=json.dumps({"session_id": "s", "cwd": str(folder), "prompt": prompt, **payload}),
        capture_output=True,
        text=True,
        env=os.environ,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_real_prompt_gets_the_line_where_there_is_a_memory(tmp_path):
    assert ask(tmp_path, "why was the cache dropped?") == {}
    memory = tmp_path / ".memsearch" / "memory"
    memory.mkdir(parents=True)
    assert ask(tmp_path, "why was the cache dropped?") == {}
    (memory / "notes.md").write_text("- x", encoding="utf-8")
    assert ask(tmp_path, "why was the cache dropped?") == {
        "hookSpecificOutput": {
            "hookEventName": "UserPromptSubmit",
            "additionalContext": MEMORY_HINT,
        }
    }
    assert ask(tmp_path, "为什么换掉") != {}
    assert ask(tmp_path, "go on") == {}
