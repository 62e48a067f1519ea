"""``memsearch config``: what is printed, where it goes, and the exit codes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from memsearch.cli.config_cmd import config

Run = Callable[..., Result]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a home of their own, in a project's folder."""
    user = Path(os.path.realpath(tmp_path)) / "user"
    app = user / "my 项目"
    (app / ".memsearch" / "memory").mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("MEMSEARCH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.chdir(app)
    return user


@pytest.fixture
def run(user: Path) -> Run:
    def run(*arguments: str, code: int = 0, **environment: str) -> Result:
        result = CliRunner().invoke(config, arguments, env=environment)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run


def test_the_paths(run: Run, user: Path) -> None:
    assert run("path").stdout == f"{user}/.memsearch/config.toml\n"
    assert run("path", "--project").stdout == f"{user}/my 项目/.memsearch.toml\n"
    assert run("path", MEMSEARCH_HOME="/x").stdout == "/x/config.toml\n"


def test_a_file_that_cannot_be_written_is_no_mistake_of_the_user(run: Run) -> None:
    for words in (("init",), ("set", "search.top_k", "8")):
        said = run(*words, code=1, MEMSEARCH_HOME="/proc/nothing/home")
        assert "cannot be written" in said.stderr


def test_from_init_to_unset(run: Run, user: Path) -> None:
    file = user / ".memsearch" / "config.toml"
    assert run("list").stdout.startswith("Nothing is set")
    assert run("init").stdout == "Wrote ~/.memsearch/config.toml\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert run("list").stdout.startswith("Nothing is set")
    assert "left as it is" in run("init", code=2).stderr
    assert run("get", "search.top_k").stdout == "5\n"
    said = run("set", "search.top_k", "8")
    assert said.stdout == "search.top_k = 8 in ~/.memsearch/config.toml\n"
    assert said.stderr == ""
    assert "\ntop_k = 8\n" in file.read_text(encoding="utf-8")
    assert run("get", "search.top_k").stdout == "8\n"
    assert run("list").stdout == "search.top_k = 8  # ~/.memsearch/config.toml\n"
    assert "is no longer set" in run("unset", "search.top_k").stdout
    assert "was not set" in run("unset", "search.top_k").stdout
    assert run("get", "search.top_k").stdout == "5\n"


def test_a_projects_settings(run: Run, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("init", "--project")
    run("set", "search.top_k", "3", "--project")
    file = user / "my 项目" / ".memsearch.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert run("get", "search.top_k").stdout == "3\n"
    assert (
        "may not set search.fusion"
        in run("set", "search.fusion", "rrf", "--project", code=2).stderr
    )
    # Whoever changes what does not count here is told so.
    said = run("set", "search.top_k", "9")
    assert "here ~/my 项目/.memsearch.toml sets it" in said.stderr
    assert (
        "here MEMSEARCH_SEARCH__TOP_K sets it"
        in run("set", "search.top_k", "9", MEMSEARCH_SEARCH__TOP_K="4").stderr
    )
    run("unset", "search.top_k", "--project")
    assert run("get", "search.top_k").stdout == "9\n"
    monkeypatch.chdir(user)
    for arguments in (["set", "search.top_k", "3"], ["unset", "search.top_k"], ["init"], ["path"]):
        assert "belongs to no project" in run(*arguments, "--project", code=2).stderr


def test_list_as_json(run: Run) -> None:
    run("set", "capture.exclude", "~/a, ~/b 项")
    run("set", 'projects."/w/我 app".collection', "team")
    origin = "~/.memsearch/config.toml"
    assert json.loads(run("list", "--json").stdout) == {
        "capture.exclude": {"value": ["~/a", "~/b 项"], "origin": origin},
        'projects."/w/我 app".collection': {"value": "team", "origin": origin},
    }
    found = json.loads(run("list", "--resolved", "--json", MEMSEARCH_SEARCH__TOP_K="4").stdout)
    assert found["search.top_k"] == {"value": 4, "origin": "MEMSEARCH_SEARCH__TOP_K"}
    assert found["embedding.provider"] == {"value": "onnx", "origin": "default"}
    assert found["milvus.uri"]["value"].endswith("/.memsearch/milvus.db")
    assert "summarize.platforms.codex.provider" not in found
    assert json.loads(run("list", "--json", MEMSEARCH_HOME="/nowhere").stdout) == {}


def test_values_as_they_are_printed(run: Run) -> None:
    run("set", "summarize.timeout_seconds", "0x", code=2)
    run("set", "summarize.timeout_seconds", "90")
    run("set", "summarize.platforms.codex.provider", "openai")
    for key, shown in {
        "capture.enabled": "true",
        "capture.exclude": "[]",
        "embedding.provider": "onnx",
        "embedding.model": "",
        "retry.base_seconds": "60",
        "summarize.platforms.codex.provider": "openai",
        "summarize.platforms.opencode.provider": "auto",
        "summarize.platforms.codex.timeout_seconds": "90",
        'projects."/none".collection': "",
    }.items():
        assert run("get", key).stdout == shown + "\n", key


def test_secrets_are_never_printed(run: Run, user: Path) -> None:
    secret = "hunter2-secret"
    outputs = [
        run("set", "embedding.api_key", secret),
        run("set", "milvus.token", secret),
        run("set", "summarize.platforms.codex.api_key", secret),
        run("set", "milvus.uri", f"http://u:{secret}@h:1"),
        run("set", "summarize.api_key", f"env:{secret}", code=2),
        run("get", "embedding.api_key"),
        run("get", "milvus.uri"),
        run("get", "summarize.platforms.codex.api_key"),
        run("list"),
        run("list", "--json"),
        run("list", "--resolved", "--json"),
        run("set", "search.top_k", "9", MEMSEARCH_MILVUS__URI=f"x://{secret}@h"),
        run("set", "search.top_k", "9", MEMSEARCH_MILVUS__TOKE=secret),
        run("list", MEMSEARCH_SUMMARIZE__BASE_URL=f"u:{secret}@h", code=2),
    ]
    assert secret in (user / ".memsearch" / "config.toml").read_text(encoding="utf-8")
    for result in outputs:
        assert secret not in result.output
    # A reference is no secret, and is what a person wants to see.
    run("set", "embedding.api_key", "env:OPENAI_API_KEY")
    assert run("get", "embedding.api_key").stdout == "env:OPENAI_API_KEY\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["get", "search.topk"], "did you mean search.top_k?"),
        (["get", "search"], "search is a section"),
        (["get", "a b"], "no name of a setting"),
        (["get", "llm.model"], "memsearch of PyPI"),
        (["set", "search.topk", "5"], "did you mean search.top_k?"),
        (["set", "search.top_k", "many"], "expected a whole number from 1 to 1000"),
        (["set", "search.top_k"], "Missing argument"),
        (["unset", "search.topk"], "did you mean search.top_k?"),
        (["frobnicate"], "No such command"),
    ],
)
def test_mistakes_end_with_2(run: Run, arguments: list[str], said: str) -> None:
    result = run(*arguments, code=2)
    assert said in result.stderr
    assert result.stdout == ""


