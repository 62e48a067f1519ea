"""Invented credentials of many kinds as people write them, and lines that only look like some.

They are made here by a seeded generator, so that no file of the repository holds a text that a
secret scanner would stop at.
"""

# A table: one text of it is one line.
# ruff: noqa: E501

from __future__ import annotations

import base64
import json
import random
import string
import urllib.parse

#: Kind, the text, and what of it must be gone.
CREDENTIALS: list[tuple[str, str, tuple[str, ...]]] = []

_random = random.Random(4242)
_ALNUM = string.ascii_letters + string.digits


def alnum(n: int) -> str:
    return "".join(_random.choice(_ALNUM) for _ in range(n))


def hexes(n: int) -> str:
    return "".join(_random.choice("0123456789abcdef") for _ in range(n))


def upper_hexes(n: int) -> str:
    return hexes(n).upper()


def lower(n: int) -> str:
    return "".join(_random.choice(string.ascii_lowercase + string.digits) for _ in range(n))


def upper(n: int) -> str:
    return "".join(_random.choice(string.ascii_uppercase + string.digits) for _ in range(n))


def base64_text(n: int) -> str:
    return base64.b64encode(_random.randbytes(n)).decode()


def url_base64(n: int) -> str:
    return base64.urlsafe_b64encode(_random.randbytes(n)).decode().rstrip("=")


def uuid() -> str:
    return f"{hexes(8)}-{hexes(4)}-4{hexes(3)}-a{hexes(3)}-{hexes(12)}"


def jwt() -> str:
    return "eyJ" + alnum(33) + ".eyJ" + alnum(80) + "." + url_base64(32)


def add(kind: str, secret: str, *frames: str) -> None:
    """A credential in some texts, in which ``{}`` is its place."""
    for frame in frames:
        CREDENTIALS.append((kind, frame.replace("{}", secret), (secret,)))


