"""Summarisers against a real socket and real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from stub_llm import StubLLM

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.config.schema import Summarize
from memsearch.pipeline.summarizers import processes
from memsearch.pipeline.summarizers.calls import StoppedError
from memsearch.pipeline.summarizers.choose import Probes, choose, probe
from memsearch.pipeline.summarizers.native import AGENTS, NativeSummarizer
from memsearch.pipeline.summarizers.openai_api import OpenAISummarizer
from memsearch.pipeline.summarizers.prompt import FENCE_START, PROMPT_MARK, Prompt
from memsearch.sources.base import Item, Turn

KEY = "sk-test-" + "0123456789abcdef"


def turn(user: str = "Why does the login fail?", reply: str = "The token has no audience.") -> Turn:
    return Turn(
        platform="claude-code",
        id="t1",
        session="s1",
        at=datetime(2026, 3, 25, 14, 47, tzinfo=UTC),
        cwd="/w/app",
        items=(Item("user", user), Item("assistant", reply)),
        state="finished",
        anchor={"transcript": "/x.jsonl"},
    )


@pytest.fixture
def stub() -> Iterator[StubLLM]:
    with StubLLM() as server:
        yield server


@pytest.fixture
def never() -> threading.Event:
    return threading.Event()


def openai(stub: StubLLM, **more: object) -> OpenAISummarizer:
    return OpenAISummarizer(model="small", base_url=stub.openai_url, api_key=KEY)


# --------------------------------------------------------------------- an OpenAI endpoint


def test_notes_come_back_with_their_cost(stub: StubLLM, never: threading.Event) -> None:
    summary = openai(stub).summarize(turn(), timeout=10, stop=never)
    assert summary.bullets == (
        "User asked: Why does the login fail?",
        "The agent answered: The token has no audience.",
    )
    assert (summary.provider, summary.model) == ("openai", "small")
    assert (summary.tokens_in, summary.tokens_out, summary.estimated) == (120, 20, False)
    (request,) = stub.of("chat")
    assert request.body["model"] == "small"
    assert request.body["max_tokens"] == 4_000
    assert not request.body.get("tools")
    system, user = request.body["messages"]
    assert system["role"] == "system"
    assert "Claude Code" in system["content"]
    assert user["content"].startswith(f"{PROMPT_MARK}\n\n{FENCE_START}\n")


def test_unreported_cost_is_estimated_and_marked(stub: StubLLM, never: threading.Event) -> None:
    stub.tokens = None
    summary = openai(stub).summarize(turn("备份脚本" * 500), timeout=10, stop=never)
    assert summary.estimated
    assert summary.tokens_in > 2_000
    assert 0 < summary.tokens_out < 400


def test_an_estimate_covers_what_is_sent(stub: StubLLM) -> None:
    small = openai(stub).estimate(turn("x"))
    large = openai(stub).estimate(turn("x" * 20_000))
    assert 500 < small < 2_500
    assert 4_500 < large - small < 5_500


@pytest.mark.parametrize(
    ("behaviour", "bullets"),
    [
        ("thinking", 2),
        ("many", 6),
        ("length", 2),  # the cut line is left out
        ("say:1. one fact\\n2. two facts", 2),
        ("slow:0.2", 2),
    ],
)
def test_awkward_answers_that_hold_notes(
    stub: StubLLM, never: threading.Event, behaviour: str, bullets: int
) -> None:
    stub.order(behaviour)
    summary = openai(stub).summarize(turn(), timeout=10, stop=never)
    assert len(summary.bullets) == bullets
    assert not any("thought" in bullet or "went on" in bullet for bullet in summary.bullets)


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ("400", ErrorClass.BAD_REQUEST),
        ("401", ErrorClass.CREDENTIALS),
        ("403", ErrorClass.CREDENTIALS),
        ("404", ErrorClass.CONFIG),
        ("429:7", ErrorClass.RATE_LIMIT),
        ("500", ErrorClass.SERVER),
        ("503", ErrorClass.SERVER),
        ("garbage", ErrorClass.BAD_ANSWER),
        ("reset", ErrorClass.NETWORK),
        ("empty", ErrorClass.BAD_ANSWER),
        ("none", ErrorClass.BAD_ANSWER),
        ("thinking-only", ErrorClass.BAD_ANSWER),
        ("prose", ErrorClass.BAD_ANSWER),
        ("refused", ErrorClass.REFUSED),
        ("filtered", ErrorClass.REFUSED),
    ],
)
def test_a_failure_is_told_apart_and_never_retried_here(
    stub: StubLLM, never: threading.Event, behaviour: str, kind: ErrorClass
) -> None:
    stub.default = behaviour
    with pytest.raises(MemsearchError) as caught:
        openai(stub).summarize(turn(), timeout=10, stop=never)
    assert caught.value.kind is kind
    assert stub.calls("chat") == 1
    assert KEY not in str(caught.value)
    if behaviour == "429:7":
        assert caught.value.retry_after == 7
    if behaviour in ("empty", "prose", "refused", "filtered", "thinking-only"):
        assert caught.value.tokens == 140


@pytest.mark.parametrize("behaviour", ["never", "drip"])
def test_a_deadline_holds_whatever_the_endpoint_does(
    stub: StubLLM, never: threading.Event, behaviour: str
) -> None:
    stub.order(behaviour)
    started = time.monotonic()
    with pytest.raises(MemsearchError) as caught:
        openai(stub).summarize(turn(), timeout=0.5, stop=never)
    assert caught.value.kind is ErrorClass.TIMEOUT
    assert time.monotonic() - started < 5
    assert _eventually(lambda: stub.of("chat")[0].hung_up)
    assert _eventually(lambda: not _threads("summarize"))


def test_a_stopping_worker_ends_the_call(stub: StubLLM) -> None:
    stub.order("never")
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    started = time.monotonic()
    with pytest.raises(StoppedError):
        openai(stub).summarize(turn(), timeout=60, stop=stop)
    assert time.monotonic() - started < 5
    assert _eventually(lambda: stub.of("chat")[0].hung_up)
    timer.join()


def test_nobody_listens(never: threading.Event) -> None:
    with StubLLM() as server:
        url = server.openai_url
    summarizer = OpenAISummarizer(model="small", base_url=url, api_key="")
    with pytest.raises(MemsearchError) as caught:
        summarizer.summarize(turn(), timeout=10, stop=never)
    assert caught.value.kind is ErrorClass.NETWORK


def _eventually(condition: object, seconds: float = 5.0) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def _threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


# ------------------------------------------------------------------------- other programs

_ENV = {"PATH": os.environ["PATH"]}


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_a_program_reads_and_writes_more_than_a_pipe_holds(
    tmp_path: Path, never: threading.Event
) -> None:
    data = b"x" * 5_000_000
    code = """
        import sys
        data = sys.stdin.buffer.read()
        sys.stderr.write("e" * 3_000_000)
        sys.stdout.write(str(len(data)) + "o" * 3_000_000)
    """
    ended = processes.run(
        _python(code), stdin=data, env=_ENV, cwd=str(tmp_path), timeout=60, stop=never
    )
    assert (ended.status, ended.why) == (0, "exit")
    assert ended.out.startswith("5000000o")
    assert len(ended.out) == len(ended.err) == processes.MAX_OUTPUT_BYTES


def test_a_program_that_reads_nothing(tmp_path: Path, never: threading.Event) -> None:
    ended = processes.run(
        _python("print('done')"),
        stdin=b"x" * 5_000_000,
        env=_ENV,
        cwd=str(tmp_path),
        timeout=60,
        stop=never,
    )
    assert (ended.status, ended.out, ended.why) == (0, "done\n", "exit")


def test_exit_status_and_signal(tmp_path: Path, never: threading.Event) -> None:
    def status(code: str) -> int:
        return processes.run(
            _python(code), env=_ENV, cwd=str(tmp_path), timeout=60, stop=never
        ).status

    assert status("raise SystemExit(3)") == 3
    assert status("import os; os.kill(os.getpid(), 9)") == -9


# A program with a child of its own, both deaf to SIGTERM, which write down who they are.
_STUBBORN = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
    with open("pids.tmp", "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    os.rename("pids.tmp", "pids")
    print("started", flush=True)
    %s
"""


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", ["timeout", "stop", "exit"])
def test_nothing_of_a_group_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.3)
    stop = threading.Event()
    rest = "os._exit(0)" if how == "exit" else "time.sleep(600)"

    def stop_when_started() -> None:
        assert _eventually((tmp_path / "pids").exists, 30)
        stop.set()

    watcher = threading.Thread(target=stop_when_started)
    if how == "stop":
        watcher.start()
    ended = processes.run(
        _python(_STUBBORN % rest),
        env=_ENV,
        cwd=str(tmp_path),
        timeout=3 if how == "timeout" else 60,
        stop=stop,
    )
    if how == "stop":
        watcher.join()
    assert ended.why == how
    assert ended.status == (0 if how == "exit" else -signal.SIGKILL)
    assert ended.out == "started\n"
    pids = (tmp_path / "pids").read_text(encoding="ascii").split()
    assert len(pids) == 2
    assert _eventually(lambda: not any(_alive(int(pid)) for pid in pids))


