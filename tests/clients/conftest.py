"""The real agents, installed from npm once into a cache, or named by the environment."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

# Beside this file, and on no path in pytest's importlib mode.
sys.path.insert(0, os.path.dirname(__file__))
from machine import Machine
from model import Model

#: Agent → npm package and the version that is tested.
PINNED = {
    "claude-code": "@anthropic-ai/claude-code@2.1.332",
    "codex": "@openai/codex@0.171.0",
    "opencode": "opencode-ai@1.18.33",
    "openclaw": "openclaw@2026.9.6",
    "node24": "node@24",
}
#: Agent → the variable that names its program, so that nothing is installed.
NAMED = {
    "claude-code": "MEMSEARCH_TEST_CLAUDE",
    "codex": "MEMSEARCH_TEST_CODEX",
    "opencode": "MEMSEARCH_TEST_OPENCODE",
    "openclaw": "MEMSEARCH_TEST_OPENCLAW",
    "node24": "MEMSEARCH_TEST_NODE24",
}
#: Seconds that npm has; OpenClaw brings a thousand packages.
NPM_SECONDS = 900
_GIVEN = {name: os.environ.get(variable, "") for name, variable in NAMED.items()}
#: Set where an agent that cannot be installed is a failure, not a test less.
_MUST = bool(os.environ.get("MEMSEARCH_TEST_CLIENTS_MUST"))
_CACHE = Path(
    os.environ.get("MEMSEARCH_TEST_CLIENTS")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memsearch-test-clients"
)
_MACHINE = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine(), "")
_SYSTEM = platform.system().lower()


def _program(name: str, modules: Path) -> Path:
    """Where an agent's own program lies in its package: without the launcher in Node."""
    if name == "claude-code":
        return modules / f"@anthropic-ai/claude-code-{_SYSTEM}-{_MACHINE}" / "claude"
    if name == "codex":
        found = sorted(modules.glob(f"@openai/codex-{_SYSTEM}-{_MACHINE}/vendor/*/bin/codex"))
        return found[0] if found else modules / "none"
    if name == "opencode":
        return modules / f"opencode-{_SYSTEM}-{_MACHINE}" / "bin" / "opencode"
    if name == "node24":
        return modules / "node" / "bin" / "node"
    return modules / "openclaw" / "openclaw.mjs"


def _installed(name: str, path: str = "") -> str:
    """The program of an agent; installed into the cache when it is not there yet."""
    if _GIVEN[name]:
        return _GIVEN[name]
    folder = _CACHE / PINNED[name].replace("/", "_")
    program = _program(name, folder / "node_modules")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run beside this one install it once
        if not program.exists():
            _npm_install(name, folder, path)
    return str(_program(name, folder / "node_modules"))


def _npm_install(name: str, folder: Path, path: str) -> None:
    """Install an agent into its folder of the cache, or say why that cannot be."""
    npm = shutil.which("npm")
    if npm is None:
        _cannot(f"npm is not installed, and {NAMED[name]} names no program")
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    argv = [npm, "install", "--no-audit", "--no-fund", "--silent"]
    argv += [] if name == "node24" else ["--ignore-scripts"]
    environ = {**os.environ, "PATH": os.pathsep.join(filter(None, [path, os.environ["PATH"]]))}
    try:
        done = subprocess.run(
            [*argv, PINNED[name]],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=NPM_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        _cannot(f"npm did not install {PINNED[name]} within {NPM_SECONDS} s")
    if done.returncode != 0 or not _program(name, folder / "node_modules").exists():
        _cannot(f"npm does not install {PINNED[name]}: {done.stderr.strip()[-300:]}")


def _cannot(why: str) -> NoReturn:
    """Skip what needs an agent that cannot be had; where the agents are a must, fail."""
    if _MUST:
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, model: Model, models_dir: Path) -> Machine:
    return Machine(tmp_path / "me 我", model, models_dir)


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Agent → its program; skips the test when it cannot be had."""
    found: dict[str, str] = {}

    def get(name: str) -> str:
        if name not in found:
            path = os.path.dirname(get("node24")) if name == "openclaw" else ""
            found[name] = _installed(name, path)
        return found[name]

    return get


CODEX_HOOKS = '{"hooks": { "Stop":[{"hooks":[{"type":"command","command":%s}]}]\n }\n}'
CODEX_CONFIG = """\
# mine
model = "stub-model"   # with a comment
model_provider = "stub"
check_for_update_on_startup = false
mcp_optional_startup_grace_ms = 60000   # else it goes without a server that takes a second

