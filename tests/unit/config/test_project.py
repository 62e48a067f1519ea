"""The project resolver on real git repositories, and the names that follow from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.project import (
    Project,
    collection_name,
    path_of,
    resolve,
    source_of,
    working_folder,
)

#: Folder names that break naive code.
NAMES = ("plain", "with space", 'it\'s "quoted"', "项目 一", "a$HOME`b`;c", "-n", "tab\tnew\nline")


def git(cwd: Path, *arguments: str) -> None:
    """Run a real git, apart from whatever configuration this machine has."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]
    subprocess.run(
        [*command, *arguments], cwd=cwd, env=environment, check=True, capture_output=True
    )


def repository(folder: Path) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "README").write_text("x\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def memory(folder: Path) -> Path:
    """Give a folder a memory of its own."""
    (folder / ".memsearch" / "memory").mkdir(parents=True)
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A real path to work in (a temporary folder may itself be a link)."""
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def environ(base: Path) -> dict[str, str]:
    """An environment with a user's home of its own."""
    (base / "user").mkdir()
    return {"HOME": str(base / "user")}


@pytest.mark.parametrize("name", NAMES)
def test_a_repository_and_its_folders_are_one_project(
    base: Path, environ: dict[str, str], name: str
) -> None:
    top = repository(base / name)
    deep = top / "src" / "深 er"
    deep.mkdir(parents=True)
    expected = resolve(str(top), environ)
    assert expected.root == expected.base == str(top)
    assert expected.memory_dir == str(top / ".memsearch" / "memory")
    assert expected.config_file == str(top / ".memsearch.toml")
    assert expected.archive_dir == str(top / ".memsearch" / "archive")
    assert resolve(str(deep), environ) == expected
    assert not (top / ".memsearch").exists()


def test_links_are_seen_through(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "real")
    (top / "sub").mkdir()
    (base / "link").symlink_to(top)
    (base / "into").symlink_to(top / "sub")
    assert resolve(str(base / "link"), environ).root == str(top)
    assert resolve(str(base / "link" / "sub"), environ).root == str(top)
    assert resolve(str(base / "into"), environ).root == str(top)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["inside", "beside"])
def test_a_linked_worktree_shares_the_main_ones_memory(
    base: Path, environ: dict[str, str], name: str, where: str
) -> None:
    top = repository(base / name)
    tree = top / ".agent" / "trees" / "x" if where == "inside" else base / "elsewhere" / "wt 树"
    git(top, "worktree", "add", "-q", "-b", "x", str(tree))
    (tree / "sub").mkdir()
    assert resolve(str(tree / "sub"), environ) == resolve(str(top), environ)
    apart = resolve(str(tree / "sub"), environ, isolate_worktrees=True)
    assert apart.root == str(tree)
    assert resolve(str(top), environ, isolate_worktrees=True).root == str(top)


def test_a_linked_worktree_with_relative_paths(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "app")
    git(top, "worktree", "add", "-q", "-b", "x", str(base / "wt"))
    # What newer git writes with worktree.useRelativePaths, and older git accepts.
    (base / "wt" / ".git").write_text("gitdir: ../app/.git/worktrees/wt\n", encoding="utf-8")
    assert resolve(str(base / "wt"), environ).root == str(top)


def test_a_committed_memory_does_not_part_the_worktrees(
    base: Path, environ: dict[str, str]
) -> None:
    top = repository(base / "app")
    for folder in (top, top / "packages" / "a"):
        memory(folder)
        (folder / ".memsearch" / "memory" / "MEMORY.md").write_text("- x\n", encoding="utf-8")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "memory")
    git(top, "worktree", "add", "-q", "-b", "x", str(base / "wt"))
    tree = base / "wt"
    assert (tree / ".memsearch" / "memory").is_dir()
    assert resolve(str(tree), environ).root == str(top)
    assert resolve(str(tree / "packages"), environ).root == str(top)
    assert resolve(str(tree / "packages" / "a"), environ).root == str(top / "packages" / "a")
    memory(tree / "only-here")
    assert resolve(str(tree / "only-here"), environ).root == str(tree / "only-here")
    apart = resolve(str(tree / "packages" / "a"), environ, isolate_worktrees=True)
    assert apart.root == str(tree / "packages" / "a")