# ------------------------------------------------------------- an agent, played by a script

_AGENT = """\
#!{python}
import json, os, sys
record = {{"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(),
          "files": os.listdir("."), "sid": os.getsid(0), "pid": os.getpid()}}
if sys.argv[1:2] == ["--help"]:
    print("Usage: claude\\n  --safe-mode --no-session-persistence --strict-mcp-config --tools")
    print("Commands:\\n  auth   Manage authentication")
    raise SystemExit(0)
if sys.argv[1:3] == ["auth", "status"]:
    raise SystemExit({login})
record["stdin"] = sys.stdin.read()
with open({log!r}, "a", encoding="utf-8") as file:
    file.write(json.dumps(record) + "\\n")
{body}
"""

_FINE = """
print(json.dumps({"type": "result", "is_error": False, "result": "- one fact\\n- two facts",
                  "usage": {"input_tokens": 100, "output_tokens": 10}}))
"""


class Script:
    """A ``claude`` that writes down how it was called and does as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls.jsonl"
        self.write()

    def write(self, body: str = _FINE, *, login: int = 0) -> None:
        path = self.folder / "claude"
        text = _AGENT.format(
            python=sys.executable, log=str(self.log), body=textwrap.dedent(body), login=login
        )
        # Replaced in one step: a program that is written to cannot be started.
        temporary = self.folder / "claude.new"
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR)
        temporary.replace(path)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "ANTHROPIC_API_KEY": "sk-test",
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": "outer",
            "CLAUDE_CODE_MESSAGING_TOKEN": "outer",
            "CLAUDE_CODE_OAUTH_TOKEN": "kept",
        }

    def calls(self) -> list[dict[str, object]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    folder = tmp_path / "agent folder 代理"
    folder.mkdir()
    return Script(folder)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    home.create()
    return home


def native(script: Script, home: Home, model: str = "") -> NativeSummarizer:
    return NativeSummarizer(
        "claude-code", str(script.folder / "claude"), home=home, environ=script.environ, model=model
    )


def test_an_agent_is_asked_in_a_closed_way(
    script: Script, home: Home, never: threading.Event
) -> None:
    summary = native(script, home).summarize(turn("$(touch /x); `id`"), timeout=60, stop=never)
    assert summary.bullets == ("one fact", "two facts")
    assert (summary.provider, summary.model) == ("native", "haiku")
    assert (summary.tokens_in, summary.tokens_out, summary.estimated) == (100, 10, False)
    (call,) = script.calls()
    argv = call["argv"]
    assert isinstance(argv, list)
    for flag in ("--safe-mode", "--no-session-persistence", "--strict-mcp-config"):
        assert flag in argv
    assert argv[argv.index("--tools") + 1] == ""
    assert not any("touch" in word for word in argv)
    assert "| $(touch /x); `id`" in str(call["stdin"])
    assert str(call["stdin"]).startswith(PROMPT_MARK)
    env = call["env"]
    assert isinstance(env, dict)
    assert env["MEMSEARCH_INTERNAL"] == "1"
    assert env["CLAUDE_CODE_OAUTH_TOKEN"] == "kept"
    assert env["ANTHROPIC_API_KEY"] == "sk-test"
    assert not {"CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_MESSAGING_TOKEN"} & set(env)
    assert call["files"] == []
    assert call["sid"] == call["pid"] != os.getsid(0)
    assert Path(str(call["cwd"])).parent == Path(home.run)


def test_a_large_turn_goes_in_by_standard_input(
    script: Script, home: Home, never: threading.Event
) -> None:
    summarizer = NativeSummarizer(
        "claude-code",
        str(script.folder / "claude"),
        home=home,
        environ=script.environ,
        max_input_chars=2_000_000,
    )
    summarizer.summarize(turn("备份" * 15_000), timeout=60, stop=never)
    assert "备份" * 15_000 in str(script.calls()[0]["stdin"])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("print('Not logged in · Please run /login'); raise SystemExit(1)", ErrorClass.CREDENTIALS),
        ("sys.stderr.write('rate limit'); raise SystemExit(1)", ErrorClass.RATE_LIMIT),
        ("raise SystemExit(1)", ErrorClass.SERVER),
        ("os.kill(os.getpid(), 11)", ErrorClass.SERVER),
        ("print(json.dumps({'type': 'result', 'result': ''}))", ErrorClass.BAD_ANSWER),
        ("print(json.dumps({'type': 'result', 'result': 'no notes'}))", ErrorClass.BAD_ANSWER),
        (
            "print(json.dumps({'type': 'result', 'is_error': True, 'api_error_status': 529,"
            " 'result': 'Overloaded'})); raise SystemExit(1)",
            ErrorClass.SERVER,
        ),
        (
            "print(json.dumps({'type': 'result', 'result': '', 'stop_reason': 'refusal'}))",
            ErrorClass.REFUSED,
        ),
    ],
)
def test_an_agents_failure_is_told_apart(
    script: Script, home: Home, never: threading.Event, body: str, kind: ErrorClass
) -> None:
    script.write(body)
    with pytest.raises(MemsearchError) as caught:
        native(script, home).summarize(turn("XQZ-RAW words"), timeout=60, stop=never)
    assert caught.value.kind is kind
    assert "XQZ-RAW" not in str(caught.value)


def test_an_agent_that_never_answers(script: Script, home: Home, never: threading.Event) -> None:
    script.write("import time; time.sleep(600)")
    with pytest.raises(MemsearchError) as caught:
        native(script, home).summarize(turn(), timeout=1, stop=never)
    assert caught.value.kind is ErrorClass.TIMEOUT


def test_an_agent_that_is_gone(script: Script, home: Home, never: threading.Event) -> None:
    summarizer = native(script, home)
    (script.folder / "claude").unlink()
    with pytest.raises(MemsearchError) as caught:
        summarizer.summarize(turn(), timeout=60, stop=never)
    assert caught.value.kind is ErrorClass.CONFIG


_NO_SMALL_MODEL = (
    """