[projects.{project}]
trust_level = "trusted"   # else some releases write it themselves
[analytics]
enabled = false
[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
env_key = "STUB_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0"""


OPENCLAW_CONFIG = """\
{
  // mine
  "gateway": { "mode": "local", "bind": "loopback", "port": %d,
               "auth": { "mode": "token", "token": "stub-token" },
               "http": { "endpoints": { "chatCompletions": { "enabled": true } } } },
  "update": { "checkOnStart": false },
  "agents": { "defaults": {
    "workspace": %s, "model": { "primary": "stub/stub-model" }, "skipBootstrap": true }%s },
  "models": { "mode": "replace", "providers": { "stub": {
    "baseUrl": "%s/v1", "apiKey": "sk-test", "api": "openai-completions",
    "models": [ { "id": "stub-model", "name": "Stub", "reasoning": false, "input": ["text"],
      "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 },
      "contextWindow": 128000, "maxTokens": 8000, } ] } } },
}
"""


@pytest.fixture
def claude(machine: Machine, program: Callable[[str], str]) -> Machine:
    """A machine with Claude Code, whose user has settings and a hook of their own."""
    return with_claude(machine, program)


def with_claude(machine: Machine, program: Callable[[str], str]) -> Machine:
    """Claude Code on a machine."""
    machine.programs["claude-code"] = [program("claude-code")]
    machine.settings |= {
        "ANTHROPIC_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": machine.model.url,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    (machine.root / ".claude").mkdir()
    log = shlex.quote(str(machine.root / "foreign.log"))
    (machine.root / ".claude" / "settings.json").write_text(
        '{ "permissions": {"allow": ["Bash(echo:*)"]},\n'
        '\t"hooks" :{"Stop":[ {"hooks":[{"type":"command",\n'
        f'\t   "command": {json.dumps(f"echo stop >> {log}")}}}]}} ] }}\n}}',
        encoding="utf-8",
    )
    return machine


@pytest.fixture
def codex(machine: Machine, program: Callable[[str], str]) -> Machine:
    """A machine with Codex, whose user has settings and a hook of their own."""
    return with_codex(machine, program)


def with_codex(machine: Machine, program: Callable[[str], str]) -> Machine:
    """Codex on a machine."""
    machine.programs["codex"] = [program("codex")]
    machine.settings |= {"STUB_KEY": "sk-test", "RUST_LOG": "error"}
    folder = machine.root / ".codex"
    folder.mkdir()
    log = shlex.quote(str(machine.root / "foreign.log"))
    (folder / "hooks.json").write_text(CODEX_HOOKS % json.dumps(f"echo stop >> {log}"))
    project = json.dumps(str(machine.project), ensure_ascii=False)
    config = CODEX_CONFIG.format(url=machine.model.url, project=project)
    (folder / "config.toml").write_text(config, encoding="utf-8")
    return machine


@pytest.fixture
def opencode(machine: Machine, program: Callable[[str], str]) -> Machine:
    """A machine with OpenCode, whose user has settings and a plugin of their own."""
    return with_opencode(machine, program)


def with_opencode(machine: Machine, program: Callable[[str], str]) -> Machine:
    """OpenCode on a machine."""
    machine.programs["opencode"] = [program("opencode")]
    machine.settings |= {
        "STUB_KEY": "sk-test",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    }
    folder = machine.root / ".config" / "opencode"
    (folder / "plugin").mkdir(parents=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Stub",
        "options": {"baseURL": f"{machine.model.url}/v1", "apiKey": "{env:STUB_KEY}"},
        "models": {"stub-model": {"name": "Stub", "tool_call": True}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "model": "stub/stub-model",
        "small_model": "stub/stub-model",
        "provider": {"stub": provider},
        "permission": {"bash": "allow"},
    }
    (folder / "opencode.json").write_text("// mine\n" + json.dumps(settings), encoding="utf-8")
    (folder / "plugin" / "mine.js").write_text("export const Mine = async () => ({})\n")
    return machine


@pytest.fixture
def openclaw(machine: Machine, program: Callable[[str], str]) -> Machine:
    """A machine with OpenClaw, whose user wrote the configuration by hand."""
    return with_openclaw(machine, program)


def with_openclaw(
    machine: Machine, program: Callable[[str], str], port: int = 18790, more: str = ""
) -> Machine:
    """OpenClaw on a machine; ``more`` are further agents, as its configuration lists them."""
    node, main = program("node24"), program("openclaw")
    machine.paths.insert(0, os.path.dirname(node))
    machine.programs["openclaw"] = [node, main]
    machine.settings |= {
        "OPENCLAW_DISABLE_TELEMETRY": "1",
        "DO_NOT_TRACK": "1",
        "OPENCLAW_NO_AUTO_UPDATE": "1",
    }
    (machine.root / ".openclaw").mkdir()
    text = OPENCLAW_CONFIG % (
        port,
        json.dumps(str(machine.project), ensure_ascii=False),
        more,
        machine.model.url,
    )
    (machine.root / ".openclaw" / "openclaw.json").write_text(text, encoding="utf-8")
    return machine
