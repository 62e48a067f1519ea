"""A set that remembers the newest of its members, in bounded memory."""

from __future__ import annotations

from collections.abc import Hashable


class RecentSet:
    """Which of the last ``size`` different members were seen.

    Only hashes are kept (some 100 bytes a member); two members that share one are taken
    for the same, which 64 bits make a matter of theory.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._members: dict[int, None] = {}

    def add(self, member: Hashable) -> bool:
        """Remember a member; False when it was known already."""
        key = hash(member)
        if key in self._members:
            return False
        self._members[key] = None
        if len(self._members) > self._size:
            del self._members[next(iter(self._members))]
        return True

    def __contains__(self, member: Hashable) -> bool:
        return hash(member) in self._members
