"""Which project a folder belongs to: the one resolver of hooks, workers and commands.

Part of the hook's path: it reads git's own files instead of running git, and loads neither
``pathlib`` nor ``re``. ``GIT_DIR``, ``GIT_WORK_TREE`` and ``GIT_CEILING_DIRECTORIES`` are not
looked at: git sets the first two for the hooks and commands that it runs, an agent started
from one of them would file its turns under that repository instead of its own folder, and a
worker that resolves the same folder later, without that environment, must get the same answer.
"""

from __future__ import annotations

import os

from memsearch.config.paths import Home, untilde, user_home

TYPE_CHECKING = False
if TYPE_CHECKING:  # annotations only, never run
    from collections.abc import Iterator, Mapping

#: What a collection's name begins with.
COLLECTION_PREFIX = "memsearch_"

#: Hex digits of the path's SHA-256 in a collection's name.
COLLECTION_DIGITS = 16

#: Folder of a project's memory, and the folder of its journals inside it.
MEMORY_FOLDER = ".memsearch"
JOURNAL_FOLDER = "memory"
ARCHIVE_FOLDER = "archive"

#: Name of the file with the few settings that a project may set.
PROJECT_FILE = ".memsearch.toml"

#: Bytes read of a ``.git`` file, a ``commondir`` file or a git configuration: far more than
#: any real one has, and a bound for one that is not real.
MAX_GIT_FILE = 1 << 16


class Project:
    """A project and where its memory lies; immutable.

    Args:
        root: Real path of the project's folder; ``.memsearch.toml`` lies there.
        memory_dir: Folder of its journals and other Markdown. It need not exist.
        base: Folder that a ``source`` is relative to.
        collection: Name of its collection; empty for the one derived from ``named_from``.
        named_from: Real path that the collection is named from; empty for ``root``.
    """

    __slots__ = ("_collection", "base", "memory_dir", "named_from", "root")

    root: str
    memory_dir: str
    base: str
    named_from: str
    _collection: str

    def __init__(
        self, root: str, memory_dir: str, base: str, collection: str = "", named_from: str = ""
    ) -> None:
        put = object.__setattr__
        put(self, "root", root)
        put(self, "memory_dir", memory_dir)
        put(self, "base", base)
        put(self, "named_from", named_from or root)
        put(self, "_collection", collection)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Project is immutable: {name}")

    def _key(self) -> tuple[str, ...]:
        return (self.root, self.memory_dir, self.base, self.collection)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Project) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"Project(root={self.root!r}, memory_dir={self.memory_dir!r}, base={self.base!r}, "
            f"collection={self.collection!r})"
        )

    @property
    def collection(self) -> str:
        """Name of the project's collection (computed when asked for: hooks do not need it)."""
        return self._collection or collection_name(self.named_from)

    @property
    def archive_dir(self) -> str:
        """Folder that compaction moves journals to, beside ``memory_dir``."""
        return os.path.join(os.path.dirname(self.memory_dir), ARCHIVE_FOLDER)

    @property
    def config_file(self) -> str:
        """The project's ``.memsearch.toml``, whether or not it exists."""
        return os.path.join(self.root, PROJECT_FILE)


def resolve(
    cwd: str,
    environ: Mapping[str, str],
    *,
    isolate_worktrees: bool = False,
    collections: Mapping[str, str] | None = None,
) -> Project:
    """The project that work in a folder belongs to.

    In this order: ``MEMSEARCH_DIR`` puts the memory of whatever project the folder belongs to
    elsewhere; the git repository's main working tree, or a folder between the cwd and the top
    level that has a ``.memsearch/memory/`` of its own; outside git the nearest folder upwards
    that has one; the folder itself. ``$HOME`` and ``/`` are never a project: what is run there
    is filed under ``MEMSEARCH_HOME/unfiled``, as is what names no usable folder, so that no
    turn is lost for want of a project. So is the work in a repository that brings a link out
    of itself in the place of its memory.

    Args:
        cwd: The folder. It may be gone (a turn that is replayed later) or empty (a hook that
            did not say); a relative one is taken from the current folder.
        environ: The environment: ``MEMSEARCH_DIR``, ``MEMSEARCH_HOME`` and ``HOME`` are read.
        isolate_worktrees: Whether each linked worktree is a project of its own
            (``project.isolate_worktrees``).
        collections: Collection names by project path (``[projects."PATH"] collection``).

    Returns:
        The project, with all symbolic links resolved. Nothing is created.
    """
    user = user_home(environ)
    home = Home.from_env(environ)
    folder = _real_folder(cwd)
    places = _Places(os.path.realpath(user), os.path.realpath(home.root))
    root = _project_root(folder, places, isolate_worktrees) if folder else ""
    if not root:
        root = os.path.realpath(home.unfiled)
    elsewhere = environ.get("MEMSEARCH_DIR", "")
    if elsewhere and _usable(elsewhere):
        base = os.path.realpath(os.path.join(folder or "/", untilde(elsewhere, user)))
        memory_dir = os.path.join(base, JOURNAL_FOLDER)
        named_from = base
    else:
        base = named_from = root
        memory_dir = os.path.join(root, MEMORY_FOLDER, JOURNAL_FOLDER)
        if _brings_link_out(root):
            base = named_from = root = os.path.realpath(home.unfiled)
            memory_dir = os.path.join(root, MEMORY_FOLDER, JOURNAL_FOLDER)
    collection = _chosen_collection(named_from, collections, user) if collections else ""
    return Project(root, memory_dir, base, collection, named_from)