def test_a_broken_file_can_be_mended_with_the_commands(run: Run, user: Path) -> None:
    file = user / ".memsearch" / "config.toml"
    file.parent.mkdir()
    file.write_text("[search]\ntopk = 5\ntop_k = 'x'\n", encoding="utf-8")
    result = run("list", code=2)
    assert "~/.memsearch/config.toml: search.topk: there is no such setting" in result.stderr
    assert "search.top_k: expected a whole number" in result.stderr
    assert run("path").stdout == f"{file}\n"
    assert "search.topk: there is no such" in run("set", "search.top_k", "5").stderr
    assert run("unset", "search.topk").stderr == ""
    assert run("get", "search.top_k").stdout == "5\n"
    file.write_text("[search\n", encoding="utf-8")
    assert "not valid TOML" in run("set", "search.top_k", "5", code=2).stderr
    assert run("path").stdout == f"{file}\n"


def test_a_file_of_the_other_memsearch_is_listed_with_notes(run: Run, user: Path) -> None:
    data = Path(__file__).parents[2] / "data" / "config" / "pypi-0.4.23.toml"
    file = user / ".memsearch" / "config.toml"
    file.parent.mkdir()
    file.write_bytes(data.read_bytes())
    result = run("list")
    assert 'embedding.model = "text-embedding-3-small"' in result.stdout
    assert "note: ~/.memsearch/config.toml: plugins: " in result.stderr
    assert "see summarize.platforms" in result.stderr
    # A single value is for scripts: no notes beside it.
    assert run("get", "embedding.model").output == "text-embedding-3-small\n"
    run("set", "search.top_k", "9")
    text = file.read_text(encoding="utf-8")
    assert text.startswith(data.read_text(encoding="utf-8"))
    assert file.parent.joinpath("milvus.db").exists() is False


def test_as_a_process(user: Path) -> None:
    program = "from memsearch.cli.config_cmd import config; config()"

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=False,
        )

    assert ran("set", "search.top_k", "8").returncode == 0
    assert ran("get", "search.top_k").stdout == "8\n"
    wrong = ran("set", "search.topk", "8")
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert wrong.stderr.startswith("Error: There is no setting search.topk")


def test_the_module_loads_no_settings(user: Path) -> None:
    """Every command of memsearch loads it; only its own commands need the settings."""
    program = (
        "import sys\n"
        "from memsearch.cli import config_cmd\n"
        "heavy = {'msgspec', 'tomlkit', 'tomllib', 'filelock', 'difflib', 'urllib.parse'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[]"
