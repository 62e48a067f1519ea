"""Days as a person writes them."""

from __future__ import annotations

from datetime import date

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.recall.dates import day_number, day_text, parse_day

TODAY = date(2026, 3, 1)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-03-05", date(2026, 3, 5)),
        (" 2024-02-29 ", date(2024, 2, 29)),
        ("today", TODAY),
        ("Yesterday", date(2026, 2, 28)),
        ("0d", TODAY),
        ("7d", date(2026, 2, 22)),
        ("2W", date(2026, 2, 15)),
    ],
)
def test_reads_days(text: str, day: date) -> None:
    assert parse_day(text, TODAY) == day


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30",
        "2026-3-5",
        "20260305",
        "2026-W10-4",
        "03/05/2026",
        "tomorrow",
        "7",
        "d",
        "-3d",
        "٧d",  # Arabic digits are digits to str.isdigit
        "999999w",
        "9999999999999d",
        "",
        "2026-03-05\n2026-03-06",
    ],
)
def test_refuses_what_is_no_day(text: str) -> None:
    with pytest.raises(MemsearchError) as caught:
        parse_day(text, TODAY, option="--since")
    assert caught.value.kind is ErrorClass.CONFIG
    assert "--since" in caught.value.message
    assert "YYYY-MM-DD" in caught.value.hint


def test_number_and_text_of_a_day() -> None:
    assert day_number(date(2026, 3, 5)) == 20260305
    assert day_text(20260305) == "2026-03-05"
    assert day_text(0) is None
