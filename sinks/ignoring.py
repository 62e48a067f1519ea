"""Which files below a folder are left out: patterns as in ``.gitignore``, and files of them.

``pathspec`` does the matching, as git does it; it is imported where there is a pattern at all.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

#: The ignore file that always counts, whatever ``indexing.ignore_files`` says.
OWN_FILE = ".memsearchignore"
#: Folders of other people's Markdown that are left out; hidden ones are left out anyway.
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})
#: Bytes of an ignore file that are read.
MAX_FILE_BYTES = 1 << 20
#: Stars in one name of a pattern, and ``**`` in the whole of it, that are matched one by one.
#: ``pathspec`` makes a regular expression of a pattern, whose time grows with the length of a
#: name to the power of this; and ignore files come with other people's repositories.
MAX_STARS = 3


@dataclass(slots=True)
class Rules:
    """What is left out below one folder.

    Args:
        root: The folder, absolute; what its own path holds does not count.
        exclude: Patterns as in ``.gitignore``, relative to ``root``, or to ``ceiling``.
        ignore_files: Names of ignore files, besides ``OWN_FILE``.
        ceiling: A folder above ``root`` whose ignore files, and those between, count too; empty
            for none.
    """

    root: str
    exclude: Sequence[str] = ()
    ignore_files: Sequence[str] = ()
    ceiling: str = ""
    _specs: dict[str, GitIgnoreSpec | None] = field(default_factory=dict)
    _excluded: GitIgnoreSpec | None = None

    def __post_init__(self) -> None:
        self.root = self.root.rstrip(os.sep) or os.sep
        self.ceiling = self.ceiling.rstrip(os.sep)
        if self.exclude:
            self._excluded = _spec(self.exclude)

    def leave_out(self, path: str, *, folder: bool) -> bool:
        """Whether a walk that has come to a path leaves it out.

        Args:
            path: Absolute, below the root; what is above it was not left out.
            folder: It is a folder.
        """
        name = os.path.basename(path)
        if folder and (name.startswith(".") or name in SKIPPED_FOLDERS):
            return True
        return self.matches(path, folder=folder)

    def are_plain_in(self, folder: str) -> bool:
        """Whether no pattern has a word on what lies right in a folder."""
        probe = os.path.join(folder, "x")
        return self._excluded is None and not any(map(self._spec_of, self._places(probe)))

    def matches(self, path: str, *, folder: bool) -> bool:
        """Whether a pattern leaves a path out, its name alone aside."""
        end = "/" if folder else ""
        if self._excluded is not None:
            tops = {self.root, self.ceiling if self._is_above() else self.root}
            if any(
                self._excluded.check_file(_below(path, top) + end).include for top in sorted(tops)
            ):
                return True
        # As git does it: the nearest ignore file that has a word on it decides.
        for place in self._places(path):
            spec = self._spec_of(place)
            if spec is None:
                continue
            said = spec.check_file(_below(path, place) + end).include
            if said is not None:
                return said
        return False

    def covers(self, path: str) -> bool:
        """Whether a walk from the root would come to a document, were it there."""
        if not path.startswith(self.root.rstrip(os.sep) + os.sep):
            return False
        parts = _below(path, self.root).split("/")
        place = self.root
        for number, part in enumerate(parts, 1):
            place = os.path.join(place, part)
            if self.leave_out(place, folder=number < len(parts)):
                return False
        return True

    def excludes(self, path: str) -> bool:
        """Whether a pattern, not its folders' names, keeps a walk from a path below the root."""
        parts = _below(path, self.root).split("/")
        place = self.root
        for number, part in enumerate(parts, 1):
            place = os.path.join(place, part)
            if self.matches(place, folder=number < len(parts)):
                return True
        return False

    def _is_above(self) -> bool:
        return bool(self.ceiling) and self.root.startswith(self.ceiling + os.sep)

    def _places(self, path: str) -> Iterable[str]:
        """Folders whose ignore files count for a path, nearest first."""
        top = self.ceiling if self._is_above() else self.root
        place = os.path.dirname(path)
        while True:
            yield place
            if place == top or len(place) <= len(top):
                return
            place = os.path.dirname(place)

    def _spec_of(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            lines: list[str] = []
            for name in (*self.ignore_files, OWN_FILE):
                lines += _lines(os.path.join(folder, name))
            self._specs[folder] = _spec(lines) if lines else None
        return self._specs[folder]


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    # "[[]" and its like mean the same to git and to ``re``, which may mean something else one
    # day and says so on a person's screen.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pathspec\.pattern")
    kept = []
    for line in map(_bounded, lines):
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error):  # "[z-a]"
            continue  # git passes over a pattern that is none, too
        kept.append(line)
    return GitIgnoreSpec.from_lines(kept)


def _bounded(line: str) -> str:
    """A pattern with no more stars than are matched in short time.

    What lies between its first and its last ones is left out, so that it matches at least what
    it did: rather too little is read than too much. Where that would take something back, or
    cut through a set or an escaped character, the pattern is no pattern.
    """
    parts = line.split("/")
    many = parts.count("**") > MAX_STARS
    if not many and all(part.count("*") <= MAX_STARS for part in parts):
        return line
    if line.startswith("!") or "[" in line or "\\" in line:
        return ""
    if many:
        last = len(parts) - 1 - parts[::-1].index("**")
        parts = parts[: parts.index("**") + 1] + parts[last + 1 :]
    return "/".join(
        part[: part.index("*") + 1] + part[part.rindex("*") + 1 :]
        if part.count("*") > MAX_STARS
        else part
        for part in parts
    )


def _lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES)
    except OSError:
        return []  # there is none, or it is not ours to read
    return data.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()


def _below(path: str, folder: str) -> str:
    return path[len(folder.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
