"""The home's paths, its modes, and the write that is whole or not at all."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memsearch.config import paths
from memsearch.config.paths import (
    Home,
    default_milvus_path,
    tilde,
    untilde,
    unusable,
    write_atomic,
)


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"HOME": "/u"}, "/u/.memsearch"),
        ({"HOME": "/u", "MEMSEARCH_HOME": ""}, "/u/.memsearch"),
        ({"HOME": "/u", "MEMSEARCH_HOME": "/x/y"}, "/x/y"),
        ({"HOME": "/u", "MEMSEARCH_HOME": "/x/y/"}, "/x/y"),
        ({"HOME": "/u", "MEMSEARCH_HOME": "~/m 家"}, "/u/m 家"),
        ({"HOME": "/u", "MEMSEARCH_HOME": "rel"}, os.path.join(os.getcwd(), "rel")),
    ],
)
def test_the_home_of_an_environment(environ: dict[str, str], root: str) -> None:
    assert Home.from_env(environ).root == root


def test_a_home_is_a_value() -> None:
    assert Home("/x") == Home("/x") != Home("/y")
    assert len({Home("/x"), Home("/x")}) == 1
    assert repr(Home("/x")) == "Home('/x')"
    with pytest.raises(AttributeError):
        Home("/x").root = "/y"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("state_db", "/h/state.db"),
        ("config_toml", "/h/config.toml"),
        ("env_file", "/h/env"),
        ("milvus_db", "/h/milvus.db"),
        ("embeddings_db", "/h/embeddings.db"),
        ("models", "/h/models"),
        ("spool", "/h/spool"),
        ("logs", "/h/logs"),
        ("run", "/h/run"),
        ("worker_lock", "/h/run/worker.lock"),
        ("store_lock", "/h/run/store.lock"),
        ("socket", "/h/run/memsearch.sock"),
        ("unfiled", "/h/unfiled"),
    ],
)
def test_the_paths_of_a_home(name: str, path: str) -> None:
    assert getattr(Home("/h"), name) == path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_new_home_is_the_users_alone(tmp_path: Path, umask: int) -> None:
    home = Home(str(tmp_path / "家 of mine"))
    old = os.umask(umask)
    try:
        home.create()
        home.create()
    finally:
        os.umask(old)
    for folder in (home.root, home.models, home.spool, home.logs, home.run):
        assert mode(folder) == 0o700


def test_a_home_that_was_open_is_closed(tmp_path: Path) -> None:
    ours = tmp_path / ".memsearch"
    ours.mkdir()
    ours.chmod(0o755)
    Home(str(ours)).create()
    assert mode(ours) == 0o700
    named = tmp_path / "data"
    named.mkdir()
    named.chmod(0o755)
    Home(str(named)).create()
    assert mode(named) == 0o755
    assert mode(named / "run") == 0o700


def test_parents_are_made(tmp_path: Path) -> None:
    Home(str(tmp_path / "a" / "b" / "c")).create()
    assert mode(tmp_path / "a" / "b" / "c") == 0o700


def test_a_file_in_the_homes_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_bytes(b"")
    with pytest.raises(FileExistsError):
        Home(str(tmp_path / "home")).create()


def test_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "linked").symlink_to(tmp_path)
    for usable in (tmp_path, tmp_path / "not" / "yet", tmp_path / "linked" / "x"):
        assert unusable(str(usable)) == ""
    for unfit in (tmp_path / "file", tmp_path / "file" / "x", tmp_path / "link"):
        assert unusable(str(unfit)).endswith("is no folder")
    (tmp_path / "closed").mkdir(mode=0o500)
    if os.geteuid():  # root may write everywhere
        assert unusable(str(tmp_path / "closed" / "x")).endswith("cannot be written")


def test_a_long_home_has_a_short_socket(tmp_path: Path) -> None:
    home = Home(str(tmp_path / ("很长的名字" * 10)))
    home.create()
    path = home.socket
    assert not path.startswith(home.root)
    assert len(os.fsencode(path)) <= paths.MAX_SOCKET_PATH
    assert path == Home(home.root).socket
    assert path != Home(home.root + "x").socket
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(path)
    finally:
        server.close()
        os.unlink(path)


def test_the_longest_socket_in_a_home_binds(tmp_path: Path) -> None:
    fixed = len(os.fsencode(Home(str(tmp_path / "x")).socket))
    home = Home(str(tmp_path / ("x" * (1 + paths.MAX_SOCKET_PATH - fixed))))
    home.create()
    assert len(os.fsencode(home.socket)) == paths.MAX_SOCKET_PATH
    assert home.socket.startswith(home.root)
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(home.socket)
    finally:
        server.close()


@pytest.mark.parametrize("trouble", ["link", "open", "file"])
def test_a_socket_folder_that_is_not_ours_alone_is_refused(
    tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    if trouble == "link":
        (tmp_path / "target").mkdir()
        folder.symlink_to(tmp_path / "target")
    elif trouble == "open":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.write_bytes(b"")
    monkeypatch.setattr(paths, "_runtime_folder", lambda: str(folder))
    with pytest.raises(OSError, match=r"not a folder of this user|File exists"):
        Home(str(tmp_path / ("x" * 100))).create()


def test_the_milvus_path(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    assert default_milvus_path(home) == home.milvus_db
    os.mkdir(home.milvus_db)
    assert default_milvus_path(home) == home.milvus_db
    os.rmdir(home.milvus_db)
    Path(home.milvus_db).write_bytes(b"SQLite format 3\0")
    beside = str(tmp_path / "memsearch-milvus.db")
    assert default_milvus_path(home) == beside
    os.mkdir(beside)
    assert default_milvus_path(home) == beside


@pytest.mark.parametrize("umask", [0o000, 0o777])
@pytest.mark.parametrize("wanted", [0o600, 0o644])
def test_a_file_is_written_with_its_mode(tmp_path: Path, umask: int, wanted: int) -> None:
    target = tmp_path / "a 文件.toml"
    old = os.umask(umask)
    try:
        write_atomic(str(target), b"one", wanted)
        write_atomic(str(target), "二".encode(), wanted)
    finally:
        os.umask(old)
    assert target.read_bytes() == "二".encode()
    assert mode(target) == wanted
    assert os.listdir(tmp_path) == [target.name]


def test_a_written_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    target = tmp_path / "dotfiles" / "config.toml"
    target.write_bytes(b"old")
    link = tmp_path / "config.toml"
    link.symlink_to(target)
    write_atomic(str(link), b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_file_and_folder_are_synced_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(descriptor: int) -> None:
        kind = os.fstat(descriptor).st_mode
        steps.append("folder" if stat.S_ISDIR(kind) else "file")
        real_sync(descriptor)

    def replace(source: str, target: str) -> None:
        steps.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomic(str(tmp_path / "x"), b"data")
    assert steps == ["file", "rename", "folder"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """A real short write and a real failure: the file size limit of the process."""
    target = tmp_path / "x"
    target.write_bytes(b"old")
    program = (
        "import resource, signal, sys\n"
        "from memsearch.config.paths import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    write_atomic(sys.argv[1], b'n' * 5000)\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(target)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(ran.stdout) == errno.EFBIG
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_folder_in_the_files_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomic(str(tmp_path / "x"), b"data")
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/u", "~"),
        ("/u/a b/项", "~/a b/项"),
        ("/ux/a", "/ux/a"),
        ("/v", "/v"),
        ("~weird", "~weird"),
    ],
)
def test_tilde_there_and_back(path: str, short: str) -> None:
    assert tilde(path, "/u") == short
    assert untilde(short, "/u") == path


def test_tilde_sees_through_a_linked_home(tmp_path: Path) -> None:
    real = Path(os.path.realpath(tmp_path)) / "real"
    real.mkdir()
    link = real.parent / "link"
    link.symlink_to(real)
    assert tilde(str(link / "a"), str(link)) == "~/a"
    assert tilde(str(real / "a"), str(link)) == "~/a"


def test_tilde_of_a_user_who_lives_at_the_root() -> None:
    assert tilde("/etc/x", "/") == "/etc/x"
    assert untilde("~", "/") == "/"
    assert untilde("~/x", "/") == "/x"
    assert untilde("~root/x", "/u") == "~root/x"
