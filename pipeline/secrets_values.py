"""Whether a value is a secret, given how it is called and how it stands. Pure predicates.

They lean to taking out: a password that stays is worse than a word that goes. But a memory
full of holes is no memory, so what is plainly code, prose, a variable, a path or a public
hash stays.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter

_PLACEHOLDER = re.compile(
    r"(?:"
    r"\$.*|<.*|\{.*|%[(\w{].*|&lt;.*|@[\w.{(].*|#\{.*|!\w.*"  # variables, templates, tags
    r"|env[:.].*|os\.environ.*|process\.env.*|secrets?\..*|vault:.*|arn:.*|op://.*|file:.*"
    r"|https?://[^@]*"
    r"|:[a-z]+:.*|:?\\?[*xX.\-_•●?#]+"  # masked
    r"|(?:my|your|the|some|an?)[-_ ].*|.*[-_ ]here"
    r"|(?:.*[-_])?(?:example|sample|dummy|fake|placeholder|changeme|change[-_]me|redacted|todo|insert|replace)"
    r"(?:[-_].*)?"
    r")",
    re.IGNORECASE | re.DOTALL,
)
_MARKS = re.compile(r"\[redacted:[\w-]+\]")

#: Values that stand after "password:" and the like in code, forms and prose.
PROSE_WORDS = frozenset(
    """
    any array auto bad basic bearer blank bool boolean bytes byte changed char class const
    correct credential credentials current current-password custom default def del deleted
    disabled dict empty enabled env error expected expired export fail failed false field file float
    for forgot from function get given got has hidden if import in incorrect incorrectly input int
    integer invalid is key let list login long masked missing must name never new
    new-password nil no none not null nullable number object off ok on one-time-code optional
    optional option or pass passed passphrase password passwd plain prompt protected public
    private random read readonly required reset return rotated same secret self set short
    show shown standard static str string stored supersecret text this to token true type
    undefined unique unknown unset update updated user username uuid value values var varchar
    void was weak with wrong yes
    """.split()
)

_IDENTIFIER_PATH = re.compile(r"\$?[A-Za-z_]\w*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+")
_CODE = re.compile(r"\$?[A-Za-z_][\w.:>-]*(?:\(|\[|\{|<[A-Za-z]|!\.|\?\.|=>)|[(\[{]")
#: A name of several words: ``TokenEndpointAuth``, ``_ACCESS_KEY``.
_NAME = re.compile(
    r"_{0,2}(?:[a-z]+(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+){2,}|[A-Z]+(?:_[A-Z]+)+|[a-z]+\d?(?:_[a-z]+\d?)+)"
)
_LETTERS = re.compile(r"[A-Za-z_]+")
_COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}")
#: What no token is made of; a regular expression or code is.
_NO_TOKEN_CHAR = re.compile(r"[\s()\[\]{}<>\\|^\"'`]")
_WORDY = re.compile(r"[A-Za-z]+(?:[-_./: ][A-Za-z]+)*")
_HAN = re.compile(r"[㐀-鿿]")


#: No name in code holds so many.
MANY_DIGITS = 8


def is_placeholder(value: str) -> bool:
    """Whether a value stands for a secret and is none: a variable, a mask, an example."""
    rest = _MARKS.sub("", value)
    if rest != value:
        return len(rest) < 4
    return _PLACEHOLDER.fullmatch(value) is not None


def entropy(text: str) -> float:
    """Shannon entropy of the characters of ``text``, in bits for each."""
    if not text:
        return 0.0
    total = len(text)
    return -sum(n / total * math.log2(n / total) for n in Counter(text).values())


def looks_random(value: str) -> bool:
    """Whether a value was made by a machine: letters mixed with digits, or no word at all."""
    digits = sum(char.isdigit() for char in value)
    letters = sum(char.isalpha() for char in value)
    if digits and letters:
        return True
    if _WORDY.fullmatch(value) and (value.islower() or value.isupper() or value.istitle()):
        return False
    if "/" in value and all(_WORDY.fullmatch(part) for part in value.split("/") if part):
        return False
    return len(value) >= 16 and entropy(value) >= 3.5


def is_password(
    value: str, *, quoted: bool, env_line: bool = False, spaced: bool = False, after: str = " "
) -> bool:
    """Whether the value of a name like ``password`` is one.

    Args:
        value: The value without quotes.
        quoted: It stood in quotes.
        env_line: It stood in a line of the form ``NAME=value``.
        spaced: A ``=`` with blanks around it, or a blank alone, led to it.
        after: The character behind it.
    """
    if len(value) < 4 or is_placeholder(value) or value.lower() in PROSE_WORDS:
        return False
    if _HAN.search(value):
        return False  # a label: "password": "请输入密码"
    if value.startswith(("/", "./", "../", "~/")):
        return False  # $PWD, or the file that holds it
    if quoted:
        return not any(char.isspace() for char in value)
    if env_line:
        return True
    if is_code(value) or after in "([{" or _named_like_a_secret(value):
        return False
    if not _LETTERS.fullmatch(value):
        return True
    # Letters alone are a word of a configuration file or a name in code, which is told by
    # the blanks and marks around it.
    return not spaced and after not in ",);.?" and not _NAME.fullmatch(value)


def is_token(value: str, *, quoted: bool, env_line: bool = False, after: str = " ") -> bool:
    """Whether the value of a name like ``api_key`` is a secret; arguments as above."""
    if len(value) < 6 or is_placeholder(value) or value.lower() in PROSE_WORDS:
        return False
    if _HAN.search(value) or _NO_TOKEN_CHAR.search(value) or _COLOUR.fullmatch(value):
        return False
    if value.startswith(("/", "./", "../", "~/")) and not value.endswith("="):
        return False
    if is_code(value) and sum(char.isdigit() for char in value) < MANY_DIGITS:
        return False
    if re.fullmatch(r"[\d.,_:x-]+", value):
        return False  # a number, a version, a time
    if not quoted and (after in "([{" or _named_like_a_secret(value)):
        return False
    if env_line and len(value) >= 8:
        return not re.fullmatch(r"[\w-]+(?:/[\w.-]+)+", value) or looks_random(value)
    if len(value) < 8:
        return any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return looks_random(value) and not _NAME.fullmatch(value)


def is_code(value: str) -> bool:
    """Whether a value is a piece of a program: ``settings.api_key``, ``get(``."""
    return _IDENTIFIER_PATH.fullmatch(value) is not None or _CODE.match(value) is not None


def _named_like_a_secret(value: str) -> bool:
    """A variable that holds a secret: ``dbPassword``, ``access_token2``."""
    return (
        re.fullmatch(
            r"[A-Za-z_]*(?:pass(?:word|wd)?|pwd|secret|token|key|credential)s?\d?", value, re.I
        )
        is not None
    )


#: Names whose values are random and public.
_PUBLIC_NAME = re.compile(
    r"(?:^|[_.-])(?:integrity|sha\d*|h1|shasum|hash|digest|checksum|crc|md5|etag|fingerprint|commit"
    r"|rev|revision|ref|id|ids|uuid|guid|image|images|img|data|src|href|url|uri|path|file"
    r"|cert|certificate|ca|public|pub|signature|font|svg|icon|content|body|text|blob"
    r"|version|resolved|cursor|class|name|classname|mappings|code|model|package|key_?id"
    r"|base64_?\w*|anchor|session|turn|title|query|pattern|regex|format|type|label|slug|branch|tag)$",
    re.IGNORECASE,
)
#: Beginnings of well-known files in base64, and of hashes in lock files.
_PUBLIC_VALUE = re.compile(
    r"sha(?:1|256|384|512)[-:=]|iVBOR|/9j/|R0lGOD|UklGR|PHN2Zy|AAABAA|JVBERi|d09GM|T1RUTw|UEsDB"
    r"|AAAAHGZ0|SUkq|Qk[01]|TVqQ|f0VMR|H4sI|LS0tLS1CRUdJTiBDRVJU|ssh-"
)


def is_high_entropy(name: str, value: str) -> bool:
    """Whether a value is a secret though its name does not say so.

    With care: upper and lower case and several digits mixed all through, more than 4.2 bits
    a character, no path, no hash, no identifier, and no name under which random values are
    public.
    """
    if _PUBLIC_NAME.search(_snake(name)) or _PUBLIC_VALUE.match(value) or is_placeholder(value):
        return False
    if value.startswith(("_Z", "__Z")):
        return False  # a mangled name of C++
    if "/" in value and any(len(part) > 3 and part.isalpha() for part in value.split("/")):
        return False
    body = value.rstrip("=")
    return is_mixed(body) and entropy(body) >= 4.2


def is_mixed(value: str, letters: int = 4, digits: int = 4) -> bool:
    """Whether both cases and digits are mixed all through, as where chance has drawn them.

    Args:
        value: What is looked at.
        letters: The least number of each case.
        digits: The least number of digits.
    """
    kinds = [_class(char) for char in value]
    if min(kinds.count(0), kinds.count(1)) < letters or kinds.count(2) < digits:
        return False
    # Words joined into an identifier keep their case for long; random text changes it.
    return sum(a != b for a, b in itertools.pairwise(kinds)) >= len(value) * 0.4


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def _class(char: str) -> int:
    return 0 if char.islower() else 1 if char.isupper() else 2 if char.isdigit() else 3
