"""The JavaScript that OpenCode's and OpenClaw's plugins share, in a real Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ASSETS = Path(__file__).resolve().parent.parent.parent.parent / "hooks" / "assets"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")

SCRIPT = """
import { readFileSync } from "node:fs"
import { connect, tools } from %s
const told = []
const memsearch = connect(process.argv[1], "opencode", (words) => told.push(words))
const given = JSON.parse(readFileSync(0, "utf8"))
const result = await memsearch[given.name](...given.arguments)
console.log(JSON.stringify({ result: result ?? null, told, tools: Object.keys(tools) }))
"""


def call(launcher: Path | str, name: str, *arguments: object, **environ: str) -> dict[str, Any]:
    """One call of the bridge."""
    assert NODE is not None
    script = SCRIPT % json.dumps((ASSETS / "bridge" / "bridge.js").as_uri())
    given = json.dumps({"name": name, "arguments": arguments})
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script, str(launcher)],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environ},
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """A stand-in that repeats its arguments and its input; its path is an awkward one."""
    path = tmp_path / 'it\'s "a" $(path) 我.sh'
    path.write_text('#!/bin/sh\nprintf "[%s]" "$@"\ncat\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def test_arguments_are_a_list_and_the_rest_is_json_on_standard_input(launcher: Path) -> None:
    asked = {"query": 'a\'b "c" $(touch x); `y`\n项'}
    found = call(launcher, "call", "memory_search", asked, "/w")
    head, _, rest = found["result"].partition("{")
    assert head == "[tool][memory_search]"
    assert json.loads("{" + rest) == {"cwd": "/w", "arguments": asked}
    found = call(launcher, "context", {"session_id": "s"})
    assert found["result"].startswith("[context][--platform][opencode][--format][text]{")
    assert found["told"] == []
    assert found["tools"] == ["memory_search", "memory_get", "memory_transcript"]


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho no >&2\nexit 1\n", None])
def test_what_fails_is_told_and_breaks_nothing(tmp_path: Path, text: str | None) -> None:
    launcher = tmp_path / "memsearch.sh"
    if text is not None:
        launcher.write_text(text)
        launcher.chmod(0o755)
    payload = {"session_id": "s", "last_assistant_message": "x" * 1_000_000}
    enqueued = call(launcher, "enqueue", payload)
    assert len(enqueued["told"]) == 1
    assert call(launcher, "context", payload)["result"] == ""
    answer = call(launcher, "call", "memory_search", {"query": "x"}, "/w")["result"]
    assert answer.startswith("error: memsearch does not answer")


def test_the_real_memsearch_at_the_other_end(tmp_path: Path) -> None:
    launcher = tmp_path / "memsearch.sh"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m memsearch._entry "$@"\n')
    launcher.chmod(0o755)
    home = {"MEMSEARCH_HOME": str(tmp_path / "home")}
    payload = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": "session.idle"}
    assert call(launcher, "enqueue", payload, **home)["told"] == []
    assert (tmp_path / "home" / "state.db").exists()
    wrong = call(launcher, "call", "memory_search", {"q": "x"}, str(tmp_path), **home)
    assert wrong["result"].startswith("error: memory_search takes no 'q'")


@pytest.mark.parametrize("name", ["opencode/memsearch.js", "openclaw/index.js"])
def test_the_plugins_are_whole_modules(tmp_path: Path, name: str) -> None:
    assert NODE is not None
    text = (ASSETS / name).read_text("utf-8").replace("@LAUNCHER_JSON@", '"/x"')
    (tmp_path / "memsearch").mkdir()
    (tmp_path / "plugin").mkdir()
    for folder in ("memsearch", "plugin"):
        shutil.copy(ASSETS / "bridge" / "bridge.js", tmp_path / folder)
        shutil.copy(ASSETS / "bridge" / "tools.json", tmp_path / folder)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "plugin" / "plugin.js").write_text(text, encoding="utf-8")
    script = f"console.log(Object.keys(await import('{(tmp_path / 'plugin/plugin.js').as_uri()}')))"
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    # OpenCode takes every export for a plugin.
    assert done.stdout.strip() in ("[ 'MemSearch' ]", "[ 'default' ]")


def test_without_its_package_opencode_gets_schemas_that_it_can_take(tmp_path: Path) -> None:
    """Releases to 1.14 hand each argument to Zod, and every turn fails where it is none."""
    assert NODE is not None
    for folder in ("memsearch", "plugin"):
        (tmp_path / folder).mkdir()
    for name in ("bridge.js", "tools.json"):
        shutil.copy(ASSETS / "bridge" / name, tmp_path / "memsearch")
    text = (ASSETS / "opencode" / "memsearch.js").read_text("utf-8")
    plugin = tmp_path / "plugin" / "memsearch.mjs"
    plugin.write_text(text.replace("@LAUNCHER_JSON@", '"/x"'), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    script = f"""
      const {{ MemSearch }} = await import('{plugin.as_uri()}')
      const {{ tool }} = await MemSearch({{ client: {{}}, directory: "/" }})
      const said = {{}}
      for (const [name, {{ args }}] of Object.entries(tool))
        for (const [key, {{ _zod }}] of Object.entries(args))
          said[`${{name}}.${{key}}`] = [_zod.traits.has("$ZodType"), _zod.def.type, _zod.optin,
            _zod.optout, _zod.toJSONSchema().type, _zod.run({{ value: 1 }}).value]
      console.log(JSON.stringify(said))"""
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    assert said["memory_search.query"] == [True, "string", None, None, "string", 1]
    assert said["memory_search.top_k"] == [True, "number", "optional", "optional", "integer", 1]
    assert said["memory_search.all_projects"][1:4] == ["boolean", "optional", "optional"]
    assert all(each[0] for each in said.values())