add(
    "npm",
    "npm_" + alnum(36),
    "//npm.example.com/:_authToken={}",
    "NPM_TOKEN={} npm publish",
    "npm config set //npm.example.com/:_authToken {}",
    "echo {} | npm login",
    '"npmToken": "{}"',
)
add("npm legacy", uuid(), "//npm.example.com/:_authToken={}")
add("npm _auth", base64_text(20), "_auth={}", '_auth = "{}"', "//npm.acme.io/:_password={}")
add(
    "pypi",
    "pypi-AgEIcHlwaS5vcmcC" + url_base64(120),
    "TWINE_PASSWORD={}",
    "  password = {}",
    "twine upload -u __token__ -p {} dist/*",
    "{}",
)
add(
    "dockerhub",
    "dckr_pat_" + url_base64(20)[:27],
    "docker login -u acme -p {}",
    "echo {} | docker login --password-stdin",
)
add("dockerhub oat", "dckr_oat_" + url_base64(24)[:32], "docker login -u acme --password {}")
add(
    "docker config",
    base64.b64encode(b"acme:Sup3rS3cret!").decode(),
    '{"auths":{"https://index.docker.io/v1/":{"auth":"{}"}}}',
    '      "auth": "{}"',
    '\\"auth\\": \\"{}\\"',
)
add("docker identitytoken", alnum(60), '"identitytoken": "{}"')
add(
    "gitlab",
    "glpat-" + url_base64(15),
    'curl --header "PRIVATE-TOKEN: {}" https://gitlab.com/api/v4',
    "git clone https://oauth2:{}@gitlab.com/x/y.git",
    "glab auth login --token {}",
)
add("gitlab new", "glpat-" + url_base64(20) + ".01." + lower(9), "PRIVATE-TOKEN: {}")
add(
    "gitlab runner",
    "GR1348941" + url_base64(15),
    "gitlab-runner register --registration-token {}",
    'registration_token = "{}"',
)
add("gitlab runner2", "glrt-" + url_base64(15), 'token = "{}"', "gitlab-runner register --token {}")
add("gitlab trigger", "glptt-" + hexes(40), "token={}")
add(
    "slack hook",
    "T" + upper(10) + "/B" + upper(10) + "/" + alnum(24),
    "https://hooks.slack.com/services/{}",
    "SLACK_WEBHOOK=https://hooks.slack.com/services/{}",
)
add(
    "slack bot",
    "xoxb-" + "1234567890123-1234567890123-" + alnum(24),
    "{}",
    "SLACK_BOT_TOKEN={}",
    '"token":"{}"',
)
add("slack xoxc", "xoxc-123456789012-123456789012-123456789012-" + hexes(64), "{}")
add("slack xoxd", "xoxd-" + urllib.parse.quote(base64_text(60), safe=""), "cookie: d={}", "{}")
add(
    "telegram",
    "7123456789:AAH" + url_base64(24)[:32],
    "https://api.telegram.org/bot{}/sendMessage",
    "BOT_TOKEN={}",
    'bot = Bot("{}")',
)
s = urllib.parse.quote(base64_text(32), safe="")
add(
    "azure sas",
    s,
    "https://acme.blob.core.windows.net/c?sv=2022-11-02&ss=b&sp=rw&se=2026-05-01&sig={}",
    "sp=r&sig={}",
    "?sig={}&sv=2020",
)
s = base64_text(64)
add(
    "azure storage",
    s,
    "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net",
    "AccountKey={}",
    "az storage blob list --account-key {}",
    "AZURE_STORAGE_KEY={}",
)
s = base64_text(32)
add(
    "azure servicebus",
    s,
    "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}",
)
add("azure iot", s, "HostName=h.azure-devices.net;DeviceId=d;SharedAccessKey={}")
add(
    "azure cosmos",
    base64_text(64),
    "AccountEndpoint=https://acme.documents.azure.com:443/;AccountKey={};",
)
add(
    "azure client secret",
    alnum(3) + "8Q~" + url_base64(26)[:34],
    "AZURE_CLIENT_SECRET={}",
    "az login --service-principal -u app -p {} --tenant t",
    "{}",
)
add(
    "azure devops pat",
    lower(52),
    "AZURE_DEVOPS_EXT_PAT={}",
    'git -c http.extraheader="AUTHORIZATION: bearer {}" clone',
)
add(
    "azure devops new",
    alnum(76) + "JQQJ99" + upper(4) + "ACAAAAA" + alnum(12) + "AZDO" + alnum(4),
    "{}",
)
pk = (
    "-----BEGIN PRIVATE"
    + " KEY-----\\n"
    + "\\n".join(base64_text(48) for _ in range(10))
    + "\\n-----END PRIVATE"
    + " KEY-----\\n"
)
CREDENTIALS.append(
    (
        "gcp sa",
        '{"type": "service_account","project_id": "x","private_key_id": "'
        + hexes(40)
        + '","private_key": "'
        + pk
        + '","client_email": "a@x.iam.gserviceaccount.com"}',
        tuple(x for x in pk.split("\\n")[1:-2]),
    )
)
add(
    "gcp api",
    "AIza" + url_base64(27)[:35],
    "GOOGLE_API_KEY={}",
    "https://maps.googleapis.com/maps/api/js?key={}&libraries=x",
)
add("gcp oauth refresh", "1//0" + url_base64(75)[:100], '"refresh_token": "{}"')
add("twilio", "SK" + hexes(32), "TWILIO_API_KEY={}")
add(
    "twilio auth token",
    hexes(32),
    "TWILIO_AUTH_TOKEN={}",
    'auth_token = "{}"',
    'client = Client("AC0123456789abcdef0123456789abcdef", auth_token="{}")',
    "curl -u AC0123456789abcdef0123456789abcdef:{} https://api.twilio.com",
)
add("sendgrid", "SG." + url_base64(16) + "." + url_base64(32), "{}", "Authorization: Bearer {}")
add("digitalocean", "dop_v1_" + hexes(64), "doctl auth init -t {}", "DIGITALOCEAN_ACCESS_TOKEN={}")
add("digitalocean spaces", base64_text(32), "SPACES_SECRET_KEY={}", "secret_access_key = {}")
add("heroku", "HRKU-" + uuid(), "HEROKU_API_KEY={}")
add("heroku uuid", uuid(), "HEROKU_API_KEY={}", "heroku_api_key: {}")
add("heroku AA", "HRKU-AA" + url_base64(44), "{}")
add(
    "cloudflare token",
    url_base64(30)[:40],
    "CLOUDFLARE_API_TOKEN={}",
    "Authorization: Bearer {}",
    "CF_API_TOKEN={}",
    'api_token = "{}"',
)
add(
    "cloudflare global",
    hexes(37),
    "X-Auth-Key: {}",
    "CLOUDFLARE_API_KEY={}",
    "cloudflare_api_key={}",
)
add("cloudflare tunnel", "eyJ" + alnum(160), "cloudflared tunnel run --token {}", "TUNNEL_TOKEN={}")
add(
    "datadog", hexes(32), "DD_API_KEY={}", "DD-API-KEY: {}", "api_key: {}", 'datadog_api_key = "{}"'
)
add("datadog app", hexes(40), "DD_APP_KEY={}", "DD-APPLICATION-KEY: {}", "app_key: {}")
add(
    "huggingface",
    "hf_" + "".join(_random.choice(string.ascii_letters) for _ in range(34)),
    "HF_TOKEN={}",
    "huggingface-cli login --token {}",
    "{}",
)
add("openrouter", "sk-or-v1-" + hexes(64), "OPENROUTER_API_KEY={}", "{}")
add(
    "anthropic",
    "sk-ant-api03-" + url_base64(70)[:93] + "AA",
    "ANTHROPIC_API_KEY={}",
    "x-api-key: {}",
    "{}",
)
add(
    "anthropic oauth",
    "sk-ant-oat01-" + url_base64(70)[:93] + "AA",
    "CLAUDE_CODE_OAUTH_TOKEN={}",
    "{}",
)
add("openai", "sk-proj-" + url_base64(110), "OPENAI_API_KEY={}", "{}", 'openai.api_key = "{}"')
add("openai org sess", "sess-" + alnum(40), "Authorization: Bearer {}")
add("deepseek", "sk-" + hexes(32), "DEEPSEEK_API_KEY={}", "{}")
add("mistral", alnum(32), "MISTRAL_API_KEY={}", 'mistral_api_key="{}"')
add("cohere", alnum(40), "CO_API_KEY={}", "COHERE_API_KEY: {}")
add("azure openai", hexes(32), "AZURE_OPENAI_API_KEY={}", "api-key: {}", '"api-key": "{}"')
add("supabase anon", jwt(), "SUPABASE_ANON_KEY={}", "SUPABASE_SERVICE_ROLE_KEY={}", "{}")
add("supabase", "sbp_" + hexes(40), "supabase login --token {}")
add("supabase secret", "sb_secret_" + url_base64(22) + "_" + alnum(8), "{}")
add("vercel", alnum(24), "VERCEL_TOKEN={}", "vercel --token {}", "vercel deploy --token={}")
add(
    "vercel blob",
    "vercel_blob_rw_" + alnum(16) + "_" + alnum(30),
    'BLOB_READ_WRITE_TOKEN="{}"',
    "{}",
)
add("shopify", "shpat_" + hexes(32), "X-Shopify-Access-Token: {}", "{}")
add("shopify shared", "shpss_" + hexes(32), "SHOPIFY_API_SECRET={}")
add(
    "stripe",
    "sk_live_51" + alnum(97),
    "STRIPE_SECRET_KEY={}",
    'stripe.api_key = "{}"',
    "curl https://api.stripe.com -u {}:",
)
add("stripe rk", "rk_live_51" + alnum(97), "{}")
add("stripe hook", "whsec_" + alnum(32), "STRIPE_WEBHOOK_SECRET={}")
add("linear", "lin_api_" + alnum(40), "LINEAR_API_KEY={}", "Authorization: {}")
add("notion", "ntn_" + alnum(46), "NOTION_TOKEN={}", "{}")
add("notion old", "secret_" + alnum(43), "{}")
add(
    "netrc",
    alnum(18),
    "machine api.github.com login acme password {}",
    "machine h\n  login acme\n  password {}\n",
    "machine api.heroku.com\n  login a@b.c\n  password {}",
)
add(
    "netrc plain",
    "horsebattery",
    "machine ftp.acme.io login bob password {}",
    "machine ftp.acme.io\n\tlogin bob\n\tpassword {}",
)
add(
    "pgpass",
    "s3cr3tPg!x",
    "db.acme.io:5432:prod:app:{}",
    "*:*:*:postgres:{}",
    "localhost:6432:db:user:{}",
)
add("pgpass env", "s3cr3tPgx", "PGPASSWORD={} psql -h db", "PGPASSWORD='{}' psql")
sk = (
    "-----BEGIN OPENSSH PRIVATE"
    + " KEY-----\n"
    + "\n".join(base64_text(52)[:70] for _ in range(6))
    + "\n-----END OPENSSH PRIVATE"
    + " KEY-----"
)
CREDENTIALS.append(("ssh key", sk, tuple(sk.split("\n")[1:-1])))
CREDENTIALS.append(
    (
        "ssh key indented",
        "  key: |\n" + "\n".join("    " + line for line in sk.split("\n")),
        tuple(sk.split("\n")[1:-1]),
    )
)
CREDENTIALS.append(
    ("ssh key diff", "\n".join("+" + line for line in sk.split("\n")), tuple(sk.split("\n")[1:-1]))
)
CREDENTIALS.append(
    (
        "ssh key cat -n",
        "\n".join(f"{i:6}\t{line}" for i, line in enumerate(sk.split("\n"), 1)),
        tuple(sk.split("\n")[1:-1]),
    )
)
CREDENTIALS.append(
    (
        "ssh key arrow numbers",
        "\n".join(f"{i:6}→{line}" for i, line in enumerate(sk.split("\n"), 1)),
        tuple(sk.split("\n")[1:-1]),
    )
)
CREDENTIALS.append(("ssh key in json", json.dumps({"k": sk}), tuple(sk.split("\n")[1:-1])))
CREDENTIALS.append(("ssh key crlf", sk.replace("\n", "\r\n"), tuple(sk.split("\n")[1:-1])))
CREDENTIALS.append(("ssh key one line", sk.replace("\n", " "), tuple(sk.split("\n")[1:-1])))
CREDENTIALS.append(("ssh key quoted shell", "echo '" + sk + "' > key", tuple(sk.split("\n")[1:-1])))
CREDENTIALS.append(
    (
        "ssh key python concat",
        "\n".join('"' + line + '\\n"' for line in sk.split("\n")),
        tuple(sk.split("\n")[1:-1]),
    )
)
bb = base64.b64encode(sk.encode()).decode()
add("base64 of a key", bb, "client-key-data: {}", "SSH_KEY_B64={}", "{}")
add("kubeconfig token", jwt(), "    token: {}")
add(
    "kubeconfig key",
    base64.b64encode(
        ("-----BEGIN RSA PRIVATE" + " KEY-----\n" + base64_text(200)).encode()
    ).decode(),
    "    client-key-data: {}",
)
add(
    "kube secret",
    base64.b64encode(b"Sup3rS3cret-db-pass").decode(),
    "apiVersion: v1\nkind: Secret\ndata:\n  password: {}",
    "  db-password: {}",
)
add(
    "k8s bootstrap",
    "abcdef.0123456789abcdef".replace("abcdef.", lower(6) + ".")[:7] + lower(16),
    "kubeadm join 10.0.0.1:6443 --token {} --discovery-token-ca-cert-hash sha256:" + hexes(64),
)
add(
    "aws secret",
    base64_text(30)[:40],
    "aws_secret_access_key = {}",
    "AWS_SECRET_ACCESS_KEY={}",
    'export AWS_SECRET_ACCESS_KEY="{}"',
    '"SecretAccessKey": "{}"',
    "aws configure set aws_secret_access_key {}",
    "secretKey: {}",
    '$env:AWS_SECRET_ACCESS_KEY="{}"',
    "set AWS_SECRET_ACCESS_KEY={}",
)
add(
    "aws session",
    "IQoJb3JpZ2luX2VjE" + base64_text(300),
    "AWS_SESSION_TOKEN={}",
    "aws_session_token = {}",
    '"SessionToken": "{}"',
    "x-amz-security-token: {}",
    "X-Amz-Security-Token={}&X",
    "{}",
)
add(
    "aws signed url",
    hexes(64),
    "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={}",
)
add("aws mws", "amzn.mws." + uuid(), "{}")
add(
    "basic url pct",
    "p%40ss%2Fw0rd%21",
    "https://bob:{}@acme.io/x",
    "postgres://app:{}@h/db",
    "curl https://bob:{}@h:8080/",
)
add("url no user", "S3cr3tRedis9", "redis://:{}@h:6379/0")
add("amqp", "gu3st!pw", "amqp://user:{}@rabbit:5672/vhost")
add("mongo srv", "Mong0Pass77", "mongodb+srv://app:{}@c0.x.mongodb.net/db?retryWrites=true")
add(
    "git token url",
    "ghp_" + alnum(36),
    "https://{}@github.com/x/y",
    "https://x-access-token:{}@github.com/x/y.git",
)
add("token url", alnum(20), "https://{}:x-oauth-basic@github.com/x/y")
add(
    "cli flags",
    "Zx9!kLm2#pQ",
    "mysqldump --password={} db",
    "tool --password {} --host h",
    'tool --password "{}"',
    "tool --password='{}'",
    "sqlcmd -S h -U sa -P {}",
    "tool --db-password {}",
    "mysql -uroot -p{} db",
    "sshpass -p {} ssh h",
    "redis-cli -a {} ping",
    "curl -u bob:{} https://x",
    'curl --user "bob:{}" https://x',
    "wget --password={} ftp://h",
    "lftp -u bob,{} ftp.h",
    "ldapsearch -w {} -D cn=a",
    "net use z: \\\\h\\s /user:bob {}",
    "smbclient //h/s -U bob%{}",
    "openssl enc -k {} -in a",
    "openssl rsa -passin pass:{} -in a",
    "gpg --passphrase {} -d f",
    "zip -P {} a.zip f",
    "7z x -p{} a.7z",
    "unzip -P {} a.zip",
    "kubectl create secret generic x --from-literal=password={}",
    "ansible-vault --vault-password {}",
    "docker run -e POSTGRES_PASSWORD={} postgres",
    'docker run -e "MYSQL_ROOT_PASSWORD={}" mysql',
    'sudo -S <<< "{}"',
    'echo "{}" | sudo -S ls',
    "useradd -p {} bob",
    "htpasswd -b f bob {}",
    "mongo -u a -p {} db",
    "PASS={} ./run",
    "export DB_PASS={}",
    '$password = "{}"',
    "password => '{}'",
    "Password: {}",
    "password is {}",
    "the password is: {}",
    "pw: {}",
    "pwd={}",
    "passwd: {}",
    "Passwort: {}",
    "contraseña: {}",
    "mot de passe : {}",
    "パスワード：{}",
    "密码是{}",
    "密码：{}",
    "my password is `{}`",
)
add(
    "json variants",
    "Kq7mZ2xw9R",
    '{"password":"{}"}',
    '{\\"password\\": \\"{}\\"}',
    '{"db":{"pass":"{}"}}',
    "{'password': '{}'}",
    '{"name":"password","value":"{}"}',
    "- name: DB_PASSWORD\n  value: {}",
    '- name: DB_PASSWORD\n  value: "{}"',
    '<add key="Password" value="{}"/>',
    "<password>{}</password>",
    "password: >-\n  {}",
    'password: "{}"',
    "password = {}",
    "password={}",
    "password:{}",
    '"password" : "{}",',
    'PASSWORD="{}"',
    "PASSWORD='{}'",
    "password=\\\n{}",
    "--password \\\n  {}",
    "[database]\npassword={}",
    "DB_PASSWORD: {}",
    "DATABASE_PASSWORD={}",
    "set password {}",
    'let dbPassword = "{}";',
    "const DB_PASS = `{}`",
    'os.environ["DB_PASSWORD"] = "{}"',
    'process.env.DB_PASSWORD = "{}"',
    'env.put("DB_PASSWORD", "{}")',
    'System.setProperty("db.password", "{}")',
    "spring.datasource.password={}",
    'conn = connect(host="h", user="u", password="{}")',
    'connect("h", "u", passwd="{}")',
    "&password={}&x=1",
    "?password={}",
    '{"key":"DB_PASSWORD","value":"{}","type":"secret"}',
    "password%3D{}",
)
k = "ghp_" + alnum(36)
CREDENTIALS.append(
    (
        "split backslash",
        'curl -H "Authorization: token ' + k[:20] + "\\\n" + k[20:] + '" https://x',
        (k[:20], k[20:]),
    )
)
CREDENTIALS.append(("split concat", 'token = "' + k[:20] + '" + "' + k[20:] + '"', (k[:20],)))
CREDENTIALS.append(
    ("split paren", 'token = ("' + k[:20] + '"\n         "' + k[20:] + '")', (k[:20], k[20:]))
)
add(
    "high",
    alnum(48),
    "SIGNING_SALT={}",
    "SESSION_SECRET={}",
    "COOKIE_KEY={}",
    "ENCRYPTION_KEY={}",
    "JWT_SECRET={}",
    "secret_key_base: {}",
    'SECRET_KEY = "{}"',
    "APP_KEY=base64:{}",
    "x-functions-key: {}",
    "X-API-Key: {}",
    "Ocp-Apim-Subscription-Key: {}",
    "apikey: {}",
    "api_key={}",
    "access_token={}",
    "refresh_token: {}",
    "client_secret={}",
    '"client_secret":"{}"',
    "id_token={}",
    "bearer {}",
    "Authorization: Token {}",
    "X-Vault-Token: {}",
    "X-Auth-Token: {}",
    "Proxy-Authorization: Basic {}",
    "Set-Cookie: sid={}; HttpOnly",
    "Cookie: a=b; sid={}",
)
add("sentry dsn", hexes(32), "SENTRY_DSN=https://{}@o1.ingest.sentry.io/2")
add("pagerduty", "u+" + url_base64(15)[:18], "Authorization: Token token={}", "PAGERDUTY_TOKEN={}")
add("okta", "00" + url_base64(30)[:40], "Authorization: SSWS {}", "OKTA_API_TOKEN={}")
add("jenkins", hexes(32), "curl -u admin:{} http://jenkins", "JENKINS_API_TOKEN={}")
add("jira", "ATATT3xFfGF0" + url_base64(130) + "=" + upper_hexes(8), "{}", "JIRA_TOKEN={}")
add(
    "fcm",
    "AAAA" + url_base64(5)[:7] + ":APA91b" + url_base64(100),
    "Authorization: key={}",
    "FCM_SERVER_KEY={}",
    "{}",
)
add("mapbox", "sk.eyJ1Ijoi" + alnum(60) + "." + alnum(22), "{}", "MAPBOX_TOKEN={}")
add("algolia admin", hexes(32), "ALGOLIA_ADMIN_KEY={}", "X-Algolia-API-Key: {}")
add("new relic", "NRAK-" + upper(27), "{}")
add(
    "confluent",
    base64_text(48),
    "sasl.password={}",
    "CONFLUENT_API_SECRET={}",
    'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";',
)
add("rabbit cookie", upper(20), "RABBITMQ_ERLANG_COOKIE={}")
add("wireguard", base64_text(32), "PrivateKey = {}", "PresharedKey = {}")
add("ssh pass", "Fj3kd9!x", "ssh bob@h (password Fj3kd9!x)")
add("firebase cfg", "AIza" + url_base64(27)[:35], 'apiKey: "{}"')
add("elastic", "essu_" + base64_text(40), "{}")
add("elastic apikey", base64_text(45), "Authorization: ApiKey {}")
add("snyk", uuid(), "SNYK_TOKEN={}")
add("codecov", uuid(), "CODECOV_TOKEN={}", "codecov -t {}")
add("age", "AGE-SECRET-KEY-1" + upper(58), "{}")
add(
    "eth key",
    "0x" + hexes(64),
    "PRIVATE_KEY={}",
    'privateKey: "{}"',
    'private_key = "{}"',
    "eth private key {}",
)
add(
    "btc wif",
    "5"
    + "".join(
        _random.choice("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
        for _ in range(50)
    ),
    "private key: {}",
    "WIF={}",
)
add(
    "mnemonic",
    "legal winner thank year wave sausage worth useful legal winner thank yellow",
    "mnemonic: {}",
    'MNEMONIC="{}"',
    "seed phrase: {}",
    "recovery phrase is {}",
)
add("otp", "JBSWY3DPEHPK3PXPJBSWY3DP", "otpauth://totp/A:b?secret={}&issuer=A", "TOTP_SECRET={}")
add("resend", "re_" + alnum(8) + "_" + alnum(24), "RESEND_API_KEY={}", "{}")
add("brevo", "xkeysib-" + hexes(64) + "-" + alnum(16), "{}")
add("mailgun", "key-" + hexes(32), "{}")
add("mailgun2", hexes(32) + "-" + hexes(8) + "-" + hexes(8), "MAILGUN_API_KEY={}")
add("fly", "FlyV1 fm2_lJPECAAAAAAA" + base64_text(200), "{}", 'FLY_API_TOKEN="{}"')
add("render", "rnd_" + alnum(28), "RENDER_API_KEY={}", "{}")
add("railway", uuid(), "RAILWAY_TOKEN={}")
add("planetscale", "pscale_tkn_" + url_base64(32), "{}")
add("neon", "npg_" + alnum(12), "postgresql://neondb_owner:{}@ep-x.neon.tech/neondb")
add("upstash", url_base64(40), 'UPSTASH_REDIS_REST_TOKEN="{}"')
add("dropbox", "sl." + url_base64(96), "{}", "Authorization: Bearer {}")
add("facebook", "EAA" + alnum(150), "access_token={}", "{}")
add(
    "twitter bearer",
    "AAAAAAAAAAAAAAAAAAAAA" + alnum(60) + "%3D" + alnum(40),
    "{}",
    "Authorization: Bearer {}",
)
add("discord hook", "1234567890123456789/" + url_base64(51), "https://discord.com/api/webhooks/{}")
add(
    "teams hook",
    uuid() + "@" + uuid() + "/IncomingWebhook/" + hexes(32) + "/" + uuid(),
    "https://acme.webhook.office.com/webhookb2/{}",
)
add(
    "github app pem",
    "-----"[:0] + base64_text(48),
    "-----BEGIN RSA PRIVATE" + " KEY-----\n{}\n-----END RSA PRIVATE" + " KEY-----",
)
add("gh oauth", "gho_" + alnum(36), "oauth_token: {}")
add("atlas", "mdb_sa_sk_" + alnum(40), "{}")
add("doppler", "dp.st.prd." + alnum(40), "{}")
add("1password", "ops_eyJ" + alnum(800), "OP_SERVICE_ACCOUNT_TOKEN={}", "{}")
add("groq", "gsk_" + alnum(52), "{}")
add("together", hexes(64), "TOGETHER_API_KEY={}")
add("replicate", "r8_" + alnum(37), "{}")
add("pinecone", "pcsk_" + alnum(6) + "_" + alnum(60), "{}", "PINECONE_API_KEY={}")
add("langsmith", "lsv2_pt_" + hexes(32) + "_" + hexes(10), "{}")
add("wandb", hexes(40), "WANDB_API_KEY={}", "wandb login {}")
add("kaggle", hexes(32), '{"username":"a","key":"{}"}')
add("e2b", "e2b_" + hexes(40), "{}")
add("tailscale", "tskey-auth-" + alnum(12) + "CNTRL-" + alnum(32), "{}")
add("ngrok", alnum(27) + "_" + alnum(20), "ngrok config add-authtoken {}", "authtoken: {}")


#: Lines that must come through as they are.
LOOK_ALIKES = r"""
the password is required and must be set
the password is: required
set password field to hidden
set password policy to strong
password reset flow was changed
reset the password for user2 today
pass: true
  pass: 42
12 tests pass: 3 fail: 0
{"pass": true}
{"pass": 12}
{"pass":"yes"}
pass: ok
- pass: all checks
zip -r archive.zip src/
unzip -o archive.zip -d out
7z x archive.7z -oout
mongo --port 27017 mydb
mongosh "mongodb://localhost:27017/app"
htpasswd -c file bob
openssl req -new -key server.key -out x.csr
openssl x509 -in cert.pem -text
useradd -m -s /bin/bash bob
echo "hello" | sudo tee /etc/motd
echo done | tee log.txt
cat file | docker login --password-stdin
echo $TOKEN | docker login -u x --password-stdin
echo "$PASSWORD" | sudo -S ls
git push https://github.com/acme/app.git
ssh://git@github.com/acme/app.git
https://bob@example.com/path
mailto:first.last@example.com
https://my-very-long-user-name@example.com/
git@github.com:acme/app.git
name: token, value: tokenValue
{"name": "password", "type": "string", "required": true}
{"name":"password","value":"required"}
- name: DB_PASSWORD
  valueFrom: secretKeyRef
{"key":"token","value":null}
<input name="password" value="">
<input type="password" name="password" value="{{ form.password }}">
t("password", "Password")
setError("password", "required")
request.getParameter("password", "utf-8")
os.getenv("DB_PASSWORD", "changeme")
assertEquals("token", "tokenName")
password: |
  see the vault
token: >-
  {{ .Values.token }}
private key is stored in the vault
private key 0x00 is invalid
the seed phrase is shown once
mnemonic: the words that you wrote down when the wallet was made by you there
username: "bob", "key": "value"
Passwort: ändern
Passwort vergessen?
contraseña: obligatoria
パスワード：必須
пароль: обязательно
const token = "a" + "b";
const s = "hello " + "world";
"abc" "def"
x = ("first part of text "
     "second part of text")
curl -s https://api.github.com/repos/acme/app \
  -H "Accept: application/json"
export PATH=$PATH:/usr/local/bin
PAT=required
DISPATCH=false
color: #a1b2c3d4;
background: url(data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==)
.btn-primary:hover{color:#fff;background-color:#0069d9;border-color:#0062cc}
!function(e,t){"object"==typeof exports?module.exports=t():e.token=t()}(this,function(){})
"integrity": "sha512-abcDEF123456abcDEF123456abcDEF123456abcDEF123456abcDEF123456abcDEF123456abcDEF1234=="
commit 4bdfc6a1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7
Merge: 1a2b3c4 5d6e7f8
resource id 123e4567-e89b-12d3-a456-426614174000
sl.append(x); re_match = re.compile(x)
re_valid_name_pattern = 3
rnd_seed = 4
EAAccelerator
AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJ
wandb login
wandb login --relogin
ngrok http 8080
codecov -f coverage.xml
kubectl get pods -n app -o wide
kubeadm token create --print-join-command
docker run -p 8080:80 nginx
ldapsearch -x -b dc=acme
net use z: \\host\share
mysql -u root -p
mysql -uroot db
ssh -p 2222 bob@host
tar -p -xf a.tar
token.value.something = other.thing
我们把密码策略改成了八位以上
用户密码为空时提示错误
令牌过期后自动刷新
git commit -m "password reset: fix #123!"
password reset#12 done
the pw is the same
key: value
cache key: user:123:profile
Token limit is 4096 tokens
max tokens was 200000
The secret is to keep it simple
api key is missing
auth token was not sent
Bearer authentication is used
pwd=/home/dev/app
cd $(pwd) && ls
version: 1.2.3+build.456
user_token_count: 1234567
secretsmanager:GetSecretValue
arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-AbCdEf
AccountName=acme
sqlcmd -S host -d db -Q "select 1"
unzip -p a.zip file.txt
x-request-id: 7f3a9c1e5b2d4f6a8c0e1b3d5f7a9c1e
trace 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
Signed-off-by: Bob <bob@example.com>
""".strip("\n").split("\n")
