from __future__ import annotations

import subprocess
import sys

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.sources import registry


def test_every_platform_has_its_source() -> None:
    for name in registry.platforms():
        source = registry.get(name)
        assert source.platform == name
        assert source.display_name
        assert registry.get(name) is source


@pytest.mark.parametrize("name", ["", "claude", "../x", "Claude-Code"])
def test_an_unknown_platform_is_named_with_those_that_are_known(name: str) -> None:
    with pytest.raises(MemsearchError) as caught:
        registry.get(name)
    assert caught.value.kind is ErrorClass.CONFIG
    assert repr(name) in caught.value.message
    assert "claude-code" in caught.value.hint


def test_asking_for_the_names_imports_no_source() -> None:
    code = (
        "import sys; from memsearch.sources.registry import platforms; platforms();"
        "print([m for m in sys.modules if m.startswith('memsearch.sources.claude')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
