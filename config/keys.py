"""The settings as keys: found by name, checked, read from text, and put back into the tree."""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from memsearch.config.schema import PROJECT_KEYS, Settings

#: The words that a text may say yes or no with (environment, flags, ``config set``).
YES = frozenset({"true", "yes", "on", "1"})
NO = frozenset({"false", "no", "off", "0"})

#: Stands for a name of the user's choice in a path, such as a project's.
ANY = "*"

#: Longest value that an error message repeats, in characters.
MAX_SHOWN = 60

#: How alike a known name must be to be suggested (difflib's ratio).
SIMILARITY = 0.6

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """One setting.

    Attributes:
        path: Its names from the top; ``*`` stands for a name of the user's choice.
        type: Its type without ``Annotated`` and ``None``: ``bool``, ``int``, ``float``,
            ``str``, a ``Literal`` or ``tuple[str, ...]``.
        default: Its default; ``None`` where it falls back to another key.
        description: What it means, in a sentence or two.
        secret: Whether its value must never be printed.
        project: Whether a project's own file may set it.
    """

    path: Path
    type: Any
    default: object
    description: str
    secret: bool
    project: bool
    _rule: Any = field(repr=False, compare=False)
    _extra: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its dotted name, with ``PATH`` for a name of the user's choice."""
        return _spoken(self.path)

    @property
    def is_list(self) -> bool:
        """Whether it takes a list of texts."""
        return get_origin(self.type) is tuple

    @property
    def default_text(self) -> str:
        """Its default in words or as TOML."""
        if self.default is None:
            return "as in summarize"
        shown = self._extra.get("shown")
        return str(shown) if shown else toml_value(self.default)

    @property
    def expected(self) -> str:
        """What it takes, in words."""
        if get_origin(self.type) is Literal:
            return "one of " + ", ".join(map(str, get_args(self.type)))
        if self.is_list:
            return "a list of texts"
        if self.type is bool:
            return "true or false"
        if self.type is str:
            return "a text"
        words = "a whole number" if self.type is int else "a number"
        return f"{words} from {self._bound('ge')} to {self._bound('le')}"

    def _bound(self, name: str) -> object:
        bounds = (getattr(meta, name) for meta in get_args(self._rule)[1:])
        return next((bound for bound in bounds if bound is not None), None)

    def check(self, value: object) -> str:
        """Why a value cannot be taken; empty when it can."""
        why = self._why_not(value)
        # Whatever was put in a secret's place may be the secret itself.
        return why if not why or self.secret else f"{why}, found {_shown(value)}"

    def _why_not(self, value: object) -> str:
        try:
            msgspec.convert(value, self._rule, strict=True)
        except msgspec.ValidationError:
            return f"expected {self.expected}"
        check = self._extra.get("check")
        if check is None:
            return ""
        texts = value if isinstance(value, list | tuple) else (value,)
        return next((why for text in texts if (why := str(check(text)))), "")

    def suggestion(self, value: object) -> str:
        """The allowed value that a refused one was most likely meant to be; empty if none."""
        if get_origin(self.type) is not Literal or not isinstance(value, str):
            return ""
        return next(
            iter(difflib.get_close_matches(value.lower(), get_args(self.type), 1, SIMILARITY)), ""
        )

    def usable_part(self, value: object) -> object:
        """What of a refused value is still good: the good texts of a list, else the default.

        One bad pattern in ``redact.patterns`` must not switch the others off.
        """
        if self.is_list and isinstance(value, list):
            return tuple(text for text in value if not self._why_not([text]))
        return self.default

    def settle(self, value: object) -> object:
        """A checked value in the form that the tree holds."""
        if self.is_list and isinstance(value, list):
            return tuple(value)
        return float(value) if self.type is float and isinstance(value, int) else value

    def parse(self, text: str) -> object:
        """A value from text (environment, flag, ``config set``); not yet checked.

        Lists are TOML arrays, or texts with commas between them. What does not read as the
        key's type is given back as it is, for ``check`` to refuse.
        """
        if self.type is bool:
            word = text.strip().lower()
            return True if word in YES else False if word in NO else text
        if self.type in (int, float):
            for number in (int, float)[: 1 if self.type is int else 2]:
                try:
                    return number(text)
                except ValueError:
                    continue
            return text
        if self.is_list:
            if text.lstrip().startswith("["):
                try:
                    return tomllib.loads(f"x = {text}")["x"]
                except (ValueError, RecursionError):
                    return text
            return [part.strip() for part in text.split(",") if part.strip()]
        return text


@dataclass(frozen=True, slots=True)
class Section:
    """A table of settings.

    Attributes:
        path: Its names from the top.
        description: What it is about.
        children: Its keys and sections by name; ``{"*": …}`` for names of the user's choice.
    """

    path: Path
    description: str
    children: dict[str, Key | Section]

    @property
    def name(self) -> str:
        """Its dotted name, with ``PATH`` for a name of the user's choice."""
        return _spoken(self.path)

    def child(self, name: str) -> Key | Section | None:
        """The key or section of a name."""
        return self.children.get(name) or self.children.get(ANY)


