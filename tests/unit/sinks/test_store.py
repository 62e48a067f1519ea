"""Where the settings say that the index is. (Its work is tested in tests/integration.)"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.sinks.store import MilvusStore, has_index, index_uri, open_store


@dataclass
class Section:
    uri: str = ""
    token: str = ""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path / "home"))


def test_a_place_for_each_uri(home: Home, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    places = {
        "": f"{home.root}/milvus.db",
        "other.db": f"{home.root}/other.db",
        "/abs/x.db": "/abs/x.db",
        "~/x.db": f"{tmp_path}/x.db",
        "http://h:19530": "http://h:19530",
        "https://in01.zillizcloud.com": "https://in01.zillizcloud.com",
    }
    for uri, place in places.items():
        assert index_uri(Section(uri), home, environ) == place


def test_a_file_of_version_2_is_passed_by(home: Home) -> None:
    os.mkdir(home.root)
    Path(home.milvus_db).write_bytes(b"SQLite format 3\0")
    assert index_uri(Section(), home, {}) == f"{home.root}/memsearch-milvus.db"


def test_whether_there_is_one_is_told_without_opening(home: Home) -> None:
    assert not has_index(Section(), home, {})
    os.makedirs(f"{home.milvus_db}/collections")
    assert has_index(Section(), home, {})
    assert has_index(Section("http://127.0.0.1:9"), home, {})
    assert not has_index(Section("none.db"), home, {})


def test_nothing_is_opened_before_the_first_call(home: Home) -> None:
    store = open_store(Section(), home, {})
    assert isinstance(store, MilvusStore)
    store.close()
    assert not os.path.exists(home.root)


def test_a_token_by_reference(home: Home) -> None:
    server = Section("http://127.0.0.1:9", "env:MY_TOKEN")
    open_store(server, home, {"MY_TOKEN": "x"}).close()
    with pytest.raises(MemsearchError) as caught:
        open_store(server, home, {})
    assert caught.value.kind is ErrorClass.CREDENTIALS
