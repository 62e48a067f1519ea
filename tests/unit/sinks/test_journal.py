import errno
import os
import resource
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sinks.journal import append, contains, error_of, journal_lock, parse
from memsearch.sinks.journal_format import entry_lines
from memsearch.sinks.types import Anchor, Entry

DAY = date(2026, 3, 5)


def entry(
    turn: str = "t1",
    *,
    session: str = "s1",
    time: str = "14:47",
    day: date = DAY,
    bullets: tuple[str, ...] = ("User asked about 备份", "Claude Code ran `make test`"),
) -> Entry:
    anchor = Anchor(session, turn, "claude-code", transcript="/w/x.jsonl")
    return Entry(session, turn, day, time, anchor, bullets)


class Place:
    """A project's memory in a path that holds blanks, quotes and Chinese."""

    def __init__(self, root: Path) -> None:
        self.memory = root / "my 'app' \"项目\"" / ".memsearch" / "memory"
        self.archive = self.memory.parent / "archive"
        self.locks = root / "home" / "run"
        self.file = self.memory / "2026-03-05.md"

    def append(self, given: Entry, suffix: str = "") -> bool:
        done = append(
            str(self.memory),
            given,
            lock_dir=str(self.locks),
            suffix=suffix,
            archive_dir=str(self.archive),
        )
        assert Path(done.path).is_file()
        return done.written

    def contains(self, session: str, turn: str) -> bool:
        return contains(str(self.memory), DAY, session, turn, archive_dir=str(self.archive))

    def turns(self) -> list[str]:
        return [e.anchor.turn for e in parse(self.file.read_text("utf-8", "replace")) if e.anchor]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_first_entry_makes_folder_and_file(place: Place) -> None:
    assert not place.contains("s1", "t1")
    assert place.append(entry())
    assert place.file.read_text("utf-8") == (
        "# 2026-03-05\n\n## Session 14:47\n\n### 14:47\n"
        "<!-- session:s1 turn:t1 transcript:/w/x.jsonl -->\n"
        "- User asked about 备份\n- Claude Code ran `make test`\n"
    )
    assert place.contains("s1", "t1")
    assert not place.contains("s1", "t2")
    assert not place.contains("s2", "t1")
    assert os.listdir(place.memory) == ["2026-03-05.md"]  # the lock lies elsewhere
    assert len(os.listdir(place.locks)) == 1


def test_each_turn_in_its_own_day(place: Place) -> None:
    place.append(entry("t1", time="23:59"))
    place.append(entry("t2", time="00:01", day=date(2026, 3, 6)))
    place.append(entry("t3", time="23:58"))  # a late replay
    assert place.turns() == ["t1", "t3"]
    assert "## Session 00:01" in (place.memory / "2026-03-06.md").read_text("utf-8")


def test_the_same_entry_is_written_once(place: Place) -> None:
    assert place.append(entry())
    before = place.file.read_bytes()
    assert not place.append(entry())
    assert not place.append(entry(bullets=("another summary of it",)))
    assert place.file.read_bytes() == before


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("memory", "2026-03-05.laptop.md"),
        ("memory", "2026-03-05 (conflicted copy).md"),
        ("archive", "2026-03-05.md"),
        ("archive", "2026-03-05.desk.md"),
    ],
)
def test_an_entry_in_another_file_of_the_day_counts(place: Place, folder: str, name: str) -> None:
    place.append(entry())
    target = getattr(place, folder) / name
    target.parent.mkdir(exist_ok=True)
    place.file.rename(target)
    assert place.contains("s1", "t1")
    assert not place.append(entry())
    assert not place.file.exists()
    assert place.append(entry("t2"))


def test_files_of_other_days_and_other_names_do_not_count(place: Place) -> None:
    place.append(entry())
    place.file.rename(place.memory / "2026-03-05-notes.md")
    (place.memory / "2026-03-04.md").write_bytes(
        (place.memory / "2026-03-05-notes.md").read_bytes()
    )
    assert not place.contains("s1", "t1")
    assert place.append(entry())


