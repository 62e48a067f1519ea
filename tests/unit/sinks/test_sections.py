import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.sinks.sections import heading_of, sections


def outline(text: str) -> list[tuple[int, str, int, int]]:
    return [(s.level, s.heading, s.line, s.end_line) for s in sections(text)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# A", (1, "A")),
        ("###### 标题", (6, "标题")),
        ("   ## A", (2, "A")),
        ("##\tA", (2, "A")),
        ("## A ##", (2, "A")),
        ("## A ###   ", (2, "A")),
        ("## A#", (2, "A#")),
        ("## C#", (2, "C#")),
        ("## #", (2, "")),
        ("#", (1, "")),
        ("# A\r", (1, "A")),
        ("####### A", None),
        ("#A", None),
        ("#123", None),
        ("    # A", None),
        ("\t# A", None),
        ("\\# A", None),
        ("- # A", None),
        ("", None),
    ],
)
def test_heading_of(line: str, expected: tuple[int, str] | None) -> None:
    assert heading_of(line) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n\n", []),
        ("a\nb\n", [(0, "", 1, 2)]),
        ("\n\na\n\n# B\nc\n\n", [(0, "", 3, 3), (1, "B", 5, 6)]),
        ("# A\n## B\n\n### C\n\nx\n\ny\n\n\n# D", [
            (1, "A", 1, 1), (2, "B", 2, 2), (3, "C", 4, 8), (1, "D", 11, 11),
        ]),
        # fences hide headings
        ("# A\n```\n# no\n```\n# B", [(1, "A", 1, 4), (1, "B", 5, 5)]),
        ("# A\n~~~ sh\n# no\n```\n# no\n~~~\n# B", [(1, "A", 1, 6), (1, "B", 7, 7)]),
        ("````md\n```\n# no\n```\n# no\n````\n# B", [(0, "", 1, 6), (1, "B", 7, 7)]),
        ("```\n# no\n````\n# B", [(0, "", 1, 3), (1, "B", 4, 4)]),
        ("   ```\n# no\n  ```  \n# B", [(0, "", 1, 3), (1, "B", 4, 4)]),
        # what is no fence
        ("``\n# B\n``", [(0, "", 1, 1), (1, "B", 2, 3)]),
        ("    ```\n# B", [(0, "", 1, 1), (1, "B", 2, 2)]),
        ("```a`b\n# B", [(0, "", 1, 1), (1, "B", 2, 2)]),
        ("- ```\n# B", [(0, "", 1, 1), (1, "B", 2, 2)]),
        # a fence is not closed by one with an info string, another mark, or a shorter one
        ("```\n```sh\n# no\n~~~\n``\n```\n# B", [(0, "", 1, 6), (1, "B", 7, 7)]),
        # never closed: to the end, as CommonMark has it
        ("# A\n```\n# no\n", [(1, "A", 1, 3)]),
        # front matter is text
        ("---\ntitle: x\n# no\n---\n# A\ny", [(0, "", 1, 4), (1, "A", 5, 6)]),
        ("---\n# no: x\n...\n# A\ny", [(0, "", 1, 3), (1, "A", 4, 5)]),
        # a rule at the top is none
        ("---\n\n# A\n---\ny", [(0, "", 1, 1), (1, "A", 3, 5)]),
        ("---\nx: y\n# A", [(0, "", 1, 2), (1, "A", 3, 3)]),
        # only \n ends a line: the numbers are those that an editor shows
        ("a\x0bb\u2028c\x85\n# A\nx", [(0, "", 1, 1), (1, "A", 2, 3)]),
        ("# A\r\n\r\nx\r\n# B\r\n", [(1, "A", 1, 3), (1, "B", 4, 4)]),
    ],
)  # fmt: skip
def test_outline(text: str, expected: list[tuple[int, str, int, int]]) -> None:
    assert outline(text) == expected


def test_body_has_no_blank_lines_at_its_ends() -> None:
    assert [s.body for s in sections("# A\n\n  x\n\ny\n\n# B\n\n")] == ["  x\n\ny", ""]


ENTRY = "### 14:47\n<!-- session:s turn:t -->\n- x\n"


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        # a fence that a human forgot to close ends at our next entry
        (f"# A\n```\n# no\n\n{ENTRY}\n### 15:00\nz", ["A", "14:47", "15:00"]),
        (f"```\n# no\n\n## Session 14:47\n\n{ENTRY}", ["", "Session 14:47", "14:47"]),
        (f"```\nx\n\n{ENTRY}```\n# no\n\n{ENTRY}", ["", "14:47", "14:47"]),
        (f"```\nx\n\n{ENTRY}```sh\n# no\n```\n\n{ENTRY}", ["", "14:47", "14:47"]),
        # without an anchor it may be anybody's
        ("```\n### 14:47\n- x\n## Session 14:47\n", [""]),
    ],
)
def test_forgotten_fence(text: str, headings: list[str]) -> None:
    assert [s.heading for s in sections(text, journal=True)] == headings


def test_in_other_documents_an_entry_in_a_fence_is_an_example() -> None:
    assert outline(f"# A\n```\n{ENTRY}```\n# B") == [(1, "A", 1, 6), (1, "B", 7, 7)]


@given(st.text(alphabet=st.sampled_from("#`~ \n-a:.\r<!>")))
def test_every_line_with_text_is_in_one_section(text: str) -> None:
    lines = text.split("\n")
    covered: list[int] = []
    for section in sections(text):
        assert section.line <= section.end_line
        covered += range(section.line, section.end_line + 1)
    assert covered == sorted(set(covered))
    for number, line in enumerate(lines, start=1):
        assert not line.strip() or number in covered


@pytest.mark.parametrize(
    "text",
    [
        "```\n" + "# a\n" * 300_000,
        "".join("`" * n + "\n" for n in range(1500, 3, -1)) + "x\n" * 100_000,
        "#" * 2_000_000,
        "# a " + "#" * 2_000_000,
        " " * 2_000_000,
        "---\na: b\n" + "x\n" * 500_000,
        "```\n" + "### 14:47\n<!--" * 100_000,
    ],
)
def test_large_documents_take_one_pass(text: str) -> None:
    begin = time.process_time()
    sections(text)
    sections(text, journal=True)
    assert time.process_time() - begin < 10  # a quadratic reading takes minutes
