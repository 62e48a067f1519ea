"""Credentials of many kinds, each as people write it, and lines that only look like some."""

from __future__ import annotations

import itertools

import credential_forms
import pytest
from credential_kinds import CREDENTIALS, LOOK_ALIKES

from memsearch.pipeline.redact import redact

#: Characters of a secret in a row that count as a part of it.
PIECE = 8


#: How people and tools quote what they quote.
SURROUNDINGS = ("{}", "Here it is:\n{}\nThat was it.", "> {}", "\t{}\r\n")
#: The same within a line.
IN_A_LINE = (
    *("Use `{}` here", "1. {}", "({})", "密钥如下：{}。请保存", "-{}", "+{}", "> > {}"),
    *("\x1b[32m{}\x1b[0m", "<code>{}</code>", "{}, and more", "It was {}.", "{}\\"),
)


def pieces_left(secrets: tuple[str, ...], text: str) -> list[str]:
    return [
        secret
        for secret in secrets
        if any(secret[at : at + PIECE] in text for at in range(max(1, len(secret) - PIECE + 1)))
    ]


@pytest.mark.parametrize(
    ("text", "secrets"), [each[1:] for each in CREDENTIALS], ids=[each[0] for each in CREDENTIALS]
)
def test_no_piece_of_it_is_left(text: str, secrets: tuple[str, ...]) -> None:
    for around in (*SURROUNDINGS, *(() if "\n" in text else IN_A_LINE)):
        made = around.replace("{}", text)
        once = redact(made).text
        assert pieces_left(secrets, once) == []
        assert redact(once).text == once


_FORMS = {
    kind: [each[1:] for each in group]
    for kind, group in itertools.groupby(credential_forms.CREDENTIALS, key=lambda each: each[0])
}


@pytest.mark.parametrize("kind", _FORMS)
def test_no_piece_is_left_in_any_form(kind: str) -> None:
    for text, secrets in _FORMS[kind]:
        for around in (*SURROUNDINGS, *(() if "\n" in text else IN_A_LINE)):
            made = around.replace("{}", text)
            once = redact(made).text
            assert pieces_left(secrets, once) == [], made
            assert redact(once).text == once


@pytest.mark.parametrize("line", [*LOOK_ALIKES, *credential_forms.LOOK_ALIKES])
def test_it_is_left_as_it_is(line: str) -> None:
    assert redact(line).text == line


def test_they_are_left_as_they_are_together() -> None:
    for lines in (LOOK_ALIKES, credential_forms.LOOK_ALIKES):
        text = "\n".join(lines)
        assert redact(text).text == text


@pytest.mark.parametrize(
    "mark",
    ["…123 tokens truncated…", "\n... [4567 characters truncated] ...\n", "… 9 chars omitted …"],
)
def test_what_an_agent_has_torn_itself(mark: str) -> None:
    token = "ghp_" + "rT5bN8kQ2wZ7mX4cV9pL1sD6fG3hJ0yUaEiO"
    for at in range(1, len(token)):
        text = f"log in with {token[:at]}{mark}{token[at:]} as before"
        found = redact(text).text
        for rest in (token[:at], token[at:]):
            assert len(rest) < 14 or rest not in found
    for kept in (
        "the function readConfigFile",
        "4bdfc6a1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7",
        "src/a/B1/c2",
    ):
        text = f"{kept}{mark}{kept}"
        assert redact(text).text == text