@pytest.mark.parametrize("bare_name", [".bare", "app.git", ".git"])
def test_a_bare_repositorys_worktrees_share_the_folder_that_holds_it(
    base: Path, environ: dict[str, str], bare_name: str
) -> None:
    origin = repository(base / "origin")
    holder = base / "holder 包"
    holder.mkdir()
    git(holder, "clone", "-q", "--bare", str(origin), bare_name)
    git(holder / bare_name, "worktree", "add", "-q", str(holder / "main"), "main")
    git(holder / bare_name, "worktree", "add", "-q", "-b", "f", str(base / "far" / "feature"))
    trees = (holder / "main", base / "far" / "feature")
    assert [resolve(str(tree), environ).root for tree in trees] == [str(holder)] * 2
    assert resolve(str(holder / bare_name), environ).root == str(holder)
    assert resolve(str(holder / bare_name / "refs"), environ).root == str(holder)
    apart = [resolve(str(tree), environ, isolate_worktrees=True).root for tree in trees]
    assert apart == [str(tree) for tree in trees]


def test_a_bare_repository_with_worktree_configuration(base: Path, environ: dict[str, str]) -> None:
    origin = repository(base / "origin")
    (base / "holder").mkdir()
    git(base / "holder", "clone", "-q", "--bare", str(origin), "app.git")
    bare = base / "holder" / "app.git"
    git(bare, "worktree", "add", "-q", str(base / "wt"), "main")
    git(bare, "worktree", "add", "-q", "-b", "y", str(base / "wt2"))
    git(bare, "config", "extensions.worktreeConfig", "true")
    git(bare, "config", "--worktree", "core.bare", "true")
    git(bare, "config", "--unset", "core.bare")
    assert resolve(str(base / "wt"), environ).root == str(base / "holder")


def test_a_bare_repository_in_the_users_home_is_the_project_itself(
    base: Path, environ: dict[str, str]
) -> None:
    origin = repository(base / "origin")
    user = Path(environ["HOME"])
    git(user, "clone", "-q", "--bare", str(origin), "app.git")
    git(user / "app.git", "worktree", "add", "-q", str(user / "one"), "main")
    git(user / "app.git", "worktree", "add", "-q", "-b", "f", str(user / "two"))
    roots = {resolve(str(user / name), environ).root for name in ("one", "two", "app.git")}
    assert roots == {str(user / "app.git")}


def test_submodules_are_projects_of_their_own(base: Path, environ: dict[str, str]) -> None:
    library = repository(base / "library")
    top = repository(base / "top")
    git(top, "submodule", "add", "-q", str(library), "libs/lib")
    module = top / "libs" / "lib"
    assert (module / ".git").is_file()
    assert resolve(str(module), environ).root == str(module)
    assert resolve(str(module), environ, isolate_worktrees=True).root == str(module)
    assert resolve(str(top / "libs"), environ).root == str(top)
    git(module, "worktree", "add", "-q", "-b", "x", str(base / "module tree"))
    assert resolve(str(base / "module tree"), environ).root == str(module)


