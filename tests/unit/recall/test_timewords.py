"""The time that a question names."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsearch.recall.timewords import named_time

#: A Thursday.
TODAY = date(2026, 3, 5)


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("what did we do on March 3rd", "2026-03-03", "2026-03-03"),
        ("what did we do on march 3", "2026-03-03", "2026-03-03"),
        ("the decision of 3 March", "2026-03-03", "2026-03-03"),
        ("the 3rd of March", "2026-03-03", "2026-03-03"),
        ("Mar 3, 2025: what broke", "2025-03-03", "2025-03-03"),
        ("notes of December 24th", "2025-12-24", "2025-12-24"),  # the last one
        ("what happened on 2026-02-14?", "2026-02-14", "2026-02-14"),
        ("2026/2/4", "2026-02-04", "2026-02-04"),
        ("what did I do yesterday", "2026-03-04", "2026-03-04"),
        ("the day before yesterday", "2026-03-03", "2026-03-03"),
        ("what have we done today", "2026-03-05", "2026-03-05"),
        ("what did we decide last week", "2026-02-23", "2026-03-01"),
        ("so far this week", "2026-03-02", "2026-03-05"),
        ("last month's outage", "2026-02-01", "2026-02-28"),
        ("what broke in February", "2026-02-01", "2026-02-28"),
        ("what broke in May 2024", "2024-05-01", "2024-05-31"),
        ("the migration of last November", "2025-11-01", "2025-11-30"),
        ("three days ago", "2026-03-02", "2026-03-02"),
        ("2 weeks ago", "2026-02-16", "2026-02-22"),
        ("over the last 10 days", "2026-02-23", "2026-03-05"),
        ("what broke on Monday", "2026-03-02", "2026-03-02"),
        ("last Thursday", "2026-02-26", "2026-02-26"),
        ("on Feb 29", "2024-02-29", "2024-02-29"),
        ("上周做了什么", "2026-02-23", "2026-03-01"),
        ("上个星期的决定", "2026-02-23", "2026-03-01"),
        ("这周修了哪些错误", "2026-03-02", "2026-03-05"),
        ("昨天为什么失败", "2026-03-04", "2026-03-04"),
        ("前天的部署", "2026-03-03", "2026-03-03"),
        ("今天做了什么", "2026-03-05", "2026-03-05"),
        ("3月3日我们讨论了什么", "2026-03-03", "2026-03-03"),
        ("12月24号的会议", "2025-12-24", "2025-12-24"),
        ("2025年3月3日", "2025-03-03", "2025-03-03"),
        ("2月份的故障", "2026-02-01", "2026-02-28"),
        ("2025年11月发布了什么", "2025-11-01", "2025-11-30"),
        ("上个月的发布", "2026-02-01", "2026-02-28"),
        ("本月计划", "2026-03-01", "2026-03-05"),
        ("三天前", "2026-03-02", "2026-03-02"),
        ("两周前的讨论", "2026-02-16", "2026-02-22"),
        ("最近三天的改动", "2026-03-02", "2026-03-05"),
        ("上周五的发布", "2026-02-27", "2026-02-27"),
        ("周二的会议", "2026-03-03", "2026-03-03"),
        ("星期天", "2026-03-01", "2026-03-01"),
        ("yesterday, that is on 2026-03-04", "2026-03-04", "2026-03-04"),
    ],
)
def test_plain_times(question: str, first: str, last: str) -> None:
    found = named_time(question, TODAY)
    assert found is not None
    assert (found.first.isoformat(), found.last.isoformat()) == (first, last)
    assert found.words in question


@pytest.mark.parametrize(
    "question",
    [
        "",
        "why did we drop redis",
        "this may march on",
        "how do we march through the steps",
        "what does the second of the two do",
        "version 2026.3",
        "read .memsearch/memory/2026-03-03.md",
        "the branch fix-2026-03-03",
        'what does "yesterday" mean here',
        "where is `last week` printed",
        "the 30th of February",
        "2026-13-40",
        "what is due on March 3rd 2027",  # nothing was remembered in the future
        "compare yesterday with last month",  # two times are none
        "3 months of work",
        "用了3个月",
        "上周期的问题吗",
        "20 days agony",
    ],
)
def test_no_plain_time(question: str) -> None:
    assert named_time(question, TODAY) is None


@given(st.text(alphabet="0123456789年月日号-/. 天周前上一二三marchfeb agoltwek", max_size=40))
def test_whatever_is_asked(question: str) -> None:
    found = named_time(question, TODAY)
    assert found is None or found.first <= found.last <= TODAY
