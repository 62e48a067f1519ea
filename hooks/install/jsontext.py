"""Edits in a JSON text that leave every other character where it is.

The configuration of an agent is its user's: comments, order, indentation and trailing commas
stay. Agents read JSON, JSON with comments (JSONC) and JSON5; this reads what is common to
them: comments, trailing commas, single quotes, names without quotes. It finds the places of
the values, and cuts and inserts there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from memsearch.config.errors import ErrorClass, MemsearchError

#: How deep a configuration may be nested.
MAX_DEPTH = 100
#: One step of indentation where the file shows none.
INDENT = "  "

Path = Sequence[str]


@dataclass(slots=True)
class Node:
    """A value and where it stands.

    Attributes:
        kind: ``object``, ``array``, ``string`` or ``other``.
        start: Index of its first character.
        end: Index behind its last one.
        value: A string's text; of others the characters themselves.
        names: Of an object: its keys, in order.
        starts: Where each member or item begins (an object's with its key).
        nodes: The values of its members or items.
    """

    kind: str
    start: int
    end: int = 0
    value: str = ""
    names: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def get(self, name: str) -> Node | None:
        """An object's member; the last of that name counts, as in every reader."""
        for key, node in zip(reversed(self.names), reversed(self.nodes), strict=True):
            if key == name:
                return node
        return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, what: str) -> MemsearchError:
        line = self.text.count("\n", 0, self.at) + 1
        return MemsearchError(f"line {line}: {what}", kind=ErrorClass.BAD_FILE)

    def skip(self) -> None:
        """Pass over blanks and comments."""
        text = self.text
        while self.at < len(text):
            if text[self.at].isspace() or text[self.at] == "\ufeff":
                self.at += 1
            elif text.startswith("//", self.at):
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise self.fail("a comment does not end")
                self.at = end + 2
            else:
                return

    def here(self) -> str:
        return self.text[self.at : self.at + 1]

    def node(self, depth: int = 0) -> Node:
        if depth > MAX_DEPTH:
            raise self.fail("it is nested too deeply")
        sign = self.here()
        if sign == "{":
            return self.container("object", "}", depth)
        if sign == "[":
            return self.container("array", "]", depth)
        if sign and sign in "\"'":
            start = self.at
            value = self.string()
            return Node("string", start, self.at, value)
        start = self.at
        while self.at < len(self.text) and not (
            self.here() in ",]}:{[\"'/" or self.here().isspace()
        ):
            self.at += 1
        if self.at == start:
            raise self.fail(f"a value was expected, found {sign!r}")
        return Node("other", start, self.at, self.text[start : self.at])

    def string(self) -> str:
        quote = self.here()
        start = self.at
        self.at += 1
        while self.here() != quote:
            if self.at >= len(self.text) or self.here() == "\n":
                raise self.fail("a text does not end")
            self.at += 2 if self.here() == "\\" else 1
        self.at += 1
        inside = self.text[start + 1 : self.at - 1]
        if quote == "'":
            inside = inside.replace("\\'", "'").replace('"', '\\"')
        try:
            return str(json.loads(f'"{inside}"', strict=False))
        except ValueError:
            return inside  # an escape of JSON5's own: nothing of ours has one

    def container(self, kind: str, close: str, depth: int) -> Node:
        node = Node(kind, self.at)
        self.at += 1
        while True:
            self.skip()
            if self.here() == close:
                self.at += 1
                node.end = self.at
                return node
            node.starts.append(self.at)
            if kind == "object":
                node.names.append(self.key())
            node.nodes.append(self.node(depth + 1))
            self.skip()
            if self.here() == ",":
                self.at += 1
            elif self.here() != close:
                raise self.fail(f"a comma or {close} was expected, found {self.here()!r}")

    def key(self) -> str:
        found = self.node(MAX_DEPTH)
        if found.kind not in ("string", "other"):
            raise self.fail("a name was expected")
        self.skip()
        if self.here() != ":":
            raise self.fail("a colon was expected")
        self.at += 1
        self.skip()
        return found.value


def parse(text: str) -> Node:
    """The value that a text holds.

    Raises:
        MemsearchError: ``BAD_FILE``: it is no JSON, with the line.
    """
    reader = _Reader(text)
    reader.skip()
    node = reader.node()
    reader.skip()
    if reader.at < len(text):
        raise reader.fail("more text behind the end")
    return node


def find(root: Node, path: Path) -> Node | None:
    """The value at a path of names; None when there is none."""
    node: Node | None = root
    for name in path:
        if node is None or node.kind != "object":
            return None
        node = node.get(name)
    return node


