"""What a secret looks like: the tables behind ``redact``. Pure data.

Every pattern runs in linear time: each repeat is bounded, a long run is entered once only
or bounded, and no repeat stands inside another that could
match the same text. The formats of provider tokens are those that the providers document or
register with secret scanners; each has a fixed text (``needles``) that is looked for first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from memsearch.pipeline.secrets_values import (
    PROSE_WORDS,
    entropy,
    is_code,
    is_password,
    is_placeholder,
    looks_random,
)

#: Characters before a match that ``Rule.behind`` may look at.
BEHIND_CHARS = 80
#: A value of so many characters is no name in code, though it may look like one.
LONGEST_CODE = 40
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
        glue: Characters that may not stand before a match, beside letters and digits
            (see ``at_edge``); None: it may begin anywhere.
        lowered: The pattern is in lower case and run on the lower-cased text.
        behind: What must stand before a match, in the ``BEHIND_CHARS`` before it.

    A pattern begins with fixed text where it can: that is what makes the search fast.
    """

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    accept: Callable[[str], bool] | None = None
    glue: str | None = ""
    lowered: bool = False
    behind: re.Pattern[str] | None = None


# A line break or quote that JSON or a URL has escaped ends in a letter or digit, and so does
# a colour code of a terminal.
_ESCAPED_EDGE = re.compile(
    r"(?<=\\[nrtbf])|(?<=\\u00[0-9a-fA-F]{2})|(?<=%[0-9a-fA-F]{2})"
    r"|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=\x1b\[[0-9];[0-9]{2}m)"
)
_WORD_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def at_edge(text: str, at: int, glue: str) -> bool:
    """Whether something may begin at ``at``: not inside a word, nor behind ``glue``."""
    if at == 0:
        return True
    before = text[at - 1]
    if before in _WORD_CHARS:
        return _ESCAPED_EDGE.match(text, at) is not None
    # A line of a diff begins with a sign.
    return before not in glue or (before in "-+" and (at == 1 or text[at - 2] in "\r\n"))


def _token(kind: str, needle: str, pattern: str) -> Rule:
    """A token with a fixed beginning, which does not start inside a word."""
    return Rule(kind, (needle.lower(),), re.compile(pattern))


def _not_placeholder(value: str) -> bool:
    return not is_placeholder(value)


def _credential(value: str) -> bool:
    """A value behind ``Authorization:`` or ``Bearer``, as against prose or code about it."""
    if is_placeholder(value) or value.lower() in PROSE_WORDS:
        return False
    if len(value) < LONGEST_CODE and is_code(value):
        return False
    return looks_random(value)


def _url_password(value: str) -> bool:
    # "redis://host:6379/0?x=@y" is a port and a path.
    return not is_placeholder(value) and not re.match(r"\d{2,5}[/?]", value)


def _named_value(value: str) -> bool:
    """A value in the place beside a name: a constant, or what a program calls something."""
    return is_password(value, quoted=True) and looks_random(value) and not is_code(value)


def _user_of_url(value: str) -> bool:
    """A token in the place of a user's name, as git takes it."""
    mixed = value != value.lower() and value != value.upper()
    digits = sum(char.isdigit() for char in value)
    return digits >= (2 if mixed else 4) and not is_placeholder(value)


def _torn(value: str) -> bool:
    """The rest of a token at a cut: a name in code has no digits in its middle, a hash one case."""
    return (
        value != value.lower()
        and value != value.upper()
        and sum(char.isdigit() for char in value) >= 2
        and "/" not in value
        and entropy(value) >= 2.8
    )


def _login(value: str) -> bool:
    """A password behind ``-u user:`` or ``-p``; a number is a user or port id."""
    return len(value) >= 4 and not value.isdigit() and not is_placeholder(value)


# ------------------------------------------------------------------------- the patterns

#: What stands between ``gl`` and the hyphen in GitLab's tokens.
GITLAB_KINDS = ("pat", "dt", "rt", "rtr", "ptt", "ft", "soat", "agent", "cbt", "oas", "imt", "ffct")

