"""Where memsearch keeps its own files, and how it writes one.

Part of the hook's path, so it stands on ``os`` alone: no ``pathlib``, no ``typing`` (which
loads ``re`` in Python 3.11), no ``dataclasses`` (which loads ``inspect``).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # annotations only, never run
    from collections.abc import Mapping

#: Mode of every folder under MEMSEARCH_HOME.
FOLDER_MODE = 0o700

#: Mode of every file under MEMSEARCH_HOME.
FILE_MODE = 0o600

#: What a mode allows to others than the owner.
OTHERS = 0o077

#: Name of the default home, in the user's home folder.
HOME_NAME = ".memsearch"

#: Variables that tell where an agent keeps its files, and where memory goes. A hook notes them.
AGENT_VARIABLES = (
    "MEMSEARCH_DIR",
    "HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "XDG_DATA_HOME",
    "OPENCODE_DB",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    "OPENCLAW_STATE_DIR",
    "OPENCLAW_HOME",
    "OPENCLAW_CONFIG_PATH",
)

#: Longest path of a Unix socket, in bytes. ``sun_path`` holds 104 bytes with its final NUL on
#: macOS and 108 on Linux; the smaller one serves both.
MAX_SOCKET_PATH = 103

#: How the temporary files of ``write_atomic`` begin, so that a sweep can know them.
TEMP_PREFIX = ".memsearch-"


class Home:
    """The folder of memsearch's own files (``MEMSEARCH_HOME``); immutable.

    Args:
        root: Absolute path of the folder. It need not exist.
    """

    __slots__ = ("root",)

    root: str

    def __init__(self, root: str) -> None:
        object.__setattr__(self, "root", root)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Home is immutable: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Home) and other.root == self.root

    def __hash__(self) -> int:
        return hash((Home, self.root))

    def __repr__(self) -> str:
        return f"Home({self.root!r})"

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Home:
        """The home that the environment names: ``MEMSEARCH_HOME``, else ``~/.memsearch``.

        Args:
            environ: The environment. An empty ``MEMSEARCH_HOME`` counts as unset, ``~`` in it
                is expanded (JSON settings of agents do not do that), and a relative one is
                taken from the current folder.
        """
        user = user_home(environ)
        named = environ.get("MEMSEARCH_HOME", "")
        if not named:
            return cls(os.path.join(user, HOME_NAME))
        return cls(os.path.abspath(untilde(named, user)))

    @property
    def state_db(self) -> str:
        """The event log, its projections and the queue (SQLite)."""
        return os.path.join(self.root, "state.db")

    @property
    def config_toml(self) -> str:
        """The user's settings."""
        return os.path.join(self.root, "config.toml")

    @property
    def env_file(self) -> str:
        """``NAME=value`` lines that ``env:NAME`` settings may name."""
        return os.path.join(self.root, "env")

    @property
    def milvus_db(self) -> str:
        """Where Milvus Lite keeps its data by default; see ``default_milvus_path``."""
        return os.path.join(self.root, "milvus.db")

    @property
    def embeddings_db(self) -> str:
        """The embedding cache (SQLite)."""
        return os.path.join(self.root, "embeddings.db")

    @property
    def models(self) -> str:
        """The folder of converted and fetched models."""
        return os.path.join(self.root, "models")

    @property
    def spool(self) -> str:
        """The folder of hook payloads that could not go into the database."""
        return os.path.join(self.root, "spool")

    @property
    def logs(self) -> str:
        """The folder of logs (JSON lines)."""
        return os.path.join(self.root, "logs")

    @property
    def run(self) -> str:
        """The folder of locks and the socket."""
        return os.path.join(self.root, "run")

    @property
    def worker_lock(self) -> str:
        """The file whose OS lock says that a worker lives."""
        return os.path.join(self.root, "run", "worker.lock")

    @property
    def hooks_lock(self) -> str:
        """The line in which hooks wait for the log; also taken while the log is swapped."""
        return os.path.join(self.run, "hooks.lock")

    @property
    def store_lock(self) -> str:
        """The file whose OS lock is held while Milvus Lite is open."""
        return os.path.join(self.root, "run", "store.lock")

    @property
    def unfiled(self) -> str:
        """The project of turns that belong to no project (run in ``$HOME`` or ``/``)."""
        return os.path.join(self.root, "unfiled")

    @property
    def socket(self) -> str:
        """The workers' Unix socket.

        A home whose path is too long for a socket gets a short one in the user's runtime
        folder. It depends on the user id and the home alone, not on ``XDG_RUNTIME_DIR`` or
        ``TMPDIR``: workers and commands are started with different environments and must
        meet all the same.
        """
        path = os.path.join(self.root, "run", "memsearch.sock")
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return path
        import hashlib

        digest = hashlib.sha256(os.fsencode(os.path.realpath(self.root))).hexdigest()[:16]
        return os.path.join(_runtime_folder(), f"memsearch-{digest}.sock")

    def create(self) -> None:
        """Make the home and its folders, for the user alone whatever the umask.

        A ``~/.memsearch`` that is there already and open to others is closed to them; any
        other existing home keeps the mode that its owner gave it (``MEMSEARCH_HOME`` may
        name a folder that others need). What is ours in it is closed in either case.

        Raises:
            OSError: a folder cannot be made.
        """
        if not make_private_folder(self.root) and os.path.basename(self.root) == HOME_NAME:
            close_to_others(self.root)
        for folder in (self.models, self.spool, self.logs, self.run):
            if not make_private_folder(folder):
                close_to_others(folder)
        socket_folder = os.path.dirname(self.socket)
        if socket_folder != self.run:
            make_private_folder(socket_folder)
            _check_private(socket_folder)


