"""Which summariser a turn gets, and what an agent's complaint means."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memsearch.config.agent_env import belongs_to_session, without_session
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.schema import Settings, Summarize, SummarizeOverride, SummarizePlatforms
from memsearch.pipeline.summarizers.choose import (
    FRESH_SECONDS,
    RETRY_SECONDS,
    Choice,
    FirstOf,
    Probe,
    Probes,
    choose,
    decide,
    summarizer_for,
)
from memsearch.pipeline.summarizers.extractive import ExtractiveSummarizer
from memsearch.pipeline.summarizers.native import (
    AGENTS,
    Answer,
    NativeSummarizer,
    failure,
    find_program,
    read_claude_code,
    read_codex,
    read_openclaw,
    read_opencode,
)
from memsearch.pipeline.summarizers.openai_api import OpenAISummarizer
from memsearch.pipeline.summarizers.processes import Ended
from memsearch.pipeline.summarizers.prompt import PROMPT_MARK, build
from memsearch.pipeline.types import Summary
from memsearch.sources.base import Item, Turn

THERE = Probe("/usr/bin/claude")
MISSING = Probe(fault="Claude Code's command line (claude) is not installed")
LOGGED_OUT = Probe("/usr/bin/claude", "Claude Code's command line is not logged in")

TURN = Turn(
    platform="claude-code",
    id="t",
    session="s",
    at=datetime(2026, 3, 25, tzinfo=UTC),
    cwd="/w",
    items=(Item("user", "go"), Item("assistant", "Done.")),
    state="finished",
    anchor={},
)


@pytest.mark.parametrize(
    ("wanted", "probe", "choice"),
    [
        (Summarize(), THERE, Choice(("native", "extractive"))),
        (Summarize(), MISSING, Choice(("extractive",), (MISSING.fault,))),
        (Summarize(), LOGGED_OUT, Choice(("extractive",), (LOGGED_OUT.fault,))),
        (
            Summarize(base_url="http://localhost:11434/v1"),
            MISSING,
            Choice(("openai", "extractive"), (MISSING.fault,)),
        ),
        (Summarize(api_key="env:KEY"), THERE, Choice(("native", "openai", "extractive"))),
        (Summarize(provider="extractive"), THERE, Choice(("extractive",))),
        (Summarize(provider="openai"), THERE, Choice(("openai",))),
        (Summarize(provider="native"), LOGGED_OUT, Choice(("native",))),
        (Summarize(enabled=False, provider="native"), THERE, Choice(("extractive",))),
        (Summarize(), None, Choice(("extractive",))),
    ],
)
def test_what_the_settings_come_to(wanted: Summarize, probe: Probe | None, choice: Choice) -> None:
    assert decide(wanted, probe) == choice


class KnownProbes(Probes):
    """Knows what it is told instead of starting programs."""

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self.probe = probe
        self.asked = 0

    def get(self, platform: str, home: object, environ: object) -> Probe:
        self.asked += 1
        return self._known[platform][1] if platform in self._known else self.probe


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    home.create()
    return home


def test_auto_asks_the_agent_first(home: Home) -> None:
    made = choose(Summarize(model="sonnet"), "claude-code", home, {}, KnownProbes(THERE))
    assert isinstance(made, FirstOf)
    assert (made.provider, made.model, made.passed_over) == ("native", "sonnet", ())


def test_a_small_model_is_asked_where_none_is_set(home: Home) -> None:
    made = choose(Summarize(), "claude-code", home, {}, KnownProbes(THERE))
    assert made.model == "haiku"


def test_auto_says_what_it_passed_over(home: Home) -> None:
    made = choose(Summarize(), "claude-code", home, {}, KnownProbes(MISSING))
    assert isinstance(made, FirstOf)
    assert (made.provider, made.passed_over) == ("extractive", (MISSING.fault,))


def test_auto_passes_over_an_endpoint_whose_key_is_missing(home: Home) -> None:
    wanted = Summarize(api_key="env:NO_SUCH_KEY")
    made = choose(wanted, "claude-code", home, {}, KnownProbes(MISSING))
    assert isinstance(made, FirstOf)
    assert made.provider == "extractive"
    assert "NO_SUCH_KEY" in made.passed_over[1]


def test_an_endpoints_model_is_not_given_to_the_agent(home: Home) -> None:
    wanted = Summarize(model="deepseek-chat", base_url="https://api.local/v1", api_key="k")
    made = choose(wanted, "claude-code", home, {}, KnownProbes(THERE))
    assert made.model == "haiku"


def test_openai_by_name(home: Home) -> None:
    wanted = Summarize(provider="openai", model="m", base_url="http://127.0.0.1:1/v1")
    made = choose(wanted, "claude-code", home, {}, KnownProbes(THERE))
    assert isinstance(made, OpenAISummarizer)
    assert made.model == "m"
    with pytest.raises(MemsearchError) as caught:
        choose(Summarize(provider="openai"), "claude-code", home, {}, KnownProbes(THERE))
    assert caught.value.kind is ErrorClass.CREDENTIALS
    made = choose(
        Summarize(provider="openai"),
        "claude-code",
        home,
        {"OPENAI_API_KEY": "sk-secret-value"},
        KnownProbes(THERE),
    )
    assert isinstance(made, OpenAISummarizer)
    assert "sk-secret-value" not in repr(made)


def test_native_by_name_needs_the_agent(home: Home) -> None:
    wanted = Summarize(provider="native")
    made = choose(wanted, "claude-code", home, {}, KnownProbes(LOGGED_OUT))
    assert isinstance(made, NativeSummarizer)
    with pytest.raises(MemsearchError, match="not installed") as caught:
        choose(wanted, "claude-code", home, {}, KnownProbes(MISSING))
    assert caught.value.kind is ErrorClass.CONFIG


@pytest.mark.parametrize("wanted", [Summarize(provider="extractive"), Summarize(enabled=False)])
def test_no_program_is_looked_at_where_no_model_is_asked(home: Home, wanted: Summarize) -> None:
    probes = KnownProbes(THERE)
    made = choose(wanted, "claude-code", home, {}, probes)
    assert isinstance(made, ExtractiveSummarizer)
    assert probes.asked == 0


def test_settings_of_one_agent_hold_for_it_alone(home: Home) -> None:
    settings = Settings(
        summarize=Summarize(
            provider="extractive",
            platforms=SummarizePlatforms(codex=SummarizeOverride(provider="native", model="mini")),
        )
    )
    probes = KnownProbes(Probe("/usr/bin/codex"))

    def part(key: object, make: Callable[[], Probes]) -> Probes:
        return probes

    assert summarizer_for(part, settings, "claude-code", home, {}).provider == "extractive"
    made = summarizer_for(part, settings, "codex", home, {})
    assert (made.provider, made.model) == ("native", "mini")


# --------------------------------------------------------------------------- passing over


class Failing:
    provider = "native"
    model = "m"

    def __init__(self, kind: ErrorClass) -> None:
        self.kind = kind
        self.calls = 0

    def estimate(self, turn: Turn) -> int:
        return 7

    def summarize(self, turn: Turn, *, timeout: float, stop: threading.Event) -> Summary:
        self.calls += 1
        raise MemsearchError("the agent is not logged in", kind=self.kind)


@pytest.mark.parametrize("kind", [ErrorClass.CREDENTIALS, ErrorClass.CONFIG])
def test_an_agent_that_turns_out_unusable_is_passed_over(kind: ErrorClass) -> None:
    told: list[str] = []
    first = Failing(kind)
    made = FirstOf([first, ExtractiveSummarizer()], (), told.append)
    assert made.estimate(TURN) == 7
    summary = made.summarize(TURN, timeout=1, stop=threading.Event())
    assert summary.provider == "extractive"
    assert made.provider == "extractive"
    assert told == ["the agent is not logged in"]
    assert made.passed_over == ("the agent is not logged in",)
    made.summarize(TURN, timeout=1, stop=threading.Event())
    assert first.calls == 1


@pytest.mark.parametrize(
    "kind",
    [kind for kind in ErrorClass if kind not in (ErrorClass.CREDENTIALS, ErrorClass.CONFIG)],
)
def test_every_other_failure_is_the_turns_own(kind: ErrorClass) -> None:
    made = FirstOf([Failing(kind), ExtractiveSummarizer()], (), lambda fault: None)
    with pytest.raises(MemsearchError) as caught:
        made.summarize(TURN, timeout=1, stop=threading.Event())
    assert caught.value.kind is kind


def test_probes_are_kept_for_a_while(home: Home) -> None:
    now = [0.0]
    probes = Probes(clock=lambda: now[0])
    environ = {"PATH": "/nonexistent", "HOME": "/nonexistent"}
    assert "not installed" in probes.get("codex", home, environ).fault
    probes._known["codex"] = (now[0], Probe("/x"))
    now[0] = FRESH_SECONDS - 1
    assert probes.get("codex", home, environ).fault == ""
    now[0] = FRESH_SECONDS + 1
    assert "not installed" in probes.get("codex", home, environ).fault
    probes._known["codex"] = (now[0], Probe("/x", "not logged in"))
    now[0] += RETRY_SECONDS - 1
    assert probes.get("codex", home, environ).fault == "not logged in"
    assert probes.faults() == {"codex": "not logged in"}
    probes._known["claude-code"] = (now[0], THERE)
    probes.failed("claude-code", "logged out meanwhile")
    assert probes.get("claude-code", home, environ) == Probe(
        "/usr/bin/claude", "logged out meanwhile"
    )


def test_help_is_read_wherever_it_is_printed(home: Home, tmp_path: Path) -> None:
    """OpenCode 1.14 prints it among the errors."""
    program = tmp_path / "opencode"
    program.write_text("#!/bin/sh\necho '  --pure  --agent' >&2\n")
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    assert Probes().get("opencode", home, environ) == Probe(str(program))


@pytest.mark.parametrize("provider", ["auto", "native"])
def test_a_command_line_that_cannot_be_closed_is_not_tried(
    provider: str, home: Home, tmp_path: Path
) -> None:
    """OpenCode 1.3 and before know no ``--pure``."""
    program = tmp_path / "opencode"
    program.write_text("#!/bin/sh\necho '  --agent  agent to use'\n")
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    wanted = Summarize(provider=provider)
    if provider == "native":
        with pytest.raises(MemsearchError, match="too old: it lacks --pure") as caught:
            choose(wanted, "opencode", home, environ, Probes())
        assert caught.value.kind is ErrorClass.CONFIG
    else:
        made = choose(wanted, "opencode", home, environ, Probes())
        assert made.provider == "extractive"


# ----------------------------------------------------------------------------- complaints

_RESULT = '{"type":"result","is_error":%s,"api_error_status":%s,"result":"%s","usage":{%s}}'


@pytest.mark.parametrize(
    ("out", "answer"),
    [
        (
            _RESULT % ("false", "null", "- a", '"input_tokens":100,"output_tokens":20'),
            Answer("- a", 100, 20),
        ),
        (
            _RESULT
            % (
                "false",
                "null",
                "- a",
                '"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,'
                '"output_tokens":4',
            ),
            Answer("- a", 6, 4),
        ),
        (
            _RESULT % ("true", "429", "API Error: rejected (429)", ""),
            Answer(fault="API Error: rejected (429)", status=429),
        ),
        ('a warning\n{"type":"result","result":"- a"}\n', Answer("- a")),
        (
            '{"type":"result","result":null,"is_error":true,"subtype":"error_max_turns"}',
            Answer(fault="error_max_turns"),
        ),
        ('{"type":"result","result":"","stop_reason":"refusal"}', Answer(refused=True)),
        ("plain words", Answer(fault="plain words")),
        ("", Answer()),
        ("{" * 50, Answer(fault="{" * 50)),
        ('[1, 2]\n{"other": 1}', Answer(fault='[1, 2]\n{"other": 1}')),
    ],
)
def test_what_claude_code_printed(out: str, answer: Answer) -> None:
    assert read_claude_code(out) == answer


def test_what_the_other_agents_print() -> None:
    codex = (
        '{"type":"item.completed","item":{"type":"reasoning","text":"- no"}}\n'
        '{"type":"item.completed","item":{"type":"agent_message","text":"- a"}}\n'
        '{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}\n'
    )
    assert read_codex(codex) == Answer("- a", 10, 2)
    assert read_codex('{"type":"turn.failed","error":{"message":"no"}}').fault == "no"
    opencode = (
        '{"type":"step_start","part":{}}\n'
        '{"type":"text","part":{"type":"text","text":"- a"}}\n'
        '{"type":"step_finish","part":{"tokens":{"input":10,"output":2}}}\n'
    )
    assert read_opencode(opencode) == Answer("- a", 10, 2)
    assert read_opencode('{"type":"error","error":{"name":"X"}}').fault == "X"
    assert read_openclaw('{"outputs":[{"text":"- a"}]}') == Answer("- a")
    assert read_openclaw('{\n "result": {"text": "- a"}\n}') == Answer("- a")
    assert read_openclaw('{"error":{"message":"no"}}').fault == "no"


@pytest.mark.parametrize(
    ("status", "fault", "kind"),
    [
        (401, "x", ErrorClass.CREDENTIALS),
        (403, "x", ErrorClass.CREDENTIALS),
        (402, "x", ErrorClass.CREDENTIALS),
        (429, "x", ErrorClass.RATE_LIMIT),
        (404, "There's an issue with the selected model", ErrorClass.CONFIG),
        (500, "x", ErrorClass.SERVER),
        (529, "x", ErrorClass.SERVER),
        (400, "x", ErrorClass.BAD_REQUEST),
        (413, "x", ErrorClass.BAD_REQUEST),
        (None, "Not logged in · Please run /login", ErrorClass.CREDENTIALS),
        (None, "Invalid API key · Fix external API key", ErrorClass.CREDENTIALS),
        (None, "Credit balance is too low", ErrorClass.CREDENTIALS),
        (None, "Claude AI usage limit reached|1774450000", ErrorClass.RATE_LIMIT),
        (None, "Overloaded", ErrorClass.SERVER),
        (None, "API Error: Connection refused (ECONNREFUSED)", ErrorClass.NETWORK),
        (None, "Prompt is too long", ErrorClass.BAD_REQUEST),
        (None, "error: unknown option '--safe-mode'", ErrorClass.CONFIG),
        (None, "Error: Unknown feature flag: hooks", ErrorClass.CONFIG),
        (None, "Segmentation fault", ErrorClass.SERVER),
        (None, "", ErrorClass.SERVER),
    ],
)
def test_what_a_complaint_means(status: int | None, fault: str, kind: ErrorClass) -> None:
    ended = Ended(1, "", "", "exit")
    error = failure("Claude Code", ended, Answer(fault=fault, status=status), now=1_774_449_000.0)
    assert error.kind is kind
    if "1774450000" in fault:
        assert error.retry_after == 1_000.0


def test_a_complaint_is_bounded_plain_and_without_secrets() -> None:
    key = "sk-ant-" + "a1B2c3D4" * 5
    ended = Ended(-9, "", f"\x1b[31mbad {key}\n" + "x" * 9_000, "exit")
    error = failure("Claude Code", ended, Answer(), now=0.0)
    assert key not in error.message
    assert "\x1b" not in error.message
    assert "signal 9" in error.message
    assert len(error.message) < 400


# ---------------------------------------------------------------------- the command lines


@pytest.mark.parametrize("platform", AGENTS)
def test_a_command_line_is_closed_and_holds_the_prompt_once(platform: str) -> None:
    asked = build(TURN, max_chars=1_000)
    agent = AGENTS[platform]
    arguments = agent.arguments(asked, "some-model")
    given = [*arguments, agent.stdin(asked), *agent.environ(asked).values()]
    assert sum(text.count(PROMPT_MARK) for text in given) == 1
    assert sum(text.count("| Done.") for text in given) == 1
    assert "some-model" in arguments
    without = agent.arguments(asked, "")
    assert "some-model" not in without
    assert not {"-m", "--model"} & set(without)


def test_claude_codes_command_line() -> None:
    arguments = AGENTS["claude-code"].arguments(build(TURN, max_chars=1_000), "haiku")
    assert arguments[:4] == ["-p", "--safe-mode", "--no-session-persistence", "--strict-mcp-config"]
    assert arguments[arguments.index("--tools") + 1] == ""
    assert not any("| " in argument and "Done." in argument for argument in arguments)


def test_a_program_is_not_taken_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here", "bin", "home/.local/bin"):
        (tmp_path / folder).mkdir(parents=True)
        program = tmp_path / folder / "claude-x"
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o700)
    monkeypatch.chdir(tmp_path / "here")
    home = str(tmp_path / "home")
    assert find_program("claude-x", {"PATH": ".::here", "HOME": str(tmp_path)}) is None
    assert find_program("claude-x", {"PATH": f".:{tmp_path}/bin", "HOME": home}) == str(
        tmp_path / "bin" / "claude-x"
    )
    assert find_program("claude-x", {"PATH": "/nonexistent", "HOME": home}) == str(
        tmp_path / "home/.local/bin/claude-x"
    )


# ------------------------------------------------------------------------- environments


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("PATH", False),
        ("HOME", False),
        ("ANTHROPIC_API_KEY", False),
        ("ANTHROPIC_BASE_URL", False),
        ("AWS_PROFILE", False),
        ("HTTPS_PROXY", False),
        ("CLAUDE_CONFIG_DIR", False),
        ("CLAUDE_CODE_OAUTH_TOKEN", False),
        ("CLAUDE_CODE_USE_BEDROCK", False),
        ("CLAUDE_CODE_SKIP_BEDROCK_AUTH", False),
        ("CLAUDE_CODE_CLIENT_CERT", False),
        ("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", False),
        ("CODEX_HOME", False),
        ("OPENCODE_CONFIG", False),
        ("CLAUDECODE", True),
        ("CLAUDE_PID", True),
        ("CLAUDE_EFFORT", True),
        ("CLAUDE_PROJECT_DIR", True),
        ("CLAUDE_PLUGIN_ROOT", True),
        ("CLAUDE_CODE_SESSION_ID", True),
        ("CLAUDE_CODE_ENTRYPOINT", True),
        ("CLAUDE_CODE_MESSAGING_SOCKET", True),
        ("CLAUDE_CODE_MESSAGING_TOKEN", True),
        ("CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR", True),
        ("CLAUDE_CODE_FORCE_SESSION_PERSISTENCE", True),
        ("CODEX_SANDBOX", True),
        ("AI_AGENT", True),
        ("MEMSEARCH_INTERNAL", True),
    ],
)
def test_what_belongs_to_an_agents_session(name: str, session: bool) -> None:
    assert belongs_to_session(name) is session
    assert (name in without_session({name: "x"})) is not session
