"""How a result is shown as text."""

from typing import Any

from memsearch.answers import result_text, results_text


def result(content: str, **more: Any) -> dict[str, Any]:
    return {
        "content": content,
        "heading": "2026-02-03",
        "heading_level": 2,
        "chunk_hash": "3f9c2a7e51d08b46",
        "score": 1.0,
        "source": "memory/digest-2026-02.md",
        "start_line": 3,
        "end_line": 7,
        "day": "2026-02-03",
        "platform": "",
        "indexed": True,
        "copies": 0,
    } | more


def test_as_many_as_may_be_asked_for_are_shown():
    shown = results_text([result(f"text {number}") for number in range(1, 1001)])
    assert shown.startswith("1. ")
    assert "\n\n1000. " in shown
    assert shown.endswith("text 1000")


def test_marks_of_our_own_are_not_shown():
    content = (
        "## 2026-02-03\n\n<!-- digest of 2026-02-03.md -->\n- The valve sticks <!-- mine -->\n"
        "<!-- end of 2026-02-03.md: 5f0c1a2b 77aa01c3 -->"
    )
    shown = result_text(1, result(content))
    assert shown.endswith("## 2026-02-03\n- The valve sticks <!-- mine -->")
