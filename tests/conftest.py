"""What several floors of the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# A loaded machine is no fault of the code: what a test costs is counted, not timed.
hypothesis.settings.register_profile(
    "memsearch", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("memsearch")

#: Variables that would let a test depend on, or reach into, what the user of this machine has.
_USERS_OWN = (
    "ANTHROPIC_API_KEY",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENCLAW_HOME",
    "OPENCLAW_STATE_DIR",
    "OPENCODE_DB",
    "XDG_DATA_HOME",
)


@pytest.fixture(autouse=True)
def own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every test has a MEMSEARCH_HOME and a HOME of its own, and none of the user's settings."""
    for name in list(os.environ):
        if name.startswith("MEMSEARCH_") or name in _USERS_OWN:
            monkeypatch.delenv(name)
    # A child that is started here must not take the folder memsearch/ for the package.
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    folder = tmp_path_factory.mktemp("own")
    (folder / "user").mkdir()
    monkeypatch.setenv("HOME", str(folder / "user"))
    monkeypatch.setenv("MEMSEARCH_HOME", str(folder / "home"))
    # A search starts a worker for the next one; tests that want one say so.
    monkeypatch.setenv("MEMSEARCH_WORKERS__AUTOSTART", "false")


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models for the whole run: the built-in model is converted into it once."""
    from memsearch.sinks.embedders import e5_graph
    from memsearch.sinks.embedders.e5_weights import Weights

    folder = tmp_path_factory.mktemp("models")
    weights = Weights()
    e5_graph.ensure(str(folder), weights)
    weights.close()
    return folder