def test_suffix(place: Place) -> None:
    assert place.append(entry(), suffix="李雷 mac")
    assert os.listdir(place.memory) == ["2026-03-05.李雷-mac.md"]
    assert not place.append(entry())


def test_ids_that_need_encoding_are_found_again(place: Place) -> None:
    odd = entry("t --> <!-- 50%\n", session="s 1")
    assert place.append(odd)
    assert not place.append(odd)
    assert place.contains("s 1", "t --> <!-- 50%\n")


def test_an_id_inside_a_text_is_no_entry(place: Place) -> None:
    quoting = entry("t9", bullets=("see <!-- session:s1 turn:t1 -->", "t1 s1"))
    place.append(quoting)
    assert not place.contains("s1", "t1")
    assert place.append(entry("t1"))
    assert place.turns() == ["t9", "t1"]


@pytest.mark.parametrize(
    "human",
    [
        b"no final newline",
        b"\xef\xbb\xbf# mine\r\n\r\nwith BOM and CRLF\r\n",
        b"invalid \xff\xfe utf-8\n",
        b"---\ntitle: x\n---\n\n# Mine\n",
        b"```\nan open fence\n",
        b"<!-- an open comment\n",
        b"\n\n\n",
    ],
)
def test_what_a_human_wrote_stays_byte_for_byte(place: Place, human: bytes) -> None:
    place.memory.mkdir(parents=True)
    place.file.write_bytes(human)
    assert place.append(entry())
    assert not place.append(entry())
    data = place.file.read_bytes()
    assert data.startswith(human)
    assert data.endswith(b"\n" + entry_lines(entry()).encode())
    assert place.turns() == ["t1"]


def test_a_human_s_edit_of_an_entry_stays(place: Place) -> None:
    place.append(entry())
    place.append(entry("t2"))
    edited = place.file.read_text("utf-8").replace("User asked about", "I asked for", 1)
    edited = edited.replace("- Claude Code ran `make test`\n", "", 1)
    place.file.write_text(edited, "utf-8")
    assert not place.append(entry())
    assert place.file.read_text("utf-8") == edited


def test_every_torn_tail_is_completed(place: Place) -> None:
    place.append(entry("t0"))
    before = place.file.read_bytes()
    place.append(entry("t1"))
    whole = place.file.read_bytes()
    heading = before + b"\n### 14:47\n"
    for length in range(len(heading), len(whole)):
        place.file.write_bytes(whole[:length])
        wrote = place.append(entry("t1"))
        # Only a final newline that is missing is no reason to write.
        assert wrote == (length < len(whole) - 1)
        assert place.file.read_bytes().rstrip() == whole.rstrip()
        assert not place.append(entry("t1"))


def test_a_tail_torn_before_its_heading_is_followed_by_the_whole_entry(place: Place) -> None:
    place.append(entry("t0", session="s0"))
    before = place.file.read_bytes()
    place.append(entry("t1"))
    whole = place.file.read_bytes()
    for length in range(len(before), len(before + b"\n## Session 14:47\n\n### 14:47\n")):
        place.file.write_bytes(whole[:length])
        assert place.append(entry("t1"))
        assert place.turns() == ["t0", "t1"]
        assert place.file.read_bytes().startswith(whole[:length])


def test_a_torn_entry_under_later_ones_is_written_again(place: Place) -> None:
    place.append(entry("t1"))
    place.file.write_bytes(place.file.read_bytes()[:-8])  # in the middle of the last bullet
    place.append(entry("t2"))
    assert place.append(entry("t1"))
    found = [e for e in parse(place.file.read_text("utf-8")) if e.anchor and e.anchor.turn == "t1"]
    assert found[-1].bullets == entry().bullets
    assert not place.append(entry("t1"))


