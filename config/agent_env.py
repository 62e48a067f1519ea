"""The environment without what describes one agent session.

Hooks inherit the agent's environment. What they start outlives the session (a worker) or is
an agent of its own (a summariser), so it must not carry the session's ids, sockets and
tokens. What the user configured (keys, endpoints, proxies, cloud logins) has to stay, or an
agent that works in the terminal would be logged out in the background.

Part of the hook's path: it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # annotations only, never run
    from collections.abc import Mapping

#: Variables that every agent-independent part of a session sets.
_SESSION_NAMES = frozenset({"AI_AGENT", "MEMSEARCH_DIR", "MEMSEARCH_INTERNAL"})

#: Beginnings of the variables that an agent gives to its hooks and tools.
_SESSION_PREFIXES = ("CLAUDE", "CODEX_", "OPENCODE", "OPENCLAW_")

#: Of those, what a user sets. Claude Code sets several hundred ``CLAUDE_CODE_*`` variables
#: for its own children, more with each release: what is kept is named, not what is dropped.
_USER_NAMES = frozenset(
    {
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_CERT_STORE",
        "CLAUDE_CODE_CUSTOM_OAUTH_URL",
        "CLAUDE_CODE_EXTRA_BODY",
        "CLAUDE_CODE_GIT_BASH_PATH",
        "CLAUDE_CODE_MANAGED_SETTINGS_PATH",
        "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
        "CLAUDE_CODE_OAUTH_SCOPES",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_TMPDIR",
        "CODEX_API_KEY",
        "CODEX_CA_CERTIFICATE",
        "CODEX_HOME",
        "CODEX_SQLITE_HOME",
        "OPENCLAW_CONFIG_PATH",
        "OPENCLAW_HOME",
        "OPENCLAW_PROFILE",
        "OPENCLAW_STATE_DIR",
        "OPENCODE_API_KEY",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_CONTENT",
        "OPENCODE_CONFIG_DIR",
        "OPENCODE_DB",
    }
)

#: Families of the same: cloud providers, their logins, client certificates, proxies.
_USER_PREFIXES = (
    "CLAUDE_CODE_API_",
    "CLAUDE_CODE_CLIENT_",
    "CLAUDE_CODE_DISABLE_",
    "CLAUDE_CODE_GATEWAY_",
    "CLAUDE_CODE_HTTP",
    "CLAUDE_CODE_MAX_",
    "CLAUDE_CODE_PROXY_",
    "CLAUDE_CODE_SKIP_",
    "CLAUDE_CODE_USE_",
    "OPENCODE_DISABLE_",
)

#: A number of an open file of the session: worthless in another process.
_DESCRIPTOR_SUFFIX = "_FILE_DESCRIPTOR"


def belongs_to_session(name: str) -> bool:
    """Whether a variable describes an agent's session and not its user's configuration."""
    if name in _SESSION_NAMES:
        return True
    if not name.startswith(_SESSION_PREFIXES):
        return False
    if name.endswith(_DESCRIPTOR_SUFFIX):
        return True
    return name not in _USER_NAMES and not name.startswith(_USER_PREFIXES)


def without_session(environ: Mapping[str, str]) -> dict[str, str]:
    """A copy of ``environ`` without the variables of an agent's session."""
    return {name: value for name, value in environ.items() if not belongs_to_session(name)}
