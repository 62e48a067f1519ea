"""Thirty invented credentials of different kinds and forty texts that only look like some.

They are put together here, so that no file of the repository holds a text that a secret
scanner would stop at.
"""

from __future__ import annotations

import base64
import hashlib

_ALNUM = "rT5bN8kQ2wZ7mX4cV9pL1sD6fG3hJ0yUaEiOoPqWe"
_HEX = hashlib.sha512(b"a made-up secret").hexdigest()
_B64 = base64.b64encode(hashlib.sha512(b"another one").digest()).decode().rstrip("=")
_OTHER_HEX = hashlib.sha512(b"no secret at all").hexdigest()
_OTHER_B64 = base64.b64encode(hashlib.sha512(b"no secret").digest()).decode().rstrip("=")


def _alnum(length: int) -> str:
    return (_ALNUM * (length // len(_ALNUM) + 1))[:length]


def _jwt() -> str:
    parts = (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"77","name":"app"}', b"y" * 32)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


_KEY_BODY = "\n".join(_B64[start : start + 64] for start in (0, 11, 22))

#: Kind: the text it stands in (``{}`` is its place) and the secret itself.
CREDENTIALS: dict[str, tuple[str, str]] = {
    "AWS access key": ("aws_access_key_id = {}", "AKIA" + "QW7ERTY2UIOP4ASD"),
    "AWS secret key": ("AWS_SECRET_ACCESS_KEY={}", "wJalr/" + _alnum(34)),
    "GitHub token": ("git clone with {}", "ghp_" + _alnum(36)),
    "GitHub fine-grained token": ("use {} here", "github_pat_" + _alnum(22) + "_" + _alnum(59)),
    "GitLab token": ("PRIVATE-TOKEN: {}", "glpat-" + _alnum(20)),
    "Anthropic key": ("key {}", "sk-ant-api03-" + _alnum(93) + "AA"),
    "OpenAI key": ("OPENAI_API_KEY={}", "sk-proj-" + _alnum(48)),
    "Google API key": ("maps?key={}", "AIza" + _alnum(35)),
    "Slack token": ("slack: {}", "xoxb-" + "210987654321-210987654321-" + _alnum(24)),
    "Slack webhook": (
        "https://hooks.slack.com/services/{}",
        "T01AB2CD3/B04EF5GH6/" + _alnum(24),
    ),
    "Stripe key": ("charge with {}", "sk_live_" + _alnum(24)),
    "Twilio key": ("sid {}", "SK" + _HEX[:32]),
    "SendGrid key": ("mail: {}", "SG." + _alnum(22) + "." + _alnum(43)),
    "npm token": ("//registry/:_authToken={}", "npm_" + _alnum(36)),
    "PyPI token": ("twine -p {}", "pypi-AgEIcHlwaS5vcmc" + _alnum(80)),
    "Hugging Face token": ("login {}", "hf_" + _alnum(34)),
    "Telegram token": ("bot {}", "987654321:AA" + _alnum(33)),
    "DigitalOcean token": ("doctl {}", "dop_v1_" + _HEX[:64]),
    "Databricks token": ("dbx {}", "dapi" + _HEX[2:34]),
    "Vault token": ("VAULT: {}", "hvs." + _alnum(90)),
    "JWT": ("session {}", _jwt()),
    "private key": (
        "-----BEGIN RSA PRIVATE" + " KEY-----\n{}\n-----END RSA PRIVATE" + " KEY-----",
        _KEY_BODY,
    ),
    "password in a URL": ("psql postgres://app:{}@db.local:5432/prod", "Tr0ub4dor9x"),
    "connection string": ("Server=db;User Id=sa;Password={};Encrypt=true", "Yukon900xQ"),
    "bearer header": ('curl -H "Authorization: Bearer {}" https://x', _alnum(40)[::-1]),
    "basic header": ("Authorization: Basic {}", "ZGV2OmxldG1laW45OWFiYw=="),
    "cookie": ("Cookie: sessionid={}; path=/", _alnum(32)[::-1]),
    ".env line": ("DB_PASSWORD={}", "swordfish77"),
    "YAML password": ("  password: {}\n  host: db", "hunter2hunter"),
    "high-entropy assignment": (
        "SERVICE_CRED = '{}'",
        _B64[30:78].replace("/", "x").replace("+", "y"),
    ),
}

#: Texts of one line that must come through as they are.
LOOK_ALIKES: tuple[str, ...] = (
    "commit " + _OTHER_HEX[:40],
    "git checkout 4bdfc6a && git rebase --onto main 7c31e4e",
    "index 73db48f..cf269f4 100644",
    "request id 4a2504e0-5f89-41d3-8a0c-0405e82c3302 failed",
    "session_id: 5b3615f1-6a90-42e4-9b1d-1516f93d4413",
    "sha256:" + _OTHER_HEX[:64],
    "SHA256 (y.tar.gz) = " + _OTHER_HEX[8:72],
    'etag: "' + _OTHER_HEX[4:36] + '"',
    '"integrity": "sha512-' + _OTHER_B64 + '=="',
    'resolved "https://registry.yarnpkg.com/b/-/b-2.0.0.tgz#' + _OTHER_HEX[:40] + '"',
    "--hash=sha256:" + _OTHER_HEX[16:80],
    'checksum = "' + _OTHER_HEX[24:88] + '"',
    "h1:" + _OTHER_B64[:43] + "=",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwAD",
    "!function(e,t){var n=e.token,r=t.password;return n(r)}(window,document);",
    "var a=t.getToken(),u={token:a,password:e.password,secret:o()};fetch(x,{headers:{token:a}})",
    "const token = await getToken();",
    "password = os.environ['DB_PASSWORD']",
    "api_key = settings.openai.api_key",
    "def login(user: str, password: str) -> Token:",
    "password?: string | null",
    "token = tokenizer.encode(text)",
    "max_tokens=4096, total_tokens: 12345",
    "the token is expired and the secret was rotated",
    "Error: invalid password: wrong credentials",
    "3 tests pass: 12 fail: 0",
    "DB_PASSWORD=${DB_PASSWORD}",
    "API_KEY=<your-api-key>",
    'api_key = "env:OPENAI_API_KEY"',
    "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
    "password: '********'",
    "Authorization: Bearer $TOKEN",
    "postgres://app:${PASSWORD}@db/prod",
    "ssh://git@github.com:22/x/y.git",
    "docker run -u 1000:1000 alpine",
    "sk-circle sk-folding-cube sk-fading-circle",
    "npm_config_registry=https://npm.example.com/",
    "用户的密码是错误的，请重置密码",
    "密码：必填，至少八位；备份脚本上传超时，已改为分片上传",
    "arn:aws:iam::123456789012:role/deploy",
)


def told() -> str:
    """A text that holds every credential, each as people write it."""
    return "\n".join(frame.format(secret) for frame, secret in CREDENTIALS.values())


#: Characters of a secret in a row that count as a part of it.
PIECE_CHARS = 8


def found_in(data: bytes) -> set[str]:
    """The kinds of credentials of whose secret a piece is in some bytes."""
    return {kind for kind, pieces in _PIECES.items() if any(piece in data for piece in pieces)}


def _pieces(secret: str) -> frozenset[bytes]:
    ends = range(PIECE_CHARS, max(len(secret), PIECE_CHARS) + 1)
    found = {secret[end - PIECE_CHARS : end] for end in ends}
    return frozenset(each.encode() for each in found if "\n" not in each)


_PIECES = {kind: _pieces(secret) for kind, (_, secret) in CREDENTIALS.items()}