def _runtime_folder() -> str:
    """A short folder of this user's: logind's, or one of ours in /tmp."""
    uid = os.geteuid()
    folder = f"/run/user/{uid}"
    if os.path.isdir(folder):
        return folder
    # Not tempfile.gettempdir(): a macOS TMPDIR is long, and differs between sessions.
    return f"/tmp/memsearch-{uid}"  # noqa: S108 - _check_private refuses another user's


def _check_private(folder: str) -> None:
    """Refuse a folder that another user made or can write into.

    Raises:
        PermissionError: it is not a folder of this user's alone.
    """
    state = os.lstat(folder)
    is_folder = state.st_mode & 0o170000 == 0o040000  # stat.S_ISDIR, which is not loaded here
    if not is_folder or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise PermissionError(13, "not a folder of this user's alone", folder)


def make_private_folder(path: str) -> bool:
    """Make a folder and its parents; say whether it is new."""
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return make_private_folder(path)
    os.chmod(path, FOLDER_MODE)  # mkdir obeys the umask, chmod does not
    return True


def unusable(root: str) -> str:
    """Why nothing can be kept in a home, in words; empty when it can be, or can be made."""
    folder = root
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"{tilde(folder)} is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{tilde(folder)} cannot be written"
    return ""


def close_to_others(path: str) -> bool:
    """Take from others what they may do with a file or folder of this user's.

    A link is left alone, and so is what belongs to somebody else or is gone.

    Returns:
        Whether that changed anything.
    """
    try:
        state = os.lstat(path)
        is_link = state.st_mode & 0o170000 == 0o120000  # stat.S_ISLNK, which is not loaded here
        if is_link or not state.st_mode & OTHERS or state.st_uid != os.geteuid():
            return False
        os.chmod(path, state.st_mode & 0o7777 & ~OTHERS)
    except FileNotFoundError:
        return False
    return True


def close_tree(folder: str) -> int:
    """The same with a folder and all that is in it; how many were changed."""
    changed = int(close_to_others(folder))
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            changed += close_to_others(os.path.join(root, name))
    return changed


def open_to_others(folder: str) -> list[str]:
    """What in a folder, itself included, others can get at: links are not followed.

    What lies in a folder that is closed to them is not, whatever its own mode.
    """
    found: list[str] = []
    try:
        if not os.lstat(folder).st_mode & OTHERS:
            return []
        found.append(folder)
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                if entry.is_symlink():
                    continue
                path = entry.path
                if entry.is_dir(follow_symlinks=False):
                    found += open_to_others(path)
                elif entry.stat(follow_symlinks=False).st_mode & OTHERS:
                    found.append(path)
    except OSError:
        return found  # gone, or not ours to look into
    return found


def user_home(environ: Mapping[str, str]) -> str:
    """The user's home folder: ``HOME``, else what the password database says."""
    return environ.get("HOME", "") or os.path.expanduser("~")


def default_milvus_path(home: Home) -> str:
    """Where Milvus Lite keeps its data when no ``milvus.uri`` is set.

    That is ``milvus.db`` in the home. Milvus Lite 3 makes it a folder, which may be shared:
    another tool's collections in it are left alone. Milvus Lite 2, which the ``memsearch`` of
    PyPI has used, made it one SQLite *file*; such a file cannot be opened by version 3 and is
    not ours to convert, so ours then lies beside it as ``memsearch-milvus.db``.

    Args:
        home: The home.

    Returns:
        An absolute path, whether or not anything is there.
    """
    path = home.milvus_db
    if os.path.lexists(path) and not os.path.isdir(path):
        return os.path.join(home.root, "memsearch-milvus.db")
    return path


def write_atomic(path: str, data: bytes, mode: int = FILE_MODE) -> None:
    """Write a whole file so that a reader, or a power cut, meets the old or the new one.

    The data goes into a temporary file of the same folder, is synced, takes the place of the
    old file, and the folder is synced. A symbolic link is followed: a ``config.toml`` that a
    person keeps in a dotfiles repository stays a link.

    Args:
        path: The file; its folder must exist.
        data: All of the content.
        mode: The file's mode, whatever the umask and the old file's mode.

    Raises:
        OSError: nothing was changed, and no temporary file is left.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f"{TEMP_PREFIX}{os.getpid()}-{os.urandom(6).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, FILE_MODE)
    try:
        try:
            os.fchmod(descriptor, mode)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Make a rename or a new name in a folder survive a power cut.

    Raises:
        OSError: the folder cannot be opened or synced.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tilde(path: str, user: str = "") -> str:
    """A path with the user's home folder written ``~``, so that it holds on other machines.

    Args:
        path: An absolute path.
        user: The user's home folder; empty for the current user's.

    Returns:
        The path, changed only when it is the home folder or lies inside it. Symbolic links in
        the home folder's own path are seen through.
    """
    user = user or user_home(os.environ)
    for folder in (user, os.path.realpath(user)):
        if folder == "/":  # a service user: every path would lie "at home"
            continue
        if path == folder:
            return "~"
        prefix = folder.rstrip("/") + "/"
        if path.startswith(prefix):
            return "~/" + path[len(prefix) :]
    return path


def untilde(path: str, user: str = "") -> str:
    """The reverse of ``tilde``: ``~`` and ``~/…`` only, never ``~name``.

    Args:
        path: A path that may begin with ``~``.
        user: The user's home folder; empty for the current user's.
    """
    if path == "~" or path.startswith("~/"):
        return (user or user_home(os.environ)).rstrip("/") + path[1:] or "/"
    return path
