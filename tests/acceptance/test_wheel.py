"""What is published: the sdist and the wheel built from it, installed and run elsewhere."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from memsearch import __version__

ROOT = Path(__file__).resolve().parent.parent.parent
#: The top-level folders that hold code, and the package that each becomes.
PACKAGES = {
    "config": "memsearch/config",
    "hooks": "memsearch/hooks",
    "memsearch": "memsearch",
    "pipeline": "memsearch/pipeline",
    "recall": "memsearch/recall",
    "sinks": "memsearch/sinks",
    "sources": "memsearch/sources",
    "workers": "memsearch/workers",
}
#: The oldest setuptools that reads this pyproject.toml.
SETUPTOOLS = 77


def run(argv: Sequence[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command; its output is in the failure when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done


@dataclass(frozen=True)
class Built:
    """``source`` is the copy that it was built from: the tree may change while tests run."""

    source: Path
    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist of a copy of this tree, and the wheel that is built from that sdist."""
    source = tmp_path_factory.mktemp("source") / "memsearch"
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(
            ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
        ),
    )
    out = tmp_path_factory.mktemp("dist")
    own = int(importlib.metadata.version("setuptools").split(".")[0]) >= SETUPTOOLS
    run(
        [sys.executable, "-P", "-m", "build", *(["--no-isolation"] if own else []), "-o", out, "."],
        cwd=source,
    )
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return Built(source, sdist, wheel)


@dataclass(frozen=True)
class Installed:
    """A clean virtual environment that holds the wheel and nothing else."""

    python: Path
    site: Path

    def environ(self, home: Path) -> dict[str, str]:
        """An environment in which its commands find their dependencies: those of this run.

        ``PYTHONPATH`` reads no ``.pth`` file, so an editable install of this tree that lies
        beside the dependencies is not seen.
        """
        ours = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home / "user"),
            "LANG": "C.UTF-8",
            "MEMSEARCH_HOME": str(home / "home"),
            "MEMSEARCH_WORKERS__AUTOSTART": "false",
            "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(self.site), *ours))),
        }


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("venv")
    run([sys.executable, "-P", "-m", "venv", "--without-pip", folder])
    python = folder / "bin" / "python"
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--python", python]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", built.wheel])
    site = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    return Installed(python, Path(site.stdout.strip()))


def expected_files(source: Path) -> dict[str, str]:
    """Every file of the folders that hold code: its place in the package, and in the tree."""
    return {
        f"{package}/{path.relative_to(source / folder).as_posix()}": str(path.relative_to(source))
        for folder, package in PACKAGES.items()
        for path in (source / folder).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


def test_the_tree_and_its_description_agree() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        described = tomllib.load(file)
    mapped = described["tool"]["setuptools"]["package-dir"]
    assert {path.split("/")[0] for path in mapped.values()} == set(PACKAGES)
    assert described["project"]["version"] == __version__


def test_the_wheel_holds_every_module_and_all_data_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
        meta = next(name for name in names if name.endswith(".dist-info/METADATA"))
        text = wheel.read(meta).decode("utf-8")
    files = {name for name in names if ".dist-info/" not in name}
    assert files == set(expected_files(built.source))
    assert "License-Expression: MIT" in text
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert any(name.endswith("dist-info/entry_points.txt") for name in names)


def test_the_sdist_holds_what_a_wheel_is_built_from_and_what_tests_it(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert names >= set(expected_files(built.source).values())
    assert names >= {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
        "docs/architecture.md",
        "tests/conftest.py",
        "tests/acceptance/test_wheel.py",
    }
    left = [name for name in names if "__pycache__" in name or name.startswith((".git/", "build/"))]
    assert left == []


def test_only_memsearch_lands_in_site_packages(installed: Installed) -> None:
    names = {path.name for path in installed.site.iterdir()} - {"__pycache__"}
    assert names == {"memsearch", f"memsearch-{__version__}.dist-info"}
    commands = {path.name for path in (installed.python.parent).glob("memsearch*")}
    assert commands == {"memsearch"}


def test_the_command_runs_from_another_folder(installed: Installed, tmp_path: Path) -> None:
    environ = installed.environ(tmp_path)
    where = run(
        [installed.python, "-P", "-c", "import memsearch.cli.main as m; print(m.__file__)"],
        cwd=tmp_path,
        env=environ,
    )
    assert Path(where.stdout.strip()).is_relative_to(installed.site)
    memsearch = installed.python.parent / "memsearch"
    version = run([memsearch, "--version"], cwd=tmp_path, env=environ)
    assert version.stdout == f"memsearch, version {__version__}\n"
    helped = run([memsearch, "--help"], cwd=tmp_path, env=environ)
    assert "search" in helped.stdout
    assert "enqueue" in helped.stdout
    by_module = run([installed.python, "-m", "memsearch", "--version"], cwd=tmp_path, env=environ)
    assert by_module.stdout == version.stdout


def test_every_module_can_be_imported(built: Built, installed: Installed, tmp_path: Path) -> None:
    names = sorted(
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in expected_files(built.source)
        if name.endswith(".py") and not name.endswith("__main__.py") and "/assets/" not in name
    )
    script = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    run(
        [installed.python, "-P", "-c", script, *names],
        cwd=tmp_path,
        env=installed.environ(tmp_path),
    )


def test_a_hook_needs_no_dependency_at_all(installed: Installed, tmp_path: Path) -> None:
    environ = installed.environ(tmp_path)
    del environ["PYTHONPATH"]
    payload = {"session_id": "s", "transcript_path": str(tmp_path / "s.jsonl")}
    done = run(
        [installed.python.parent / "memsearch", "enqueue", "--platform", "claude-code"],
        cwd=tmp_path,
        env=environ,
        input=json.dumps(payload),
    )
    assert done.stdout == "{}\n"
    assert done.stderr == ""


def test_the_demo_runs_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    environ = installed.environ(tmp_path) | {"TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    done = run([installed.python.parent / "memsearch", "demo"], cwd=tmp_path, env=environ)
    assert "searchable" in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "user").exists()
