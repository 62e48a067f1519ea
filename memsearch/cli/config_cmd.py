"""``memsearch config``: look at the settings and change them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memsearch.config.keys import Path
    from memsearch.config.paths import Home
    from memsearch.config.settings import Loaded, Problem

#: Settings that make another index.
MODEL_KEYS = frozenset({"embedding.provider", "embedding.model", "embedding.dimension"})

# The settings themselves are imported inside the commands: every command of memsearch loads
# this module, and few look at settings.


class _UserError(click.ClickException):
    exit_code = 2


@contextmanager
def _told() -> Iterator[None]:
    """Turn an error of ours into words on stderr and its exit code: 2 for the user's mistakes."""
    from memsearch.cli.output import USER_ERROR, exit_code
    from memsearch.config.errors import MemsearchError

    try:
        yield
    except MemsearchError as error:
        told = _UserError if exit_code(error) == USER_ERROR else click.ClickException
        raise told(str(error)) from error


@click.group("config")
def config() -> None:
    """Look at the settings and change them.

    Settings come from the defaults, MEMSEARCH_HOME/config.toml, the project's .memsearch.toml
    (a few keys), the environment (MEMSEARCH_SECTION__KEY) and a command's flags; the later
    goes before the earlier.

    \b
    Examples:
      memsearch config list --resolved
      memsearch config set summarize.provider extractive
      memsearch config get search.top_k
    """


_in_project = click.option(
    "--project", is_flag=True, help="The project's .memsearch.toml instead of your own file."
)


@config.command("init")
@_in_project
def init(project: bool) -> None:
    """Write a file that shows every setting, its meaning and its default.

    It changes nothing by itself, and a file that is there already is left as it is.

    \b
    Examples:
      memsearch config init
      memsearch config init --project
    """
    from memsearch.config.editing import PROJECT_FILE_MODE, create
    from memsearch.config.paths import FILE_MODE, tilde
    from memsearch.config.template import template

    with _told():
        file = _file(project)
        mode = PROJECT_FILE_MODE if project else FILE_MODE
        create(_home(), file, template(project=project), mode)
    click.echo(f"Wrote {tilde(file)}")


@config.command("path")
@_in_project
def path(project: bool) -> None:
    """Print where the file lies, whether or not it exists.

    \b
    Example:
      "$EDITOR" "$(memsearch config path)"
    """
    with _told():
        click.echo(_file(project))


@config.command("get")
@click.argument("key")
def get(key: str) -> None:
    """Print the value of KEY that is in force here (search.top_k).

    A secret is never printed; a list is printed as TOML.

    \b
    Examples:
      memsearch config get search.top_k
      memsearch config get 'projects."/home/me/work/app".collection'
    """
    from memsearch.config.credentials import masked
    from memsearch.config.editing import known_key
    from memsearch.config.keys import toml_value, value_of
    from memsearch.config.schema import ProjectOverride

    with _told():
        names, found = known_key(key)
        loaded = _loaded()
        if names[0] == "projects" and names[1] not in loaded.settings.projects:
            value: object = getattr(ProjectOverride(), names[-1])
        else:
            value = value_of(loaded.settings, names)
        if value is None:  # an agent's own setting, not set: what holds for it
            value = getattr(loaded.settings.summarize.for_platform(names[2]), names[-1])
    _warn(problem for problem in loaded.problems if problem.severity == "warning")
    value = masked(value, secret=found.secret)
    click.echo(value if isinstance(value, str) else toml_value(value))


@config.command("set")
@click.argument("key")
@click.argument("value")
@_in_project
def set_(key: str, value: str, project: bool) -> None:
    """Set KEY to VALUE in the file; comments and order stay.

    A list is a TOML array ('["a", "b"]') or texts with commas between them. For a secret
    give env:NAME and keep NAME=value in MEMSEARCH_HOME/env: it then stays out of your
    shell's history too.

    \b
    Examples:
      memsearch config set summarize.provider extractive
      memsearch config set capture.exclude '["~/private/*"]'
      memsearch config set --project search.top_k 8
    """
    from memsearch.config.credentials import masked
    from memsearch.config.editing import set_key
    from memsearch.config.keys import dotted, toml_value
    from memsearch.config.paths import tilde

    with _told():
        file = _file(project)
        names, found = set_key(_home(), file, key, value, project=project)
    shown = toml_value(masked(found.parse(value), secret=found.secret))
    click.echo(f"{dotted(names)} = {shown} in {tilde(file)}")
    _say_what_wins(names, file)


