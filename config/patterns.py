"""Whether a regular expression of the user's can be run on any text: right, and never slow.

The configuration and the redactor ask the same function, so that a pattern which would stop a
capture is refused when it is written.
"""

from __future__ import annotations

import re
import warnings

#: Unbounded repeats (``*``, ``+``, ``{3,}``) that a pattern may hold.
MAX_UNBOUNDED = 3
#: A repeat of up to this many counts as bounded.
_BOUNDED = 64


def fault(pattern: str) -> str:
    """Why a pattern cannot be used; empty when it can."""
    with warnings.catch_warnings():
        # "[[a]" means the same in every Python there is; of a later one Python itself warns.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            compiled = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            return f"it is no regular expression: {error}"
        return _slow(pattern) or ("it matches the empty text" if compiled.match("") else "")


def _slow(pattern: str) -> str:
    """Why a pattern may take exponential time; "" when it cannot.

    A variable repeat, a choice or an optional part inside an unbounded repeat is what lets
    one text be matched in many ways; a back reference does the same. Unbounded repeats in a
    row cost a power of the length each, so their number is bounded.
    """
    from re import _parser  # type: ignore[attr-defined]

    unbounded = 0

    def walk(parsed: object, inside: bool) -> str:
        nonlocal unbounded
        for op, argument in parsed:  # type: ignore[attr-defined]
            name = str(op)
            if name in ("MAX_REPEAT", "MIN_REPEAT"):
                low, high, body = argument
                if inside and low != high:
                    return "it has a repeat inside a repeat"
                endless = int(high) > _BOUNDED
                unbounded += endless
                if fault := walk(body, inside or endless or (int(high) > 1 and low != high)):
                    return fault
            elif name == "BRANCH":
                if inside:
                    return "it has a choice inside a repeat"
                for branch in argument[1]:
                    if fault := walk(branch, inside):
                        return fault
            elif name == "SUBPATTERN":
                if fault := walk(argument[-1], inside):
                    return fault
            elif name in ("ASSERT", "ASSERT_NOT"):
                if fault := walk(argument[1], inside):
                    return fault
            elif name == "ATOMIC_GROUP":
                if fault := walk(argument, inside):
                    return fault
            elif name in ("GROUPREF", "GROUPREF_EXISTS", "GROUPREF_IGNORE"):
                return "it refers back to a group"
            elif name == "POSSESSIVE_REPEAT" and (fault := walk(argument[2], inside)):
                return fault
        return ""

    fault = walk(_parser.parse(pattern), False)
    if not fault and unbounded > MAX_UNBOUNDED:
        fault = f"it has more than {MAX_UNBOUNDED} unbounded repeats"
    return fault
