"""``<private>…</private>``: what a person wants nowhere but in the agent's own file."""

from __future__ import annotations

import re

# The bound keeps a text full of "<private" from costing quadratic time.
_TAG = re.compile(r"<(/?)private(?:\s[^<>]{0,200})?>", re.IGNORECASE)


def strip_private(text: str) -> tuple[str, bool]:
    """A text without its private parts.

    Tags may be nested. One that is not closed reaches to the end of the text: rather too
    much is left out than too little.

    Returns:
        The rest, and whether there was a private part.
    """
    if "private" not in text and "private" not in text.lower():
        return text, False
    kept: list[str] = []
    depth = 0
    since = 0
    found = False
    for tag in _TAG.finditer(text):
        if tag[1]:
            if depth:
                depth -= 1
                since = tag.end()
            continue
        if not depth:
            kept.append(text[since : tag.start()])
        depth += 1
        found = True
    if not found:
        return text, False
    if not depth:
        kept.append(text[since:])
    return "".join(kept), True
