"""pandas put off until somebody really uses it.

pymilvus and Arrow import it for the sake of data frames, which are never given to them here: 0.3 s
of processor time for each command that opens the index, and 45 MB in each worker. While pymilvus
is imported, stand-ins take the place of pandas: classes that know real data frames, and functions
that import pandas when they are called. What asks for anything else gets the real pandas. Arrow
asks once whether there is pandas, and again when somebody wants a data frame of it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_PACKAGE, _API, _TYPES = "pandas", "pandas.api", "pandas.api.types"


class _Kind(type):
    """A class whose instances are those of the class of that name in pandas."""

    def __instancecheck__(cls, instance: object) -> bool:
        real = getattr(sys.modules.get(_PACKAGE), cls.__name__, None)
        # Without pandas there is no such object; the stand-in itself is not pandas.
        return isinstance(real, type) and real is not cls and isinstance(instance, real)


class _Package(ModuleType):
    """Stands in for ``pandas``."""

    DataFrame = _Kind("DataFrame", (), {})
    Series = _Kind("Series", (), {})

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # a package, which modules are imported from

    def __getattr__(self, name: str) -> Any:
        return getattr(_real(_PACKAGE), name)


class _Functions(ModuleType):
    """Stands in for ``pandas.api.types``: each name is a function that is looked up when called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            return getattr(_real(_TYPES), name)(*arguments, **options)

        return call


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """What is imported during the block gets stand-ins for pandas, unless it is loaded already."""
    if _PACKAGE in sys.modules:
        yield
        return
    package, api, types = _Package(_PACKAGE), ModuleType(_API), _Functions(_TYPES)
    api.__path__ = []
    stand_ins = {_PACKAGE: package, _API: api, _TYPES: types}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        _take_away(stand_ins)


def tell_arrow() -> None:
    """Let Arrow go without pandas as long as nobody wants a data frame of it."""
    import pyarrow.lib  # type: ignore[import-untyped]

    if _PACKAGE in sys.modules:
        return
    absent = _Absent(threading.get_ident())
    sys.meta_path.insert(0, absent)
    try:
        # It asks at the first value that it converts, and keeps the answer. Another version
        # may ask elsewhere: then it is as slow as it is.
        pyarrow.lib.array([None, 0.5])
    finally:
        sys.meta_path.remove(absent)


class _Absent(importlib.abc.MetaPathFinder):
    """Finds no pandas for one thread."""

    def __init__(self, thread: int) -> None:
        self._thread = thread

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == _PACKAGE and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is put off", name=fullname)


def _real(name: str) -> ModuleType:
    """The real module, imported in place of a stand-in."""
    _take_away(
        {
            name: module
            for name, module in sys.modules.items()
            if name in (_PACKAGE, _API, _TYPES)
            and (isinstance(module, (_Package, _Functions)) or getattr(module, "__path__", 0) == [])
        }
    )
    return importlib.import_module(name)


def _take_away(stand_ins: dict[str, ModuleType]) -> None:
    for name, module in stand_ins.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
