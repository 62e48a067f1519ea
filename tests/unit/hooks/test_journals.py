"""The ends of journals as a hook reads them."""

import os

import pytest

from memsearch.hooks import journals


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("2026-03-05.md", "2026-03-05"),
        ("2026-03-05.laptop.md", "2026-03-05"),
        ("2026-03-05 (conflicted copy).md", "2026-03-05"),
        ("2026-03-05.MD", "2026-03-05"),
        ("README.md", ""),
        ("2026-13-05.md", ""),
        ("2026-03-41.md", ""),
        ("2026-03-05-plan.md", ""),
        ("2026-03-05.md.bak", ""),
        ("digest-2026-03.md", ""),
        ("２０２６-03-05.md", ""),
        (".md", ""),
        ("", ""),
    ],
)
def test_only_date_named_files_are_journals(name, day):
    assert journals.journal_day(name) == day


def test_entries_are_sections_with_text():
    text = (
        "# 2026-03-05\n\n## Session 14:47\n\n### 14:47\n"
        "<!-- session:s turn:t transcript:~/x.jsonl -->\n- one\n- two\n\n"
        "### 14:50\n<!-- session:s turn:u\n more -->\n\n"
        "### 14:55\n```sh\n### not a heading\n```\n\n## Plans\nmine\n### 15:00\n- three\n"
    )
    found = [(entry.heading, entry.text) for entry in journals.entries_of(text, "2026-03-05")]
    assert found == [
        ("14:47", "- one\n- two"),
        ("14:55", "```sh\n### not a heading\n```"),
        ("15:00", "- three"),
    ]


def write(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")


def test_days_without_entries_take_no_place(tmp_path):
    write(tmp_path, "2026-03-01.md", "# 2026-03-01\n\n### 10:00\n- first\n")
    write(tmp_path, "2026-03-02.md", "# 2026-03-02\n\n### 10:00\n- second\n")
    write(tmp_path, "2026-03-02.host.md", "### 11:00\n- beside\n")
    write(tmp_path, "2026-03-03.md", "# 2026-03-03\n\n## Session 09:00\n")
    write(tmp_path, "2026-03-04.md", "# 2026-03-04\n\n### 09:00\n- fourth\n")
    write(tmp_path, "2026-03-05.md", "")
    write(tmp_path, "README.md", "### 12:00\n- no journal\n")
    (tmp_path / "2026-03-06.md").mkdir()
    os.mkfifo(tmp_path / "2026-03-07.md")
    found = [(entry.day, entry.text) for entry in journals.recent(str(tmp_path))]
    assert found == [
        ("2026-03-02", "- beside"),
        ("2026-03-02", "- second"),
        ("2026-03-04", "- fourth"),
    ]


def test_of_a_large_journal_only_the_end_is_read(tmp_path):
    entries = "".join(f"### 10:{n % 60:02d}\n- 条目 {n}\n\n" for n in range(40_000))
    write(tmp_path, "2026-03-01.md", "# 2026-03-01\n\n" + entries)
    found = journals.recent(str(tmp_path))
    assert found[-1].text == "- 条目 39999"
    assert len(found) < 5_000
    assert found[0].text.startswith("- 条目 ")


def test_no_folder_is_no_memory(tmp_path):
    assert journals.recent(str(tmp_path / "none")) == []


def test_a_note_as_long_as_all_that_is_read_hides_nothing_above_it(tmp_path):
    path = tmp_path / "2026-03-05.md"
    big = "word " * (journals.MAX_TAIL_BYTES // 2)
    path.write_text(f"# 2026-03-05\n\n### 10:00\n- first\n\n### 10:05\n- {big}\n", "utf-8")
    first, second = journals.read_entries(str(path), "2026-03-05")
    assert (first.heading, first.text) == ("10:00", "- first")
    assert second.text.startswith("- word word")
