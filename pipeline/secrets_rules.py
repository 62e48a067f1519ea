"""What a secret looks like: the table behind ``redact``. Pure data and small predicates.

Every pattern runs in linear time: each repeat is bounded, a long run is entered once only
(a lookbehind refuses to start in its middle), and no repeat stands inside another that could
match the same text. The formats of provider tokens are those that the providers document or
register with secret scanners; each has a fixed text (``needles``) that is looked for first.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

#: Longest secret of one line, in characters. What is longer is a blob.
MAX_SECRET_CHARS = 500


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret.

    Attributes:
        kind: Its name in ``[redacted:kind]``.
        needles: Fixed texts, lower case; where none is in the text the pattern is not run.
        pattern: Finds it; the group ``secret`` is what is taken out, else the whole match.
        accept: Says of a match's secret whether it is one; None takes all.
    """

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Callable[[str], bool] | None = None


def _token(kind: str, needle: str, pattern: str) -> Rule:
    """A token with a fixed beginning, which does not start inside a word."""
    return Rule(kind, (needle.lower(),), re.compile(rf"(?<![A-Za-z0-9]){pattern}"))


# ------------------------------------------------------------------- what is no secret

_PLACEHOLDER = re.compile(
    r"(?:"
    r"\$.*|<.*|\{.*|%[(\w{].*|&lt;.*|@[\w.{(].*|#\{.*|!\w.*"  # variables, templates, tags
    r"|env[:.].*|os\.environ.*|process\.env.*|secrets?\..*|vault:.*|arn:.*|op://.*|file:.*"
    r"|https?://[^@]*"
    r"|\\?[*xX.\-_•●?#]+"  # masked
    r"|(?:my|your|the|some|an?)[-_ ].*|.*[-_ ]here"
    r"|(?:.*[-_])?(?:example|sample|dummy|fake|placeholder|changeme|change[-_]me|redacted|todo|insert|replace)"
    r"(?:[-_].*)?"
    r")",
    re.IGNORECASE | re.DOTALL,
)
_MARKS = re.compile(r"\[redacted:[\w-]+\]")

#: Values that stand after "password:" and the like in code, forms and prose.
_WORDS = frozenset(
    """
    any array auto bad basic bearer blank bool boolean bytes byte changed char class const
    correct credential credentials current current-password custom default def del deleted
    disabled dict empty enabled env error expired export fail failed false field file float
    for forgot from function get has hidden if import in incorrect incorrectly input int
    integer invalid is key let list login long masked missing must name never new
    new-password nil no none not null nullable number object off ok on one-time-code optional
    optional option or pass passed passphrase password passwd plain prompt protected public
    private random read readonly required reset return rotated same secret self set short
    show shown standard static str string stored supersecret text this to token true type
    undefined unique unknown unset update updated user username uuid value values var varchar
    void was weak with wrong yes
    """.split()
)

_IDENTIFIER_PATH = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+")
_CODE = re.compile(r"[A-Za-z_][\w.]*(?:\(|\[|\{|<[A-Za-z]|!\.|\?\.|=>)")
_WORDY = re.compile(r"[A-Za-z]+(?:[-_./: ][A-Za-z]+)*")
_HAN = re.compile(r"[㐀-鿿]")


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


def is_password(value: str, *, quoted: bool, env_line: bool, after: str) -> bool:
    """Whether the value of a name like ``password`` is one.

    Args:
        value: The value without quotes.
        quoted: It stood in quotes.
        env_line: It stood in a line of the form ``NAME=value``.
        after: The character behind it.
    """
    if len(value) < 4 or is_placeholder(value) or value.lower() in _WORDS:
        return False
    if _HAN.search(value):
        return False  # a label: "password": "请输入密码"
    if quoted:
        return not any(char.isspace() for char in value)
    if env_line:
        return not value.startswith(("/", "./", "~/"))
    if _IDENTIFIER_PATH.fullmatch(value) or _CODE.match(value) or after in "([{":
        return False
    if re.search(r"[^A-Za-z_]", value):
        return not _named_like_a_secret(value)
    # Letters alone: a word of a configuration file, or an identifier in code.
    return after not in ",);.?" and "_" not in value and not _named_like_a_secret(value)