def test_no_bullets_is_an_error(place: Place) -> None:
    with pytest.raises(MemsearchError) as caught:
        place.append(entry(bullets=(" \n", "- ")))
    assert caught.value.kind is ErrorClass.BAD_ANSWER
    assert not place.memory.exists()


# -- failures of the file system ---------------------------------------------------------


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A real disk that is full at ``size`` bytes of a file: the write comes out short."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 40, 100])
def test_a_full_disk_leaves_the_file_as_it_was(place: Place, room: int) -> None:
    place.append(entry("t0"))
    before = place.file.read_bytes()
    with file_size_limit(len(before) + room), pytest.raises(MemsearchError) as caught:
        place.append(entry("t1"))
    assert caught.value.kind is ErrorClass.DISK_FULL
    assert str(place.file) in str(caught.value)
    assert place.file.read_bytes() == before
    assert place.append(entry("t1"))
    assert place.turns() == ["t0", "t1"]


@pytest.mark.parametrize("room", [0, 30])
def test_a_full_disk_leaves_no_empty_journal(place: Place, room: int) -> None:
    with file_size_limit(room), pytest.raises(MemsearchError) as caught:
        place.append(entry())
    assert caught.value.kind is ErrorClass.DISK_FULL
    assert os.listdir(place.memory) == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, ErrorClass.DISK_FULL),
        (errno.EDQUOT, ErrorClass.DISK_FULL),
        (errno.EFBIG, ErrorClass.DISK_FULL),
        (errno.EACCES, ErrorClass.PERMISSION),
        (errno.EPERM, ErrorClass.PERMISSION),
        (errno.EROFS, ErrorClass.PERMISSION),
        (errno.ENOTDIR, ErrorClass.BAD_FILE),
        (errno.EISDIR, ErrorClass.BAD_FILE),
        (errno.ELOOP, ErrorClass.BAD_FILE),
        (errno.ENAMETOOLONG, ErrorClass.BAD_FILE),
    ],
)
def test_errors_of_the_system(number: int, kind: ErrorClass) -> None:
    error = error_of(OSError(number, os.strerror(number)), "/w/x.md")
    assert error.kind is kind
    assert "/w/x.md" in error.message


def test_a_file_where_the_folder_should_be(place: Place) -> None:
    place.memory.parent.mkdir(parents=True)
    place.memory.write_text("x")
    with pytest.raises(MemsearchError) as caught:
        place.append(entry())
    assert caught.value.kind is ErrorClass.BAD_FILE
    assert str(place.memory) in caught.value.message


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_journal_that_is_no_file(place: Place, make: Callable[[Path], None]) -> None:
    place.memory.mkdir(parents=True)
    make(place.file)
    with pytest.raises(MemsearchError) as caught:
        place.append(entry())
    assert caught.value.kind is ErrorClass.BAD_FILE


