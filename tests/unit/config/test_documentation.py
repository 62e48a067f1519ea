"""``docs/configuration.md`` says what the settings are, no more and no less."""

from __future__ import annotations

from pathlib import Path

from memsearch.config import keys
from memsearch.config.foreign import FOREIGN
from memsearch.config.keys import Key

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def row(key: Key) -> str:
    """A key's row in the document's tables."""
    default = key.default_text
    if default[0] in '"[' or default in ("true", "false") or default.isdigit():
        default = f"`{default}`"
    project = "yes" if key.project else "no"
    return f"| `{key.name}` | {key.expected} | {default} | {key.description} | {project} |"


def test_the_tables_are_the_settings() -> None:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    reference = lines[lines.index("## Every setting") :]
    rows = [line for line in reference if line.startswith("| `")]
    by_agent = ("summarize", "platforms")
    assert rows == [row(key) for key in keys.walk() if key.path[:2] != by_agent]


def test_the_sections_and_agents_are_named() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for section in keys.sections():
        if section.path[:2] == ("summarize", "platforms"):
            assert f"`{section.name}.*`" in text
        else:
            assert f"\n### `{section.name}`\n" in text


def test_the_other_tools_keys_are_named() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").replace("compact.llm_*", "compact.llm_provider")
    for path in FOREIGN:
        name = keys.dotted(path).replace("llm_model", "llm_provider")
        assert f"`{name}`" in text
