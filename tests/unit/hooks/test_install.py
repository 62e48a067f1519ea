"""Installing in files of others: merged, once, whole or not at all, and undone byte for byte."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from pathlib import Path

import pytest

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.config.paths import Home
from memsearch.hooks.install import (
    base,
    claude_code,
    codex,
    files,
    hooks_json,
    openclaw,
    run,
    tomltext,
)
from memsearch.hooks.install.files import Change
from memsearch.hooks.install.place import Place

SETTINGS = """{
\t// what I like
\t"model" :"sonnet", "env": {"A":"1",},
    "hooks": { "Stop":[ {"hooks":[{"type":"command","command":"say '\\"x\\"'"} ]} ], /* mine */
      "PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "lint"}]}] }
}"""
CODEX_HOOKS = '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}'
CODEX_CONFIG = '# mine\nmodel = "x"   # why\n\n[mcp_servers.other]\ncommand = "y"\n[tui]\na = 1'
OPENCLAW = "{ // mine\n gateway: {port: 1}, plugins: {allow: ['voice'], entries: {voice: {}}} }\n"


class User:
    """A user with settings of all agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = Place(
            Home(str(folder / "it's .memsearch")), {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        )
        self.given = {
            ".claude/settings.json": SETTINGS,
            ".claude/skills/other/SKILL.md": "mine",
            ".codex/hooks.json": CODEX_HOOKS,
            ".codex/config.toml": CODEX_CONFIG,
            ".config/opencode/opencode.json": "{}",
            ".openclaw/openclaw.json": OPENCLAW,
        }
        for name, text in self.given.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())

    def all(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    def read(self, name: str) -> str:
        return (self.folder / name).read_text("utf-8")


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "me 我")


@pytest.mark.parametrize("name", base.names())
def test_twice_is_once_and_out_again_is_byte_for_byte(user: User, name: str) -> None:
    agent = base.agent(name)
    before = user.all()
    assert run.install(agent, user.place)
    installed = user.all()
    assert run.install(agent, user.place) == []
    assert user.all() == installed
    assert agent.look(user.place).installed
    assert run.remove(agent, user.place)
    assert user.all() == before
    assert run.remove(agent, user.place) == []
    assert not agent.look(user.place).installed


def test_all_of_them_share_what_they_share(user: User) -> None:
    before = user.all()
    for name in base.names():
        run.install(base.agent(name), user.place)
    for name in base.names():
        assert os.access(user.place.launcher, os.X_OK)
        run.remove(base.agent(name), user.place)
    assert user.all() == before
    assert not os.path.exists(os.path.dirname(user.place.launcher))


@pytest.mark.parametrize("name", base.names())
def test_what_was_not_there_is_not_there_afterwards(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    place = Place(Home(str(folder / "ms")), {"HOME": str(folder), "PATH": "/usr/bin"})
    run.install(base.agent(name), place)
    run.remove(base.agent(name), place)
    assert [path for path in folder.rglob("*") if path.name != "ms"] == []


@pytest.mark.parametrize("name", base.names())
def test_a_plan_changes_nothing_and_shows_everything(user: User, name: str) -> None:
    before = user.all()
    changes = run.plan(base.agent(name), user.place)
    assert user.all() == before
    shown = "\n".join(files.difference(change) for change in changes)
    assert "+++ " in shown
    assert "memsearch" in shown
    removed = [line for line in shown.splitlines() if line.startswith("-") and line[:3] != "---"]
    for line in removed:  # a line of the user's that ours were put into
        assert any(text.startswith(line[1:].rstrip()[:12]) for text in shown.split("\n+"))


def test_the_foreign_hooks_stay_and_ours_are_beside_them(user: User) -> None:
    run.install(base.agent("claude-code"), user.place)
    text = user.read(".claude/settings.json")
    for piece in ("// what I like", "/* mine */", SETTINGS[SETTINGS.index("say ") :][:12]):
        assert piece in text
    run.install(base.agent("codex"), user.place)
    hooks = json.loads(user.read(".codex/hooks.json"))["hooks"]
    assert hooks["Stop"][0] == {"hooks": [{"type": "command", "command": "say done"}]}
    assert len(hooks["Stop"]) == 2
    values = tomllib.loads(user.read(".codex/config.toml"))
    assert set(values["mcp_servers"]) == {"other", "memsearch"}
    assert user.read(".codex/config.toml").startswith(CODEX_CONFIG)


def test_what_was_changed_since_stays_when_ours_goes(user: User) -> None:
    for name in base.names():
        run.install(base.agent(name), user.place)
    hooks = user.folder / ".codex" / "hooks.json"
    changed = json.loads(hooks.read_text())
    changed["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "later"}]})
    # An agent writes its files in its own way.
    hooks.write_text(json.dumps(changed, indent=4))
    config = user.folder / ".codex" / "config.toml"
    config.write_text(config.read_text() + '\n[hooks.state."x"]\ntrusted_hash = "1"\n')
    state = user.folder / ".openclaw" / "openclaw.json"
    state.write_text(state.read_text().replace("// mine", "// mine, later"))
    settings = user.folder / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace("sonnet", "opus"))
    for name in base.names():
        run.remove(base.agent(name), user.place)
    assert json.loads(hooks.read_text()) == {
        "hooks": {
            "Stop": [
                {"hooks": [{"type": "command", "command": "say done"}]},
                {"hooks": [{"type": "command", "command": "later"}]},
            ]
        }
    }
    values = tomllib.loads(config.read_text())
    assert set(values["mcp_servers"]) == {"other"}
    assert values["hooks"]["state"] == {"x": {"trusted_hash": "1"}}
    assert "# why" in config.read_text()
    assert state.read_text() == OPENCLAW.replace("// mine", "// mine, later")
    assert settings.read_text() == SETTINGS.replace("sonnet", "opus")


def test_an_update_replaces_ours(user: User) -> None:
    agent = base.agent("claude-code")
    before = user.all()
    run.install(agent, user.place)
    skill = user.folder / ".claude" / "skills" / "memory-recall" / "SKILL.md"
    path = files.record_path(user.place.home, agent.NAME)
    record = files.load(path)
    skill.write_text("of an older version")
    record.files[str(skill)] = (None, files.digest(skill.read_bytes()))
    Path(path).write_bytes(files.dump(record))
    assert [change.path for change in run.install(agent, user.place)] == [str(skill)]
    run.remove(agent, user.place)
    assert user.all() == before


def with_program(user: User, name: str, script: str) -> Place:
    """An agent's program on the PATH that answers as a release of it does."""
    folder = user.folder / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Place(user.place.home, {**user.place.environ, "PATH": f"{folder}:/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("features", "fault", "trusted"),
    [
        ("shell_tool stable true", "has no hooks", None),
        ("exit 2", "has no hooks", None),
        ("codex_hooks  under development  false", "switched off", None),
        ("codex_hooks  stable  true", "", None),
        ("hooks  stable  false", "switched off", False),
        ("hooks  stable  true", "", False),
    ],
)
def test_what_a_release_of_codex_lacks_is_told(
    user: User, features: str, fault: str, trusted: bool | None
) -> None:
    answers = features if features.startswith("exit") else f"echo '{features}'"
    script = (
        f'[ "$1" = --version ] && echo codex-cli 0.1.2 && exit\n[ "$1" = features ] && {answers}'
    )
    place = with_program(user, "codex", script)
    agent = base.agent("codex")
    assert agent.look(place).faults == ()
    run.install(agent, place)
    found = agent.look(place)
    told = [each.what for each in found.faults if not each.expected]
    assert len(told) == bool(fault)
    assert all(fault in what for what in told)
    assert found.trusted is trusted


def test_codex_never_asks_to_trust_a_hook_that_it_does_not_know(user: User) -> None:
    agent = base.agent("codex")
    run.install(agent, user.place)
    hooks = user.folder / ".codex" / "hooks.json"
    config = user.folder / ".codex" / "config.toml"
    known = {"SessionStart", "UserPromptSubmit", "Stop"}
    assert agent.look(user.place).trusted is False
    for key, event in codex.keys(str(hooks), hooks.read_bytes()).items():
        if event in known:
            with config.open("a", encoding="utf-8") as file:
                file.write(f'\n[hooks.state.{json.dumps(key)}]\ntrusted_hash = "x"\n')
    found = agent.look(user.place)
    assert (found.faults, found.trusted) == ((), True)
    assert "trust" not in found.next


@pytest.mark.parametrize(
    ("version", "fault"), [("1.0.60", True), ("1.0.85", False), ("2.1.332", False), ("?", False)]
)
def test_a_claude_code_that_is_too_old_is_told(user: User, version: str, fault: bool) -> None:
    place = with_program(user, "claude", f"echo '{version} (Claude Code)'")
    agent = base.agent("claude-code")
    assert agent.look(place).faults == ()
    run.install(agent, place)
    assert [version in each.what for each in agent.look(place).faults] == [True] * fault


def test_a_record_that_is_lost_is_no_disaster(user: User) -> None:
    agent = base.agent("claude-code")
    run.install(agent, user.place)
    os.unlink(files.record_path(user.place.home, agent.NAME))
    assert run.install(agent, user.place) == []
    os.unlink(files.record_path(user.place.home, agent.NAME))
    run.remove(agent, user.place)
    assert user.read(".claude/settings.json") == SETTINGS


@pytest.mark.parametrize(
    ("name", "file", "text", "reason"),
    [
        ("claude-code", ".claude/settings.json", '{"hooks": {', "line 1"),
        ("claude-code", ".claude/settings.json", '{"hooks": []}', "hooks is no object"),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": {}}}', "no list"),
        ("claude-code", ".claude/settings.json", "\xff", "not UTF-8"),
        ("codex", ".codex/config.toml", "[x\n", "no TOML"),
        ("codex", ".codex/config.toml", "mcp_servers = {}\n", "mcp_servers"),
        ("codex", ".codex/config.toml", "[mcp_servers.memsearch]\ncommand = 'x'\n", "else"),
        ("openclaw", ".openclaw/openclaw.json", "{plugins: 1}", "plugins is no object"),
    ],
)
def test_what_cannot_be_merged_is_named_and_left_alone(
    user: User, name: str, file: str, text: str, reason: str
) -> None:
    (user.folder / file).write_bytes(text.encode("latin-1"))
    before = user.all()
    with pytest.raises(MemsearchError, match=reason) as caught:
        run.install(base.agent(name), user.place)
    assert os.path.basename(file) in caught.value.message
    assert user.all() == before


def test_an_interrupted_write_leaves_the_old_file(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file cannot be written: it is as it was, and doing it again makes it good."""
    before = user.all()
    agent = base.agent("codex")
    real = files.write_atomic

    def failing(path: str, data: bytes, mode: int = 0o600) -> None:
        if path.endswith("config.toml"):
            raise OSError(28, "No space left on device")
        real(path, data, mode)

    monkeypatch.setattr(files, "write_atomic", failing)
    with pytest.raises(MemsearchError, match="No space left") as caught:
        run.install(agent, user.place)
    assert caught.value.kind is ErrorClass.DISK_FULL
    assert user.read(".codex/config.toml") == CODEX_CONFIG
    monkeypatch.setattr(files, "write_atomic", real)
    run.install(agent, user.place)
    run.remove(agent, user.place)
    assert user.all() == before


def test_a_link_stays_a_link_and_a_mode_a_mode(user: User) -> None:
    settings = user.folder / ".claude" / "settings.json"
    dotfiles = user.folder / "dotfiles.json"
    settings.rename(dotfiles)
    settings.symlink_to(dotfiles)
    dotfiles.chmod(0o640)
    agent = base.agent("claude-code")
    run.install(agent, user.place)
    assert settings.is_symlink()
    assert dotfiles.stat().st_mode & 0o777 == 0o640
    run.remove(agent, user.place)
    assert dotfiles.read_text() == SETTINGS


def test_a_foreign_file_in_our_place_comes_back(user: User) -> None:
    skill = user.folder / ".claude" / "skills" / "memory-recall" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text("a skill of mine")
    run.install(base.agent("claude-code"), user.place)
    assert skill.read_text() != "a skill of mine"
    run.remove(base.agent("claude-code"), user.place)
    assert skill.read_text() == "a skill of mine"


def test_the_record_is_for_its_owner_alone(user: User) -> None:
    run.install(base.agent("codex"), user.place)
    path = files.record_path(user.place.home, "codex")
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_hook_of_ours_in_a_group_of_others_is_cut_out() -> None:
    commands = [{"command": name} for name in ("a", "ours", "b")]
    text = json.dumps({"hooks": {"Stop": [{"hooks": commands}]}})
    left = hooks_json.without(text, lambda command: command == "ours")
    assert json.loads(left)["hooks"]["Stop"] == [{"hooks": [{"command": "a"}, {"command": "b"}]}]
    assert hooks_json.without("no json", lambda _command: True) == "no json"


def test_codex_has_to_trust_the_hooks(user: User) -> None:
    agent = base.agent("codex")
    run.install(agent, user.place)
    found = agent.look(user.place)
    assert found.trusted is False
    assert any("not trusted" in fault.what for fault in found.faults)
    hooks = os.path.realpath(user.folder / ".codex" / "hooks.json")
    events = json.loads(user.read(".codex/hooks.json"))["hooks"]
    with (user.folder / ".codex" / "config.toml").open("a", encoding="utf-8") as file:
        for event in events:
            snake = {"SessionStart": "session_start", "UserPromptSubmit": "user_prompt_submit"}
            snake |= {"PreCompact": "pre_compact", "SessionEnd": "session_end"}
            place = f"{hooks}:{snake.get(event, event.lower())}:{len(events[event]) - 1}:0"
            file.write(f"\n[hooks.state.{json.dumps(place)}]\ntrusted_hash = 'sha256:x'\n")
    found = agent.look(user.place)
    assert (found.trusted, found.faults) == (True, ())


def test_codexs_plugin_is_seen(user: User) -> None:
    config = user.folder / ".codex" / "config.toml"
    config.write_text(CODEX_CONFIG + '\n[plugins."memsearch@memsearch"]\nenabled = true\n')
    found = base.agent("codex").look(user.place)
    assert (found.installed, found.trusted) == (True, False)
    run.install(base.agent("codex"), user.place)
    found = base.agent("codex").look(user.place)
    assert any("installed twice" in fault.what for fault in found.faults)


@pytest.mark.parametrize(
    ("version", "written_by", "allowed"),
    [
        ("2026.4.22", "", False),  # refuses a configuration with the setting, and does not start
        ("2026.4.23", "", True),
        ("2026.4.9", "2026.9.6", False),
        ("2027.1.1-beta.2", "2026.4.9", True),
        ("of no number", "2026.4.22", False),
        ("", "2026.4.22", False),
        ("", "2026.8.1", True),
        ("", "", True),
    ],
)
def test_openclaw_gets_no_setting_that_it_does_not_know(
    user: User, version: str, written_by: str, allowed: bool
) -> None:
    place = with_program(user, "openclaw", f"echo 'OpenClaw {version} (1c0672b)'")
    place = place if version else user.place
    path = user.folder / ".openclaw" / "openclaw.json"
    given = {"meta": {"lastTouchedVersion": written_by}} if written_by else {"gateway": {}}
    path.write_text(json.dumps(given), encoding="utf-8")
    before = path.read_bytes()
    run.install(base.agent("openclaw"), place)
    entry = json.loads(path.read_text("utf-8"))["plugins"]["entries"]["memsearch"]
    assert entry == ({**openclaw.ENTRY} if allowed else {"enabled": True})
    assert openclaw.look(place).faults == ()
    run.remove(base.agent("openclaw"), place)
    assert path.read_bytes() == before


def test_another_release_of_openclaw_is_told_and_made_good(user: User) -> None:
    agent, place = base.agent("openclaw"), user.place
    for version, fault in (
        ("2026.4.22", "refuses its configuration for allowConversationAccess"),
        ("2026.9.6", "may not see the conversation"),
    ):
        run.install(agent, place)
        place = with_program(user, "openclaw", f"echo 'OpenClaw {version}'")
        (found,) = agent.look(place).faults
        assert fault in found.what
        assert found.next_step == "memsearch install openclaw"
    run.install(agent, place)
    assert agent.look(place).faults == ()


def test_a_release_of_openclaw_that_brings_in_no_notes_is_told(user: User) -> None:
    place = with_program(user, "openclaw", "echo 2026.2.21")
    run.install(base.agent("openclaw"), place)
    (found,) = base.agent("openclaw").look(place).faults
    assert "lets no plugin bring in the recent notes" in found.what


def test_a_release_of_opencode_that_brings_in_no_notes_is_told(user: User) -> None:
    agent = base.agent("opencode")
    run.install(agent, user.place)
    (found,) = agent.look(with_program(user, "opencode", "echo 1.0.98")).faults
    assert "lets no plugin bring in the recent notes" in found.what
    assert agent.look(with_program(user, "opencode", "echo 1.0.162")).faults == ()
    assert agent.look(with_program(user, "opencode", "exit 1")).faults == ()


def test_openclaws_own_list_of_plugins_is_kept(user: User) -> None:
    run.install(base.agent("openclaw"), user.place)
    found = openclaw.look(user.place)
    assert (found.installed, found.faults) == (True, ())
    assert '"memsearch"' in user.read(".openclaw/openclaw.json")
    assert "'voice'" in user.read(".openclaw/openclaw.json")


def test_a_path_cannot_break_out_of_what_it_is_written_into(tmp_path: Path) -> None:
    place = Place(Home(str(tmp_path / "a'b \"$(x)`y`\\z 我")), {"HOME": str(tmp_path), "PATH": ""})
    for name in base.names():
        for edit in base.agent(name).edits(place):
            text = edit.add(None).decode("utf-8")
            if edit.path.endswith(".json"):
                json.loads(text)
            elif edit.path.endswith(".toml"):
                assert tomllib.loads(text)["mcp_servers"]["memsearch"]["command"] == place.launcher
            elif edit.path.endswith("memsearch.js") or edit.path.endswith("index.js"):
                (line,) = [line for line in text.splitlines() if line.startswith("const LAUNCHER")]
                assert json.loads(line.partition("=")[2]) == place.launcher


@pytest.mark.parametrize(
    "text",
    ["", "\n", "a = 1", "a = 1\n", "[x]\r\na = 1\r\n", "[mcp_servers.a]\nb = 1\n\n# end"],
)
def test_a_table_is_added_at_the_end_and_taken_out(text: str) -> None:
    made = tomltext.append_table(text, ("mcp_servers", "m"), {"command": "x y", "args": ["a"]})
    assert made.startswith(text)
    assert tomllib.loads(made)["mcp_servers"]["m"] == {"command": "x y", "args": ["a"]}
    left = tomltext.remove_table(made, ("mcp_servers", "m"))
    assert tomllib.loads(left).get("mcp_servers", {}).keys() == (
        tomllib.loads(text).get("mcp_servers", {}).keys()
    )
    assert left.rstrip().startswith(text.rstrip())


def test_a_change_says_whether_it_is_one() -> None:
    assert not Change("/x", b"a", b"a").needed
    assert Change("/x", None, b"").needed


@pytest.mark.parametrize(
    ("version", "listed"), [("2.1.119", False), ("2.1.150", True), ("2.1.332", True), ("?", True)]
)
def test_claude_code_gets_arguments_as_it_takes_them(
    user: User, version: str, listed: bool
) -> None:
    """Releases that take no list have a shell read the command, in which our path is quoted."""
    agent, before = base.agent("claude-code"), user.all()
    place = with_program(user, "claude", f"echo '{version} (Claude Code)'")
    settings = user.folder / ".claude" / "settings.json"
    run.install(agent, user.place)
    run.install(agent, place)
    text = settings.read_text()
    for group in claude_code.groups(place).values():
        (hook,) = group["hooks"]  # type: ignore[misc]
        words = [hook["command"], *hook["args"]] if listed else shlex.split(hook["command"])
        assert words[0] == place.launcher
        assert words[1] in {"context", "hint", "permit", "enqueue"}
        assert json.dumps(hook["command"], ensure_ascii=False) in text
    assert text.count('"args"') == 6 * listed
    run.install(agent, user.place)
    assert settings.read_text().count('"args"') == 6
    run.remove(agent, place)
    (user.folder / "bin" / "claude").unlink()
    (user.folder / "bin").rmdir()
    assert user.all() == before
