"""The set-up of a plugin: when it is made anew, and how the new one takes the place of the old."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

import memsearch

PATH = Path(__file__).resolve().parent.parent.parent.parent / "hooks" / "assets" / "bootstrap.py"


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("version", "there", "newer"),
    [
        ("0.1.0", "0.1.0", False),
        ("0.2.0", "0.1.0", True),
        ("0.10.0", "0.9.1", True),
        ("0.9.1", "0.10.0", False),
        ("1.0", "0.99.99", True),
        ("0.1.0", "", True),
        ("0.2.0", "0.2.0.dev1", True),
        ("0.2.0rc1", "0.2.0rc1", False),
    ],
)
def test_when_it_is_made_anew(bootstrap: ModuleType, version: str, there: str, newer: bool) -> None:
    assert bootstrap.is_newer(version, there) is newer


def test_its_own_version_is_the_packages(bootstrap: ModuleType) -> None:
    assert bootstrap.own_version() == memsearch.__version__


def test_one_takes_the_place_of_another(bootstrap: ModuleType, tmp_path: Path) -> None:
    root = tmp_path / "it's 我"
    for name in ("1", "2"):
        (root / "venvs" / name).mkdir(parents=True)
        (root / "venvs" / name / "version").write_text(name)
    assert bootstrap.put_in_place(str(root), str(root / "venvs" / "1")) == ""
    assert (root / "venv" / "version").read_text() == "1"
    before = bootstrap.put_in_place(str(root), str(root / "venvs" / "2"))
    assert before == str(root / "venvs" / "1")
    assert (root / "venv" / "version").read_text() == "2"
    assert os.listdir(root / "venvs") != ["2"]
    # The folder may be moved as a whole.
    assert os.readlink(root / "venv") == "venvs/2"


def test_a_folder_in_the_place_of_the_link_is_kept(bootstrap: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "old").touch()
    (tmp_path / "venvs" / "1").mkdir(parents=True)
    before = bootstrap.put_in_place(str(tmp_path), str(tmp_path / "venvs" / "1"))
    assert os.listdir(before) == ["old"]
    assert os.path.realpath(tmp_path / "venv") == str(tmp_path / "venvs" / "1")