@config.command("unset")
@click.argument("key")
@_in_project
def unset(key: str, project: bool) -> None:
    """Take KEY out of the file, so that the default holds again.

    Also takes out what is no setting, such as a misspelt name.

    \b
    Example:
      memsearch config unset summarize.provider
    """
    from memsearch.config.editing import unset_key
    from memsearch.config.keys import dotted
    from memsearch.config.paths import tilde

    with _told():
        file = _file(project)
        names, was_there = unset_key(_home(), file, key)
    said = "is no longer set" if was_there else "was not set"
    click.echo(f"{dotted(names)} {said} in {tilde(file)}")
    _say_what_wins(names, file)


@config.command("list")
@click.option("--resolved", is_flag=True, help="All settings, also those with their defaults.")
@click.option("--json", "as_json", is_flag=True, help='{"key": {"value": …, "origin": …}}')
def list_(resolved: bool, as_json: bool) -> None:
    """Show what is set here, and where. Secrets are not shown.

    \b
    Examples:
      memsearch config list
      memsearch config list --resolved --json
    """
    with _told():
        loaded = _loaded()
    rows = list(_rows(loaded, resolved))
    _warn(loaded.problems)
    if as_json:
        found = {name: {"value": value, "origin": origin} for name, value, origin in rows}
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    from memsearch.config.keys import toml_value

    if not rows:
        click.echo("Nothing is set; all defaults hold (memsearch config list --resolved).")
    for name, value, origin in rows:
        click.echo(f"{name} = {toml_value(value)}  # {origin}")


def _rows(loaded: Loaded, resolved: bool) -> Iterator[tuple[str, Any, str]]:
    """Name, printable value and origin of what is set, or of all settings."""
    from memsearch.config.credentials import masked
    from memsearch.config.keys import ANY, dotted, value_of, walk

    for key in walk():
        paths: list[Path]
        if ANY in key.path:
            paths = [("projects", name, key.path[-1]) for name in loaded.settings.projects]
        else:
            paths = [key.path]
        for names in paths:
            name = dotted(names)
            origin = loaded.origins.get(name, "default")
            value = value_of(loaded.settings, names)
            if value is None or (origin == "default" and not resolved):
                continue  # None: as in summarize
            value = list(value) if isinstance(value, tuple) else value
            yield name, masked(value, secret=key.secret), origin


def _home() -> Home:
    from memsearch.config.paths import Home

    return Home.from_env(os.environ)


def _file(project: bool) -> str:
    """The file that a command is about.

    Raises:
        MemsearchError: ``CONFIG``, when the project's is wanted and there is no project.
    """
    home = _home()
    if not project:
        return home.config_toml
    from memsearch.config.errors import ErrorClass, MemsearchError
    from memsearch.config.project import working_folder
    from memsearch.config.settings import load_at

    found, _ = load_at(working_folder(os.environ), os.environ, strict=False)
    if found.root == os.path.realpath(home.unfiled):
        raise MemsearchError(
            "This folder belongs to no project",
            kind=ErrorClass.CONFIG,
            hint="go to a project's folder, or leave out --project",
        )
    return found.config_file


def _loaded(*, strict: bool = True) -> Loaded:
    from memsearch.config.project import working_folder
    from memsearch.config.settings import load_at

    return load_at(working_folder(os.environ), os.environ, strict=strict)[1]


def _say_what_wins(names: Path, file: str) -> None:
    """Tell when a key that was changed is set in a place that goes before the file."""
    from memsearch.config.keys import dotted
    from memsearch.config.paths import tilde

    loaded = _loaded(strict=False)
    origin = loaded.origins.get(dotted(names), "")
    if origin and origin != tilde(file):
        click.echo(f"note: here {origin} sets it", err=True)
    _warn(problem for problem in loaded.problems if problem.severity != "note")
    if dotted(names) in MODEL_KEYS:
        _say_what_model(loaded)


def _say_what_model(loaded: Loaded) -> None:
    """Tell what a changed model does to the index, or that there is no such model."""
    from memsearch.config.errors import MemsearchError
    from memsearch.sinks import embedders

    embedding = loaded.settings.embedding
    try:
        embedders.check_present(embedding, _home())
        model = embedders.identity(embedding)
    except MemsearchError as error:
        click.echo(f"warning: {error}; until then searches answer by keywords", err=True)
        return
    click.echo(
        f"note: an index of another model than {model} answers by keywords until it is renewed:"
        " memsearch index, or the workers; memsearch status says how far",
        err=True,
    )


def _warn(problems: Iterable[Problem]) -> None:
    for problem in problems:
        click.echo(f"{problem.severity}: {problem}", err=True)
