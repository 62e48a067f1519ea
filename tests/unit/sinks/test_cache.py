"""The embedding cache: what it gives back, and what it survives."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks import cache as cache_module
from memsearch.sinks.cache import Damage, EmbeddingCache
from memsearch.sinks.types import Vectors


def vector(seed: int, dimension: int = 4) -> Vectors:
    values = np.random.default_rng(seed).normal(size=dimension)
    return (values / np.linalg.norm(values)).astype(np.float32)


def name(seed: int) -> str:
    return f"{seed:064x}"


def some(*seeds: int) -> dict[str, Vectors]:
    return {name(seed): vector(seed) for seed in seeds}


@pytest.fixture
def path(tmp_path: Path) -> str:
    folder = tmp_path / 'it\'s 缓存 "x" ?#%'
    folder.mkdir()
    return str(folder / "embeddings.db")


@pytest.fixture
def cache(path: str) -> Iterator[EmbeddingCache]:
    made = EmbeddingCache(path)
    yield made
    made.close()


def test_what_was_put_comes_back(cache: EmbeddingCache) -> None:
    cache.put_many("m", some(1, 2, 3))
    found = cache.get_many("m", [name(1), name(3), name(9), name(1)])
    assert set(found) == {name(1), name(3)}
    assert found[name(1)].dtype == np.float32
    assert found[name(1)].tobytes() == vector(1).tobytes()
    assert cache.get_many("other", [name(1)]) == {}
    assert cache.get_many("m", []) == {}
    assert cache.known("m", [name(2), name(9)]) == {name(2)}


def test_putting_again_replaces(cache: EmbeddingCache) -> None:
    cache.put_many("m", {name(1): vector(1)})
    cache.put_many("m", {name(1): vector(2)})
    cache.put_many("m", {})
    assert cache.get_many("m", [name(1)])[name(1)].tobytes() == vector(2).tobytes()


def test_any_number_at_once(cache: EmbeddingCache) -> None:
    cache.put_many("m", some(*range(2500)))
    assert len(cache.get_many("m", [name(seed) for seed in range(3000)])) == 2500


def test_models_and_quotes_are_kept_apart(cache: EmbeddingCache) -> None:
    odd = "x'; DROP TABLE embeddings; --"
    cache.put_many(odd, some(1))
    assert set(cache.get_many(odd, [name(1)])) == {name(1)}
    assert cache.get_many("m", [name(1), odd]) == {}


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"abc",
        vector(1).tobytes()[:-2],
        np.array([np.nan, 0, 0, 0], "<f4").tobytes(),
        np.array([np.inf, 0, 0, 0], "<f4").tobytes(),
        np.zeros(4, "<f4").tobytes(),
        (vector(1) * 2).tobytes(),
        "text",
    ],
)
def test_a_vector_that_is_none_counts_as_missing(
    cache: EmbeddingCache, path: str, blob: object
) -> None:
    cache.put_many("m", some(1, 2))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE embeddings SET vector = ? WHERE content_hash = ?", (blob, name(1)))
    connection.close()
    assert set(cache.get_many("m", [name(1), name(2)])) == {name(2)}
    assert cache.known("m", [name(1), name(2)]) == {name(2)}
    cache.put_many("m", some(1))
    assert cache.known("m", [name(1)]) == {name(1)}


def test_another_dimension_counts_as_missing(cache: EmbeddingCache) -> None:
    cache.put_many("m", {name(1): vector(1, 4), name(2): vector(2, 8)})
    assert cache.known("m", [name(1), name(2)], dimension=8) == {name(2)}
    assert cache.known("m", [name(1), name(2)]) == {name(1), name(2)}


def test_a_text_is_deleted_for_every_model_and_from_the_bytes(
    cache: EmbeddingCache, path: str
) -> None:
    cache.put_many("a", some(1, 2))
    cache.put_many("b", some(1))
    assert cache.delete_many([name(1), name(7)]) == 2
    assert cache.known("a", [name(1), name(2)]) == {name(2)}
    assert cache.known("b", [name(1)]) == set()
    assert cache.delete_many([]) == 0
    cache.close()
    assert vector(1).tobytes() not in Path(path).read_bytes()
    assert vector(2).tobytes() in Path(path).read_bytes()


def test_deleting_from_nothing_makes_no_file(cache: EmbeddingCache, path: str) -> None:
    assert cache.delete_many([name(1)]) == 0
    assert not os.path.exists(path)


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new home" / "embeddings.db"
    cache = EmbeddingCache(str(path))
    cache.put_many("m", some(1))
    for suffix in ("", "-wal", "-shm"):
        assert Path(f"{path}{suffix}").stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    cache.close()
    # Closed, it is one file, and opens again.
    assert [p.name for p in path.parent.iterdir()] == ["embeddings.db"]
    assert cache.known("m", [name(1)]) == {name(1)}
    cache.close()


@pytest.mark.parametrize("which", ["file", "all", "folder"])
def test_deleted_while_open_it_begins_anew(cache: EmbeddingCache, path: str, which: str) -> None:
    cache.put_many("m", some(1))
    for suffix in ("",) if which == "file" else ("", "-wal", "-shm"):
        os.unlink(path + suffix)
    if which == "folder":
        os.rmdir(os.path.dirname(path))
    assert cache.known("m", [name(1)]) == set()
    cache.put_many("m", some(2))
    other = EmbeddingCache(path)
    assert other.known("m", [name(1), name(2)]) == {name(2)}
    other.close()
    assert cache.damages == []


def damaged(path: str, how: str) -> None:
    """Make a cache that cannot be read."""
    if how == "text":
        Path(path).write_text("this is no database\n" * 400, encoding="utf-8")
        return
    if how == "other tables":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE embeddings (id INTEGER PRIMARY KEY, data TEXT)")
        connection.close()
        return
    cache = EmbeddingCache(path)
    cache.put_many("m", some(*range(500)))
    cache.close()
    data = Path(path).read_bytes()
    if how == "header":
        Path(path).write_bytes(b"x" * 100 + data[100:])
    elif how == "pages":
        Path(path).write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    else:
        Path(path).write_bytes(data[: 4096 * 2])


@pytest.mark.parametrize("how", ["text", "header", "pages", "cut", "other tables"])
def test_a_damaged_file_is_moved_aside_and_said(path: str, how: str) -> None:
    damaged(path, how)
    before = Path(path).read_bytes()
    told: list[Damage] = []
    cache = EmbeddingCache(path, on_damage=told.append)
    assert cache.get_many("m", [name(seed) for seed in range(500)]) == {}
    cache.put_many("m", some(1))
    assert cache.known("m", [name(1)]) == {name(1)}
    cache.close()
    assert len(told) == 1
    assert told == cache.damages
    assert told[0].path == path
    assert told[0].reason
    assert Path(told[0].moved_to).read_bytes() == before


@pytest.mark.parametrize("how", ["text", "header", "pages", "other tables"])
def test_a_damaged_file_that_is_put_into_first(path: str, how: str) -> None:
    damaged(path, how)
    cache = EmbeddingCache(path)
    cache.put_many("m", some(1, 2))
    assert cache.known("m", [name(1), name(2)]) == {name(1), name(2)}
    cache.close()
    assert len(cache.damages) == 1


def test_reading_only(path: str) -> None:
    reader = EmbeddingCache(path, read_only=True)
    assert reader.get_many("m", [name(1)]) == {}
    assert not os.listdir(os.path.dirname(path))
    writer = EmbeddingCache(path)
    writer.put_many("m", some(1))
    assert reader.known("m", [name(1)]) == {name(1)}
    writer.put_many("m", some(2))
    assert reader.known("m", [name(2)]) == {name(2)}
    with pytest.raises(MemsearchError) as caught:
        reader.put_many("m", some(3))
    assert caught.value.kind is ErrorClass.PERMISSION
    assert reader.delete_many([name(1)]) == 0
    writer.close()
    assert reader.known("m", [name(1), name(2)]) == {name(1), name(2)}
    os.unlink(path)
    assert reader.known("m", [name(1)]) == set()
    reader.close()


def test_reading_only_where_no_file_can_be_made(path: str) -> None:
    writer = EmbeddingCache(path)
    writer.put_many("m", some(1))
    writer.close()
    # As in a sandbox: SQLite's side files cannot be opened beside the database.
    os.mkdir(path + "-wal")
    reader = EmbeddingCache(path, read_only=True)
    assert reader.known("m", [name(1)]) == {name(1)}
    reader.close()
    assert reader.damages == []


@pytest.mark.parametrize("how", ["text", "pages"])
def test_reading_only_leaves_a_damaged_file_and_says_so_once(path: str, how: str) -> None:
    damaged(path, how)
    before = Path(path).read_bytes()
    reader = EmbeddingCache(path, read_only=True)
    for _ in range(3):
        assert reader.get_many("m", [name(seed) for seed in range(500)]) == {}
    assert Path(path).read_bytes() == before
    assert [damage.moved_to for damage in reader.damages] == [""]
    # Repaired by a writer, it is read again.
    writer = EmbeddingCache(path)
    writer.put_many("m", some(1))
    assert writer.get_many("m", [name(499)]) == {}
    writer.put_many("m", some(1))
    writer.close()
    assert reader.known("m", [name(1)]) == {name(1)}
    reader.close()


def test_a_file_in_the_making_is_empty_and_not_damaged(path: str) -> None:
    Path(path).touch()
    reader = EmbeddingCache(path, read_only=True)
    assert reader.get_many("m", [name(1)]) == {}
    assert reader.damages == []
    writer = EmbeddingCache(path)
    writer.put_many("m", some(1))
    assert reader.known("m", [name(1)]) == {name(1)}
    writer.close()
    reader.close()


def test_a_long_write_of_another_process_is_busy(
    cache: EmbeddingCache, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "BUSY_SECONDS", 0.1)
    cache.put_many("m", some(1))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(MemsearchError) as caught:
        cache.put_many("m", some(2))
    assert caught.value.kind is ErrorClass.BUSY
    assert cache.known("m", [name(1)]) == {name(1)}  # readers do not wait
    other.execute("COMMIT")
    other.close()
    cache.put_many("m", some(2))
    assert cache.damages == []


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = EmbeddingCache(str(tmp_path / "file" / "embeddings.db"))
    with pytest.raises(MemsearchError) as caught:
        cache.put_many("m", some(1))
    assert caught.value.kind is ErrorClass.BAD_FILE


WRITER = """
import sys
import numpy as np
from memsearch.sinks.cache import EmbeddingCache
path, first = sys.argv[1], int(sys.argv[2])
cache = EmbeddingCache(path)
for n in range(first, first + 50):
    cache.put_many("m", {f"{n:064x}": np.array([1, 0, 0, 0], "f4")})
