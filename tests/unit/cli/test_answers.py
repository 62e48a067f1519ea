"""How a result is shown as text."""

from memsearch.answers import result_text


def test_marks_of_our_own_are_not_shown():
    content = (
        "## 2026-02-03\n\n<!-- digest of 2026-02-03.md -->\n- The valve sticks <!-- mine -->\n"
        "<!-- end of 2026-02-03.md: 5f0c1a2b 77aa01c3 -->"
    )
    shown = result_text(
        1,
        {
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
        },
    )
    assert shown.endswith("## 2026-02-03\n- The valve sticks <!-- mine -->")