@pytest.mark.parametrize("place", ["sub", "sub/below"])
def test_what_looks_like_a_git_folder_in_a_clone_leads_nowhere(
    base: Path, environ: dict[str, str], place: str
) -> None:
    memory(repository(base / "other"))
    made = repository(base / "made")
    for folder in ("objects", "refs", "below"):
        (made / "sub" / folder).mkdir(parents=True)
        (made / "sub" / folder / "x").write_text("", encoding="utf-8")
    (made / "sub" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (made / "sub" / "config").write_text("[core]\n\tworktree = ../../other\n", encoding="utf-8")
    git(made, "add", ".")
    git(made, "commit", "-q", "-m", "x")
    git(base, "clone", "-q", str(made), "clone")
    found = resolve(str(base / "clone" / place), environ)
    assert found.root == str(base / "clone" / "sub")


def test_a_git_file_that_names_anothers_repository_leads_nowhere(
    base: Path, environ: dict[str, str]
) -> None:
    top = memory(repository(base / "app"))
    git(top, "worktree", "add", "-q", "-b", "x", str(base / "wt"))
    evil = base / "evil"
    (evil / "fake").mkdir(parents=True)
    (evil / "fake" / "commondir").write_text("../../app/.git\n", encoding="utf-8")
    for named in ("fake", "../app/.git/worktrees/wt"):
        (evil / ".git").write_text(f"gitdir: {named}\n", encoding="utf-8")
        assert resolve(str(evil), environ).root == str(evil), named
    assert resolve(str(base / "wt"), environ).root == str(top)
    # A worktree that was moved by hand, or is mounted elsewhere, still is one.
    (base / "wt").rename(base / "moved")
    assert resolve(str(base / "moved"), environ).root == str(top)


@pytest.mark.parametrize("name", [".memsearch", ".memsearch/memory", ".memsearch/archive"])
def test_a_link_out_that_a_clone_brings_is_not_followed(
    base: Path, environ: dict[str, str], name: str
) -> None:
    (base / "rules" / "memory").mkdir(parents=True)
    made = repository(base / "made")
    (made / name).parent.mkdir(exist_ok=True)
    (made / name).symlink_to(base / "rules")
    own = resolve(str(made), environ)
    assert own.root == str(made)  # one's own link, to a folder that is synced for instance
    git(made, "add", ".")
    git(made, "commit", "-q", "-m", "x")
    git(base, "clone", "-q", str(made), "clone")
    unfiled = resolve("/", environ)
    assert resolve(str(base / "clone"), environ) == unfiled
    git(base / "clone", "update-index", "--index-version", "4")
    assert resolve(str(base / "clone"), environ) == unfiled
    git(base / "clone", "worktree", "add", "-q", "-b", "y", str(base / "tree"))
    assert resolve(str(base / "tree"), environ, isolate_worktrees=True) == unfiled


def test_a_link_out_in_a_folder_of_a_clone_is_not_followed(
    base: Path, environ: dict[str, str]
) -> None:
    (base / "rules" / "memory").mkdir(parents=True)
    made = repository(base / "made")
    (made / "packages" / "a").mkdir(parents=True)
    (made / "packages" / "a" / ".memsearch").symlink_to(base / "rules")
    assert resolve(str(made / "packages" / "a"), environ).root == str(made / "packages" / "a")
    git(made, "add", ".")
    assert resolve(str(made / "packages" / "a"), environ) == resolve("/", environ)


def test_a_link_within_a_clone_is_followed(base: Path, environ: dict[str, str]) -> None:
    made = repository(base / "made")
    (made / "notes" / "memory").mkdir(parents=True)
    (made / ".memsearch").symlink_to("notes")
    git(made, "add", ".")
    assert resolve(str(made), environ).root == str(made)


def test_a_separate_git_dir(base: Path, environ: dict[str, str]) -> None:
    (base / "app").mkdir()
    (base / "gits").mkdir()
    git(base / "app", "init", "-q", "--separate-git-dir", str(base / "gits" / "app"))
    git(base / "app", "commit", "-q", "--allow-empty", "-m", "first")
    git(base / "app", "worktree", "add", "-q", "-b", "x", str(base / "wt"))
    assert resolve(str(base / "app"), environ).root == str(base / "app")
    # git does not record where the main working tree is: apart beats mixed up.
    assert resolve(str(base / "wt"), environ).root == str(base / "wt")


def test_a_git_hooks_folder_belongs_to_its_repository(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "app")
    (top / ".git" / "hooks").mkdir(exist_ok=True)
    assert resolve(str(top / ".git"), environ).root == str(top)
    assert resolve(str(top / ".git" / "hooks"), environ).root == str(top)


def test_the_git_environment_is_not_looked_at(base: Path, environ: dict[str, str]) -> None:
    other = repository(base / "other")
    top = repository(base / "app")
    environ |= {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_CEILING_DIRECTORIES": str(top),
    }
    (top / "sub").mkdir()
    assert resolve(str(top / "sub"), environ).root == str(top)


def test_a_nested_memory_is_a_project(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "mono")
    nested = memory(top / "packages" / "api")
    (nested / "src").mkdir()
    assert resolve(str(nested / "src"), environ).root == str(nested)
    assert resolve(str(nested), environ).root == str(nested)
    assert resolve(str(top / "packages"), environ).root == str(top)
    # In the memory's own folder too (an agent that went to look at its notes).
    assert resolve(str(nested / ".memsearch" / "memory"), environ).root == str(nested)


def test_a_memory_above_the_repository_is_not_its_own(base: Path, environ: dict[str, str]) -> None:
    memory(base / "work")
    top = repository(base / "work" / "app")
    assert resolve(str(top), environ).root == str(top)


@pytest.mark.parametrize("name", NAMES)
def test_outside_git(base: Path, environ: dict[str, str], name: str) -> None:
    notes = base / name
    deep = notes / "a" / "b"
    deep.mkdir(parents=True)
    assert resolve(str(deep), environ).root == str(deep)
    memory(notes)
    assert resolve(str(deep), environ).root == str(notes)
    assert resolve(str(notes), environ).root == str(notes)
    memory(deep.parent)
    assert resolve(str(deep), environ).root == str(deep.parent)


def test_an_empty_git_folder_is_no_repository(base: Path, environ: dict[str, str]) -> None:
    (base / "app" / ".git").mkdir(parents=True)
    (base / "app" / "sub").mkdir()
    assert resolve(str(base / "app" / "sub"), environ).root == str(base / "app" / "sub")


@pytest.mark.parametrize(
    "content", [b"", b"gitdir:", b"gitdir: \n", b"nonsense", b"\xff\xfe\x00", b"gitdir: a\0b\n"]
)
def test_a_git_file_that_says_nothing(base: Path, environ: dict[str, str], content: bytes) -> None:
    (base / "app" / "sub").mkdir(parents=True)
    (base / "app" / ".git").write_bytes(content)
    root = resolve(str(base / "app" / "sub"), environ).root
    assert root in (str(base / "app"), str(base / "app" / "sub"))


def test_a_worktree_whose_repository_is_gone(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "app")
    git(top, "worktree", "add", "-q", "-b", "x", str(base / "wt"))
    shutil.rmtree(top)
    (base / "wt" / "sub").mkdir()
    assert resolve(str(base / "wt" / "sub"), environ).root == str(base / "wt")


def test_a_folder_that_is_gone(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "app")
    tree = top / ".agent" / "tree"
    git(top, "worktree", "add", "-q", "-b", "x", str(tree))
    before = resolve(str(tree / "sub"), environ)
    shutil.rmtree(tree)
    assert resolve(str(tree / "sub"), environ) == before
    gone = base / "gone" / "deep"
    assert resolve(str(gone), environ).root == str(gone)
    assert not gone.exists()


def test_where_no_project_can_be(base: Path, environ: dict[str, str]) -> None:
    user = Path(environ["HOME"])
    home = user / ".memsearch"
    unfiled = resolve(str(user), environ)
    assert unfiled.root == str(home / "unfiled")
    assert unfiled.memory_dir == str(home / "unfiled" / ".memsearch" / "memory")
    assert unfiled.collection == collection_name(str(home / "unfiled"))
    for folder in ("/", "", "a\0b", "\ud800", str(home), str(home / "logs"), unfiled.root):
        assert resolve(folder, environ) == unfiled
    # The log and the index hold paths as UTF-8 text.
    other = base / os.fsdecode(b"caf\xe9")
    repository(other)
    (base / "link").symlink_to(other)
    for folder in (str(other), str(other / "sub"), str(base / "link")):
        assert resolve(folder, environ) == unfiled
    # A memory that another tool left in the user's home does not make it a project.
    (home / "memory").mkdir(parents=True)
    assert resolve(str(user), environ) == unfiled
    below = user / "notes"
    assert resolve(str(below), environ).root == str(below)
    # Nor does a repository of dotfiles.
    git(user, "init", "-q")
    assert resolve(str(user), environ) == unfiled
    assert resolve(str(below), environ).root == str(below)


def test_projects_below_a_home_that_is_not_ours_alone(base: Path, environ: dict[str, str]) -> None:
    environ["MEMSEARCH_HOME"] = str(base)
    assert resolve(str(base / "app"), environ).root == str(base / "app")
    assert resolve(str(base), environ).root == str(base / "unfiled")


def test_a_home_inside_a_project_is_not_its_memory(base: Path, environ: dict[str, str]) -> None:
    memory(base / "app")
    environ["MEMSEARCH_HOME"] = str(base / "app" / ".memsearch")
    assert resolve(str(base / "app" / "sub"), environ).root == str(base / "app" / "sub")


def test_memsearch_dir_puts_the_memory_elsewhere(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "app")
    (base / "共享 memory").mkdir()
    (base / "link").symlink_to(base / "共享 memory")
    environ["MEMSEARCH_DIR"] = str(base / "link")
    project = resolve(str(top), environ)
    assert project.root == str(top)
    assert project.base == str(base / "共享 memory")
    assert project.memory_dir == str(base / "共享 memory" / "memory")
    assert project.archive_dir == str(base / "共享 memory" / "archive")
    assert project.collection == collection_name(str(base / "共享 memory"))
    journal = os.path.join(project.memory_dir, "2026-03-25.md")
    assert source_of(project, journal) == "memory/2026-03-25.md"
    assert resolve("/", environ).memory_dir == project.memory_dir
    environ["MEMSEARCH_DIR"] = "~/mem"
    assert resolve(str(top), environ).base == os.path.join(environ["HOME"], "mem")
    environ["MEMSEARCH_DIR"] = "mem"
    assert resolve(str(top), environ).base == str(top / "mem")
    environ["MEMSEARCH_DIR"] = ""
    assert resolve(str(top), environ).base == str(top)


def test_a_chosen_collection(base: Path, environ: dict[str, str]) -> None:
    top = repository(base / "user" / "app")
    (base / "link").symlink_to(top)
    for key in (str(top), str(top) + "/", "~/app", str(base / "link")):
        chosen = resolve(str(top), environ, collections={"/other": "x", key: "team_app"})
        assert chosen.collection == "team_app"
        assert chosen.root == str(top)
    assert resolve(str(top), environ, collections={"/other": "x"}).collection == collection_name(
        str(top)
    )


@pytest.mark.parametrize("name", [n for n in NAMES if "\n" not in n])
def test_a_shell_gets_the_same_collection_name(base: Path, name: str) -> None:
    folder = base / name
    folder.mkdir()
    command = 'PROJECT_DIR=$(pwd -P); echo "$PROJECT_DIR" | sha256sum | cut -c1-16'
    shell = subprocess.run(["bash", "-c", command], cwd=folder, check=True, capture_output=True)
    assert collection_name(str(folder)) == "memsearch_" + shell.stdout.decode().strip()


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/p/.memsearch/memory/2026-03-25.md", ".memsearch/memory/2026-03-25.md"),
        ("/p/docs/../a b/项.md", "a b/项.md"),
        ("/p", "/p"),
        ("/pp/a.md", "/pp/a.md"),
        ("/q/a.md", "/q/a.md"),
    ],
)
def test_sources(path: str, source: str) -> None:
    project = Project("/p", "/p/.memsearch/memory", "/p")
    assert source_of(project, path) == source
    assert path_of(project, source) == os.path.normpath(path)


