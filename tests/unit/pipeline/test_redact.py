"""What is taken for a secret and what is not, by table."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsearch.config.errors import ErrorClass, MemsearchError
from memsearch.pipeline import redact as redact_module
from memsearch.pipeline.redact import own_rules, redact, redact_turn
from memsearch.sources.base import Item, Turn

# Invented credentials. They are put together here, so that no file of the repository holds
# a text that a secret scanner would stop at.
_ALNUM = "aB3dE5gH7jK9mN1pQ4sT6vW8xY2zC0fR5uL3iO7k"
_HEX = hashlib.sha512(b"memsearch").hexdigest()
_B64 = base64.b64encode(hashlib.sha512(b"memsearch").digest()).decode().rstrip("=")


def alnum(length: int) -> str:
    return (_ALNUM * (length // len(_ALNUM) + 1))[:length]


def hexes(length: int) -> str:
    return (_HEX * 4)[:length]


JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234","name":"dev"}', b"x" * 32)
)
KEY_LINES = "\n".join(_B64[:64] for _ in range(6))
PRIVATE = "PRIVATE" + " KEY"


def armour(kind: str, body: str = KEY_LINES) -> str:
    label = f"{kind} {PRIVATE}".strip()
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"


#: (kind, text, the part that must be gone)
TOKENS = [
    ("aws-access-key", t := "AKIA" + "IQ7WTRXJ4KLMZP2N", t),
    ("github-token", t := "ghp_" + alnum(36), t),
    ("github-token", t := "github_pat_" + alnum(22) + "_" + alnum(59), t),
    ("github-token", t := "ghs_" + alnum(36), t),
    ("gitlab-token", t := "glpat-" + alnum(20), t),
    ("anthropic-key", t := "sk-ant-api03-" + alnum(93) + "AA", t),
    ("openai-key", t := "sk-proj-" + alnum(48), t),
    ("openai-key", t := "sk-" + alnum(48), t),
    ("openrouter-key", t := "sk-or-v1-" + hexes(64), t),
    ("google-api-key", t := "AIza" + alnum(35), t),
    ("google-oauth", t := "GOCSPX-" + alnum(28), t),
    ("google-oauth", t := "ya29." + alnum(80), t),
    ("slack-token", t := "xoxb-" + "123456789012-123456789012-" + alnum(24), t),
    ("slack-token", t := "xapp-1-A01BCDE2FGH-" + "1234567890123-" + hexes(64), t),
    ("webhook", "https://hooks.slack.com/services/" + (t := "T00AA11BB/B22CC33DD/" + alnum(24)), t),
    ("webhook", "https://discord.com/api/webhooks/" + (t := "123456789012345678/" + alnum(60)), t),
    ("stripe-key", t := "sk_live_" + alnum(24), t),
    ("stripe-key", t := "rk_test_" + alnum(24), t),
    ("webhook-secret", t := "whsec_" + alnum(32), t),
    ("twilio-key", t := "SK" + hexes(32), t),
    ("sendgrid-key", t := "SG." + alnum(22) + "." + alnum(43), t),
    ("mailgun-key", t := "key-" + hexes(32), t),
    ("mailchimp-key", t := hexes(32) + "-us12", t),
    ("npm-token", t := "npm_" + alnum(36), t),
    ("pypi-token", t := "pypi-AgEIcHlwaS5vcmc" + alnum(80), t),
    ("docker-token", t := "dckr_pat_" + alnum(27), t),
    ("huggingface-token", t := "hf_" + alnum(34), t),
    ("replicate-token", t := "r8_" + alnum(37), t),
    ("groq-key", t := "gsk_" + alnum(52), t),
    ("telegram-token", t := "123456789:AA" + alnum(33), t),
    ("discord-token", t := "MT" + alnum(24) + "." + alnum(6) + "." + alnum(38), t),
    ("digitalocean-token", t := "dop_v1_" + hexes(64), t),
    ("shopify-token", t := "shpat_" + hexes(32), t),
    ("square-token", t := "sq0atp-" + alnum(22), t),
    ("databricks-token", t := "dapi" + hexes(32), t),
    ("linear-key", t := "lin_api_" + alnum(40), t),
    ("notion-token", t := "ntn_" + alnum(46), t),
    ("figma-token", t := "figd_" + alnum(40), t),
    ("airtable-token", t := "pat" + alnum(14) + "." + hexes(64), t),
    ("atlassian-token", t := "ATATT3" + alnum(120), t),
    ("azure-secret", t := "Ab1" + "8Q~" + alnum(34), t),
    ("grafana-token", t := "glsa_" + alnum(32) + "_" + hexes(8), t),
    ("newrelic-key", t := "NRAK-" + alnum(27).upper(), t),
    ("sentry-token", t := "sntrys_" + alnum(80), t),
    ("postman-key", t := "PMAK-" + hexes(24) + "-" + hexes(34), t),
    ("doppler-token", t := "dp.pt." + alnum(43), t),
    ("vault-token", t := "hvs." + alnum(90), t),
    ("terraform-token", t := alnum(14) + ".atlasv1." + alnum(67), t),
    ("supabase-key", t := "sbp_" + hexes(40), t),
    ("tailscale-key", t := "tskey-auth-" + alnum(12) + "-" + alnum(30), t),
    ("tencent-key", t := "AKID" + alnum(32), t),
    ("alibaba-key", t := "LTAI" + alnum(20), t),
    ("age-key", t := "AGE-SECRET-KEY-1" + alnum(58).upper(), t),
    ("jwt", JWT, JWT.split(".")[2]),
]

CONTEXTS = [
    ("url-password", "psql postgres://app:Tr0ub4dor@db.local:5432/prod", "Tr0ub4dor"),
    ("url-password", "postgres://app:p@ss/w0rd@db.local/prod", "w0rd"),
    ("url-password", "mongodb+srv://root:hunter2@cluster0.mongodb.net/?w=1", "hunter2"),
    ("url-password", "redis://:s3cr3tpw@10.0.0.5:6379/0", "s3cr3tpw"),
    ("url-password", "git clone https://dev:letmein99@git.local/x.git", "letmein99"),
    ("url-password", "amqp://guest:gu3stpw@mq:5672/%2F", "gu3stpw"),
    ("secret", "AccountName=a;AccountKey=" + (t := _B64[:86] + "=="), t[:60]),
    ("password", "Server=db;User Id=sa;Password=Yukon900x;Encrypt=true", "Yukon900x"),
    ("secret", "Endpoint=sb://x/;SharedAccessKey=" + (t := _B64[:43] + "="), t[:40]),
    ("authorization", "Authorization: Bearer " + (t := alnum(40)), t),
    ("authorization", 'curl -H "Authorization: Basic ' + (t := "ZGV2OmxldG1laW45OQ==") + '" x', t),
    ("authorization", '{"Authorization": "token ' + (t := hexes(40)) + '"}', t),
    ("authorization", "headers['authorization'] = 'Bearer " + (t := alnum(30)) + "'", t),
    ("authorization", "sent bearer " + (t := alnum(32)) + " and got 401", t),
    ("secret", "X-Api-Key: " + (t := alnum(32)), t),
    ("secret", "PRIVATE-TOKEN: " + (t := alnum(20)), t),
    ("cookie", "Cookie: sessionid=" + (t := alnum(32)) + "; csrftoken=abc", t),
    ("cookie", "Set-Cookie: sid=" + (t := alnum(40)) + "; Path=/; HttpOnly", t),
    ("cookie", "curl -b 'sid=" + (t := alnum(24)) + "' http://localhost", t),
    ("signature", "https://s3.local/b?X-Amz-Signature=" + (t := hexes(64)), t),
    ("signature", "https://a.blob/c?sv=2024&sig=" + (t := _B64[:43] + "%3D"), t[:40]),
    ("password", "curl -u admin:Sup3rPass https://x", "Sup3rPass"),
    ("password", "sshpass -p 'gr8secret' ssh host", "gr8secret"),
    ("password", "mysql -u root -pgr8secret app", "gr8secret"),
    ("password", "machine git.local login dev password gr8secret", "gr8secret"),
    ("password", "DB_PASSWORD=swordfish", "swordfish"),
    ("password", "export PGPASSWORD='o p e n'\nPGPASSWORD=opensesame", "opensesame"),
    ("password", "password: hunter2", "hunter2"),
    ("password", "  password: swordfish\n  host: db", "swordfish"),
    ("password", 'password = "correct-horse"', "correct-horse"),
    ("password", '{"user":"a","password":"pa$$w0rd"}', "pa$$w0rd"),
    ("password", '{"text":"{\\"password\\":\\"hunter2\\"}"}', "hunter2"),
    ("password", "the password is Summer2024!", "Summer2024!"),
    ("password", "mysqladmin --password=hunter22 status", "hunter22"),
    ("password", "tool --password hunter22 --verbose", "hunter22"),
    ("password", "passphrase: 'correct horse battery'", "horse"),
    ("password", "password: >-\nMAIL_PW=hunter22 pw: hunter22", "hunter22"),
    ("password", "kubectl create secret generic db --from-literal=password=Sup3r!pw", "Sup3r!pw"),
    ("password", "spring.datasource.password=Pa55word", "Pa55word"),
    ("password", "Server=db;Uid=sa;Pwd=swordfish;", "swordfish"),
    ("password", "<server><password>hunter2</password></server>", "hunter2"),
    ("password", "ALTER USER app WITH PASSWORD 'hunter2';", "hunter2"),
    ("password", "CREATE USER 'a'@'%' IDENTIFIED BY 'swordfish'", "swordfish"),
    ("password", 'requests.get(u, auth=("dev", "swordfish"))', "swordfish"),
    ("password", "db.local:5432:app:dev:swordfish", "swordfish"),
    ("password", "PGPASSWORD=swordfish psql -h db.local", "swordfish"),
    ("password", "账号 admin 密码 admin123", "admin123"),
    ("authorization", '"auths":{"r.local":{"auth":"' + (t := "ZGV2OnN3b3JkZmlzaA==") + '"}}', t),
    ("mnemonic", 'mnemonic: "' + (t := " ".join(["able", "zebra", "nut"] * 4)) + '"', t),
    ("secret", "aws configure set aws_secret_access_key " + (t := alnum(40)), t),
    ("secret", '{"secretAccessKey":"' + (t := alnum(40)) + '"}', t),
    ("secret", "otpauth://totp/x?secret=" + (t := "JBSWY3DPEHPK3PXP") + "&issuer=x", t),
    ("secret", '"privateKey": "0x' + (t := hexes(64)) + '"', t),
    ("secret", "x-amz-security-token: " + (t := alnum(200)), t),
    ("secret", 'curl -H "apikey: ' + (t := alnum(32)) + '" x', t),
    ("password", "数据库密码：Xy12345678，请保密", "Xy12345678"),
    ("password", "密码是 hunter2", "hunter2"),
    ("secret", "密钥: " + (t := alnum(32)), t),
    ("secret", "AWS_SECRET_ACCESS_KEY=" + (t := "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEY9"), t),
    ("secret", "aws_secret_access_key = " + (t := "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzKEY9"), t),
    ("secret", "HEROKU_API_KEY=" + (t := "3f2504e0-4f89-11d3-9a0c-0305e82c3301"), t),
    ("secret", 'api_key: "' + (t := hexes(32)) + '"', t),
    ("secret", "apiKey: '" + (t := alnum(24)) + "',", t),
    ("secret", "client_secret=" + (t := alnum(32)) + "&grant_type=x", t),
    ("secret", "?access_token=" + (t := alnum(30)) + "&v=1", t),
    ("secret", "tool --token " + (t := alnum(30)), t),
    ("secret", "JWT_SECRET=mysupersecretsigningvalue", "mysupersecretsigningvalue"),
    ("secret", "//registry.local/:_authToken=" + (t := alnum(36)), t),
    ("secret", "SECRET_KEY_BASE: " + (t := hexes(128)), t),
    ("high-entropy", "LICENSE_BLOB_X = '" + (t := alnum(40)) + "'", t),
    ("high-entropy", "SERVICE_CRED=" + (t := alnum(48)), t),
]

PRIVATE_KEYS = [
    armour("RSA"),
    armour(""),
    armour("OPENSSH"),
    armour("EC"),
    armour("ENCRYPTED"),
    armour("PGP").replace(PRIVATE, PRIVATE + " BLOCK"),
    json.dumps({"private_key": armour("") + "\n"}),
    armour("RSA", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n" + KEY_LINES),
    "\n".join("> " + line for line in armour("RSA").splitlines()),
    "\n".join("+" + line for line in armour("RSA").splitlines()),
    armour("RSA").rpartition("-----END")[0],  # unclosed
    armour("RSA")[:200],  # torn in a line
    armour("RSA").partition("\n")[2],  # without its beginning
    json.dumps(armour("RSA"))[: -len("-----END RSA PRIVATE KEY-----") - 30],
]

#: Texts that hold no secret and must come through unchanged.
LOOK_ALIKES = [
    "commit 9bdfc6a1f0c2d4e6b8a09182736455f6e7d8c9b0",
    "git checkout 9bdfc6a && git rebase --onto main 5b31e4e",
    "index 83db48f..bf269f4 100644",
    "request id 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed",
    "session_id: 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "sha256:" + hexes(64),
    "SHA256 (x.tar.gz) = " + hexes(64),
    'etag: "' + hexes(32) + '"',
    '"integrity": "sha512-' + _B64 + '=="',
    'resolved "https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#' + hexes(40) + '"',
    "--hash=sha256:" + hexes(64),
    'checksum = "' + hexes(64) + '"',
    "h1:" + _B64[:43] + "=",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9",
    '<img src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7">',
    "!function(e,t){var n=e.token,r=t.password;return n(r)}(window,document);",
    "var a=t.getToken(),u={token:a,password:e.password,secret:o()};fetch(x,{headers:{token:a}})",
    "const token = await getToken();",
    "password = os.environ['DB_PASSWORD']",
    'password = os.environ["DB_PASSWORD"]',
    "api_key = settings.openai.api_key",
    "api_key=config.get('api_key')",
    "def login(user: str, password: str) -> Token:",
    "def f(token: str = '', secret: bytes = b''): ...",
    "function login(user, password) { return post({user, password: password}); }",
    "password: string;",
    "password?: string | null",
    "token: Token,",
    "secret: Option<String>,",
    "token = tokenizer.encode(text)",
    "max_tokens=4096, total_tokens: 12345",
    "max_token: 4096",
    "num_tokens = 1024",
    "token_count: 33",
    "The password is required.",
    "the token is expired and the secret was rotated",
    "Password: required, at least 8 characters",
    "password must be at least 12 characters long",
    "Error: invalid password: wrong credentials",
    "token: missing",
    "3 tests pass: 12 fail: 0",
    "pass: 12",
    "PASS=12 FAIL=0",
    "DB_PASSWORD=${DB_PASSWORD}",
    "DB_PASSWORD=$(cat /run/secrets/db)",
    "API_KEY=<your-api-key>",
    "API_KEY=your-api-key-here",
    "OPENAI_API_KEY=sk-...",
    'api_key = "env:OPENAI_API_KEY"',
    "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}",
    "password: '********'",
    "password=xxxxxxxx",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <token>",
    "f'Bearer {token}'",
    "Authorization: required",
    "uses bearer authentication for this endpoint",
    "secretName: my-app-tls",
    "token_file: /run/secrets/token",
    "SECRET_PATH=/run/secrets/app",
    "postgres://app:${PASSWORD}@db/prod",
    "http://localhost:8080/path@v2",
    "https://user@host.local/x",
    "ssh://git@github.com:22/x/y.git",
    "redis://localhost:6379/0",
    "docker run -u 1000:1000 alpine",
    "cookies are set by the server; cookie: optional",
    "Cookie: <cookie>",
    "cookie: cookieParser(secret)",
    "sk-circle sk-folding-cube sk-fading-circle",
    "task-force-management-and-planning-2024",
    "npm_config_registry=https://packages.example.org/",
    "hf_hub_download(repo_id='x')",
    "const pat = /[a-z]+/; pattern.exec(x)",
    "eyJ is how a JWT begins",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB" + alnum(32) + " dev@host",
    "-----BEGIN CERTIFICATE-----\n" + KEY_LINES + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\n" + KEY_LINES + "\n-----END PUBLIC KEY-----",
    "look for the line BEGIN " + PRIVATE + " in the file",
    "SomeVeryLongJavaClassNameForAbstractFactory2Impl3",
    "className: 'MuiButtonBaseRootMuiButtonRootContained'",
    "modelId = 'anthropic.claude-3-5-sonnet-20241022-v2:0'",
    "AKIA is the prefix of AWS keys",
    "用户的密码是错误的，请重置密码",
    "密码：必填，至少八位",
    "令牌已过期，请重新登录；密钥轮换每 90 天一次",
    "备份脚本上传超时，已改为分片上传",
    "arn:aws:iam::123456789012:role/deploy",
    "mysql -u root -p app",
    "src/auth/password.ts:12: const password = input.value;",
    "feature/token-refresh",
    "password_hash, token_type: bearer",
    'data-testid="password-input" type="password" autocomplete="current-password"',
    '{"password": "Enter your password"}',
    '"password": "请输入密码"',
    "tokenId=12, secret_version=3",
    "LS_COLORS=rs=0:di=01;34:ln=01;36:mh=00:pi=40;33:so=01;35:do=01;35",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    '"PWD": "/home/dev/project", "OLDPWD": "/home/dev"',
    "deploy ALL=(root) NOPASSWD: /bin/systemctl restart app",
    "username, password = split_login",
    "self.passwd = password_mgr",
    "host, access_key, secret_key = s3_connection",
    ":type passphrase: :py:data:`bytes`",
    "pwd: Optional[ModuleType] = None",
    "def open(self, name, mode='r', pwd=None):",
    "r.headers['Authorization'] = _basic_auth_str(self.username, self.password)",
    "headers = ('authorization', 'x-amz-content-sha256', 'x-amz-date')",
    "raise TypeError('pwd: expected bytes, got %s' % type(pwd))",
    "GIT_ASKPASS: 'echo', SSH_ASKPASS=/usr/bin/ask",
    "$pwd = CPAN::anycwd();",
    'Token: "#ddd0c0",',
    "publicKeyToken=b77a5c561934e089",
    "if api_key == WORKLOAD_IDENTITY_API_KEY_PLACEHOLDER:",
    "token_endpoint_auth: McpOauthTokenEndpointAuth",
    'token = r"[-!#$%&\'*+.^_`|~0-9a-zA-Z]+"',
    "fun:_ZN4node16NodeMainInstance3RunEv9SnapshotData2v8",
    "用户名和密码 都不能为空",
    "the seed: one two three four five six seven eight nine",
    "<password>${db.password}</password> <token/>",
    "10:30:15:200:ok 12:5432:x",
    "sourceMappingURL=app.8f7d6c5b4a39281706f5e4d3c2b1a098.js.map",
    "color: #aabbccdd; transform: matrix(1,0,0,1,0,0)",
    'version = "1.2.3-beta.4+build.5678"',
    "2026-03-25T14:47:00.123Z",
]


@pytest.mark.parametrize(("kind", "text", "secret"), TOKENS + CONTEXTS)
def test_secret_is_taken_out(kind: str, text: str, secret: str) -> None:
    result = redact(text)
    assert secret not in result.text
    assert kind in result.counts
    assert f"[redacted:{kind}]" in result.text


@pytest.mark.parametrize(("kind", "token", "_"), TOKENS)
@pytest.mark.parametrize(
    "frame",
    ["{}", "key {} end", '"{}"', "'{}',", "X={}", '{{"v":"{}"}}', "见 {}。", "a\\n{}\\nb", "<{}>"],
)
def test_token_is_taken_out_wherever_it_stands(kind: str, token: str, _: str, frame: str) -> None:
    result = redact(frame.replace("{{", "{").replace("}}", "}").replace("{}", token, 1))
    assert token not in result.text
    if "/" not in token:
        assert alnum(14) not in result.text


@pytest.mark.parametrize("text", PRIVATE_KEYS)
def test_private_key_is_taken_out_whole(text: str) -> None:
    framed = f"before\n{text}\nafter it"
    result = redact(framed)
    assert result.counts == {"private-key": 1}
    assert _B64[4:24] not in result.text
    assert _B64[:64][-20:] not in result.text
    assert result.text.startswith("before\n")
    assert "after it" in result.text


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_look_alike_stays(text: str) -> None:
    assert redact(text).text == text


def test_counts_of_both_tables() -> None:
    """The tables are as large as the promise, and neither side has an exception."""
    secrets = len(TOKENS) + len(CONTEXTS) + len(PRIVATE_KEYS)
    assert len({kind for kind, _, _ in TOKENS}) >= 40
    assert secrets >= 100
    assert len(LOOK_ALIKES) >= 90


def test_what_stands_around_a_secret_stays() -> None:
    text = "curl -H 'Authorization: Bearer " + alnum(40) + "' https://api.local/v1 # 401"
    assert redact(text).text == (
        "curl -H 'Authorization: Bearer [redacted:authorization]' https://api.local/v1 # 401"
    )


def test_several_secrets_are_counted_by_kind() -> None:
    text = f"a={'ghp_' + alnum(36)} b={'ghp_' + alnum(36)} postgres://u:Tr0ub4dor@h/db"
    assert redact(text).counts == {"github-token": 2, "url-password": 1}


def test_overlapping_rules_leave_one_mark() -> None:
    token = "ghp_" + alnum(36)
    assert redact(f'GITHUB_TOKEN="{token}"').text == 'GITHUB_TOKEN="[redacted:github-token]"'


@given(st.text(max_size=300))
def test_any_text_can_be_redacted_twice(text: str) -> None:
    once = redact(text)
    assert redact(once.text).text == once.text


@given(st.lists(st.sampled_from([t for _, t, _ in TOKENS + CONTEXTS] + PRIVATE_KEYS), max_size=6))
def test_redaction_is_idempotent_on_secrets(texts: list[str]) -> None:
    once = redact("\n".join(texts)).text
    assert redact(once).text == once


def test_turn_is_redacted_in_every_text() -> None:
    token = "ghp_" + alnum(36)
    turn = Turn(
        platform="claude-code",
        id="t",
        session="s",
        at=datetime(2026, 3, 25, tzinfo=UTC),
        cwd="/w",
        items=(
            Item("user", f"use {token}"),
            Item("tool", f"export GH={token}", name="Bash", output=f"GH={token}", failed=True),
            Item("note", token),
            Item("tool", "", name=f"call {token}"),
            Item("assistant", f"Done with {token}"),
        ),
        state="finished",
        anchor={"transcript": "/x.jsonl"},
    )
    clean, counts = redact_turn(turn)
    assert token not in repr(clean)
    assert counts == {"github-token": 6}
    assert clean.items[1].name == "Bash"
    assert clean.items[1].failed
    assert redact_turn(clean) == (clean, {})


# ------------------------------------------------------------------------- own patterns


def test_own_pattern_and_allow() -> None:
    own = own_rules((r"EMP-\d{6}", r"badge (?P<secret>\w+)"), (r"EMP-000000", r"sk-test-\w+"))
    result = redact("EMP-123456, EMP-000000 and badge X77", own)
    assert result.text == "[redacted:custom], EMP-000000 and badge [redacted:custom]"
    assert result.counts == {"custom": 2}


def test_allow_keeps_a_built_in_hit() -> None:
    own = own_rules((), (r"hunter2",))
    assert redact("password: hunter2", own).text == "password: hunter2"
    assert redact("password: hunter22", own).counts == {"password": 1}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "no regular expression"),
        ("(a+)+b", "repeat inside a repeat"),
        ("(a|a)*b", "repeat inside a repeat|choice inside a repeat"),
        ("(?:ab|cd)*x", "choice inside a repeat"),
        ("(a?b?)*c", "repeat inside a repeat"),
        (r"(\w)\1", "refers back"),
        (r"\d*a\d*b\d*c\d*d", "unbounded"),
        ("x*", "empty text"),
        ("", "empty text"),
    ],
)
def test_pattern_that_cannot_be_used_is_a_fault_of_the_configuration(
    pattern: str, why: str
) -> None:
    with pytest.raises(MemsearchError, match=why) as caught:
        own_rules((pattern,), ())
    assert caught.value.kind is ErrorClass.CONFIG
    assert "redact.patterns[0]" in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "pattern", [r"\bEMP-\d+\b", r"key\s*=\s*\w+", r"(?i)acme[-_][a-z0-9]{8,64}", r"(?:a|b)c{2}"]
)
def test_usual_pattern_is_taken(pattern: str) -> None:
    assert own_rules((pattern,), (pattern,)).patterns[0].pattern == pattern


def test_slow_pattern_stops_the_text_instead_of_letting_it_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redact_module, "MAX_PATTERN_SECONDS", 0.02)
    own = own_rules((r"\d+\d+x",), ())
    with pytest.raises(MemsearchError, match="too slow") as caught:
        redact("1" * 20_000, own)
    assert caught.value.kind is ErrorClass.CONFIG


def test_own_pattern_is_found_at_any_place_of_a_long_line() -> None:
    own = own_rules((r"EMP-\d{6}",), ())
    for before in (0, 340, 345, 349, 350, 351, 495, 499, 500, 1_200):
        text = "x" * before + "-EMP-123456-" + "y" * 700
        assert redact(text, own).counts == {"custom": 1}, before


# ------------------------------------------------------------------------------- time


_ADVERSARIAL = [
    "password=",
    "password",
    "pass ",
    "token: ",
    "://a:",
    "://a:b",
    "postgres://u:p/",
    "curl ",
    "mysql -",
    "Authorization: ",
    "authorization bearer ",
    "Cookie: a=",
    "cookie;",
    "eyJhbGciOi.",
    "eyJ-",
    "sk-",
    "glpat-.",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----END PRIVATE KEY-----\n",
    "-----BEGIN RSA ",
    "AAAAAAAAAAAAAAAAAAAAAAAA\n",
    "A=",
    "A_B=c ",
    'password:"',
    "password:'\\",
    '\\"password\\":\\"',
    "密码：",
    "login a password ",
    "M" * 24 + ".",
    "a.b.",
    "_-",
    " ",
    "\n",
    "1",
    "a",
    "A1b",
    "password !aA1b2c3",
    "secret A1b2C3d4",
    " as the password",
    "%20",
    "\x1b[31m",
    "\u200b",
    "aGVsbG8gd29ybGQgdGhpcyBpcw== ",
    "-----BEGIN PRIVATE KEY-----\n" + "aB3" * 20 + "\n",
]


@pytest.mark.parametrize("piece", _ADVERSARIAL)
def test_time_grows_with_the_length_only(piece: str) -> None:
    """Eight times the text takes about eight times as long, not sixty-four times."""

    def cost(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        best = float("inf")
        for _ in range(2):
            started = time.thread_time()
            redact(text)
            best = min(best, time.thread_time() - started)
        return best

    small, large = cost(20_000), cost(160_000)
    assert large < max(small, 0.004) * 24


def test_a_megabyte_of_mixed_text() -> None:
    pieces = [*_ADVERSARIAL, *LOOK_ALIKES, *(text for _, text, _ in TOKENS)]
    text = " ".join(pieces * (1_000_000 // sum(len(p) + 1 for p in pieces) + 1))[:1_000_000]
    result = redact(text)
    assert sum(result.counts.values()) > 1_000


@settings(max_examples=200)
@given(st.text(alphabet="pasword=:'\"\\ \n-BEGINPRVTKY", max_size=200))
def test_no_text_of_awkward_characters_breaks_it(text: str) -> None:
    redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "password=turn:x.y = turn:x.y = turn:turn:",
        "[redacted:password] = Tr0ub4dor",
        "[redacted:cookie]: session=abcdefgh12345",
        "[redacted:authorization]: Tr0ub4dor9x2",
    ],
)
def test_the_word_in_a_mark_tells_nothing_of_what_follows(text: str) -> None:
    """Found by fuzzing: each look took another value of a row of them."""
    once = redact(text).text
    assert redact(once).text == once
    assert redact("[redacted:password] = Tr0ub4dor").counts == {}