#: Tokens of services, told by their own form.
TOKENS: tuple[Rule, ...] = (
    Rule(
        "aws-access-key",
        ("akia", "asia", "abia", "acca"),
        re.compile(r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9+/])"),
        glue="+/",
    ),
    Rule(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,300}"),
    ),
    Rule(
        "gitlab-token",
        tuple(f"gl{kind}-" for kind in GITLAB_KINDS),
        re.compile("gl(?:" + "|".join(GITLAB_KINDS) + r")-[A-Za-z0-9_.-]{16,300}"),
    ),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,300}"),
    _token("openrouter-key", "sk-or-", r"sk-or-[A-Za-z0-9_-]{16,300}"),
    Rule(
        "openai-key",
        ("sk-",),
        re.compile(
            r"sk-(?:(?:proj|svcacct|admin|None|service|lf)-[A-Za-z0-9_-]{20,300}"
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
        re.compile(
            r"(?:xox[abceoprs]|xapp|xoxe\.xox[bp])-[A-Za-z0-9-]{10,300}"
            r"|xoxd-[A-Za-z0-9%+/=-]{10,400}"
        ),
    ),
    Rule(
        "webhook",
        ("hooks.slack.com/", "/api/webhooks/", ".webhook.office.com/", "hooks.zapier.com/"),
        re.compile(
            r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/"
            r"|discord(?:app)?\.com/api/webhooks/|\.webhook\.office\.com/webhookb2/"
            r"|hooks\.zapier\.com/hooks/catch/)(?P<secret>[\w@/.-]{16,300})"
        ),
        glue=None,
    ),
    Rule(
        "stripe-key",
        ("_live_", "_test_"),
        re.compile(r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,250}"),
    ),
    _token("webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,200}"),
    _token("twilio-key", "sk", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    _token("sendgrid-key", "sg.", r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}"),
    _token("mailgun-key", "key-", r"key-[0-9a-f]{32}(?![0-9A-Za-z])"),
    Rule(
        "mailchimp-key",
        ("-us",),
        re.compile(r"[0-9a-f]{32}-us\d{1,2}(?!\d)"),
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
        # An address of its API has "bot" before it.
        re.compile(r"(?:bot)?(?P<secret>\d{8,10}:AA[A-Za-z0-9_-]{32,34})(?![A-Za-z0-9_-])"),
    ),
    Rule(
        "discord-token",
        (".",),
        re.compile(
            r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"
            r"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
        ),
        lambda value: any(char.isdigit() for char in value) and looks_random(value),
        glue="_.-",
    ),
    Rule(
        "digitalocean-token",
        ("_v1_",),
        re.compile(r"do[opr]_v1_[0-9a-f]{40,64}"),
    ),
    Rule(
        "shopify-token",
        ("shpat_", "shpca_", "shppa_", "shpss_"),
        re.compile(r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
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
        re.compile(r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])"),
        glue="_~.-",
    ),
    Rule(
        "grafana-token",
        ("glsa_", "glc_"),
        re.compile(r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/=]{32,300})"),
    ),
    _token("newrelic-key", "nr", r"NR(?:AK|JS|II|AA)-[A-Za-z0-9]{20,60}"),
    _token("sentry-token", "sntry", r"sntry[su]_[A-Za-z0-9+/=_-]{40,400}"),
    _token("postman-key", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _token("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,80}"),
    Rule(
        "vault-token",
        ("hvs.", "hvb.", "hvr."),
        re.compile(r"hv[sbr]\.[A-Za-z0-9_-]{20,300}"),
    ),
    Rule(
        "terraform-token",
        (".atlasv1.",),
        re.compile(r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}"),
    ),
    Rule(
        "supabase-key",
        ("sbp_", "sb_secret_"),
        re.compile(r"(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,60})"),
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
        re.compile(r"sq[pua]_[0-9a-f]{40}"),
    ),
    _token("contentful-token", "cfpat-", r"CFPAT-[A-Za-z0-9_-]{40,60}"),
    _token("jfrog-key", "akcp", r"AKCp[A-Za-z0-9]{60,80}"),
    _token("nuget-key", "oy2", r"oy2[a-z0-9]{43}(?![A-Za-z0-9])"),
    _token("tencent-key", "akid", r"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _token("alibaba-key", "ltai", r"LTAI[A-Za-z0-9]{12,24}(?![A-Za-z0-9])"),
    _token("age-key", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _token("onepassword-token", "ops_ey", r"ops_ey[A-Za-z0-9_=-]{60,4000}"),
    _token("mws-token", "amzn.mws.", r"amzn\.mws\.[0-9a-f-]{36}"),
    Rule(
        "aws-session-token",
        ("iqojb3jpz2lu", "wogzxivyxdz", "qogzxivyxdz"),
        re.compile(r"(?:IQoJb3JpZ2lu|F[wQ]oGZXIvYXdz)[A-Za-z0-9+/=%]{50,4000}"),
    ),
    Rule(
        "azure-token",
        ("jqqj9",),
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{40,90}JQQJ9[A-Za-z0-9]{20,60}"),
    ),
    Rule(
        # A private key in base64 as a whole, as kubeconfigs and CI variables hold it.
        "private-key",
        ("ls0tls1crudjtib",),
        re.compile(
            r"LS0tLS1CRUdJTiB(?:SU0Eg|QUklW|PUEVO|FQyBQ|FTkNS|EU0Eg|QR1AgUFJJ)"
            r"[A-Za-z0-9+/]{20,20000}={0,2}"
            r"(?:(?:\\n|\r?\n[ \t]{0,20})[A-Za-z0-9+/]{56,80}(?![A-Za-z0-9+/])){0,400}"
            r"(?:(?:\\n|\r?\n[ \t]{0,20})[A-Za-z0-9+/]{1,80}={0,2}(?![A-Za-z0-9+/ ]))?"
        ),
        glue="+/",
    ),
    _token("vercel-token", "vercel_blob_rw_", r"vercel_blob_rw_[A-Za-z0-9_]{20,100}"),
    _token("resend-key", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,40}(?![A-Za-z0-9_])"),
    Rule(
        "brevo-key",
        ("xkeysib-", "xsmtpsib-"),
        re.compile(r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{12,24}"),
    ),
    _token("render-key", "rnd_", r"rnd_[A-Za-z0-9]{24,40}(?![A-Za-z0-9_])"),
    _token("dropbox-token", "sl.", r"sl\.(?:u\.)?[A-Za-z0-9_-]{100,1500}"),
    _token("facebook-token", "eaa", r"EAA[A-Za-z0-9]{100,400}(?![A-Za-z0-9+/=])"),
    _token("twitter-token", "%3d", r"A{20,24}[A-Za-z0-9]{20,90}%3D[A-Za-z0-9]{30,80}"),
    _token("mongodb-token", "mdb_sa_sk_", r"mdb_sa_sk_[A-Za-z0-9_-]{30,80}"),
    _token("pinecone-key", "pcsk_", r"pcsk_[A-Za-z0-9]{4,10}_[A-Za-z0-9]{40,80}"),
    _token("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _token("e2b-key", "e2b_", r"e2b_[0-9a-f]{40}"),
    _token("elastic-token", "essu_", r"essu_[A-Za-z0-9+/]{40,120}={0,2}"),
    _token("fcm-key", ":apa91b", r"AAAA[A-Za-z0-9_-]{7}:APA91b[A-Za-z0-9_-]{60,200}"),
    Rule(
        "jwt",
        ("eyj",),
        re.compile(
            r"eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,8000}"
            r"(?:\.[A-Za-z0-9_-]{0,4000}){0,3}"
        ),
        glue="_-",
    ),
)

#: How agents say that they left something out.
CUT_WORDS = (" truncated", " omitted", " left out")

#: Secrets told by what stands around them.
CONTEXTS: tuple[Rule, ...] = (
    Rule(
        "url-password",
        ("://",),
        re.compile(r"://[^\s/:@\"'<>\\`]{0,100}:(?P<secret>[^\s/\"'<>\\`]{1,200})@(?=[\w\[.-])"),
        _url_password,
        glue=None,
    ),
    Rule(
        # Git takes a token for the user's name, alone or with a word for the password.
        "url-password",
        ("://",),
        re.compile(r"://(?P<secret>[A-Za-z0-9_-]{20,200})(?::x-oauth-basic)?@(?=[\w\[.-])"),
        _user_of_url,
        glue=None,
    ),
    Rule(
        # Drivers take a password with a slash in it, so people write one.
        "url-password",
        ("sql", "postgres", "mongo", "redis", "amqp", "maria", "clickhouse"),
        re.compile(
            r"(?:sql|postgres|mongodb|redis|rediss|amqp|amqps|mariadb|clickhouse)(?:\+\w{1,20})?"
            r"://[^\s/:@\"'<>\\`]{0,100}:(?P<secret>[^\s\"'<>\\`]{1,200})@(?=[\w\[.-])"
        ),
        _url_password,
        glue=None,
        lowered=True,
    ),
    Rule(
        "authorization",
        ("authorization",),
        re.compile(
            r"authorization\\?[\"']?\]?\s{0,4}(?:[:=]|,(?=\s{0,4}[fbr]?[\"'`]\w{3,10} ))\s{0,4}"
            r"(?:[fbr]?\\?[\"'`])?"
            r"(?:(?:bearer|basic|token|api-?key|key|digest|negotiate|ntlm|oauth|ssws|splunk)\s{1,4})?"
            r"(?P<secret>[^\s\"'`,;\\]{6,4000})"
        ),
        _credential,
        glue=None,
        lowered=True,
    ),
    Rule(
        "authorization",
        ("bearer",),
        re.compile(r"bearer\s{1,4}(?P<secret>[a-z0-9_.~+/=-]{16,4000})"),
        _credential,
        glue="_-",
        lowered=True,
    ),
    Rule(
        "authorization",
        ("basic ",),
        re.compile(r"Basic (?P<secret>[A-Za-z0-9+/]{12,400}={0,2})(?![\w=])"),
        lambda value: (looks_random(value) and not value.isalpha()) or value.endswith("="),
        glue="_-",
    ),
    Rule(
        "signature",
        ("signature=",),
        re.compile(r"signature=(?P<secret>[a-z0-9%+/=_-]{32,300})"),
        _not_placeholder,
        glue="_",
        lowered=True,
    ),
    Rule(
        "signature",
        ("sig=",),
        re.compile(r"(?<=[?&;])sig=(?P<secret>[a-z0-9%+/=_-]{32,300})"),
        _not_placeholder,
        glue=None,
        lowered=True,
    ),
    Rule(
        "cookie",
        ("cookie",),
        re.compile(
            r"cookie\\?[\"']?\s{0,4}[:,]\s{0,4}\\?[\"']?"
            r"(?P<secret>[\w!#$%&*+.^|~-]{1,100}=[^\s\"'\\;]{1,4000}(?:;[^\r\n\"'\\]{0,4000})?)"
        ),
        lambda value: len(value) >= 10 and not is_placeholder(re.split(r"[=;\s]", value)[1]),
        glue="_",
        lowered=True,
    ),
    Rule(
        "cookie",
        ("curl",),
        re.compile(
            r"curl\b[^\r\n]{0,300}?\s(?:-b|--cookie)[ =][\"']?"
            r"(?P<secret>[\w.-]{1,100}=[^\s\"']{4,4000}(?:; [^\r\n\"']{0,2000})?)"
        ),
        glue="_-",
    ),
    Rule(
        "password",
        ("curl", "wget"),
        re.compile(
            r"(?:curl|wget)\b[^\r\n]{0,300}?\s(?:-u|--user|--proxy-user)[ =]?\\{0,7}[\"']?"
            r"[^\s:\"']{1,100}:(?P<secret>[^\s\"'\\]{1,200})"
        ),
        _login,
        glue="_-",
    ),
    Rule(
        "password",
        ("sshpass", "mysql", "redis-cli"),
        re.compile(
            r"(?:sshpass\s{1,4}-p\s{0,4}|mysql(?:dump|admin)?\b[^\r\n|;]{0,200}?\s-p"
            r"|redis-cli\b[^\r\n|;]{0,200}?\s-a\s{1,4})[\"']?(?P<secret>[^\s\"'\\]{4,200})"
        ),
        _login,
        glue="_-",
    ),
    Rule(
        # Programs that take a password behind an option of one letter.
        "password",
        (
            *("sqlcmd", "zip", "ldap", "7z", "useradd", "usermod", "mongo", "htpasswd", "openssl"),
            *("lftp", "smbclient", "net use", "codecov", "wandb", "ngrok", "-pass"),
        ),
        re.compile(
            r"(?:(?:sqlcmd|(?:un)?zip)\b[^\r\n|;]{0,200}?[ \t]-P[ \t]{0,4}"
            r"|ldap(?:search|add|modify|delete|whoami|passwd)\b[^\r\n|;]{0,200}?[ \t]-w[ \t]{1,4}"
            r"|7za?\b[^\r\n|;]{0,200}?[ \t]-p"
            r"|user(?:add|mod)\b[^\r\n|;]{0,200}?[ \t]-p[ \t]{1,4}"
            r"|mongo(?:sh|dump|restore|export|import)?\b[^\r\n|;]{0,200}?[ \t]-p[ \t]{1,4}"
            r"|htpasswd[ \t]{1,4}-\w{0,6}b\w{0,6}[ \t]{1,4}\S{1,200}[ \t]{1,4}\S{1,100}[ \t]{1,4}"
            r"|openssl\b[^\r\n|;]{0,200}?[ \t](?:-k[ \t]{1,4}|-pass(?:in|out)?[ \t]{1,4}pass:)"
            r"|lftp\b[^\r\n|;]{0,200}?[ \t]-u[ \t]{1,4}[^\s,]{1,100},"
            r"|smbclient\b[^\r\n|;]{0,200}?[ \t](?:-U|--user)[ =]{1,2}[^\s%]{1,100}%"
            r"|net use\b[^\r\n]{0,200}?[ \t]/user:\S{1,100}[ \t]{1,4}"
            r"|codecov(?:cli)?\b[^\r\n|;]{0,200}?[ \t]-t[ \t]{1,4}"
            r"|wandb[ \t]{1,4}login[ \t]{1,4}(?:--relogin[ \t]{1,4})?"
            r"|ngrok\b[^\r\n|;]{0,80}?authtoken[ \t]{1,4})"
            r"(?!-)\\{0,7}[\"']?(?P<secret>[^\s\"'\\|;]{4,200})"
        ),
        _login,
        glue="_-",
    ),
    Rule(
        # A password on standard input: echo x | sudo -S.
        "password",
        ("sudo", "stdin", "chpasswd", "--with-token", "secret create"),
        re.compile(
            r"(?:echo|printf)[ \t]{1,4}(?:-n[ \t]{1,4}|[\"']?%s(?:\\n)?[\"']?[ \t]{1,4})?"
            r"\\{0,7}[\"']?(?:[\w.-]{1,60}:)?"
            r"(?P<secret>[^\s\"'|\\]{4,200})\\{0,7}[\"']?[ \t]{0,4}\|[ \t]{0,4}"
            r"(?:sudo[ \t][^\r\n|;]{0,60}?-\w{0,4}S\b|(?:sudo[ \t]{1,4})?chpasswd\b"
            r"|[^\r\n|;]{0,200}?(?:--(?:password-)?stdin\b|--with-token\b|secret create\b))"
        ),
        _login,
        glue="_-",
    ),
    Rule(
        "password",
        ("<<<",),
        re.compile(
            r"sudo[ \t][^\r\n|;<]{0,60}?-\w{0,4}S\b[^\r\n|;<]{0,80}<<<[ \t]{0,4}\\{0,7}[\"']?"
            r"(?P<secret>[^\s\"'|\\]{4,200})"
        ),
        _login,
        glue="_-",
    ),
    Rule(
        # The name and the value as two values: name: DB_PASSWORD, value: x.
        "password",
        ("value",),
        re.compile(
            r"(?:password|passwd|passphrase|secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key)"
            r"\\{0,7}[\"']?\s{0,4},?(?:\s|\\{1,3}[nrt]){0,40}\\{0,7}[\"']?value\\{0,7}[\"']?"
            r"\s{0,4}[:=]\s{0,4}\\{0,7}[\"']?"
            r"(?P<secret>[^\s\"'\\,}<]{4,400})"
        ),
        _named_value,
        glue=None,
        lowered=True,
    ),
    Rule(
        # The two as arguments: setProperty("db.password", "x").
        "password",
        ("password", "passwd", "secret", "token", "api"),
        re.compile(
            r"(?:password|passwd|passphrase|secret|token|api[_.-]?key|access[_.-]?key)"
            r"\\{0,7}[\"']\s{0,4},\s{0,4}\\{0,7}[\"'](?P<secret>[^\s\"'\\]{6,400})\\{0,7}[\"']"
        ),
        _named_value,
        glue=None,
        lowered=True,
        behind=re.compile(r"\(\s{0,4}\\{0,7}[\"'][\w.-]{0,60}\Z"),
    ),
    Rule(
        # A value of YAML on a line of its own.
        "password",
        ("password", "passwd", "secret", "token", "key"),
        re.compile(
            r"(?:password|passwd|passphrase|secret|token|api[_-]?key)[\"']?:[ \t]{0,4}[>|][+-]?"
            r"[ \t]{0,4}(?:\r?\n|\\{1,3}n)[ \t]{1,40}(?P<secret>[^\s\"'`,\\]{4,500})"
            r"[ \t]{0,4}(?=[\r\n\"'`,\\]|\Z)"
        ),
        lambda value: is_password(value, quoted=True) and not is_code(value),
        glue=None,
        lowered=True,
    ),
    Rule(
        # Other languages than English and Chinese, which the rules for names know.
        "password",
        (
            *("passwort", "kennwort", "contraseña", "mot de passe", "senha", "wachtwoord"),
            *("пароль", "パスワード", "비밀번호"),
        ),
        re.compile(
            r"(?:passwort|kennwort|contraseña|mot de passe|senha|wachtwoord|пароль|パスワード"
            r"|비밀번호)\\?[\"']?[ \t]{0,4}(?:[:：=]|は)[ \t]{0,4}\\?[\"'`「]?"
            r"(?P<secret>[!#-&(-+\--_a-~]{4,200})"
        ),
        lambda value: is_password(value, quoted=False) and not value.isalpha(),
        glue=None,
        lowered=True,
    ),
    Rule(
        # Names that say so by a word which means other things, too.
        "secret",
        ("_pat", "erlang_cookie"),
        re.compile(
            r"(?:_pat|erlang_cookie)\\{0,7}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,7}[\"']?"
            r"(?P<secret>[a-z0-9+/_-]{16,200})"
        ),
        looks_random,
        glue=None,
        lowered=True,
    ),
    Rule(
        # What joins a node to a cluster of Kubernetes.
        "kubernetes-token",
        ("token",),
        re.compile(
            r"token\\?[\"']?[ \t:=]{1,4}\\?[\"']?(?P<secret>[a-z0-9]{6}\.[a-z0-9]{16})(?![\w.])"
        ),
        lambda value: any(char.isdigit() for char in value),
        glue=None,
        lowered=True,
    ),
    Rule(
        # The key of a wallet, in prose too.
        "secret",
        ("private",),
        re.compile(
            r"private[ _-]?key\\?[\"']?[ \t]{0,4}(?:is|was|[:=])?[ \t]{0,4}\\?[\"'`]?"
            r"(?P<secret>(?:0x)?[0-9a-f]{64})(?![0-9a-z])"
        ),
        glue=None,
        lowered=True,
    ),
    Rule(
        # Kaggle's login.
        "kaggle-key",
        ("username",),
        re.compile(
            r"username\\?\"\s{0,4}:\s{0,4}\\?\"[^\"\\]{1,60}\\?\"\s{0,4},\s{0,40}"
            r"\\?\"key\\?\"\s{0,4}:\s{0,4}\\?\"(?P<secret>[0-9a-f]{32})(?![0-9a-f])"
        ),
        glue=None,
    ),
    Rule(
        "password",
        ("auth=(", "auth = (", '"auth"'),
        re.compile(
            r"auth[ \t]{0,2}=[ \t]{0,2}\([\"'][^\"'\r\n]{1,100}[\"'],[ \t]{0,4}"
            r"[\"'](?P<secret>[^\"'\r\n]{1,200})[\"']"
        ),
        _not_placeholder,
        glue=None,
    ),
    Rule(
        # What an agent's own cut has left of a token, before it and behind it.
        "torn",
        CUT_WORDS,
        re.compile(
            r"(?<![\w/+=.~-])(?P<secret>[\w/+=~-]{8,2000})(?:\\n|\r?\n)?[ \t]?(?:…|\.{3})?[ \t]?\[?"
            r"\d{1,12} (?:tokens|characters|chars|bytes) (?:truncated|omitted|left out)"
        ),
        _torn,
        glue=None,
    ),
    Rule(
        "torn",
        CUT_WORDS,
        re.compile(
            r"\d (?:tokens|characters|chars|bytes) (?:truncated|omitted|left out)\]?[ \t]?"
            r"(?:…|\.{3})?(?:\\n|\r?\n)?(?P<secret>[\w/+=~-]{8,2000})"
        ),
        _torn,
        glue=None,
    ),
    Rule(
        # A line of a jar of cookies, as curl and wget keep it.
        "cookie",
        ("\ttrue\t", "\tfalse\t"),
        re.compile(
            r"\t(?:TRUE|FALSE)\t[^\t\r\n]{1,200}\t(?:TRUE|FALSE)\t\d{1,12}\t[^\t\r\n]{1,200}\t"
            r"(?P<secret>[^\s]{8,4000})"
        ),
        looks_random,
        glue=None,
    ),
    Rule(
        # A code that is exchanged for a token, and the key of a function of Azure.
        "code",
        ("?code=", "&code="),
        re.compile(r"[?&]code=(?P<secret>[A-Za-z0-9_%/.+~-]{20,2000}={0,2})"),
        lambda value: _torn(value.replace("/", "")),
        glue=None,
    ),
    Rule(
        # A private key as JSON (RFC 7517): what is private of it.
        "private-key",
        ('"kty',),
        re.compile(
            r"\"(?:d|p|q|dp|dq|qi|k)\\{0,7}\"\s{0,4}:\s{0,4}\\{0,7}\""
            r"(?P<secret>[A-Za-z0-9_-]{20,2000}={0,2})\\{0,7}\""
        ),
        glue=None,
    ),
    Rule(
        # The salts of WordPress, which hold any sign.
        "secret",
        ("define(",),
        re.compile(
            r"define\([ \t]{0,4}[\"'](?:SECURE_AUTH|AUTH|LOGGED_IN|NONCE)_(?:KEY|SALT)[\"'],"
            r"[ \t]{0,10}(?:'(?P<secret>[^'\r\n]{16,200})')"
        ),
        lambda value: looks_random(value) and not is_placeholder(value),
        glue=None,
    ),
    Rule(
        # The logins in Docker's config.json: base64 of user:password.
        "authorization",
        ("auth",),
        re.compile(
            r"\"auth\\{0,7}\"\s{0,4}:\s{0,4}\\{0,7}\"(?P<secret>[A-Za-z0-9+/]{8,400}={0,2})\\{0,7}\""
        ),
        lambda value: looks_random(value) or value.endswith("="),
        glue=None,
    ),
    Rule(
        "password",
        ("password", "secret", "token", "key>"),
        re.compile(
            r"<(?:\w{1,20}:)?[\w.-]{0,40}(?:password|passwd|secret|token|apikey|api-key)>"
            r"(?P<secret>[^<\s]{4,200})<"
        ),
        lambda value: is_password(value, quoted=True),
        glue=None,
        lowered=True,
    ),
    Rule(
        "password",
        ("password '", "identified by"),
        re.compile(r"(?:password|identified by)[ \t]{1,4}'(?P<secret>[^'\r\n]{1,200})'"),
        lambda value: is_password(value, quoted=True),
        lowered=True,
    ),
    Rule(
        # A line of ~/.pgpass.
        "password",
        (":543", ":643", ":*:"),
        re.compile(
            r"(?<![\w.*:/@-])[\w.*-]{1,100}:(?:\d{4,5}|\*):[\w.*-]{1,60}:[\w.*-]{1,60}:"
            r"(?P<secret>[^\s:\"'`\\<\x1b\u3000-\u303f\u3400-\u9fff\uff00-\uffef]{3,200}+)(?!:)"
        ),
        _login,
        glue=None,
    ),
    Rule(
        # The words that restore a wallet (BIP 39: 12 to 24 of three to eight letters).
        "mnemonic",
        ("mnemonic", "phrase", "seed"),
        re.compile(
            r"(?:mnemonic|phrase|seed)\\?[\"']?\s{0,4}(?:[:=]|\b(?:is|was)\b:?)\s{0,4}\\?[\"']?"
            r"(?P<secret>(?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})(?![a-z])"
        ),
        lambda value: len(value.split()) in (12, 15, 18, 21, 24),
        glue=None,
        lowered=True,
    ),
    Rule(
        "password",
        ("login",),
        re.compile(
            r"login(?:\s|\\{1,3}[nt]){1,4}[^\s\\]{1,100}(?:\s|\\{1,3}[nt]){1,8}password(?:\s|\\{1,3}[nt]){1,4}"
            r"(?P<secret>[^\s\"'\\]{1,200})"
        ),
        _not_placeholder,
        glue="_-",
        lowered=True,
    ),
)

# ---------------------------------------------------------------------- named values

#: Parts of names that say that the value is secret, lower case; each is looked for as it
#: stands, then ``ASSIGNMENT`` is tried there.
STEMS = ("pass", "pwd", "pw", "secret", "token", "credential", "_auth", "key")

#: What stands before ``key`` when it is a secret one; other keys are keys of a dictionary.
SECRET_KEYS = (
    *(
        "access",
        "account",
        "admin",
        "api",
        "app",
        "application",
        "auth",
        "bot",
        "client",
        "consumer",
        "deploy",
    ),
    *("encryption", "jwt", "license", "master", "private", "secret", "server", "service"),
    *("session", "shared", "signing", "storage", "subscription", "tls", "webhook", "write"),
)

#: ``name: value`` from the stem on. Groups: ``word``, ``password`` when the word is one for
#: a password, ``op``, and one of ``dq``, ``sq``, ``bq``, ``eq`` (in quotes, the last in
#: escaped ones) or ``bare``. What stands before the stem is found by ``name_before``.
ASSIGNMENT = re.compile(
    r"(?P<word>(?P<password>pass(?:word|wd|phrase|code)?|pwd?)"
    r"|secret(?:[_.-]?(?:access[_.-]?)?key)?|token|credentials?|_auth|key)"
    r"(?:[_-]?(?:base|value|string|data|prod|production|dev|test|staging|live|plain|\d{1,3})){0,2}"
    r"\\{0,7}[\"'`]?\]?"
    r"(?P<op>[ \t]{0,8}(?:===?|=>|:=|[=:]|%3d)[ \t]{0,8}"
    r"|[ \t]{1,4}(?:is|was)(?:[ \t]{0,4}:)?[ \t]{1,4}|[ \t]{1,4})"
    # A command that goes on in the next line.
    r"(?:\\\r?\n[ \t]{0,40})?"
    r"(?:[fbru]?(?:"
    rf"\"(?P<dq>(?:[^\"\\\r\n]|\\.){{1,{MAX_SECRET_CHARS}}})\""
    rf"|'(?P<sq>(?:[^'\\\r\n]|\\.){{1,{MAX_SECRET_CHARS}}})'"
    rf"|`(?P<bq>[^`\r\n]{{1,{MAX_SECRET_CHARS}}})`"
    rf"|\\{{1,7}}\"(?P<eq>(?:[^\"\\\r\n]|\\[^\"\\]){{1,{MAX_SECRET_CHARS}}})\\{{1,7}}\")"
    # Chinese, a colour's end and a tag are not of the value.
    rf"|(?P<bare>[^\s\"'`,;&\\|\x1b\u3000-\u303f\u3400-\u9fff\uff00-\uffef](?:(?!</)"
    rf"[^\s\"'`,;&\\|\x1b\u3000-\u303f\u3400-\u9fff\uff00-\uffef]){{0,{MAX_SECRET_CHARS}}}))",
    re.IGNORECASE,
)

#: The same in Chinese.
ASSIGNMENT_CJK = re.compile(
    r"(?:(?P<password>密码|口令)|密钥|秘钥|令牌|凭证)"
    r"[ \t]{0,3}(?P<op>[:：=]|是|为|[ \t])[ \t]{0,3}[\"'“‘`]?"
    r"(?P<bare>[!#-&(-+\--;=-\[\]-_a-~]{4,300})"
)

#: A whole line ``NAME=value`` of an environment file or a shell.
ENV_LINE = re.compile(
    # As it stands in a quote, a diff, a list or behind a shell's prompt, too.
    r"^[ \t]{0,40}(?:[>+|$#*-][ \t]{0,4}){0,3}"
    r"(?:(?:export|set|ENV|ARG|-e|--env|\$env:)[ \t]{0,4})?"
    r"(?P<name>[A-Z][A-Z0-9_]{1,80})=(?P<value>[^\s\"'`$<{](?:(?!</)\S){3,500})"
    r"(?:[ \t]*\r?$|(?=</))",
    re.MULTILINE,
)
#: Names in such a line that say that the value is secret.
ENV_SECRET = re.compile(
    r"(?:^|_)PAT$|ERLANG_COOKIE$|PASS(?:WORD|WD|PHRASE|CODE)?\d?$|PWD$|SECRET|TOKEN(?:_\w{1,12})?$|API_?KEY|ACCESS_?KEY"
    r"|PRIVATE_?KEY|(?:ENCRYPTION|SIGNING|MASTER|AUTH|APP|ACCOUNT|JWT|LICENSE)_?KEY|CREDENTIALS?$"
)
ENV_PASSWORD = re.compile(r"PASS(?:WORD|WD|PHRASE|CODE)?\d?$|PWD$")

#: Any assignment of a long run of one piece, for ``is_high_entropy``.
HIGH_ENTROPY = re.compile(
    r"(?:(?<![\w.+/-])|(?<=^[-+])|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
    r"(?P<name>[A-Za-z_][\w.-]{0,60})\\?[\"']?\s{0,4}(?:(?:=>|:=|:)\s{0,4}|=[ \t]{0,4})\\?[\"']?"
    r"(?P<secret>[A-Za-z0-9+/_-]{32,200}={0,2})(?![A-Za-z0-9+/_=-]|\.[A-Za-z0-9])",
    re.MULTILINE,
)

_NAME_CHARS = _WORD_CHARS | frozenset("_-.$")
#: Characters of a name that are looked at.
MAX_NAME_CHARS = 64


def name_before(text: str, end: int) -> str:
    """The part of a name that stands right before ``end``."""
    start = end
    while start > 0 and end - start < MAX_NAME_CHARS and text[start - 1] in _NAME_CHARS:
        start -= 1
    return text[start:end]


#: Where a text goes on behind the end of a line of a shell, or of a string of a program.
JOINT = re.compile(
    r"(?<=[A-Za-z0-9_/+=.-])(?:\\\r?\n[ \t]{0,40}"
    r"|(?P<quote>[\"'])[ \t]{0,4}[+.\\]?[ \t]{0,4}"
    r"(?:\r?\n[ \t]{0,40}(?:[+.][ \t]{0,4})?)?(?P=quote))"
    r"(?=[A-Za-z0-9_/+=.-])"
)
