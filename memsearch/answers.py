"""Answers of recall as text, for people and for agents."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from memsearch.cli.output import shorten

#: The mark of what this machine did not write.
FOREIGN = "foreign"
#: What that mark means, for whoever reads an answer.
FOREIGN_NOTE = (
    "what is marked foreign was not captured on this machine: it came with the project, or was"
    " written by hand; memsearch trust says that this project's notes are as good as yours"
)


def quoted(text: str) -> str:
    """A foreign text, each line with a mark: it cannot pass for the next result."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n")) if text else ""


def foreign_notes(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the mark means, where one of the items has it."""
    return [FOREIGN_NOTE] if any(item.get("foreign") for item in items) else []


def section_text(answer: Mapping[str, Any]) -> str:
    """An answer of ``expand``: where the section stands, and what it says."""
    place = f"{answer['path']}:{answer['start_line']}-{answer['end_line']}"
    if answer.get("foreign"):
        return f"{place}  {FOREIGN}\n\n{quoted(answer['content'])}"
    return f"{place}\n\n{answer['content']}"


def results_text(items: Iterable[Mapping[str, Any]]) -> str:
    """The results of a search, numbered from 1."""
    return "\n\n".join(map(result_text, itertools.count(1), items))


def result_text(number: int, item: Mapping[str, Any]) -> str:
    """One result of a search: its id, where it stands, what it says, cut."""
    facts = [
        f"{number}. {item['chunk_hash']}",
        f"score {item['score']:.2f}",
        item["day"] or "",
        item["platform"],
        FOREIGN if item.get("foreign") else "",
        "" if item["indexed"] else "not indexed yet",
        f"{item['copies']} more alike" if item["copies"] else "",
    ]
    place = f"{item['source']}:{item['start_line']}-{item['end_line']}"
    if item.get("project"):
        place = f"{item['project']}: {place}"
    heading = "#" * item["heading_level"] + " " + item["heading"] if item["heading"] else ""
    head = "  ".join(fact for fact in facts if fact)
    body = shorten(_readable(item["content"], heading))
    if item.get("foreign"):
        body = quoted(body)
    return "\n".join(line for line in (head, f"   {place}  {heading}".rstrip(), body) if line)


#: How the comments begin that our own files hold for memsearch, not for who reads an answer.
_MARKS = ("<!-- session:", "<!-- digest of ", "<!-- end of ")


def _readable(content: str, heading: str) -> str:
    """A result's text without what stands above it already, its anchor and a digest's marks."""
    lines = content.split("\n")
    if heading and lines[0].split() == heading.split():
        del lines[0]
    return "\n".join(line for line in lines if not line.startswith(_MARKS)).strip()


def freshness_notes(told: Mapping[str, Any]) -> list[str]:
    """What an answer does not hold yet: work on its way, work that was given up."""
    waiting = [
        _count(told["turns"], "turn"),
        # Their text is in the index; another note says what is being renewed.
        _count(told["documents"] - told.get("renewing", 0), "document"),
        _count(told["hooks"], "hook"),
    ]
    notes = []
    if any(waiting):
        parts = " and ".join(part for part in waiting if part)
        since = f" (since {_local(told['since'])})" if told["since"] else ""
        notes.append(f"{parts} not in the index yet{since}")
    if told["dead"]:
        notes.append(f"{told['dead']} given up and waiting for you: memsearch dead-letter list")
    return notes


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}" if number else ""


def _local(moment: str) -> str:
    """A moment of the log in local time, to the minute."""
    from datetime import datetime

    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return moment
