"""Which texts this machine did not write."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsearch.config import statedb, trust
from memsearch.config.paths import Home
from memsearch.config.project import Project
from memsearch.recall.origin import Written, foreign, turns_behind
from memsearch.sinks.types import Hit

NOW = "2026-03-05T10:00:00.000Z"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    home.create()
    with closing(sqlite3.connect(home.state_db)) as db, db:
        statedb.create_schema(db)
        for turn, folder, collection, state in (
            ("mine", "/w/m", "c", "done"),
            ("moment", "/w/m", "c", "open"),
            ("moved", "/old/m", "c", "done"),
            ("forgotten", "/w/m", "c", "forgotten"),
            ("elsewhere", "/x/m", "d", "done"),
        ):
            db.execute(
                "INSERT INTO turns(stream, platform, turn, session, memory_dir, collection,"
                " state, stage, updated, seq) VALUES (?, 'codex', ?, 's', ?, ?, ?, 'append', ?, 1)",
                (f"turn:codex:{turn}", turn, folder, collection, state, NOW),
            )
    return home


def project(memory_dir: str = "/w/m", collection: str = "c") -> Project:
    return Project(root="/w", memory_dir=memory_dir, base="/w", collection=collection)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (("mine",), False),
        (("moment",), False),
        (("moved",), False),  # the folder was moved; its collection is the same
        (("mine", "moment"), False),
        (("mine", "other"), True),
        (("forgotten",), True),
        (("elsewhere",), True),
        (("other",), True),
        ((), True),  # written by hand
    ],
)
def test_a_text_is_ours_when_all_its_turns_are(home: Home, turns, expected: bool) -> None:
    assert foreign(home, [Written(project(), turns)]) == [expected]


def test_many_are_told_at_once_each_by_its_own_project(home: Home) -> None:
    texts = [Written(project(), ("mine",))] + [
        Written(project("/x/m", "d"), (turn,)) for turn in ("elsewhere", "mine")
    ]
    texts += [Written(project(), (f"t{number}",)) for number in range(1_200)]
    assert foreign(home, texts) == [False, False, True] + [True] * 1_200


def test_trust_makes_all_of_a_folder_ours_and_nothing_of_another(home: Home) -> None:
    trust.set_trusted(home, "/w/m", True)
    texts = [Written(project(), ()), Written(project("/x/m", "d"), ())]
    assert foreign(home, texts) == [False, True]


@pytest.mark.parametrize("content", [b"", b"no database " * 100, None])
def test_a_log_that_says_nothing_vouches_for_nothing(home: Home, content: bytes | None) -> None:
    path = Path(home.state_db)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert foreign(home, [Written(project(), ("mine",))]) == [True]


def test_a_digest_is_ours_when_what_it_was_made_of_is(
    tmp_path: Path, make_hit: Callable[..., Hit]
) -> None:
    where = project(str(tmp_path / "memory"))
    archive = Path(where.archive_dir)
    archive.mkdir(parents=True)
    anchor = "### 10:00\n<!-- session:s turn:{} rollout:~/x -->\n- a note\n"
    (archive / "2026-02-03.md").write_text(anchor.format("mine"), encoding="utf-8")
    (archive / "2026-02-03.laptop.md").write_text(anchor.format("other"), encoding="utf-8")
    (archive / "2026-02-04.md").write_text(anchor.format("moment"), encoding="utf-8")
    for heading, turns in (
        ("2026-02-03", ("other", "mine")),
        ("2026-02-04", ("moment",)),
        ("What I think of it", ()),
    ):
        assert turns_behind(where, make_hit("d", kind="digest", heading=heading)) == turns
    assert turns_behind(where, make_hit("e", kind="entry", turn="t")) == ("t",)
    assert turns_behind(project("/no/where"), make_hit("d", kind="digest", heading="x")) == ()
