"""The real Claude Code as a summariser, against a stub model: closed, cheap, told apart."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from stub_llm import StubLLM

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.schema import Summarize
from memsearch.pipeline.summarizers.choose import Probes, choose, probe
from memsearch.pipeline.summarizers.native import NativeSummarizer
from memsearch.sources.base import Item, Turn

TURN = Turn(
    platform="claude-code",
    id="t1",
    session="s1",
    at=datetime(2026, 3, 25, 14, 47, tzinfo=UTC),
    cwd="/w/app",
    items=(
        Item("user", "Why does the login fail?"),
        Item("assistant", "The token has no audience."),
    ),
    state="finished",
    anchor={"transcript": "/x.jsonl"},
)


@pytest.fixture
def stub() -> Iterator[StubLLM]:
    with StubLLM() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    home.create()
    return home


@pytest.fixture
def claude(stub: StubLLM, tmp_path: Path, program: Callable[[str], str]) -> dict[str, str]:
    """The environment of a real Claude Code with hooks that would show themselves."""
    user = tmp_path / "user"
    (user / ".claude").mkdir(parents=True)
    command = {"type": "command", "command": f"echo fired >> '{user}/hooks.log'"}
    events = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    hooks = {event: [{"hooks": [command]}] for event in events}
    (user / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    (user / ".claude" / "CLAUDE.md").write_text("USER-RULE-TEXT", encoding="utf-8")
    (user / "bin").mkdir()
    (user / "bin" / "claude").symlink_to(program("claude-code"))
    return {
        "PATH": f"{user}/bin:/usr/bin:/bin",
        "HOME": str(user),
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": stub.url,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


@pytest.mark.client
def test_the_real_claude_code_is_closed(claude: dict[str, str], stub: StubLLM, home: Home) -> None:
    assert probe("claude-code", home, claude).fault == ""
    made = choose(Summarize(), "claude-code", home, claude, Probes())
    assert made.provider == "native"
    summary = made.summarize(TURN, timeout=60, stop=threading.Event())
    assert summary.bullets[0] == "User asked: Why does the login fail?"
    assert (summary.tokens_in, summary.tokens_out, summary.estimated) == (120, 20, False)
    (request,) = stub.of("messages")
    prompts = len(request.text)
    assert request.body["tools"] == []
    assert "thinking" not in request.body
    assert "haiku" in request.body["model"]
    assert request.size - prompts < 2_500  # what the agent adds
    assert "USER-RULE-TEXT" not in stub.everything()
    user = Path(claude["HOME"])
    assert not (user / "hooks.log").exists()
    assert not list((user / ".claude").glob("projects/**/*.jsonl"))


@pytest.mark.client
@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ("401", ErrorClass.CREDENTIALS),
        ("429", ErrorClass.RATE_LIMIT),
        ("529", ErrorClass.SERVER),
        ("400", ErrorClass.BAD_REQUEST),
        ("prose", ErrorClass.BAD_ANSWER),
        ("never", ErrorClass.TIMEOUT),
    ],
)
def test_the_real_claude_codes_failures(
    claude: dict[str, str],
    stub: StubLLM,
    home: Home,
    behaviour: str,
    kind: ErrorClass,
) -> None:
    stub.default = behaviour
    summarizer = NativeSummarizer(
        "claude-code", f"{claude['HOME']}/bin/claude", home=home, environ=claude
    )
    with pytest.raises(MemsearchError) as caught:
        summarizer.summarize(
            TURN, timeout=5 if behaviour == "never" else 60, stop=threading.Event()
        )
    assert caught.value.kind is kind


@pytest.mark.client
def test_the_real_claude_code_when_logged_out(claude: dict[str, str], home: Home) -> None:
    environ = {name: value for name, value in claude.items() if name != "ANTHROPIC_API_KEY"}
    assert "not logged in" in probe("claude-code", home, environ).fault
    summarizer = NativeSummarizer(
        "claude-code", f"{claude['HOME']}/bin/claude", home=home, environ=environ
    )
    with pytest.raises(MemsearchError) as caught:
        summarizer.summarize(TURN, timeout=60, stop=threading.Event())
    assert caught.value.kind is ErrorClass.CREDENTIALS