def working_folder(environ: Mapping[str, str]) -> str:
    """The current folder, also when it was removed under our feet (then what ``PWD`` says)."""
    try:
        return os.getcwd()
    except OSError:
        return environ.get("PWD", "")


def collection_name(path: str) -> str:
    """The collection that a project path gives by default.

    The same as a shell's ``echo "$PROJECT_DIR" | sha256sum | cut -c1-16`` behind
    ``memsearch_``, so that scripts can compute it; hence the newline.

    Args:
        path: Real path of the project.
    """
    import hashlib

    digest = hashlib.sha256(os.fsencode(path) + b"\n").hexdigest()
    return COLLECTION_PREFIX + digest[:COLLECTION_DIGITS]


def source_of(project: Project, path: str) -> str:
    """How a file is named in the index: relative to the project, so that ids agree between
    machines, or absolute where it lies outside.

    Args:
        project: The project.
        path: The file; a relative path is taken from the current folder.

    Returns:
        A path with ``/`` and without ``.`` or ``..``.
    """
    path = os.path.abspath(path)
    real = os.path.realpath(path)
    for candidate in (path, real):
        inside = _relative(candidate, project.base)
        if inside:
            return inside
    # ``.memsearch`` may itself be a link, to a folder that is synced for instance.
    memory = _relative(real, os.path.realpath(project.memory_dir))
    if memory:
        return os.path.relpath(os.path.join(project.memory_dir, memory), project.base)
    return real


def path_of(project: Project, source: str) -> str:
    """The file that a ``source`` names: the reverse of ``source_of``.

    Args:
        project: The project.
        source: As it stands in the index.

    Returns:
        An absolute path.

    Raises:
        MemsearchError: ``BAD_FILE``, when a relative source leads out of the project. We
            never write one, so the index was written by somebody else.
    """
    path = os.path.normpath(os.path.join(project.base, source))
    if not os.path.isabs(source) and not _relative(path, project.base):
        from memsearch.config.errors import ErrorClass, MemsearchError

        raise MemsearchError(
            f"The source {source!r} leads out of the project {project.base}",
            kind=ErrorClass.BAD_FILE,
            hint="The index holds a document that memsearch did not write; "
            "rebuild it with: memsearch index --force",
        )
    return path


class _Places:
    """The folders that are never a project, and how a folder with a memory is known."""

    __slots__ = ("home", "user")

    def __init__(self, user: str, home: str) -> None:
        self.user = user  # real path of $HOME
        self.home = home  # real path of MEMSEARCH_HOME

    def forbidden(self, folder: str) -> bool:
        """Whether a folder is ``/``, ``$HOME`` or memsearch's own."""
        if folder in ("/", self.user, self.home):
            return True
        inside = _relative(folder, self.home)
        # Only our own folders in it: MEMSEARCH_HOME may be a folder that holds projects too.
        return inside.split("/", 1)[0] in ("models", "spool", "logs", "run", "milvus.db", "unfiled")

    def has_memory(self, folder: str) -> bool:
        """Whether a folder has a memory of its own, and may be a project."""
        memory = os.path.join(folder, MEMORY_FOLDER)
        return (
            os.path.isdir(os.path.join(memory, JOURNAL_FOLDER))
            and not self.forbidden(folder)
            and os.path.realpath(memory) != self.home
        )


#: Bytes read of a repository's index (git's own names for files): that of a hundred thousand.
MAX_GIT_INDEX = 1 << 24
#: Where an entry of the index holds its mode, in bytes before the name, and a link's mode
#: (gitformat-index(5), versions 2 and 3: SHA-1 or SHA-256, with or without extended flags).
_INDEX_MODES = (38, 40, 50, 52)
_LINK_MODE = b"\0\0\xa0\0"
#: Version 4 of the index.
_SHORTENED = b"\0\0\0\4"


