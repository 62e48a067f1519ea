"""Which shell commands run without a question: held to a real shell."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsearch.hooks.permit import allowed, split


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("memsearch search x", ["memsearch", "search", "x"]),
        (
            "memsearch search '为什么 $(rm) `x` ; | \\'",
            [*"memsearch search".split(), "为什么 $(rm) `x` ; | \\"],
        ),
        ('memsearch search "a b" --top-k=5', ["memsearch", "search", "a b", "--top-k=5"]),
        ("memsearch search 'don'\\''t'", ["memsearch", "search", "don't"]),
        ("memsearch search '' \t x", ["memsearch", "search", "", "x"]),
        ("memsearch search 备份", ["memsearch", "search", "备份"]),
    ],
)
def test_simple_commands_are_understood(command, words):
    assert split(command) == words


@pytest.mark.parametrize(
    "command",
    [
        "memsearch search x; rm -rf /",
        "memsearch search x && rm x",
        "memsearch search x | sh",
        "memsearch search x > /etc/passwd",
        "memsearch search $(rm x)",
        "memsearch search `rm x`",
        'memsearch search "$(rm x)"',
        'memsearch search "`rm x`"',
        'memsearch search "a\\" ; rm x; \\""',
        "memsearch search x\nrm x",
        "memsearch search x\\\nrm",
        "memsearch search 'x",
        'memsearch search "x',
        "memsearch search x & rm x",
        "memsearch search {a,b}",
        "memsearch search *",
        "memsearch search ~root",
        "memsearch search x #",
        "memsearch search !!",
        "memsearch search $'x'",
        "memsearch search x\u2028rm",
        "(memsearch search x)",
        "memsearch search x\\",
    ],
)
def test_anything_more_is_not(command):
    assert split(command) is None


@given(st.text(alphabet="ab \t\n'\"\\$`;|&<>(){}*?!#~=项-\u00a0", max_size=40))
@settings(max_examples=300, deadline=None)
def test_what_is_understood_is_what_a_shell_understands(tail):
    """The words that we see are those that sh would hand over, and it would do nothing else."""
    words = split("X " + tail)
    if words is None:
        return
    script = 'X() { for word in "$@"; do printf "%s\\0" "$word"; done; }\nX ' + tail
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, env={"PATH": ""}, timeout=10, check=False
    )
    assert done.stderr == b""
    assert done.stdout.decode().split("\0")[:-1] == words[1:]


def test_only_reading_commands_of_ours(tmp_path):
    ours, link, other = (tmp_path / name for name in ("memsearch.sh", "link.sh", "other.sh"))
    ours.touch()
    other.touch()
    link.symlink_to(ours)
    scripts = frozenset({os.path.realpath(ours)})
    for command in ("search", "expand", "transcript", "list"):
        assert allowed(["sh", str(ours), command, "x"], scripts)
    assert allowed(["sh", str(link), "search", "x"], scripts)
    for words in (
        ["sh", str(other), "search"],
        ["sh", "memsearch.sh", "search"],
        ["sh", str(ours), "reset"],
        ["sh", str(ours)],
        ["sh", "-c", "x"],
        ["memsearch", "search"],
        ["memsearch"],
        ["X=1", "memsearch", "search"],
        [],
    ):
        assert not allowed(words, scripts)


def ask(tool, command, **environ):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "memsearch._entry", "permit"],
        input=json.dumps({"tool_name": tool, "tool_input": {"command": command}}),
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        check=True,
    )
    return json.loads(done.stdout)


def test_the_answer_to_an_agent(tmp_path):
    script = tmp_path / "root x" / "hooks" / "assets" / "memsearch.sh"
    script.parent.mkdir(parents=True)
    script.touch()
    command = f"sh \"{script}\" search 'a; b'"
    said = ask("Bash", command, CLAUDE_PLUGIN_ROOT=str(tmp_path / "root x"))
    assert said["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert ask("Bash", command) == {}
    assert ask("Read", "memsearch search x") == {}
    assert ask("Bash", "memsearch search x; true") == {}
