"""The commented file that ``memsearch config init`` writes: every setting with its meaning."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from memsearch.config.keys import Key, Section, sections, toml_value

#: Columns of a comment.
WIDTH = 88

_USER_HEAD = """\
The settings of memsearch, as they are without this file: each line that begins with a # and \
no space shows a default. To change one, take its # away, or let a command do it:
  memsearch config set search.top_k 8

What is set here goes before the defaults. Before this file go a project's .memsearch.toml (a \
few keys), the environment (MEMSEARCH_SEARCH__TOP_K=8) and a command's own flags, in this order.

A secret need not stand here: "env:NAME" reads the variable NAME from the environment, or from \
the file "env" beside this one (lines NAME=value)."""

_PROJECT_HEAD = """\
The settings of memsearch for this project: each line that begins with a # and no space shows \
a default. A project may set no more than these; everything else belongs into your own \
config.toml."""

_PLATFORMS = """\
Any setting of [summarize] may differ for one agent (claude-code, codex, openclaw, opencode):
  [summarize.platforms.codex]
  provider = "extractive\""""

_PROJECTS = """\
A project may have a collection with a name of your choice, by its path:
  [projects."/home/me/work/app"]
  collection = "team_app\""""


def template(*, project: bool = False) -> str:
    """A file that changes nothing and shows everything.

    Args:
        project: Whether it is for a project, with the keys that one may set.

    Returns:
        TOML. With the ``#`` of its ``#key = value`` lines taken away it sets every default.
    """
    blocks = [_comment(_PROJECT_HEAD if project else _USER_HEAD)]
    for section in sections():
        if section.path[:2] == ("summarize", "platforms") or section.path[0] == "projects":
            continue
        lines = list(_section(section, project))
        if lines:
            blocks.append(f"[{section.name}]\n" + "\n".join(lines))
    if not project:
        at = next(i for i, block in enumerate(blocks) if block.startswith("[search]"))
        blocks.insert(at, _comment(_PLATFORMS))
        blocks.append(_comment(_PROJECTS))
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, project: bool) -> Iterator[str]:
    keys = [key for key in section.children.values() if isinstance(key, Key)]
    keys = [key for key in keys if key.project or not project]
    if not keys:
        return
    yield _comment(section.description)
    for key in keys:
        yield ""
        notes = [] if key.type in (bool, str) or key.is_list else [key.expected]
        if key.default_text != toml_value(key.default):
            notes.append(f"default: {key.default_text}")
        yield _comment(key.description + (f" ({'; '.join(notes)})" if notes else ""))
        yield f"#{key.path[-1]} = {toml_value(key.default)}"


def _comment(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        hanging = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(
            line, WIDTH, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False
        ) or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)