def test_a_source_through_links(base: Path) -> None:
    synced = base / "synced"
    (synced / "memory").mkdir(parents=True)
    app = base / "app"
    app.mkdir()
    (app / ".memsearch").symlink_to(synced)
    (base / "link").symlink_to(app)
    project = Project(str(app), str(app / ".memsearch" / "memory"), str(app))
    expected = ".memsearch/memory/a.md"
    for path in (app / expected, base / "link" / expected, synced / "memory" / "a.md"):
        assert source_of(project, str(path)) == expected
    assert path_of(project, expected) == str(app / expected)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_a_source_leads_back_to_its_file(rest: str) -> None:
    project = Project("/nowhere/p", "/nowhere/p/.memsearch/memory", "/nowhere/p")
    path = os.path.normpath("/nowhere/p/" + rest)
    assert path_of(project, source_of(project, path)) == path


@pytest.mark.parametrize("source", ["../secret", "a/../../b", "..", "", "."])
def test_a_source_that_leads_out_is_refused(source: str) -> None:
    with pytest.raises(MemsearchError, match="leads out of the project") as raised:
        path_of(Project("/p", "/p/.memsearch/memory", "/p"), source)
    assert raised.value.kind is ErrorClass.BAD_FILE


def test_the_current_folder_may_be_gone(base: Path) -> None:
    program = (
        "import os, sys\n"
        "from memsearch.config.project import resolve, working_folder\n"
        "os.rmdir(os.getcwd())\n"
        "cwd = working_folder(os.environ)\n"
        "print(cwd); print(resolve(cwd, os.environ).root)\n"
        "print(resolve('relative', os.environ).root)\n"
    )
    gone = base / "gone"
    gone.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=gone,
        env={**os.environ, "PWD": str(gone), "HOME": str(base / "user"), "MEMSEARCH_HOME": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    unfiled = str(base / "user" / ".memsearch" / "unfiled")
    assert ran.stdout.splitlines() == [str(gone), str(gone), unfiled]
    assert working_folder({}) == os.getcwd()


def test_a_project_is_a_value() -> None:
    project = Project("/p", "/p/.memsearch/memory", "/p")
    assert project == Project("/p", "/p/.memsearch/memory", "/p")
    assert project != Project("/p", "/p/.memsearch/memory", "/p", "other")
    assert len({project, Project("/p", "/p/.memsearch/memory", "/p")}) == 1
    with pytest.raises(AttributeError):
        project.root = "/q"
    assert collection_name("/p") in repr(project)


def test_the_resolver_loads_nothing_heavy(base: Path) -> None:
    """Counted, not timed: the hook's path runs at every prompt."""
    program = (
        "import os, sys\n"
        "from memsearch.config.project import resolve\n"
        "resolve(os.getcwd(), os.environ)\n"
        "heavy = {'pathlib', 'subprocess', 're', 'msgspec', 'tomllib', 'typing', 'dataclasses',\n"
        "         'enum', 'hashlib', 'tempfile', 'random', 'click', 'inspect'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    # -S: what the site packages of a machine load by themselves is not ours to count.
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=repository(base / "app"),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.strip() == "[]"
