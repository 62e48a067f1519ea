"""References to secrets, the env file, and what is printed in a secret's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsearch.config.credentials import MASK, masked, open_to_others, read_env_file, resolve_secret
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path))


def test_a_secret_by_itself_or_by_reference(home: Home) -> None:
    Path(home.env_file).write_text("IN_FILE=f\nBOTH=file\n", encoding="utf-8")
    environ = {"IN_ENV": "e", "BOTH": "env", "EMPTY": ""}
    assert resolve_secret("sk-plain", home, environ) == "sk-plain"
    assert resolve_secret("", home, environ) == ""
    assert resolve_secret("env:IN_ENV", home, environ) == "e"
    assert resolve_secret("env:IN_FILE", home, environ) == "f"
    assert resolve_secret("env:BOTH", home, environ) == "env"


def test_a_changed_variable_counts_at_once(home: Home) -> None:
    for value in ("one", "two"):
        Path(home.env_file).write_text(f"KEY={value}\n", encoding="utf-8")
        assert resolve_secret("env:KEY", home, {}) == value


@pytest.mark.parametrize("reference", ["env:ABSENT", "env:EMPTY", "env:"])
def test_a_reference_to_nothing(home: Home, reference: str) -> None:
    with pytest.raises(MemsearchError) as raised:
        resolve_secret(reference, home, {"EMPTY": "", "OTHER": "hunter2"})
    assert raised.value.kind is ErrorClass.CREDENTIALS
    assert reference in raised.value.message
    assert "hunter2" not in str(raised.value)


def test_the_env_file(home: Home) -> None:
    lines = "\ufeffA=1\r\n# B=2\n\n  export C = 'three 三' \n"
    lines += 'D="x=y"\nE=\'\nnonsense\n=empty\nF=$A\n'
    Path(home.env_file).write_bytes(lines.encode())
    assert read_env_file(home) == {
        "A": "1",
        "C": "three 三",
        "D": "x=y",
        "E": "'",
        "F": "$A",
    }


def test_an_env_file_that_cannot_be_read(home: Home) -> None:
    os.mkdir(home.env_file)
    with pytest.raises(MemsearchError, match="cannot be read") as raised:
        resolve_secret("env:X", home, {})
    assert raised.value.kind is ErrorClass.CREDENTIALS
    os.rmdir(home.env_file)
    Path(home.env_file).write_bytes(b"X=\xff\n")
    with pytest.raises(MemsearchError, match="not UTF-8"):
        resolve_secret("env:X", home, {})
    assert resolve_secret("env:X", home, {"X": "y"}) == "y"


def test_who_may_read_the_env_file(home: Home) -> None:
    assert not open_to_others(home)
    Path(home.env_file).write_bytes(b"")
    for mode, is_open in ((0o600, False), (0o640, True), (0o604, True), (0o400, False)):
        os.chmod(home.env_file, mode)
        assert open_to_others(home) is is_open


@pytest.mark.parametrize(
    ("value", "secret", "shown"),
    [
        ("sk-1", True, MASK),
        ("env:KEY", True, "env:KEY"),
        ("", True, ""),
        ("sk-1", False, "sk-1"),
        (5, False, 5),
        (["a"], False, ["a"]),
        ("http://h:1/v1", False, "http://h:1/v1"),
        ("http://u:p@h:1/v1?x=1", False, f"http://{MASK}@h:1/v1?x=1"),
        ("https://token@h", False, f"https://{MASK}@h"),
        ("http://h/a@b", False, "http://h/a@b"),
        ("http://u:p@[h", False, MASK),
    ],
)
def test_what_is_printed(value: object, secret: bool, shown: object) -> None:
    assert masked(value, secret=secret) == shown