def is_token(value: str, *, quoted: bool, env_line: bool, after: str) -> bool:
    """Whether the value of a name like ``api_key`` is a secret; arguments as above."""
    if len(value) < 6 or is_placeholder(value) or value.lower() in _WORDS:
        return False
    if _HAN.search(value) or any(char.isspace() for char in value):
        return False
    if value.startswith(("/", "./", "../", "~/")) and not value.endswith("="):
        return False
    if _IDENTIFIER_PATH.fullmatch(value) or _CODE.match(value):
        return False
    if re.fullmatch(r"[\d.,_:x-]+", value):
        return False  # a number, a version, a time
    if not quoted and (after in "([{" or _named_like_a_secret(value)):
        return False
    if env_line and len(value) >= 8:
        return not re.fullmatch(r"[\w-]+(?:/[\w.-]+)+", value) or looks_random(value)
    if len(value) < 8:
        return any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return looks_random(value)


def _named_like_a_secret(value: str) -> bool:
    """A variable that holds a secret: ``dbPassword``, ``access_token2``."""
    return (
        re.fullmatch(r"[A-Za-z_]*(?:pass(?:word|wd)?|pwd|secret|token|key)s?\d?", value, re.I)
        is not None
    )


#: Names whose values are random and public.
_PUBLIC_NAME = re.compile(
    r"(?:^|[_.-])(?:integrity|sha\d*|shasum|hash|digest|checksum|crc|md5|etag|fingerprint|commit"
    r"|rev|revision|ref|id|ids|uuid|guid|image|images|img|data|src|href|url|uri|path|file"
    r"|cert|certificate|ca|public|pub|signature|font|svg|icon|content|body|text|base64|blob"
    r"|version|resolved|cursor|class|name|classname|mappings|code|model|package|key_?id"
    r"|anchor|session|turn|title|query|pattern|regex|format|type|label|slug|branch|tag)$",
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
    if "/" in value and any(len(part) > 3 and part.isalpha() for part in value.split("/")):
        return False
    body = value.rstrip("=")
    upper = sum(char.isupper() for char in body)
    lower = sum(char.islower() for char in body)
    digits = sum(char.isdigit() for char in body)
    if min(upper, lower) < 4 or digits < 4:
        return False
    # Words joined into an identifier keep their case for long; random text changes it.
    changes = sum(_class(a) != _class(b) for a, b in itertools.pairwise(body))
    return changes >= len(body) * 0.4 and entropy(body) >= 4.2


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def _class(char: str) -> int:
    return 0 if char.islower() else 1 if char.isupper() else 2 if char.isdigit() else 3


def _not_placeholder(value: str) -> bool:
    return not is_placeholder(value)


def _credential(value: str) -> bool:
    """A value behind ``Authorization:`` or ``Bearer``, as against prose about it."""
    return not is_placeholder(value) and value.lower() not in _WORDS and looks_random(value)


def _url_password(value: str) -> bool:
    # "redis://host:6379/0?x=@y" is a port and a path.
    return not is_placeholder(value) and not re.match(r"\d{2,5}[/?]", value)


def _login(value: str) -> bool:
    """A password behind ``-u user:`` or ``-p``; a number is a user or port id."""
    return len(value) >= 4 and not value.isdigit() and not is_placeholder(value)


# ------------------------------------------------------------------------- the patterns

#: Tokens of services, told by their own form.
TOKENS: tuple[Rule, ...] = (
    Rule(
        "aws-access-key",
        ("akia", "asia", "abia", "acca"),
        re.compile(r"(?<![A-Za-z0-9+/])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9+/])"),
    ),
    Rule(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,300}"),
    ),
    Rule(
        "gitlab-token",
        ("gl",),
        re.compile(
            r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|rtr|ptt|ft|soat|agent|cbt|oas|imt|ffct)"
            r"-[A-Za-z0-9_.-]{16,300}"
        ),
    ),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,300}"),
    _token("openrouter-key", "sk-or-", r"sk-or-[A-Za-z0-9_-]{16,300}"),
    Rule(
        "openai-key",
        ("sk-",),
        re.compile(
            r"(?<![A-Za-z0-9])sk-(?:(?:proj|svcacct|admin|None|service|lf)-[A-Za-z0-9_-]{20,300}"
            r"|[A-Za-z0-9]{20,300})"
        ),
        lambda value: any(char.isdigit() for char in value),
    ),
    _token("google-api-key", "aiza", r"AIza[A-Za-z0-9_-]{35}"),
    _token("google-oauth", "gocspx-", r"GOCSPX-[A-Za-z0-9_-]{20,40}"),
    _token("google-oauth", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,500}"),
    _token("google-oauth", "1//0", r"1//0[A-Za-z0-9_-]{30,200}"),
    Rule(
        "slack-token",
        ("xox", "xapp-"),
        re.compile(r"(?<![A-Za-z0-9])(?:xox[abceoprs]|xapp|xoxe\.xox[bp])-[A-Za-z0-9-]{10,300}"),
    ),
    Rule(
        "webhook",
        ("hooks.slack.com/", "/api/webhooks/", ".webhook.office.com/", "hooks.zapier.com/"),
        re.compile(
            r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/"
            r"|discord(?:app)?\.com/api/webhooks/|\.webhook\.office\.com/webhookb2/"
            r"|hooks\.zapier\.com/hooks/catch/)(?P<secret>[\w@/.-]{16,300})"
        ),
    ),
    Rule(
        "stripe-key",
        ("_live_", "_test_"),
        re.compile(r"(?<![A-Za-z0-9])(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,250}"),
    ),
    _token("webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,200}"),
    _token("twilio-key", "sk", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("sendgrid-key", "sg.", r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}"),
    _token("mailgun-key", "key-", r"key-[0-9a-f]{32}(?![0-9A-Za-z])"),
    Rule(
        "mailchimp-key",
        ("-us",),
        re.compile(r"(?<![A-Za-z0-9])[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    ),
    _token("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("pypi-token", "pypi-", r"pypi-[A-Za-z0-9_-]{50,400}"),
    _token("rubygems-key", "rubygems_", r"rubygems_[0-9a-f]{40,64}"),
    _token("crates-token", "cio", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _token("docker-token", "dckr_", r"dckr_[po]at_[A-Za-z0-9_-]{20,100}"),
    _token("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,100}"),
    _token("replicate-token", "r8_", r"r8_[A-Za-z0-9]{30,60}"),
    _token("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{40,100}"),
    _token("xai-key", "xai-", r"xai-[A-Za-z0-9]{60,120}"),
    _token("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,100}"),
    _token("tavily-key", "tvly-", r"tvly-[A-Za-z0-9-]{24,100}"),
    Rule(
        "telegram-token",
        (":aa",),
        re.compile(r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
    ),
    Rule(
        "discord-token",
        (".",),
        re.compile(
            r"(?<![A-Za-z0-9_.-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"
            r"(?![A-Za-z0-9_.-])"
        ),
        lambda value: any(char.isdigit() for char in value) and looks_random(value),
    ),
    Rule(
        "digitalocean-token",
        ("_v1_",),
        re.compile(r"(?<![A-Za-z0-9])do[opr]_v1_[0-9a-f]{40,64}"),
    ),
    Rule(
        "shopify-token",
        ("shpat_", "shpca_", "shppa_", "shpss_"),
        re.compile(r"(?<![A-Za-z0-9])shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ),
    _token("square-token", "sq0", r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,60}"),
    _token("heroku-key", "hrku-", r"HRKU-[A-Za-z0-9_-]{30,100}"),
    _token("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?(?![0-9A-Za-z])"),
    _token("linear-key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,80}"),
    _token("notion-token", "ntn_", r"ntn_[A-Za-z0-9]{40,60}"),
    _token("notion-token", "secret_", r"secret_[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
    _token("figma-token", "figd_", r"figd_[A-Za-z0-9_-]{30,80}"),
    _token("airtable-token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _token("atlassian-token", "atatt3", r"ATATT3[A-Za-z0-9_=-]{50,300}"),
    _token("bitbucket-token", "atbb", r"ATBB[A-Za-z0-9]{28,40}(?![A-Za-z0-9])"),
    Rule(
        "azure-secret",
        ("q~",),
        re.compile(
            r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"
        ),
    ),
    Rule(
        "grafana-token",
        ("glsa_", "glc_"),
        re.compile(
            r"(?<![A-Za-z0-9])(?:glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/=]{32,300})"
        ),
    ),
    _token("newrelic-key", "nr", r"NR(?:AK|JS|II|AA)-[A-Za-z0-9]{20,60}"),
    _token("sentry-token", "sntry", r"sntry[su]_[A-Za-z0-9+/=_-]{40,400}"),
    _token("postman-key", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _token("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,80}"),
    Rule(
        "vault-token",
        ("hvs.", "hvb.", "hvr."),
        re.compile(r"(?<![A-Za-z0-9])hv[sbr]\.[A-Za-z0-9_-]{20,300}"),
    ),
    Rule(
        "terraform-token",
        (".atlasv1.",),
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}"),
    ),
    Rule(
        "supabase-key",
        ("sbp_", "sb_secret_"),
        re.compile(r"(?<![A-Za-z0-9])(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,60})"),
    ),
    _token("netlify-token", "nfp_", r"nfp_[A-Za-z0-9]{36,60}"),
    _token("fly-token", "flyv1", r"FlyV1 fm\d[A-Za-z0-9_=,+/-]{40,500}"),
    _token("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,100}"),
    _token("tailscale-key", "tskey-", r"tskey-[a-z]{2,12}-[A-Za-z0-9-]{16,100}"),
    _token("cloudflare-key", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    _token("circleci-token", "ccipat_", r"CCIPAT_[A-Za-z0-9_]{40,100}"),
    _token("buildkite-token", "bk", r"bk(?:ua|at|ct)_[0-9a-f]{40}"),
    _token("pulumi-token", "pul-", r"pul-[0-9a-f]{40}"),
    Rule(
        "sonar-token",
        ("sqp_", "squ_", "sqa_"),
        re.compile(r"(?<![A-Za-z0-9])sq[pua]_[0-9a-f]{40}"),
    ),
    _token("contentful-token", "cfpat-", r"CFPAT-[A-Za-z0-9_-]{40,60}"),
    _token("jfrog-key", "akcp", r"AKCp[A-Za-z0-9]{60,80}"),
    _token("nuget-key", "oy2", r"oy2[a-z0-9]{43}(?![A-Za-z0-9])"),
    _token("tencent-key", "akid", r"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _token("alibaba-key", "ltai", r"LTAI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    _token("age-key", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _token("onepassword-token", "ops_ey", r"ops_ey[A-Za-z0-9_=-]{60,500}"),
    Rule(
        "jwt",
        ("eyj",),
        re.compile(
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,8000}"
            r"(?:\.[A-Za-z0-9_-]{0,4000}){0,3}"
        ),
    ),
)

#: Secrets told by what stands around them.
CONTEXTS: tuple[Rule, ...] = (
    Rule(
        "url-password",
        ("://",),
        re.compile(r"://[^\s/:@\"'<>\\`]{0,100}:(?P<secret>[^\s/\"'<>\\`]{1,200})@(?=[\w\[.-])"),
        _url_password,
    ),
    Rule(
        "url-password",
        ("sql", "mongo", "redis", "amqp", "maria", "clickhouse"),
        re.compile(
            r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|clickhouse)"
            r"(?:\+\w{1,20})?://[^\s/:@\"'<>\\`]{0,100}:(?P<secret>[^\s@\"'<>\\`]{1,200})@(?=[\w\[.-])",
            re.IGNORECASE,
        ),
        _url_password,
    ),
    Rule(
        "authorization",
        ("authorization",),
        re.compile(
            r"authorization\\?[\"']?\]?\s{0,4}[:=,]\s{0,4}(?:[fbr]?\\?[\"'`])?"
            r"(?:(?:Bearer|Basic|Token|ApiKey|Api-Key|Key|Digest|Negotiate|NTLM|OAuth|GoogleLogin)\s{1,4})?"
            r"(?P<secret>[^\s\"'`,;\\]{6,4000})",
            re.IGNORECASE,
        ),
        _credential,
    ),
    Rule(
        "authorization",
        ("bearer",),
        re.compile(
            r"(?<![\w-])bearer\s{1,4}(?P<secret>[A-Za-z0-9_.~+/=-]{16,4000})", re.IGNORECASE
        ),
        _credential,
    ),
    Rule(
        "authorization",
        ("basic ",),
        re.compile(r"(?<![\w-])Basic (?P<secret>[A-Za-z0-9+/]{12,400}={0,2})(?![\w=])"),
        lambda value: (looks_random(value) and not value.isalpha()) or value.endswith("="),
    ),
    Rule(
        "signature",
        ("signature=", "sig="),
        re.compile(
            r"(?:(?<=[?&;])sig|X-Amz-Signature|(?<![\w-])Signature)="
            r"(?P<secret>[A-Za-z0-9%+/=_-]{32,300})",
            re.IGNORECASE,
        ),
        _not_placeholder,
    ),
    Rule(
        "cookie",
        ("cookie",),
        re.compile(
            r"(?<![\w-])(?:set-)?cookie\\?[\"']?\s{0,4}[:,]\s{0,4}\\?[\"']?"
            r"(?P<secret>[\w!#$%&*+.^|~-]{1,100}=[^\s\"'\\;]{4,4000}(?:;[^\r\n\"'\\]{0,4000})?)",
            re.IGNORECASE,
        ),
        lambda value: not is_placeholder(value.partition("=")[2]),
    ),
    Rule(
        "cookie",
        ("curl",),
        re.compile(
            r"(?<![\w-])curl\b[^\r\n]{0,300}?\s(?:-b|--cookie)[ =][\"']?"
            r"(?P<secret>[\w.-]{1,100}=[^\s\"']{4,4000}(?:; [^\r\n\"']{0,2000})?)"
        ),
    ),
    Rule(
        "password",
        ("curl", "wget"),
        re.compile(
            r"(?<![\w-])(?:curl|wget)\b[^\r\n]{0,300}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?"
            r"[^\s:\"']{1,100}:(?P<secret>[^\s\"'\\]{1,200})"
        ),
        _login,
    ),
    Rule(
        "password",
        ("sshpass", "mysql", "redis-cli"),
        re.compile(
            r"(?<![\w-])(?:sshpass\s{1,4}-p\s{0,4}|mysql(?:dump|admin)?\b[^\r\n|;]{0,200}?\s-p"
            r"|redis-cli\b[^\r\n|;]{0,200}?\s-a\s{1,4})[\"']?(?P<secret>[^\s\"'\\]{4,200})"
        ),
        _login,
    ),
    Rule(
        "password",
        ("login",),
        re.compile(
            r"(?<![\w-])login\s{1,4}\S{1,100}\s{1,8}password\s{1,4}(?P<secret>[^\s\"'\\]{1,200})",
            re.IGNORECASE,
        ),
        _not_placeholder,
    ),
)

# ---------------------------------------------------------------------- named values

_NAMED_PASSWORD = r"pass(?:word|wd|phrase|code)|pwd|pass"
_NAMED_SECRET = (
    r"secret|token|credentials?|_auth"
    r"|(?:api|access|account|app|auth|client|consumer|encryption|jwt|license|master|private"
    r"|secret|server|service|session|shared|shared[_-]?access|signing|storage|subscription"
    r"|webhook|write|admin|deploy|bot)[_.-]?key|client[_-]key[_-]data|tls\.key|sharedaccesskey"
)

#: Finds ``name: value`` where the name ends with a word for a secret. Groups: ``word``,
#: ``op``, and one of ``dq``, ``sq``, ``bq``, ``eq`` (quoted, the last by escaped quotes) or
#: ``bare``. The name's beginning is found by ``name_before``.
ASSIGNMENT = re.compile(
    rf"(?P<word>(?P<password>{_NAMED_PASSWORD})|{_NAMED_SECRET})"
    r"(?:[_-]?(?:base|value|string|prod|production|dev|test|staging|live|plain|\d{1,3})){0,2}"
    r"\\?[\"'`]?\]?"
    r"(?P<op>\s{0,8}(?:===?|=>|:=|[=:])\s{0,8}|\s{1,4}(?:is|was)\s{1,4}:?\s{0,4}|\s{1,4})"
    r"(?:[fbru]?(?:"
    rf"\"(?P<dq>(?:[^\"\\\r\n]|\\.){{1,{MAX_SECRET_CHARS}}})\""
    rf"|'(?P<sq>(?:[^'\\\r\n]|\\.){{1,{MAX_SECRET_CHARS}}})'"
    rf"|`(?P<bq>[^`\r\n]{{1,{MAX_SECRET_CHARS}}})`"
    rf"|\\\"(?P<eq>(?:[^\"\\\r\n]|\\[^\"]){{1,{MAX_SECRET_CHARS}}})\\\")"
    rf"|(?P<bare>[^\s\"'`,;&\\|]{{1,{MAX_SECRET_CHARS}}}))",
    re.IGNORECASE,
)

#: The same in Chinese.
ASSIGNMENT_CJK = re.compile(
    r"(?P<word>(?P<password>密码|口令)|密钥|秘钥|令牌|凭证)"
    r"\s{0,3}(?:[:：=]|是|为)\s{0,3}[\"'“‘`]?(?P<bare>[!#-&(-+\--_a-~]{4,300})"
)

#: A whole line ``NAME=value`` of an environment file or a shell.
ENV_LINE = re.compile(
    r"^[ \t]{0,40}(?:(?:export|set|ENV|ARG|-e|--env|\$env:)[ \t]{0,4})?"
    r"(?P<name>[A-Z][A-Z0-9_]{1,80})=(?P<value>[^\s\"'`$<{][^\s]{3,500})[ \t]*$",
    re.MULTILINE,
)
#: Names in such a line that say that the value is secret.
ENV_SECRET = re.compile(
    r"PASS(?:WORD|WD|PHRASE|CODE)?\d?$|PWD$|SECRET|TOKEN(?:_\w{1,12})?$|API_?KEY|ACCESS_?KEY"
    r"|PRIVATE_?KEY|(?:ENCRYPTION|SIGNING|MASTER|AUTH|APP|ACCOUNT|JWT|LICENSE)_?KEY|CREDENTIALS?$"
)
ENV_PASSWORD = re.compile(r"PASS(?:WORD|WD|PHRASE|CODE)?\d?$|PWD$")

#: Any assignment of a long run of one piece, for ``is_high_entropy``.
HIGH_ENTROPY = re.compile(
    r"(?<![\w.+/-])(?P<name>[A-Za-z_][\w.-]{0,60})\\?[\"']?\s{0,4}(?:=>|:=|[=:])\s{0,4}\\?[\"']?"
    r"(?P<secret>[A-Za-z0-9+/_-]{32,200}={0,2})(?![A-Za-z0-9+/_=.-])"
)

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$")
#: Characters of a name that are looked at.
MAX_NAME_CHARS = 64


def name_before(text: str, end: int) -> str:
    """The part of a name that stands right before ``end``."""
    start = end
    while start > 0 and end - start < MAX_NAME_CHARS and text[start - 1] in _NAME_CHARS:
        start -= 1
    return text[start:end]
