"""The file that ``config init`` writes teaches every setting and changes none."""

from __future__ import annotations

import tomllib

import pytest

from memsearch.config import keys
from memsearch.config.template import WIDTH, template


def switched_on(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(x[1:] if x.startswith("#") and x[1:2] not in ("", " ") else x for x in lines)


@pytest.mark.parametrize("project", [False, True])
def test_it_changes_nothing(project: bool) -> None:
    tables = tomllib.loads(template(project=project))
    assert all(table == {} for table in tables.values())


@pytest.mark.parametrize("project", [False, True])
def test_its_lines_are_the_defaults(project: bool) -> None:
    tables = tomllib.loads(switched_on(template(project=project)))
    found = {(section, name): v for section, table in tables.items() for name, v in table.items()}
    wanted = {
        key.path: list(key.default) if isinstance(key.default, tuple) else key.default
        for key in keys.walk()
        if len(key.path) == 2 and (key.project or not project)
    }
    assert found == wanted


def test_every_setting_is_explained() -> None:
    words = " ".join(template().replace("#", " ").split())
    for key in keys.walk():
        if len(key.path) == 2:
            assert " ".join(key.description.split()) in words, key.name


@pytest.mark.parametrize("project", [False, True])
def test_it_is_laid_out_for_reading(project: bool) -> None:
    text = template(project=project)
    assert text.endswith("\n")
    assert "\n\n\n" not in text
    assert max(map(len, text.splitlines())) <= WIDTH + 2


def test_its_examples_are_valid() -> None:
    example = [line[4:] for line in template().splitlines() if line.startswith("#   ")]
    tables = tomllib.loads("\n".join(line for line in example if not line.startswith("memsearch")))
    assert set(tables) == {"summarize", "projects"}
    for path in (("summarize", "platforms", "codex", "provider"), ("projects", "x", "collection")):
        key = keys.find(path)
        assert isinstance(key, keys.Key)
