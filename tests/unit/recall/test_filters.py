"""The options of a search as conditions of the index."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall.filters import make_filters, stored_prefix
from memsearch.sinks.filters import matches
from memsearch.sinks.types import Filters, Hit

TODAY = date(2026, 3, 10)


def filters(**options: Any) -> Filters:
    return make_filters(today=TODAY, base="/w/app", **options)


def test_nothing_asked_is_everything_but_the_archive() -> None:
    assert filters() == Filters()
    assert "archive" not in filters().kinds


def test_days() -> None:
    both = filters(since="7d", until="yesterday")
    assert (both.since, both.until) == (date(2026, 3, 3), date(2026, 3, 9))
    one = filters(day="2026-03-05")
    assert one.since == one.until == date(2026, 3, 5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"since": "soon"}, "--since"),
        ({"until": "2026-13-01"}, "--until"),
        ({"day": "never"}, "--day"),
        ({"day": "today", "since": "7d"}, "--day"),
        ({"since": "2026-03-05", "until": "2026-03-04"}, "2026-03-05"),
        ({"kinds": ("entry", "novel")}, "novel"),
        ({"platform": "claude"}, "claude"),
        ({"platform": 'x" or kind != "y'}, "no agent"),
    ],
)
def test_what_cannot_be_asked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(MemsearchError, match=says) as caught:
        filters(**options)
    assert caught.value.kind is ErrorClass.CONFIG


def test_values_are_data() -> None:
    odd = 'x" or kind != "y\\'
    made = filters(session=odd, source_prefix=odd)
    assert (made.session, made.source_prefix) == (odd, odd)


def test_agents_by_their_names() -> None:
    for name in ("claude-code", "codex", "openclaw", "opencode"):
        assert filters(platform=name).platform == name


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({"kinds": ("note",)}, ("note",)),
        ({"kinds": ("note", "note", "digest")}, ("note", "digest")),
        ({"archive": True}, ("entry", "note", "digest", "archive")),
        ({"kinds": ("entry",), "archive": True}, ("entry", "archive")),
        ({"kinds": ("archive",)}, ("archive",)),
    ],
)
def test_kinds(options: dict[str, Any], kinds: tuple[str, ...]) -> None:
    assert filters(**options).kinds == kinds


@pytest.mark.parametrize(
    ("prefix", "stored"),
    [
        ("", ""),
        ("docs/", "docs/"),
        ("docs/a", "docs/a"),
        ("./docs/", "docs/"),
        (".//docs/", "docs/"),
        (".memsearch/", ".memsearch/"),
        ("/w/app/docs/", "docs/"),
        ("/w/app/do", "do"),
        ("/w/application/x", "/w/application/x"),
        ("/elsewhere/notes/", "/elsewhere/notes/"),
    ],
)
def test_source_prefix_is_the_stored_one(prefix: str, stored: str) -> None:
    assert stored_prefix(prefix, "/w/app") == stored


def test_source_prefix_follows_links(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "docs").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    assert stored_prefix(f"{tmp_path}/link/docs/", str(real.resolve())) == "docs/"


@pytest.mark.parametrize(
    ("options", "fields", "found"),
    [
        ({}, {}, True),
        ({}, {"kind": "archive"}, False),
        ({"archive": True}, {"kind": "archive"}, True),
        ({"platform": "codex"}, {"platform": "codex"}, True),
        ({"platform": "codex"}, {"platform": "opencode"}, False),
        ({"session": "s1"}, {"session": "s2"}, False),
        ({"source_prefix": "docs/"}, {"source": "docs/a.md"}, True),
        ({"source_prefix": "docs/"}, {"source": "docs.md"}, False),
        ({"since": "2026-03-05"}, {"day": 20260305}, True),
        ({"since": "2026-03-05"}, {"day": 20260304}, False),
        ({"until": "2026-03-05"}, {"day": 20260306}, False),
        ({"until": "2026-03-05"}, {"day": 0}, False),
        ({"since": "2026-03-05"}, {"day": 0}, False),
    ],
)
def test_matches(
    options: dict[str, Any], fields: dict[str, Any], found: bool, make_hit: Callable[..., Hit]
) -> None:
    assert matches(make_hit("a", **fields), filters(**options)) is found