@functools.cache
def root() -> Section:
    """The whole tree."""
    return _section(Settings, Settings(), ())


def _section(struct: type[msgspec.Struct], defaults: msgspec.Struct, path: Path) -> Section:
    children: dict[str, Key | Section] = {}
    for part in msgspec.structs.fields(struct):
        name, below = part.encode_name, (*path, part.encode_name)
        default = getattr(defaults, part.name)
        if isinstance(default, msgspec.Struct):
            children[name] = _section(type(default), default, below)
        elif get_origin(part.type) is dict:
            entry = get_args(part.type)[1]
            children[name] = Section(
                below, _summary(entry), {ANY: _section(entry, entry(), (*below, ANY))}
            )
        else:
            children[name] = _key(part.type, default, below)
    return Section(path, _summary(struct), children)


def _key(annotated: Any, default: object, path: Path) -> Key:
    if get_origin(annotated) is UnionType or type(None) in get_args(annotated):
        annotated = next(arm for arm in get_args(annotated) if arm is not type(None))
    base, *metas = get_args(annotated) if get_origin(annotated) is Annotated else (annotated,)
    extra: dict[str, Any] = {}
    description = ""
    for meta in metas:
        extra |= meta.extra or {}
        description = meta.description or description
    return Key(
        path=path,
        type=base,
        default=default,
        description=description,
        secret=bool(extra.get("secret")),
        project=any(path[: len(allowed)] == allowed for allowed in PROJECT_KEYS),
        _rule=annotated,
        _extra=extra,
    )


def _summary(struct: type) -> str:
    return (struct.__doc__ or "").strip().splitlines()[0]


def walk(section: Section | None = None) -> Iterator[Key]:
    """Every key below a section (the whole tree), in the order of the schema."""
    for child in (section or root()).children.values():
        if isinstance(child, Key):
            yield child
        else:
            yield from walk(child)


def sections(section: Section | None = None) -> Iterator[Section]:
    """Every section below one (the whole tree) that holds keys, in the order of the schema."""
    for child in (section or root()).children.values():
        if isinstance(child, Section):
            if any(isinstance(below, Key) for below in child.children.values()):
                yield child
            yield from sections(child)


def find(path: Path) -> Key | Section | None:
    """The key or section of a path."""
    here: Key | Section | None = root()
    for name in path:
        if not isinstance(here, Section):
            return None
        here = here.child(name)
    return here


def nearest(path: Path) -> str:
    """The known name that a wrong one was most likely meant to be; empty when none is near."""
    here = root()
    guessed: Path = ()
    for name in path:
        child = here.child(name)
        if child is None:
            close = difflib.get_close_matches(name.lower(), here.children, 1, SIMILARITY)
            if not close:
                break
            name = close[0]
            child = here.children[name]
        guessed = (*guessed, name)
        if isinstance(child, Key):
            return dotted(guessed)
        here = child
    else:
        return dotted(guessed)
    elsewhere = [key.name for key in walk() if key.path[-1] == path[-1] and ANY not in key.path]
    if elsewhere:
        return elsewhere[0]
    names = [key.name for key in walk()] + [section.name for section in sections()]
    return next(iter(difflib.get_close_matches(dotted(path).lower(), names, 1, SIMILARITY)), "")


def parse_name(text: str) -> Path | None:
    """The path of a dotted name, with TOML's quotes; ``None`` when it is no name.

    ``projects."/home/me/my app".collection`` has three parts.
    """
    try:
        here: object = tomllib.loads(f"{text.strip()} = 0")
    except (ValueError, RecursionError):
        return None
    path: list[str] = []
    while isinstance(here, dict):
        if len(here) != 1:
            return None
        name, here = next(iter(here.items()))
        path.append(name)
    return tuple(path)


def dotted(path: Path) -> str:
    """A path as TOML writes it: the reverse of ``parse_name``."""
    return ".".join(name if _is_bare(name) else toml_value(name) for name in path)


def _spoken(path: Path) -> str:
    return dotted(tuple("PATH" if part == ANY else part for part in path))


def _is_bare(name: str) -> bool:
    return bool(name) and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)


def toml_value(value: object) -> str:
    """A value as TOML writes it, in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
        return msgspec.json.encode(value).decode("utf-8").replace("\x7f", "\\u007f")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def nest(values: Mapping[Path, object]) -> dict[str, Any]:
    """Nested tables of flat paths."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        here = tree
        for name in path[:-1]:
            here = here.setdefault(name, {})
        here[path[-1]] = value
    return tree


def build(values: Mapping[Path, object]) -> Settings:
    """The tree of checked values; what is not among them has its default."""
    return msgspec.convert(nest(values), Settings, strict=True)


def value_of(settings: Settings, path: Path) -> object:
    """The value of a key in a tree."""
    here: Any = settings
    for name in path:
        here = here[name] if isinstance(here, dict) else getattr(here, name.replace("-", "_"))
    return here


def _shown(value: object) -> str:
    """A value in an error message: short, its kind in TOML's words, and no password of a URL."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    text = toml_value(value)
    if not isinstance(value, str):
        return text
    if "@" in text:
        return "a text"
    return "the text " + (text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…")