def _brings_link_out(root: str) -> bool:
    """Whether a repository's memory is a link out of it that is committed.

    One's own link, to a folder that is synced for instance, is as good as a folder. One that
    a clone brings would have us write to, and read from, wherever its author chose.
    """
    for folder in (JOURNAL_FOLDER, ARCHIVE_FOLDER):
        names = (MEMORY_FOLDER, f"{MEMORY_FOLDER}/{folder}")
        links = [name for name in names if os.path.islink(os.path.join(root, name))]
        out = links and not _relative(os.path.realpath(os.path.join(root, names[1])), root)
        if out and any(_tracks_link(root, name) for name in links):
            return True
    return False


def _tracks_link(root: str, name: str) -> bool:
    """Whether the index of the working tree around a folder holds a link of this name in it."""
    for top in _upwards(root):
        entry = os.path.join(top, ".git")
        git_dir = entry if os.path.isdir(entry) else _read_git_file(entry)
        if git_dir:
            below = _relative(root, top)
            return _holds_link(git_dir, f"{below}/{name}" if below else name)
    return False


def _holds_link(git_dir: str, name: str) -> bool:
    """Whether git's index holds a link of this name."""
    index = _beginning(os.path.join(git_dir, "index"), MAX_GIT_INDEX)
    if not index:
        return False
    if index[4:8] == _SHORTENED:
        return True  # names are shortened in it: rather too careful
    wanted = os.fsencode(name) + b"\0"
    at = index.find(wanted)
    while at >= 0:
        if any(index[at - mode : at - mode + 4] == _LINK_MODE for mode in _INDEX_MODES):
            return True
        at = index.find(wanted, at + 1)
    return False


def _usable(path: str) -> bool:
    """Whether there can be such a path (a hook's JSON may hold anything), and it is UTF-8.

    The log and the index hold paths as text, so there is no project at any other.
    """
    try:
        return b"\0" not in path.encode()
    except UnicodeEncodeError:  # a lone surrogate, as other bytes come
        return False


def _real_folder(cwd: str) -> str:
    """The real path of a folder that may be gone; empty when there is none."""
    if not cwd or not _usable(cwd):
        return ""
    try:
        real = os.path.realpath(cwd)
    except OSError:  # a relative path, and the current folder is gone
        return ""
    return real if _usable(real) else ""


def _relative(path: str, folder: str) -> str:
    """The rest of a path below a folder; empty when it is not below it."""
    prefix = folder if folder.endswith("/") else folder + "/"
    return path[len(prefix) :] if path.startswith(prefix) else ""


def _upwards(folder: str) -> Iterator[str]:
    """A folder and its ancestors, up to ``/``."""
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _project_root(cwd: str, places: _Places, isolate_worktrees: bool) -> str:
    """The project's folder; empty when there is none."""
    if _relative(cwd, places.home) and places.forbidden(cwd):
        return ""
    for folder in _upwards(cwd):
        tree = _tree_at(folder, places, isolate_worktrees)
        if tree:
            own, main = tree
            found = _in_repository(cwd, own, main, places)
            if found:
                return found
            break  # a repository that is $HOME itself (dotfiles): as if there were none
    for folder in _upwards(cwd):
        if places.has_memory(folder):
            return folder
    return "" if places.forbidden(cwd) else cwd


def _in_repository(cwd: str, own: str, main: str, places: _Places) -> str:
    """The project inside a repository.

    Args:
        cwd: The folder, inside ``own``.
        own: Top level of the working tree that holds the cwd.
        main: Top level of the main working tree, which is ``own`` for all but linked ones.
        places: What may not be a project.

    Returns:
        Its folder; empty when the repository's top level may not be a project.
    """
    for folder in _upwards(cwd):
        if folder == own or len(folder) < len(own):
            break
        # A memory that is committed is checked out in every linked worktree: the main one's
        # copy is the one that all share.
        shared = os.path.join(main, _relative(folder, own))
        if places.has_memory(shared):
            return shared
        if places.has_memory(folder):
            return folder
    return "" if places.forbidden(main) else main


def _tree_at(folder: str, places: _Places, isolate_worktrees: bool) -> tuple[str, str] | None:
    """The working tree whose top level is this folder.

    Returns:
        Its top level and that of the main working tree whose memory it shares; ``None`` when
        the folder is no top level.
    """
    entry = os.path.join(folder, ".git")
    if os.path.isdir(entry):
        return (folder, folder) if _is_git_dir(entry) else None
    git_dir = _read_git_file(entry)
    if git_dir is None:
        # Inside the repository's own folder: a bare one, or ``.git`` (a git hook's cwd).
        if _is_git_dir(folder):
            main = _main_tree(folder, places)
            return (folder, main) if main else (folder, folder)
        return None
    if not os.path.isdir(git_dir):
        return (folder, folder)  # its repository is gone or was moved
    common = _common_dir(git_dir)
    if not common or isolate_worktrees:
        return (folder, folder)  # a submodule or a separate git dir; or asked to be apart
    if not _is_worktree_of(entry, git_dir, common):
        return (folder, folder)
    main = _main_tree(common, places)
    return (folder, main) if main else (folder, folder)


