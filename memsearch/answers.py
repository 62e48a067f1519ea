"""Answers of recall as text, for people and for agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memsearch.cli.output import shorten


def result_text(number: int, item: Mapping[str, Any]) -> str:
    """One result of a search: its id, where it stands, what it says, cut."""
    facts = [
        f"{number}. {item['chunk_hash']}",
        f"score {item['score']:.2f}",
        item["day"] or "",
        item["platform"],
        "" if item["indexed"] else "not indexed yet",
        f"{item['copies']} more alike" if item["copies"] else "",
    ]
    place = f"{item['source']}:{item['start_line']}-{item['end_line']}"
    if item.get("project"):
        place = f"{item['project']}: {place}"
    heading = "#" * item["heading_level"] + " " + item["heading"] if item["heading"] else ""
    head = "  ".join(fact for fact in facts if fact)
    body = shorten(_readable(item["content"], heading))
    return "\n".join(line for line in (head, f"   {place}  {heading}".rstrip(), body) if line)


def _readable(content: str, heading: str) -> str:
    """A result's text without what stands above it already and without its anchor."""
    lines = content.split("\n")
    if heading and lines[0].split() == heading.split():
        del lines[0]
    return "\n".join(line for line in lines if not line.startswith("<!-- session:")).strip()


def freshness_notes(told: Mapping[str, Any]) -> list[str]:
    """What an answer does not hold yet: work on its way, work that was given up."""
    waiting = [
        _count(told["turns"], "turn"),
        _count(told["documents"], "document"),
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