cache.close()
print(len(cache.damages))
"""


@pytest.mark.parametrize("state", ["absent", "damaged"])
def test_several_processes_at_once_lose_nothing(path: str, state: str) -> None:
    if state == "damaged":
        damaged(path, "text")
    running = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, path, str(1000 * n)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    counts = [int(process.communicate(timeout=120)[0]) for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert sum(counts) == (1 if state == "damaged" else 0)
    cache = EmbeddingCache(path)
    every = [f"{1000 * n + i:064x}" for n in range(4) for i in range(50)]
    assert cache.known("m", every) == set(every)
    cache.close()


def test_several_threads_at_once(cache: EmbeddingCache) -> None:
    failures: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for seed in range(first, first + 30):
                cache.put_many("m", some(seed))
                assert cache.known("m", [name(seed)]) == {name(seed)}
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_full_disk_is_named(cache: EmbeddingCache) -> None:
    cache.put_many("m", some(1))
    assert cache._connection is not None
    cache._connection.execute("PRAGMA max_page_count = 5")  # SQLite's own full disk
    with pytest.raises(MemsearchError) as caught:
        cache.put_many("m", some(*range(2, 2000)))
    assert caught.value.kind is ErrorClass.DISK_FULL
    assert cache.known("m", [name(seed) for seed in range(2000)]) == {name(1)}


def test_a_used_up_quota_is_named_and_stores_nothing(path: str) -> None:
    script = (
        "import sys, numpy as np\n"
        "from memsearch.config.errors import MemsearchError\n"
        "from memsearch.sinks.cache import EmbeddingCache\n"
        "cache = EmbeddingCache(sys.argv[1])\n"
        "big = np.zeros(200_000, 'f4'); big[0] = 1\n"
        "try:\n"
        "    cache.put_many('m', {'a': big, 'b': big})\n"
        "except MemsearchError as error:\n"
        "    print(error.kind.value)\n"
        "print(sorted(cache.known('m', ['a', 'b'])), cache.damages)\n"
        "cache.close()\n"
    )
    limit = (1_000_000, 1_000_000)
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, path],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert (done.stdout.splitlines(), done.stderr) == (["disk_full", "[] []"], "")