def _is_worktree_of(entry: str, git_dir: str, common: str) -> bool:
    """Whether a repository knows a worktree that names it.

    Anybody can write a ``.git`` file, or what looks like a git folder, that names another
    person's repository, and would get its memory. That repository holds a folder for each
    of its worktrees, which says where it lies (a moved one, or one in a container, lies
    elsewhere; but then there is nothing where it lay).

    Args:
        entry: The worktree's ``.git`` file.
        git_dir: The folder that it names, a real path.
        common: The repository's git folder that is named in there, a real path.
    """
    if os.path.dirname(git_dir) != os.path.join(common, "worktrees"):
        return False
    recorded = (_read_small(os.path.join(git_dir, "gitdir")) or "").rstrip("\r\n")
    there = _pointed(git_dir, recorded) if recorded else ""
    return not os.path.lexists(there) or there == os.path.realpath(entry)


def _is_git_dir(folder: str) -> bool:
    """Whether a folder is a repository's own (git's test, without reading HEAD)."""
    return (
        os.path.lexists(os.path.join(folder, "HEAD"))
        and os.path.isdir(os.path.join(folder, "objects"))
        and os.path.isdir(os.path.join(folder, "refs"))
    )


def _main_tree(git_dir: str, places: _Places) -> str:
    """The folder whose memory a repository's working trees share.

    Args:
        git_dir: The repository's common git folder.
        places: What may not be a project.

    Returns:
        The main working tree; for a bare repository the folder that holds it, or the
        repository itself where that folder may not be a project (``~/app.git``); empty where
        git does not record it (``--separate-git-dir`` without ``core.worktree``), and where
        the tree that it names is not its own: any clone can hold what looks like a git folder.
    """
    holder = os.path.dirname(git_dir)
    if os.path.basename(git_dir) == ".git":
        return holder
    core = _core_settings(git_dir)
    if "worktree" in core:  # a submodule's, relative to its git folder
        tree = _pointed(git_dir, core["worktree"])
        return tree if _read_git_file(os.path.join(tree, ".git")) == git_dir else ""
    if core.get("bare", "false").lower() in ("true", "yes", "on", "1", ""):
        return git_dir if places.forbidden(holder) else holder
    return ""


def _read_small(path: str) -> str | None:
    """The beginning of a small file of git's; ``None`` when it cannot be read."""
    data = _beginning(path, MAX_GIT_FILE)
    return None if data is None else os.fsdecode(data)


def _beginning(path: str, limit: int) -> bytes | None:
    """The first ``limit`` bytes of a file, at the most; ``None`` when it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, limit)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read_git_file(entry: str) -> str | None:
    """The git folder that a ``.git`` file points to (gitrepository-layout(5))."""
    text = _read_small(entry)
    if text is None or not text.startswith("gitdir:"):
        return None
    pointed = text[len("gitdir:") :].strip(" ").rstrip("\r\n")
    return _pointed(os.path.dirname(entry), pointed) if pointed else None


def _common_dir(git_dir: str) -> str:
    """The common git folder of a linked worktree; empty when it is not one."""
    text = _read_small(os.path.join(git_dir, "commondir"))
    pointed = text.rstrip("\r\n") if text else ""
    return _pointed(git_dir, pointed) if pointed else ""


def _pointed(folder: str, path: str) -> str:
    """The real path of what a file of git's points to, seen from a folder."""
    if "\0" in path:  # a damaged file; the system's calls refuse such a path with ValueError
        path = path.replace("\0", "?")
    return os.path.realpath(os.path.join(folder, path))


def _core_settings(git_dir: str) -> dict[str, str]:
    """The ``[core]`` values of a repository's configuration, names in lower case.

    A reader of git-config(1)'s plain lines, which is what git itself writes there;
    ``config.worktree`` is where ``core.bare`` moves with ``extensions.worktreeConfig``.
    """
    found: dict[str, str] = {}
    for name in ("config", "config.worktree"):
        text = _read_small(os.path.join(git_dir, name)) or ""
        in_core = False
        for line in text.splitlines():
            line = line.strip()
            if line.startswith("["):
                in_core = line.lower().startswith("[core]")
            elif in_core and line and line[0] not in "#;":
                key, _, value = line.partition("=")
                found[key.strip().lower()] = value.strip().strip('"')
    return found


def _chosen_collection(path: str, collections: Mapping[str, str], user: str) -> str:
    """The collection that the user chose for a project path; empty when none."""
    for key, name in collections.items():
        if key and _usable(key) and os.path.realpath(untilde(key, user)) == path:
            return name
    return ""
