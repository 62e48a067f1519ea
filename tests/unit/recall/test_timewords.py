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
        ("上上周的决定", "2026-02-16", "2026-02-22"),
        ("上上周五", "2026-02-20", "2026-02-20"),
        ("本周二的会议", "2026-03-03", "2026-03-03"),
        ("上周末的值班", "2026-02-28", "2026-03-01"),
        ("上周日志里的错误", "2026-02-23", "2026-03-01"),
        ("大前天", "2026-03-02", "2026-03-02"),
        ("十五天前", "2026-02-18", "2026-02-18"),
        ("二十天之前", "2026-02-13", "2026-02-13"),
        ("几天前的改动", "2026-02-26", "2026-03-04"),
        ("前几天", "2026-02-26", "2026-03-05"),
        ("两年前", "2024-01-01", "2024-12-31"),
        ("去年3月", "2025-03-01", "2025-03-31"),
        ("去年", "2025-01-01", "2025-12-31"),
        ("三月三日", "2026-03-03", "2026-03-03"),
        ("十一月", "2025-11-01", "2025-11-30"),
        ("上个月5号", "2026-02-05", "2026-02-05"),
        ("上週三修的", "2026-02-25", "2026-02-25"),
        ("上個禮拜", "2026-02-23", "2026-03-01"),
        ("3月3日到3月5日", "2026-03-03", "2026-03-05"),
        ("3月1日以来", "2026-03-01", "2026-03-05"),
        ("一昨日", "2026-03-03", "2026-03-03"),
        ("先週の変更", "2026-02-23", "2026-03-01"),
        ("what did I do Tuesday?", "2026-03-03", "2026-03-03"),
        ("Tuesday's deploy", "2026-03-03", "2026-03-03"),
        ("Sunday night", "2026-03-01", "2026-03-01"),
        ("last Tue", "2026-03-03", "2026-03-03"),
        ("tuesday last week", "2026-02-24", "2026-02-24"),
        ("last week on Tuesday", "2026-02-24", "2026-02-24"),
        ("what broke last night", "2026-03-04", "2026-03-04"),
        ("last weekend's release", "2026-02-28", "2026-03-01"),
        ("over the weekend", "2026-02-28", "2026-03-01"),
        ("a couple of days ago", "2026-03-02", "2026-03-04"),
        ("a few days ago", "2026-02-26", "2026-03-04"),
        ("last 3 days", "2026-03-02", "2026-03-05"),
        ("during the past week", "2026-02-26", "2026-03-05"),
        ("the last few weeks", "2026-01-15", "2026-03-05"),
        ("3d ago", "2026-03-02", "2026-03-02"),
        ("since last Monday", "2026-03-02", "2026-03-05"),
        ("since February", "2026-02-01", "2026-03-05"),
        ("everything after March 3", "2026-03-03", "2026-03-05"),
        ("between March 1 and March 4", "2026-03-01", "2026-03-04"),
        ("from 2026-02-27 to 2026-03-01", "2026-02-27", "2026-03-01"),
        ("the week of Feb 25", "2026-02-23", "2026-03-01"),
        ("March 2025", "2025-03-01", "2025-03-31"),
        ("in 2025-11", "2025-11-01", "2025-11-30"),
        ("late February", "2026-02-01", "2026-02-28"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("in 2025", "2025-01-01", "2025-12-31"),
        ("two years ago", "2024-01-01", "2024-12-31"),
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
        pytest.param("昨天" * 100, id="a pasted text"),
        "what did we plan before March 3",
        "3月3日之前的计划",
        "下周二",
        "明年3月",
        "每周一的任务",
        "一周三次",
        "两周一次",
        "周日志",
        "用三天前端改动",
        "当前天数",
        "next Tuesday",
        "the job that runs every Monday",
        "Black Friday",
        "the last week of the sprint",
        "the last Friday of a month",
        "in 2000 ms",
        "2026-02 is a version",
    ],
)
def test_no_plain_time(question: str) -> None:
    assert named_time(question, TODAY) is None


@given(st.text(alphabet="0123456789年月日号-/. 天周前上一二三marchfeb agoltwek", max_size=40))
def test_whatever_is_asked(question: str) -> None:
    found = named_time(question, TODAY)
    assert found is None or found.first <= found.last <= TODAY


@pytest.mark.parametrize(
    ("question", "today", "first", "last"),
    [
        ("last week", "2026-01-01", "2025-12-22", "2025-12-28"),
        ("last month", "2026-01-31", "2025-12-01", "2025-12-31"),
        ("yesterday", "2026-03-01", "2026-02-28", "2026-02-28"),
        ("last Thursday", "2026-01-01", "2025-12-25", "2025-12-25"),
        ("a month ago", "2026-03-31", "2026-02-01", "2026-02-28"),
        ("over the weekend", "2026-03-07", "2026-03-07", "2026-03-07"),
        ("last weekend", "2026-03-08", "2026-02-28", "2026-03-01"),
        ("上周日", "2026-03-01", "2026-02-22", "2026-02-22"),
        ("周日", "2026-03-01", "2026-03-01", "2026-03-01"),
        ("上个月31号", "2026-01-31", "2025-12-31", "2025-12-31"),
        ("12月", "2026-01-01", "2025-12-01", "2025-12-31"),
        ("三天前", "2026-01-02", "2025-12-30", "2025-12-30"),
    ],
)
def test_times_at_the_end_of_a_month_and_of_a_year(
    question: str, today: str, first: str, last: str
) -> None:
    found = named_time(question, date.fromisoformat(today))
    assert found is not None
    assert (found.first.isoformat(), found.last.isoformat()) == (first, last)