def test_a_link_out_of_the_folder_is_refused(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / ".bashrc"
    outside.write_text("x\n")
    place.memory.mkdir(parents=True)
    for target in (outside, tmp_path / "not there"):
        place.file.symlink_to(target)
        with pytest.raises(MemsearchError) as caught:
            place.append(entry())
        assert caught.value.kind is ErrorClass.BAD_FILE
        place.file.unlink()
    assert outside.read_text() == "x\n"
    assert not (tmp_path / "not there").exists()


def test_a_linked_memory_folder_is_the_user_s_choice(place: Place, tmp_path: Path) -> None:
    (tmp_path / "synced").mkdir()
    place.memory.parent.mkdir(parents=True)
    place.memory.symlink_to(tmp_path / "synced")
    assert place.append(entry())
    assert (tmp_path / "synced" / "2026-03-05.md").is_file()


READ_ONLY = """
import os, sys
from datetime import date
import filelock
from memsearch.config.errors import MemsearchError
from memsearch.sinks.journal import append
from memsearch.sinks.types import Anchor, Entry
if os.geteuid() == 0:  # root may write everywhere
    os.setgid(65534); os.setuid(65534)
try:
    append(sys.argv[1], Entry("s", "t", date(2026, 3, 5), "10:00", Anchor("s", "t"), ("x",)),
           lock_dir=sys.argv[2])
except MemsearchError as error:
    print(error.kind.value, error.message)
"""


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:  # pytest's folders are closed to other users
        if os.access(parent, os.W_OK) and parent.stat().st_uid == os.geteuid():
            if parent in (Path("/"), Path("/tmp")):
                break
            parent.chmod(parent.stat().st_mode | 0o011)
    memory, locks = tmp_path / "memory", tmp_path / "run"
    memory.mkdir()
    locks.mkdir()
    locks.chmod(0o777)
    memory.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(memory), str(locks)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("permission "), done.stderr
    assert "2026-03-05.md" in done.stdout
    memory.chmod(0o755)


C_LOCALE = """
import sys
from datetime import date
from memsearch.config.errors import MemsearchError
from memsearch.sinks.journal import append
from memsearch.sinks.types import Anchor, Entry
entry = Entry("s", "t", date(2026, 3, 5), "10:00",
    Anchor("s", "t", transcript=sys.argv[1] + "/x.jsonl"), ("\\u5907\\u4efd",))
try:
    append(sys.argv[1], entry, lock_dir=sys.argv[2], suffix="\\u5907")
except MemsearchError as error:
    print(error.kind.value)
append(sys.argv[1], entry, lock_dir=sys.argv[2])
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 in every locale")
def test_a_locale_that_knows_no_chinese(place: Place, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", C_LOCALE, str(place.memory), str(place.locks)],
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "config\n"
    (found,) = parse(place.file.read_text("utf-8"))
    assert found.bullets == ("备份",)
    assert found.anchor is not None
    assert found.anchor.transcript == f"{place.memory}/x.jsonl"


# -- several at once ---------------------------------------------------------------------

WRITER = """
import sys
from datetime import date
from memsearch.sinks.journal import append
from memsearch.sinks.types import Anchor, Entry
memory, locks, who, count = sys.argv[1:]
for number in range(int(count)):
    turn = f"{who}-{number}"
    for _ in range(2):  # each twice: the second must find the first
        append(memory, Entry(f"s{who}", turn, date(2026, 3, 5), "14:47",
            Anchor(f"s{who}", turn, "claude-code", transcript="/w/x.jsonl"),
            (f"first of {turn} 中文", "second " * 40)), lock_dir=locks)
print("done")
"""


def test_six_processes_append_twenty_entries_each(place: Place, tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(place.memory), str(place.locks), str(who), "20"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in range(6)
    ]
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert out == "done\n", err
    text = place.file.read_text("utf-8")
    found = parse(text)
    assert sorted(e.anchor.turn for e in found if e.anchor) == sorted(
        f"{who}-{number}" for who in range(6) for number in range(20)
    )
    for one in found:
        assert one.anchor is not None
        assert one.bullets == (f"first of {one.anchor.turn} 中文", ("second " * 40).strip())
        assert one.session_time == "14:47"
    for who in range(6):  # each writer's own order holds
        mine = [e.anchor.turn for e in found if e.anchor and e.anchor.session == f"s{who}"]
        assert mine == [f"{who}-{number}" for number in range(20)]
    assert text.count("# 2026-03-05\n") == 1
    # No line is anything but what one of the writers wrote.
    starts = ("# 2", "## S", "### 1", "<!-- ", "- ")
    assert all(not line or line.startswith(starts) for line in text.split("\n"))


def test_the_lock_of_a_killed_writer_is_free(place: Place, tmp_path: Path) -> None:
    place.append(entry("t0"))
    holder = textwrap.dedent(
        """
        import os, sys, time
        from memsearch.sinks.journal import journal_lock
        with journal_lock(sys.argv[1], sys.argv[2]):
            print("held", flush=True)
            time.sleep(60)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(place.memory), str(place.locks)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.wait()
    process.stdout.close()
    assert place.append(entry("t1"))


def test_a_lock_that_stays_held_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memsearch.sinks.journal.LOCK_TIMEOUT", 0.1)
    held = journal_lock(str(place.memory), str(place.locks))
    with held, pytest.raises(MemsearchError) as caught:
        place.append(entry())
    assert caught.value.kind is ErrorClass.BUSY
    assert ".lock" in str(caught.value)
    assert place.append(entry())


def test_links_to_one_folder_share_its_lock(place: Place, tmp_path: Path) -> None:
    place.append(entry())
    (tmp_path / "link").symlink_to(place.memory)
    assert not append(str(tmp_path / "link"), entry(), lock_dir=str(place.locks)).written
    assert len(os.listdir(place.locks)) == 1


def test_a_human_who_replaces_the_file_all_the_time(place: Place) -> None:
    """What an editor takes away in the moment after an append is put back."""
    place.append(entry("first"))
    stop = threading.Event()
    saves = []

    def edit() -> None:
        while not stop.is_set():
            text = place.file.read_text("utf-8")
            temporary = place.memory / "x.tmp"
            temporary.write_text(
                text.replace("# 2026", f"human line {len(saves)}\n# 2026", 1), "utf-8"
            )
            os.replace(temporary, place.file)
            saves.append(1)
            stop.wait(0.002)

    editor = threading.Thread(target=edit)
    editor.start()
    turns = [f"t{number}" for number in range(50)]
    try:
        for turn in turns:
            place.append(entry(turn))
    finally:
        stop.set()
        editor.join()
    # What the pipeline does within a minute of an append, see ``contains``.
    for turn in turns:
        if not place.contains("s1", turn):
            assert place.append(entry(turn))
    assert len(saves) > 5
    text = place.file.read_text("utf-8")
    assert sorted(place.turns()) == sorted(["first", *turns])
    assert all(f"human line {number}\n" in text for number in range(len(saves)))


def test_a_file_replaced_beneath_the_append_gets_the_entry(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor's rename comes between our opening and our write, each time for a while."""
    place.append(entry("t0"))
    real_write = os.write
    replaced = []

    def write(descriptor: int, data: bytes) -> int:
        if len(replaced) < 3:
            other = place.memory / "other.tmp"
            other.write_bytes(f"human {len(replaced)}\n".encode() + place.file.read_bytes())
            os.replace(other, place.file)
            replaced.append(1)
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    assert place.append(entry("t1"))
    assert place.turns() == ["t0", "t1"]
    assert place.file.read_text("utf-8").startswith("human 2\nhuman 1\nhuman 0\n# 2026")


def test_a_day_of_three_thousand_entries_is_read_not_parsed(place: Place) -> None:
    place.memory.mkdir(parents=True)
    lines = [entry_lines(entry(f"old{number}")) for number in range(3000)]
    text = "# 2026-03-05\n\n## Session 09:00\n\n" + "\n".join(lines)
    place.file.write_text(text, "utf-8")
    assert place.append(entry("new", session="s2"))
    assert place.append(entry("new2", session="s2"))
    assert place.file.read_text("utf-8")[len(text) :] == (
        "\n## Session 14:47\n\n"
        + entry_lines(entry("new", session="s2"))
        + "\n"
        + entry_lines(entry("new2", session="s2"))
    )


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOTCONN])
def test_a_sync_that_fails_for_now_is_tried_again_and_makes_no_second_entry(
    place: Place, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    place.append(entry("t0"))
    with monkeypatch.context() as patch:

        def fsync(_: int) -> None:
            raise OSError(number, os.strerror(number))

        patch.setattr(os, "fsync", fsync)
        with pytest.raises(MemsearchError) as failed:
            place.append(entry("t1"))
    assert failed.value.kind is ErrorClass.BUSY
    place.append(entry("t1"))
    assert place.turns() == ["t0", "t1"]
