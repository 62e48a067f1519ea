"""Loading the settings: defaults, the user's file, the project's, the environment, flags."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from memsearch.config import keys
from memsearch.config.checks import ENV_PREFIX
from memsearch.config.credentials import open_to_others, read_env_file, resolve_secret
from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.foreign import FOREIGN_ONNX_MODEL
from memsearch.config.layers import (
    Problem,
    from_environment,
    from_file,
    from_flags,
)
from memsearch.config.paths import Home, default_milvus_path, tilde, untilde, user_home
from memsearch.config.project import PROJECT_FILE, Project, resolve
from memsearch.config.schema import Embedding, Milvus, Settings, Summarize

__all__ = [
    "Embedding",
    "Loaded",
    "Milvus",
    "Problem",
    "Settings",
    "Summarize",
    "load",
    "load_at",
    "read_env_file",
    "resolve_secret",
]

_MILVUS_URI = ("milvus", "uri")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings and how they came to be.

    Attributes:
        settings: The tree. ``milvus.uri`` is never empty: an absolute path, or an address.
        problems: What the user should know, in the order of the layers.
        origins: Where each key that is set was set, by dotted name: a file (with ``~``), a
            variable's name or ``the command line``. What is absent has its default.
    """

    settings: Settings
    problems: tuple[Problem, ...]
    origins: dict[str, str]


def load(
    home: Home,
    project_root: str | None = None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    strict: bool,
) -> Loaded:
    """The settings in force.

    Args:
        home: Whose ``config.toml``.
        project_root: The project whose ``.memsearch.toml`` counts; ``None`` for no project.
        environ: The environment, for ``MEMSEARCH_SECTION__KEY``.
        overrides: A command's flags, by dotted name; ``None`` values are flags not given.
        strict: For a command that a person runs: a mistake is an error. Otherwise (hooks,
            workers) the default takes its place, and the mistake is among the problems.

    Raises:
        MemsearchError: ``CONFIG``, when strict and there is a problem of severity ``error``;
            it names all of them.
    """
    layers = [from_file(home.config_toml)]
    if project_root is not None:
        layers.append(from_file(os.path.join(project_root, PROJECT_FILE), project=True))
    layers += [from_environment(environ), from_flags(overrides or {})]
    values: dict[keys.Path, object] = {}
    origins: dict[str, str] = {}
    problems: list[Problem] = []
    for layer in layers:
        values |= layer.values
        problems += layer.problems
        for path in layer.values:
            origins[keys.dotted(path)] = layer.origins.get(path, layer.origin)
    problems += _settle_milvus(values, origins, home, environ)
    problems += _settle_model(values, origins)
    problems += _settle_collections(values, origins)
    if open_to_others(home):
        problems.append(
            Problem(
                "warning",
                tilde(home.env_file),
                "",
                "other users of this machine may read it",
                f"chmod 600 {tilde(home.env_file)}",
            )
        )
    errors = [problem for problem in problems if problem.severity == "error"]
    if strict and errors:
        raise MemsearchError(
            "\n".join(map(str, errors)),
            kind=ErrorClass.CONFIG,
        )
    return Loaded(keys.build(values), tuple(problems), origins)


def load_at(
    cwd: str,
    environ: Mapping[str, str],
    *,
    overrides: Mapping[str, object] | None = None,
    strict: bool,
) -> tuple[Project, Loaded]:
    """The project of a folder and the settings in force there.

    What decides on the project (``project.isolate_worktrees``, ``projects``) is read from the
    user's own layers first, since a project's file may not set it.

    Args:
        cwd: The folder.
        environ: The environment.
        overrides: As in ``load``.
        strict: As in ``load``.

    Raises:
        MemsearchError: As in ``load``.
    """
    home = Home.from_env(environ)
    own = load(home, environ=environ, overrides=overrides, strict=strict).settings
    project = resolve(
        cwd,
        environ,
        isolate_worktrees=own.project.isolate_worktrees,
        collections=own.collections(),
    )
    return project, load(home, project.root, environ=environ, overrides=overrides, strict=strict)


def _settle_milvus(
    values: dict[keys.Path, object],
    origins: Mapping[str, str],
    home: Home,
    environ: Mapping[str, str],
) -> list[Problem]:
    """Make ``milvus.uri`` absolute, or the default, around an older tool's database file.

    The other memsearch's ``config init`` writes its default into the file, so a ``uri`` that
    names our own default path counts as not set when something else lies there: it could not
    be opened, and must not be harmed.
    """
    uri = str(values.get(_MILVUS_URI, ""))
    default = default_milvus_path(home)
    path = _local_path(uri, home, environ)
    taken = os.path.realpath(home.milvus_db) != os.path.realpath(default)
    if not uri or (path and taken and os.path.realpath(path) == os.path.realpath(home.milvus_db)):
        values[_MILVUS_URI] = default
    elif path:
        values[_MILVUS_URI] = path
    if uri and taken and values[_MILVUS_URI] == default and path != default:
        return [
            Problem(
                "note",
                origins.get("milvus.uri", "milvus.uri"),
                "milvus.uri",
                f"{tilde(home.milvus_db)} is the database file of an older Milvus Lite and is "
                f"left as it is; the index lies in {tilde(default)}",
            )
        ]
    return []


def _settle_model(values: dict[keys.Path, object], origins: Mapping[str, str]) -> list[Problem]:
    """Take the built-in model where the other memsearch's default for ``onnx`` is named."""
    provider = values.get(("embedding", "provider"), Embedding().provider)
    model = ("embedding", "model")
    if provider != "onnx" or values.get(model) != FOREIGN_ONNX_MODEL:
        return []
    del values[model]
    return [
        Problem(
            "note",
            origins["embedding.model"],
            "embedding.model",
            f"{FOREIGN_ONNX_MODEL} is the default of the memsearch of PyPI; "
            "the built-in model is used instead",
            "memsearch config unset embedding.model",
        )
    ]


def _settle_collections(
    values: dict[keys.Path, object], origins: Mapping[str, str]
) -> list[Problem]:
    """Give a collection's name to one project alone.

    The journals of two projects have the same names, by which a collection tells documents
    apart: each project would take the other one's rows for its own old ones.
    """
    problems: list[Problem] = []
    owners: dict[object, str] = {}
    for path in [path for path in values if path[0] == "projects" and path[-1] == "collection"]:
        name = values[path]
        if not name:
            continue
        owner = owners.setdefault(name, path[1])
        if owner == path[1]:
            continue
        del values[path]
        dotted = keys.dotted(path)
        problems.append(
            Problem(
                "error",
                origins.get(dotted, dotted),
                dotted,
                f"{name} is the collection of {owner} already, and two projects of one machine"
                " cannot share one",
                "memsearch search --all-projects searches all of them",
            )
        )
    return problems


def _local_path(uri: str, home: Home, environ: Mapping[str, str]) -> str:
    """The absolute path that a ``milvus.uri`` names; empty when it names a server."""
    if not uri or "://" in uri or uri.startswith((ENV_PREFIX, "unix:")):
        return ""
    return os.path.normpath(os.path.join(home.root, untilde(uri, user_home(environ))))
