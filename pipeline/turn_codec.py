"""Turns and notes as the JSON that lies in ``payloads``."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from memsearch.sources.base import Item, Turn


def dump_turn(turn: Turn) -> str:
    """A turn as JSON; whatever a later version adds is ignored when it is read."""
    return json.dumps(
        {
            "platform": turn.platform,
            "id": turn.id,
            "session": turn.session,
            "at": turn.at.isoformat(),
            "cwd": turn.cwd,
            "state": turn.state,
            "anchor": dict(turn.anchor),
            "position": turn.position,
            "truncated": turn.truncated,
            "items": [_dump_item(item) for item in turn.items],
        },
        ensure_ascii=False,
    )


def _dump_item(item: Item) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": item.kind, "text": item.text}
    if item.name:
        fields["name"] = item.name
    if item.output:
        fields["output"] = item.output
    if item.failed:
        fields["failed"] = True
    return fields


def load_turn(text: str) -> Turn:
    """The turn that :func:`dump_turn` wrote."""
    fields = json.loads(text)
    return Turn(
        platform=fields["platform"],
        id=fields["id"],
        session=fields["session"],
        at=datetime.fromisoformat(fields["at"]),
        cwd=fields["cwd"],
        items=tuple(
            Item(
                kind=item["kind"],
                text=item["text"],
                name=item.get("name", ""),
                output=item.get("output", ""),
                failed=item.get("failed", False),
            )
            for item in fields["items"]
        ),
        state=fields["state"],
        anchor=fields["anchor"],
        position=fields["position"],
        truncated=fields["truncated"],
    )


def dump_bullets(bullets: tuple[str, ...]) -> str:
    """A turn's notes as JSON."""
    return json.dumps(list(bullets), ensure_ascii=False)


def load_bullets(text: str) -> tuple[str, ...]:
    """The notes that :func:`dump_bullets` wrote."""
    return tuple(json.loads(text))