def to_value(node: Node) -> object:
    """A node as Python's own types; what is neither text nor container as it is written."""
    if node.kind == "object":
        return {name: to_value(item) for name, item in zip(node.names, node.nodes, strict=True)}
    if node.kind == "array":
        return [to_value(item) for item in node.nodes]
    if node.kind == "other":
        return {"true": True, "false": False, "null": None}.get(node.value, node.value)
    return node.value


def set_member(text: str, path: Path, value: object) -> str:
    """A text with a member set, its objects made where they are missing.

    Raises:
        MemsearchError: ``BAD_FILE`` when something else than an object is in the way.
    """
    root = parse(text)
    node = root
    for depth, name in enumerate(path):
        if node.kind != "object":
            where = ".".join(path[:depth]) or "the file"
            raise MemsearchError(f"{where} is no object", kind=ErrorClass.BAD_FILE)
        child = node.get(name)
        if child is None:
            made: object = value
            for missing in reversed(path[depth + 1 :]):
                made = {missing: made}
            return _insert(text, node, made, name)
        node = child
    indent = _indent_at(text, node.start)
    return text[: node.start] + _dump(text, value, indent) + text[node.end :]


def append_item(text: str, path: Path, value: object) -> str:
    """A text with an item at the end of an array, which is made where it is missing.

    Raises:
        MemsearchError: ``BAD_FILE`` when something else than an array is there.
    """
    node = find(parse(text), path)
    if node is None:
        return set_member(text, path, [value])
    if node.kind != "array":
        raise MemsearchError(f"{'.'.join(path)} is no list", kind=ErrorClass.BAD_FILE)
    return _insert(text, node, value, None)


def remove_member(text: str, path: Path) -> str:
    """A text without a member; as it was where there is none."""
    node = find(parse(text), path[:-1])
    if node is None or node.kind != "object" or path[-1] not in node.names:
        return text
    return _cut(text, node, node.names.index(path[-1]))


def remove_item(text: str, path: Path, index: int) -> str:
    """A text without an item of an array."""
    node = find(parse(text), path)
    if node is None or node.kind != "array" or not 0 <= index < len(node.nodes):
        return text
    return _cut(text, node, index)


def prune(text: str, path: Path) -> str:
    """A text without the object or array at a path, and those around it, where they are empty."""
    for depth in range(len(path), 0, -1):
        node = find(parse(text), path[:depth])
        if node is None or node.kind == "string" or node.nodes:
            return text
        text = remove_member(text, path[:depth])
    return text


def _insert(text: str, parent: Node, value: object, name: str | None) -> str:
    """A value at the end of a container, laid out as its neighbours are."""
    newline = "\r\n" if "\r\n" in text else "\n"
    prefix = f"{json.dumps(name, ensure_ascii=False)}: " if name is not None else ""
    if parent.nodes:
        before = text[: parent.starts[-1]]
        line = before[before.rfind("\n") + 1 :]
        own_line = "\n" in before[parent.start :] and not line.strip()
        indent = line if own_line else _indent_at(text, parent.start)
        gap = newline + line if own_line else " "
        end = parent.nodes[-1].end
        return f"{text[:end]},{gap}{prefix}{_dump(text, value, indent)}{text[end:]}"
    outer = _indent_at(text, parent.start)
    indent = outer + _unit(text)
    inner = f"{newline}{indent}{prefix}{_dump(text, value, indent)}"
    rest = text[parent.start + 1 :]
    # What stood between the brackets (blanks, comments) stays behind ours.
    tail = newline + outer if rest[:1] in "}]" else ""
    return text[: parent.start + 1] + inner + tail + rest


def _cut(text: str, parent: Node, index: int) -> str:
    """A container without one of its members, and without one comma."""
    start, end = parent.starts[index], parent.nodes[index].end
    if index > 0:
        # The comma behind the one before goes; what was said about that one stays.
        reader = _Reader(text)
        reader.at = parent.nodes[index - 1].end
        reader.skip()
        comma = reader.at
        blank = start
        while text[blank - 1].isspace() and blank - 1 > comma:
            blank -= 1
        return text[:comma] + text[comma + 1 : blank] + text[end:]
    if len(parent.nodes) > 1:
        return text[:start] + text[parent.starts[1] :]
    reader = _Reader(text)
    reader.at = end
    reader.skip()
    if reader.here() == ",":
        end = reader.at + 1
    blank = start
    while text[blank - 1].isspace():
        blank -= 1
    rest = text[end:]
    if not text[end : parent.end - 1].strip():
        rest = text[parent.end - 1 :]
    return text[:blank] + rest


def _indent_at(text: str, at: int) -> str:
    """The blanks at the beginning of a line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """One step of indentation, as the first indented line shows it."""
    # Not splitlines: it also parts at signs that may stand within a text (U+0085, U+2028).
    for line in text.split("\n"):
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip():
            return blank
    return INDENT


def _dump(text: str, value: object, indent: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return (newline + indent).join(lines)
