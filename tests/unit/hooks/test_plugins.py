"""The plugins in the repository: whole, of one version, and the same as what is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memsearch import __version__, tools
from memsearch.hooks.install import claude_code, codex
from memsearch.hooks.permit import COMMANDS

ROOT = Path(__file__).resolve().parent.parent.parent.parent
ASSETS = ROOT / "hooks" / "assets"
#: What runs before memsearch is set up, and for which events.
CODEX_LAUNCHER = '"${CLAUDE_PLUGIN_ROOT}/hooks/assets/memsearch.sh"'


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_every_plugin_has_the_packages_version() -> None:
    for path in (
        ROOT / ".claude-plugin" / "plugin.json",
        ROOT / ".codex-plugin" / "plugin.json",
        ASSETS / "openclaw" / "openclaw.plugin.json",
        ASSETS / "openclaw" / "package.json",
    ):
        assert read(path)["version"] == __version__, path


def test_what_a_plugin_names_is_there() -> None:
    for folder in (".claude-plugin", ".codex-plugin"):
        manifest = read(ROOT / folder / "plugin.json")
        for key in ("hooks", "skills", "mcpServers"):
            assert key not in manifest or (ROOT / manifest[key]).exists()
    for market in (".claude-plugin", ".agents/plugins"):
        (plugin,) = read(ROOT / market / "marketplace.json")["plugins"]
        assert plugin["name"] == "memsearch"


def test_claude_codes_hooks_run_no_shell() -> None:
    hooks = read(ASSETS / "claude-code" / "hooks.json")["hooks"]
    for event, groups in hooks.items():
        for group in groups:
            for hook in group["hooks"]:
                assert hook["command"] == "${CLAUDE_PLUGIN_ROOT}/hooks/assets/memsearch.sh"
                assert isinstance(hook["args"], list), event
    assert claude_code.OWN == "memsearch@memsearch"


def test_codexs_plugin_is_what_is_installed() -> None:
    installed = (ASSETS / "codex" / "hooks.json").read_text("utf-8")
    escaped = json.dumps(CODEX_LAUNCHER)[1:-1]
    assert read(ASSETS / "codex" / "plugin" / "hooks.json") == json.loads(
        installed.replace("@LAUNCHER@", escaped)
    )
    skill = (ASSETS / "skill" / "SKILL.md").read_text("utf-8")
    plugin = ASSETS / "codex" / "plugin" / "skills" / "memory-recall" / "SKILL.md"
    expected = skill.replace("@LAUNCHER@", "sh ~/.memsearch/agents/memsearch.sh")
    assert plugin.read_text("utf-8") == expected
    assert codex.PLUGIN == "memsearch@memsearch"


def test_the_skills_name_tools_and_commands_that_there_are() -> None:
    shared = (ASSETS / "skill" / "SKILL.md").read_text("utf-8")
    for name in tools.tools():
        assert f"`{name}`" in shared
    own = (ASSETS / "claude-code" / "skills" / "memory-recall" / "SKILL.md").read_text("utf-8")
    lines = [
        line.split('memsearch.sh" ')[1] for line in own.splitlines() if 'memsearch.sh" ' in line
    ]
    assert {line.split()[0] for line in lines} <= COMMANDS
    contracts = read(ASSETS / "openclaw" / "openclaw.plugin.json")["contracts"]["tools"]
    assert contracts == list(tools.tools())
