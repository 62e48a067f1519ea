"""Which mistakes of a configuration hold a stage up."""

from __future__ import annotations

import pytest

from memsearch.config.paths import Home
from memsearch.config.settings import load
from memsearch.pipeline.rules import doubt


@pytest.mark.parametrize(
    ("text", "capture", "summarize"),
    [
        ("[search]\ntop_k = 3\n", False, False),
        ("[serch]\ntop_k = 3\n", False, False),
        ("[embedding]\nprovider = 'nobody'\n", False, False),
        ("[search\n", True, True),
        ("\xff", True, True),
        ("[redact]\npatterns = 'ACME-\\\\d+'\n", True, True),
        ("[redact]\npatterns = ['ACME-(']\n", True, True),
        ("[redact]\npattern = ['ACME-[0-9]{4}']\n", True, True),
        ("[redcat]\npatterns = ['ACME-[0-9]{4}']\n", True, True),
        ("[capture]\nexclude = 3\n", True, False),
        ("[capture]\nexclud = ['/w/secret']\n", True, False),
        ("[summarize]\nprovider = 'extractiv'\n", False, True),
        ("[budget]\ndaily_tokens = 'few'\n", False, True),
    ],
)
def test_what_is_wrong_with_a_rule_holds_up_who_obeys_it(
    tmp_path, text: str, capture: bool, summarize: bool
) -> None:
    home = Home(str(tmp_path))
    (tmp_path / "config.toml").write_bytes(text.encode("latin-1"))
    problems = load(home, None, environ={}, strict=False).problems
    assert (doubt(problems, "capture") is not None) is capture
    assert (doubt(problems, "summarize") is not None) is summarize


def test_a_projects_own_file_may_switch_capture_off_and_counts_too(tmp_path) -> None:
    home = Home(str(tmp_path / "home"))
    (tmp_path / ".memsearch.toml").write_text("[capture]\nenabled = 'no\n", encoding="utf-8")
    problems = load(home, str(tmp_path), environ={}, strict=False).problems
    assert doubt(problems, "capture") is not None
    # What it may not set is ignored with a warning, which holds nothing up.
    (tmp_path / ".memsearch.toml").write_text("[redact]\nallow = ['.+']\n", encoding="utf-8")
    problems = load(home, str(tmp_path), environ={}, strict=False).problems
    assert problems
    assert doubt(problems, "capture") is None
