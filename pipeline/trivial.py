"""Which turns are not worth a note. Pure, apart from ``agent_files``.

The rule errs on the side of keeping: a one-line question with a one-line answer is a real
turn. Skipped is only what cannot be searched for later: an acknowledgement, a greeting, a
heartbeat, an echo of the project's standing instructions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from memsearch.pipeline.summarizers.words import columns
from memsearch.sources.base import Turn

#: Columns of the user's text up to which it can be an acknowledgement (Han counts two).
MAX_ACK_COLUMNS = 32
#: Columns of the reply, on one line, up to which a turn of an acknowledgement is trivial.
MAX_REPLY_COLUMNS = 160
#: The same for a "yes", "no" or "2": it may decide something, so the reply that restates
#: the decision is kept.
MAX_CONFIRMED_REPLY_COLUMNS = 24
#: Characters of the user's text up to which an echoed instruction file is no real answer.
MAX_ECHO_ASK_CHARS = 200
#: Share of the reply's lines that stand in an instruction file, from which it is an echo.
ECHO_SHARE = 0.8
#: Files that agents read at their start.
AGENT_FILE_NAMES = (
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    "HEARTBEAT.md",
    "SOUL.md",
    "IDENTITY.md",
    "USER.md",
    "TOOLS.md",
    "BOOTSTRAP.md",
)
#: Bytes of one such file that are read.
MAX_AGENT_FILE_BYTES = 64_000

#: Whole replies by which an agent says that there was nothing to do.
_SILENT_REPLIES = frozenset({"heartbeat_ok", "no_reply"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ACKS = _words(
    """ok okay okey okie k kk good great nice cool fine perfect awesome super thanks thank thx
    ty you very much cheers got it understood alright right sure done continue proceed go on
    ahead please pls carry lgtm hi hello hey there morning evening bye goodbye test testing
    ping nvm never mind nothing
    好 好的 好了 好吧 好呀 好啊 嗯 嗯嗯 哦 噢 行 行吧 可以 可以的 可以了 谢谢 谢谢你 多谢 感谢
    辛苦了 收到 明白 明白了 知道了 了解 了解了 没问题 继续 请继续 继续吧 完成 完成了 不错
    很好 太好了 你好 您好 在吗 早上好 晚上好 再见 测试 没事 没事了 算了"""
)
_CONFIRMS = _words(
    """yes yeah yep yup y no nope n both neither agreed correct exactly
    是 是的 对 对的 不 不是 不用 不要 不行 同意 没错 都要 都行"""
)

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[㐀-䶿一-鿿]")


def is_trivial(turn: Turn, agent_texts: Iterable[str] = ()) -> str | None:
    """Why a turn makes no entry; None when it makes one.

    Args:
        turn: A turn, redacted or not.
        agent_texts: The instruction files of the project, from ``agent_files``.

    Returns:
        ``empty`` (nobody said or did anything), ``heartbeat``, ``acknowledgement`` (at most
        ``MAX_ACK_COLUMNS`` columns of nothing but such words, no tool, a reply of one line
        with at most ``MAX_REPLY_COLUMNS`` columns) or ``echo`` (a short message, no tool, and
        a reply taken from an instruction file).
    """
    asked = "\n".join(item.text for item in turn.items if item.kind == "user").strip()
    said = [item.text.strip() for item in turn.items if item.kind == "assistant"]
    reply = "\n".join(text for text in said if text)
    tools = any(item.kind == "tool" for item in turn.items)
    if not asked and not reply and not tools:
        return "empty"
    if _bare(said[-1] if said else "") in _SILENT_REPLIES:
        return "heartbeat"
    if tools or not asked:
        return None
    if (kind := _acknowledges(asked)) is not None:
        bound = MAX_REPLY_COLUMNS if kind == "ack" else MAX_CONFIRMED_REPLY_COLUMNS
        if "\n" not in reply and columns(reply[: bound + 1]) <= bound:
            return "acknowledgement"
    if len(asked) <= MAX_ECHO_ASK_CHARS and reply and _echoes(reply, agent_texts):
        return "echo"
    return None


def _bare(text: str) -> str:
    return text.strip(" \t\r\n*_`\"'.!()[]").casefold()


def _acknowledges(text: str) -> str | None:
    """``ack`` or ``confirm`` when a text holds nothing else, else None."""
    if columns(text[: MAX_ACK_COLUMNS + 1]) > MAX_ACK_COLUMNS or "\n" in text:
        return None
    words = [word.casefold() for word in _WORD.findall(text)]
    if not words:
        return None if "[" in text else "ack"  # "👍", "...", but "[image]" has a word anyway
    kind = "ack"
    for word in words:
        if word in _ACKS:
            continue
        if word in _CONFIRMS or word.isdecimal() or _choice(word):
            kind = "confirm"
            continue
        return None
    return kind


def _choice(word: str) -> bool:
    """A single Latin letter, as in "option B" answered by "B"."""
    return len(word) == 1 and not _CJK.match(word)


def _echoes(reply: str, agent_texts: Iterable[str]) -> bool:
    known = {_line(line) for text in agent_texts for line in text.splitlines()}
    known.discard("")
    lines = [line for line in map(_line, reply.splitlines()) if line]
    if not known or not lines:
        return False
    return sum(line in known for line in lines) >= ECHO_SHARE * len(lines)


def _line(text: str) -> str:
    return text.strip(" \t>*-#`")


def agent_files(cwd: str | None) -> tuple[str, ...]:
    """The texts of the instruction files in a folder, bounded; those that cannot be read
    are left out, since the rule only loses a reason to skip."""
    if cwd is None:
        return ()
    texts = []
    for name in AGENT_FILE_NAMES:
        try:
            with open(os.path.join(cwd, name), "rb") as file:
                texts.append(file.read(MAX_AGENT_FILE_BYTES).decode("utf-8", "replace"))
        except OSError:
            continue
    return tuple(texts)