if "--model" in sys.argv:
    print(json.dumps({"type": "result", "is_error": True, "api_error_status": 404,
                      "result": "There's an issue with the selected model"}))
    raise SystemExit(1)
"""
    + _FINE
)


def test_an_endpoint_without_the_small_model_is_asked_for_its_own(
    script: Script, home: Home, never: threading.Event
) -> None:
    script.write(_NO_SMALL_MODEL)
    summarizer = native(script, home)
    for _ in range(2):
        assert summarizer.summarize(turn(), timeout=60, stop=never).model == ""
    assert ["--model" in call["argv"] for call in script.calls()] == [True, False, False]  # type: ignore[operator]
    # A model that the user chose is not replaced behind their back.
    with pytest.raises(MemsearchError) as caught:
        native(script, home, "theirs").summarize(turn(), timeout=60, stop=never)
    assert caught.value.kind is ErrorClass.CONFIG


def test_a_claude_code_without_safe_mode_is_closed_in_its_older_way(
    script: Script, home: Home, never: threading.Event
) -> None:
    program = script.folder / "claude"
    text = program.read_text(encoding="utf-8").replace(
        "--safe-mode", "--setting-sources --settings"
    )
    program.unlink()
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    probes = Probes()
    assert probes.get("claude-code", home, script.environ).fault == ""
    made = choose(Summarize(), "claude-code", home, script.environ, probes)
    assert made.summarize(turn(), timeout=60, stop=never).provider == "native"
    (call,) = script.calls()
    argv = call["argv"]
    assert isinstance(argv, list)
    assert "--safe-mode" not in argv
    assert argv[argv.index("--setting-sources") + 1] == ""
    assert json.loads(argv[argv.index("--settings") + 1]) == {"disableAllHooks": True}
    assert argv[argv.index("--tools") + 1] == ""
    assert {"--no-session-persistence", "--strict-mcp-config"} <= set(argv)


def test_a_codex_is_closed_by_settings_that_any_release_takes() -> None:
    """One that does not know a feature refuses a ``--disable`` of it."""
    argv = AGENTS["codex"].arguments(Prompt(system="s", user="u"), "")
    assert "--disable" not in argv
    for name in ("hooks", "codex_hooks", "shell_tool", "plugins", "apps", "multi_agent"):
        assert argv[argv.index(f"features.{name}=false") - 1] == "-c"


def test_a_probe_of_an_agent(script: Script, home: Home) -> None:
    assert probe("claude-code", home, script.environ).fault == ""
    script.write(login=1)
    assert "not logged in" in probe("claude-code", home, script.environ).fault
    (script.folder / "claude").write_text("#!/bin/sh\necho old\n", encoding="utf-8")
    assert "too old: it lacks --safe-mode" in probe("claude-code", home, script.environ).fault
    (script.folder / "claude").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert "does not answer" in probe("claude-code", home, script.environ).fault
    (script.folder / "claude").unlink()
    environ = {"PATH": str(script.folder), "HOME": str(script.folder)}
    assert "claude" not in os.listdir(script.folder)
    if not shutil.which("claude", path="/opt/homebrew/bin:/usr/local/bin"):
        assert "not installed" in probe("claude-code", home, environ).fault


def test_auto_goes_on_without_an_agent_that_was_logged_out(
    script: Script, home: Home, never: threading.Event
) -> None:
    probes = Probes()
    wanted = Summarize()
    made = choose(wanted, "claude-code", home, script.environ, probes)
    assert made.summarize(turn(), timeout=60, stop=never).provider == "native"
    script.write("print('Not logged in · Please run /login'); raise SystemExit(1)")
    made = choose(wanted, "claude-code", home, script.environ, probes)
    assert made.summarize(turn(), timeout=60, stop=never).provider == "extractive"
    made = choose(wanted, "claude-code", home, script.environ, probes)
    assert made.provider == "extractive"
    assert "Not logged in" in probes.faults()["claude-code"]
    assert len(script.calls()) == 2
