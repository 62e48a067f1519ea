"""Values that stand near a word for a secret, in prose, tables and programs. Pure.

"The password for the db is …", ``setPassword("…")``, ``| Password | … |``: nothing binds the
value to the word as ``name = value`` does. So only a value that can hardly be anything else is
taken: one that mixes letters, digits and signs as a password does, or that was drawn by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memsearch.pipeline.secrets_values import entropy, is_code, is_mixed, is_placeholder

#: Characters behind a word for a password in which a password is looked for, and lines.
PASSWORD_REACH = 80
PASSWORD_LINES = 2
#: The same for other secrets. What stands between is looked at as well.
TOKEN_REACH = 48

#: Words for a password, lower case.
PASSWORD_WORDS = (
    *("passw", "passphrase", "passcode", "pass", "pwd", "creds", "credential", "securestring"),
    *("basicauth", "basic_auth", "bindpw", "rootpw", "masterauth", "psk", "identified"),
    *("secretstr", "add-mask", "net user", "enable secret", "server community", "login", "log in"),
    *("logged in", "getconnection", "mysqli_connect", "mysql_connect", "new pdo", "wifi.begin"),
    *("db.auth", "jdbc:oracle:thin:", "sqlplus ", "> auth ", "pragma key", " key '", "kinit"),
    # Options of commands, and what is handed to one.
    *(" -p ", " -u ", " -n '", ' -n "', "/p:", "--user ", "<<<", "rabbitmqctl", "secret create"),
    *("qpdf", "비번"),
    *("passwort", "kennwort", "contraseña", "mot de passe", "senha", "wachtwoord", "parola"),
    *("hasło", "heslo", "mật khẩu", "şifre", "lösenord", "salasana", "jelszó", "kata sandi"),
    *("пароль", "पासवर्ड", "كلمة المرور", "סיסמה", "รหัสผ่าน", "パスワード", "暗証番号"),
    *("비밀번호", "암호", "密码", "密碼", "口令", "授权码", "授權碼"),
)
#: Words for another secret, lower case.
TOKEN_WORDS = (
    *("api key", "api-key", "api_key", "apikey", "access key", "access-key", "access_key"),
    *("secret", "token", "bearer", "cookie", "private key", "oauth", "--value "),
    *(" login ", " auth ", "http-basic", "nuget push", "gem push", "supabase link", "<<< "),
    *("password", "passwd", "session=", "sessionid=", ".sid=", "auth=", "hmac="),
    *("密钥", "密鑰", "金鑰", "秘钥", "私钥", "令牌", "權杖", "凭证", "apiキー", "アクセスキー"),
    *(
        "トークン",
        "シークレット",
        "秘密鍵",
        "api 키",
        "토큰",
        "비밀키",
        "clé d'api",
        "chave de api",
    ),
)

#: What ends a value: blanks, quotes, brackets, and the signs and letters of Chinese and others.
_EDGES = (
    "\\s\"'`()\\[\\]{}|<>,;:=/\\\\，。；：！？、（）「」『』“”‘’【】《》…—–→"
    "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
)
_PASSWORD = re.compile(rf"(?<![^{_EDGES}])(?:(?![{_EDGES}])[!-~]){{8,64}}+(?=[{_EDGES}]|\Z)")
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9+/_.-])[A-Za-z0-9+/_-]{20,200}+={0,2}(?![A-Za-z0-9+/=_-]|\.[A-Za-z0-9])"
)
#: What may not stand between a word for a secret and the value: what is public by its name.
_NOT_BETWEEN = re.compile(
    r"(?:\b|_)(?:ids?|uuid|guid|hash|sha\d*|digest|checksum|etag|cursor|request|commit|version|image"
    r"|integrity|file|path|url|public|name|fingerprint|module|class|func|function|import|test)\b|\bssh-",
    re.IGNORECASE,
)
_NO_PASSWORD = re.compile(
    r"a-z|A-Z|0-9|&&|\|\||\+\+|->|\.\.|%[0-9a-fA-F]{2}|\$[A-Z_]{3}|^[$@%&~^?*!]"
    r"|@\^?~?v?\d|@[\w-]+\.[A-Za-z]|\.(?:js|ts|py|md|json|ya?ml|html?|css|go|rs|java|txt|png|svg)$"
)
#: Ids that services show in public.
_PUBLIC_ID = re.compile(
    r"[a-z]{2,8}_01|(?:[A-Za-z]{2,12}-)?(?:msg|toolu|req|resp|call|chatcmpl|run|thread|asst|file|cus|price|prod|evt"
    r"|pi|sub|in|ch|acct|user|org|proj|team|pk_live|pk_test|sha\d*|ssh|ecdsa)[_-]"
)


def near(lower: str, text: str) -> Iterator[tuple[int, int, bool, int]]:
    """Where such values stand: from, to, whether of a password, and where the word stands.

    Args:
        lower: ``text`` in lower case, of the same length.
        text: What is looked through.
    """
    for words, reach, find in (
        (PASSWORD_WORDS, PASSWORD_REACH, _passwords),
        (TOKEN_WORDS, TOKEN_REACH, _tokens),
    ):
        for word in words:
            at = lower.find(word)
            while at >= 0:
                since = at + len(word)
                for start, end in find(text, since, min(len(text), since + reach)):
                    yield start, end, find is _passwords, at
                at = lower.find(word, since)
    yield from ((start, end, True, start) for start, end in _named_behind(lower, text))


_AS_PASSWORD = re.compile(
    r"[\"'`]? as (?:(?:the|my|a|your|our|its|his|her) )?(?:[\w-]{1,20} )?"
    r"(?:password|passphrase|pwd)\b"
)


def _named_behind(lower: str, text: str) -> Iterator[tuple[int, int]]:
    """ "use … as the password"."""
    at = lower.find(" as ")
    while at >= 0:
        begin = at - 1 if text[at - 1 : at] in ("'", '"', "`") else at
        if _AS_PASSWORD.match(lower, begin):
            floor = max(0, begin - 64)
            start = max((text.rfind(char, floor, begin) for char in " \t\n\"'`"), default=-1) + 1
            if start > floor and is_plain_password(text[start:begin], quoted=begin != at):
                yield start, begin
        at = lower.find(" as ", at + 4)


def _passwords(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    breaks = 0
    stop = start
    while stop < end:
        if text[stop] == "\n":
            breaks += 1
            if breaks > PASSWORD_LINES:
                break
        stop += 1
    for match in _PASSWORD.finditer(text, start, min(len(text), stop + 64)):
        if match.start() >= stop:
            return
        value = match[0].strip("*_~").rstrip(".?")
        begin = match.start() + match[0].index(value) if value else match.start()
        quoted = text[begin - 1 : begin] in ("'", '"', "`")
        strict = "\n" in text[start:begin]
        if is_plain_password(value, quoted=quoted and not strict, strict=strict):
            yield begin, match.end()


def is_plain_password(value: str, *, quoted: bool = False, strict: bool = False) -> bool:
    """Whether a value can hardly be anything else than a password.

    Args:
        value: It, without quotes.
        quoted: It stands in quotes, so one without a sign is taken too.
        strict: It stands on another line than the word for it: every class of characters.
    """
    upper = sum(char.isupper() for char in value)
    lower = sum(char.islower() for char in value)
    digits = sum(char.isdigit() for char in value)
    if len(value) < 8 or not digits or upper + lower < 2:
        return False
    if is_placeholder(value) or is_code(value) or _NO_PASSWORD.search(value):
        return False
    # At its end a sign may be the sentence's.
    inside = value[1:] if digits >= 3 and upper and lower else value[1:-1]
    signs = {char for char in inside if char in "!@#$%^&*?~+"}
    if upper and lower and signs - {"#", "$"}:
        return True
    if "!" in signs and not strict:
        return True
    return quoted and not strict and len(value) <= 40 and value.isalnum() and is_mixed(value, 2, 2)


def _tokens(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    match = _TOKEN.search(text, start, min(len(text), end + 210))
    if match is None or match.start() > end:
        return
    if (
        _NOT_BETWEEN.search(text, start, match.start())
        or text.count("\n", start, match.start()) > 2
    ):
        return
    if is_plain_token(match[0]):
        yield match.span()


def is_plain_token(value: str) -> bool:
    """Whether a value was drawn by chance from letters of both cases and digits."""
    body = value.rstrip("=")
    if is_placeholder(value) or _PUBLIC_ID.match(value):
        return False
    if "/" in value and any(len(part) > 3 and part.isalpha() for part in value.split("/")):
        return False
    return is_mixed(body, 3, 2) and entropy(body) >= 3.6
