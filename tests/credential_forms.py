"""Invented credentials in the files, programs, headers and sentences that people put them in.

A second table beside ``credential_kinds``: newer services, and more ways to write one down. Made
by the same seeded generator, so that no file of the repository holds what a scanner stops at.
"""

# A table: one text of it is one line.
# ruff: noqa: E501

from __future__ import annotations

import base64
import json
import urllib.parse

from credential_kinds import alnum, base64_text, hexes, lower, upper, url_base64, uuid

#: Kind, the text, and what of it must be gone.
CREDENTIALS: list[tuple[str, str, tuple[str, ...]]] = []


def add(kind: str, secret: str, *frames: str) -> None:
    """A credential in some texts, in which ``{}`` is its place."""
    for frame in frames:
        CREDENTIALS.append((kind, frame.replace("{}", secret), (secret,)))


# ------------------------------------------------------------- tokens by their own form
BARE = ("{}", "it is {} as before")
add("bedrock", "ABSK" + base64_text(96), *BARE)
add("bitbucket access", "ATCTT3xFfGN0" + url_base64(130) + "=" + hexes(8).upper(), *BARE)
add("artifactory reference", "cmVmdGtuOjAx" + alnum(52), *BARE)
add("clojars", "CLOJARS_" + hexes(60), *BARE)
add("dynatrace", "dt0c01." + upper(24) + "." + upper(64), *BARE)
add("duffel", "duffel_live_" + url_base64(32), *BARE)
add("easypost", "EZAK" + alnum(54), *BARE)
add("flutterwave", "FLWSECK-" + hexes(32) + "-X", *BARE)
add("openshift", "sha256~" + url_base64(32), *BARE)
add("plaid", "access-production-" + uuid(), *BARE)
add("prefect", "pnu_" + lower(36), *BARE)
add("readme", "rdme_" + lower(70), *BARE)
add("scalingo", "tk-us-" + url_base64(36), *BARE)
add("shippo", "shippo_live_" + hexes(40), *BARE)
add("sourcegraph", "sgp_" + hexes(16) + "_" + hexes(40), *BARE)
add("typeform", "tfp_" + url_base64(44), *BARE)
add("fireworks", "fw_" + alnum(24), *BARE)
add("cerebras", "csk-" + lower(48), *BARE)
add("nvidia", "nvapi-" + url_base64(48), *BARE)
add("voyage", "pa-" + url_base64(32), *BARE)
add("jina", "jina_" + hexes(32) + alnum(28), *BARE)
add("firecrawl", "fc-" + hexes(32), *BARE)
add("elevenlabs", "sk_" + hexes(48), *BARE)
add("runpod", "rpa_" + upper(42) + lower(6), *BARE)
add("posthog", "phx_" + alnum(47), *BARE)
add("launchdarkly", "sdk-" + uuid(), *BARE)
add("paddle", "pdl_live_apikey_" + lower(26) + "_" + alnum(22) + "_" + alnum(3), *BARE)
add("trigger", "tr_prod_" + alnum(24), *BARE)
add("inngest", "signkey-prod-" + hexes(64), *BARE)
add("xata", "xau_" + alnum(32), *BARE)
add("neon api", "napi_" + lower(64), *BARE)
add("neon password", "npg_" + alnum(12), *BARE)
add("deno deploy", "ddp_" + alnum(36), *BARE)
add("jsr", "jsrp_" + alnum(40), *BARE)
add("vercel new", "vcp_" + alnum(56), *BARE)
add("netlify build", "nfb_" + alnum(36), *BARE)
add("honeycomb", "hcaik_01" + lower(56), *BARE)
add("axiom", "xaat-" + uuid(), *BARE)
add("mailersend", "mlsn." + hexes(64), *BARE)
add("apify", "apify_api_" + alnum(36), *BARE)
add("browserbase", "bb_live_" + url_base64(20), *BARE)
add("trello", "ATTA" + hexes(64) + upper(8), *BARE)
add("clickup", "pk_12345678_" + upper(32), *BARE)
add("hubspot", "pat-na1-" + uuid(), *BARE)
add("asana", "2/1201234567890123/1209876543210987:" + hexes(32), *BARE)
add("salesforce", "00D5g000001abcD!AQ" + alnum(80), *BARE)
add("zhipu", hexes(32) + "." + alnum(16), "ZHIPUAI_API_KEY={}", "api_key='{}'")
add("baidu", "bce-v3/ALTAK-" + alnum(21) + "/" + hexes(40), *BARE)
add("volcengine", "AKLT" + alnum(43), *BARE)
add("yandex", "AQVN" + url_base64(27), *BARE)
add("brave", "BSA" + url_base64(21), "X-Subscription-Token: {}", "BRAVE_API_KEY={}")
add(
    "onepassword secret key",
    "A3-"
    + upper(6)
    + "-"
    + upper(6)
    + "-"
    + upper(5)
    + "-"
    + upper(5)
    + "-"
    + upper(5)
    + "-"
    + upper(5),
    *BARE,
)
add("bitwarden", "0." + uuid() + "." + alnum(30) + ":" + base64_text(16), "BWS_ACCESS_TOKEN={}")
add("infisical", "st." + uuid() + "." + hexes(32) + "." + hexes(32), *BARE)
add("grafana old", "eyJrIjoi" + alnum(80) + "=", *BARE)
add("slack config", "xoxe-1-" + alnum(140), *BARE)
add(
    "azure function",
    alnum(40) + "AzFu" + alnum(8) + "==",
    "https://x.azurewebsites.net/api/f?code={}",
    '"x-functions-key": "{}"',
)
add("gitlab feed", "glft-" + alnum(20), "https://gitlab.com/x.atom?feed_token={}")
add("gitlab workspace", "glwt-" + url_base64(15), *BARE)
add("discord bot", "MTI" + alnum(21) + "." + alnum(6) + "." + url_base64(28), *BARE)
add("feishu hook", uuid(), "https://open.feishu.cn/open-apis/bot/v2/hook/{}")
add("dingtalk hook", hexes(64), "https://oapi.dingtalk.com/robot/send?access_token={}")
add("wecom hook", uuid(), "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}")
add("bcrypt", "$2b$12$" + alnum(53), "bob:{}", "password_hash: {}")
add("apr1", "$apr1$" + alnum(8) + "$" + alnum(22), "bob:{}")
add("shadow", "$6$" + alnum(16) + "$" + alnum(86), "root:{}:19700:0:99999:7:::")

# --------------------------------------------------------------------------- passwords
PW = "Vt9!mKq4Zr"
add(
    "compose",
    PW,
    "services:\n  db:\n    environment:\n      - POSTGRES_PASSWORD={}\n      - TZ=UTC",
    "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: '{}'\n",
    "    command: redis-server --requirepass {}",
    "ENV DB_PASSWORD {}",
    "ARG NPM_PASS={}",
    "RUN echo 'root:{}' | chpasswd",
)
add(
    "kubernetes",
    PW,
    "stringData:\n  username: app\n  password: {}\n",
    "helm upgrade app ./chart --set db.password={} --wait",
    "helm install x --set-string 'auth.rootPassword={}'",
    "kubectl create secret docker-registry r --docker-username=bob --docker-password={}",
)
add(
    "terraform",
    PW,
    'db_password = "{}"',
    'variable "db_password" {\n  type    = string\n  default = "{}"\n}',
    'terraform apply -var="db_password={}"',
    "terraform apply -var 'admin_pass={}'",
    '        "attributes": {"master_password": "{}", "master_username": "app"}',
    "TF_VAR_db_password={}",
    '  + password = "{}"',
    '  ~ password = "old-value" -> "{}"',
)
add(
    "actions",
    PW,
    "  env:\n    DB_PASSWORD: {}\n    CI: true",
    'echo "DB_PASSWORD={}" >> $GITHUB_ENV',
    "echo '::set-output name=password::{}'",
    "2026-01-02T03:04:05.1234567Z   DB_PASSWORD: {}",
    "::add-mask::{}",
)
add(
    "powershell",
    PW,
    '$env:DB_PASSWORD = "{}"',
    '$sec = ConvertTo-SecureString "{}" -AsPlainText -Force',
    "$cred = New-Object PSCredential('bob', (ConvertTo-SecureString -String '{}' -AsPlainText -Force))",
    "cmdkey /add:srv /user:bob /pass:{}",
    "net user bob {} /add",
    "setx DB_PASSWORD {}",
    'setx DB_PASSWORD "{}" /M',
    "$pw = '{}'",
    'Connect-Db -Password "{}"',
    "[Environment]::SetEnvironmentVariable('DB_PASSWORD', '{}', 'User')",
)
add("putty", PW, "plink -ssh bob@h -pw {} ls", "pscp -pw {} f bob@h:")
add(
    "jdbc",
    PW,
    "jdbc:postgresql://h:5432/db?user=app&password={}&ssl=true",
    "jdbc:sqlserver://h:1433;databaseName=x;user=sa;password={};encrypt=true",
    "jdbc:oracle:thin:app/{}@h:1521/x",
    "jdbc:oracle:thin:app/{}@//h:1521/x",
    'DriverManager.getConnection("jdbc:mysql://h/db", "app", "{}")',
    "sqlplus app/{}@//h:1521/x",
)
add(
    "odbc",
    PW,
    "DRIVER={ODBC Driver 18 for SQL Server};SERVER=h;UID=sa;PWD={}",
    "Driver={SQL Server};Server=h;Uid=sa;Pwd={};",
    "DSN=prod;UID=app;PWD={}",
)
CREDENTIALS.append(("odbc braces", "DRIVER=x;SERVER=h;UID=sa;PWD={" + PW + "};Encrypt=yes", (PW,)))
add(
    "libpq",
    PW,
    "host=h dbname=x user=app password={} sslmode=require",
    "psycopg2.connect(\"dbname=x user=y password='{}'\")",
)
add(
    "urls",
    "Vt9mKq4Zr7",
    "postgresql+asyncpg://app:{}@h:5432/db",
    "mysql+pymysql://app:{}@h/db?charset=utf8",
    "rediss://default:{}@h.upstash.io:6379",
    "redis://:{}@h",
    "amqps://u:{}@h/v",
    "smtp://bob%40x.io:{}@smtp.x.io:587",
    "rtsp://admin:{}@10.0.0.4:554/live",
    "ftp://bob:{}@h/f",
    "cloudinary://123456789012345:{}@acme",
    "mongodb+srv://app:{}@c0.x.mongodb.net",
    "sftp://bob:{}@h:22/",
    "ldap://cn=a,dc=b:{}@h",
    "nats://bob:{}@h:4222",
    "mqtt://dev:{}@broker:1883",
    "socks5://bob:{}@h:1080",
    "HTTPS_PROXY=http://bob:{}@proxy:3128",
    "git+https://bob:{}@git.acme.io/x.git",
    "elasticsearch://elastic:{}@h:9200",
)
add("url pw signs", "p#ss?W0rd!x9", "postgres://app:{}@db:5432/prod", "mongodb://app:{}@h/db")
add(
    "config files",
    PW,
    "[client]\nuser=root\npassword={}\n",
    '[client]\npassword = "{}"\n',
    "requirepass {}",
    "masterauth {}",
    "redis> AUTH {}",
    "127.0.0.1:6379> AUTH default {}",
    "[global]\nindex-url = https://bob:{}@pypi.acme.io/simple",
    "[remote]\ntype = sftp\nuser = bob\npass = {}\n",
    'network={\n  ssid="home"\n  psk="{}"\n}',
    "nmcli dev wifi connect home password {}",
    "spring:\n  datasource:\n    username: app\n    password: {}\n",
    "spring.mail.password={}",
    "hibernate.connection.password {}",
    '<property name="hibernate.connection.password">{}</property>',
    '<property name="password" value="{}"/>',
    '<user username="tomcat" password="{}" roles="manager-gui"/>',
    "<server><id>x</id><username>bob</username><password>{}</password></server>",
    '<add name="Db" connectionString="Server=h;User Id=sa;Password={};" />',
    '"ConnectionStrings": { "Default": "Host=h;Username=app;Password={}" }',
    "'password' => '{}',",
    "'password' => env('DB_PASSWORD', '{}'),",
    "define('DB_PASSWORD', '{}');",
    "define( 'AUTH_KEY', '{}-u2#Kd;x|Qw' );",
    "ansible_become_pass={}",
    "ansible_ssh_pass: {}",
    "smtp_auth_password = {}",
    "imap_pass={}",
    '<Pass encoding="plain">{}</Pass>',
    "bindpw {}",
    "olcRootPW: {}",
    "enable secret {}",
    "snmp-server community {}",
    "sonar.password={}",
    "signing.password={}",
    "storePassword={}",
    "keyPassword '{}'",
    "keytool -genkey -storepass {} -keypass {}",
    "security.ssl.key-store-password={}",
    "pass = {}",
    "smtp_pass {}",
)
add(
    "sql",
    PW,
    "CREATE USER app WITH PASSWORD '{}';",
    "CREATE USER 'app'@'%' IDENTIFIED BY '{}';",
    "ALTER ROLE app PASSWORD '{}'",
    "ALTER USER 'root'@'localhost' IDENTIFIED WITH mysql_native_password BY '{}';",
    "CREATE LOGIN sa WITH PASSWORD = N'{}'",
    "SET PASSWORD FOR 'app'@'h' = PASSWORD('{}')",
    'GRANT ALL ON *.* TO app IDENTIFIED BY "{}"',
    "CREATE DATABASE LINK l CONNECT TO app IDENTIFIED BY {} USING 'x'",
    "db.createUser({user: 'app', pwd: '{}', roles: []})",
    "db.auth('app', '{}')",
)
add(
    "programs",
    PW,
    "requests.get(u, auth=('bob', '{}'))",
    "requests.get(u, auth=HTTPBasicAuth('bob', '{}'))",
    "smtp.login('bob@x.io', '{}')",
    'server.login(user, "{}")',
    'req.SetBasicAuth("bob", "{}")',
    '.basic_auth("bob", Some("{}"))',
    "axios.get(u, {auth: {username: 'bob', password: '{}'}})",
    "ssh.connect('h', username='bob', password='{}')",
    'new NetworkCredential("bob", "{}")',
    'Credentials.basic("bob", "{}")',
    'conn.login("bob", "{}")',
    "pool = mysql.createPool({host:'h',user:'u',password:'{}'})",
    'mysqli_connect("h", "root", "{}", "db")',
    "new PDO('mysql:host=h', 'root', '{}')",
    'password := "{}"',
    'let password: &str = "{}";',
    'val password: String = "{}"',
    'private static final String PASSWORD = "{}";',
    'String password = new String("{}");',
    '#define WIFI_PASSWORD "{}"',
    'const char* password = "{}";',
    'WiFi.begin("home", "{}");',
    'password: str = "{}"',
    "@password = '{}'",
    'setPassword("{}")',
    '.password("{}")',
    ".withPassword('{}')",
    "page.fill('#password', '{}')",
    "page.getByLabel('Password').fill('{}')",
    "cy.get('input[name=password]').type('{}')",
    'driver.find_element(By.ID, "password").send_keys("{}")',
    'expect "password:"\nsend "{}\\r"',
    'if password == "{}":',
    "password ||= '{}'",
    "password ?? '{}'",
    "process.env.DB_PASSWORD || '{}'",
    "os.environ.get('DB_PASSWORD', '{}')",
    'os.Setenv("DB_PASSWORD", "{}")',
    'env::set_var("DB_PASSWORD", "{}");',
    "monkeypatch.setenv('DB_PASSWORD', '{}')",
    "getpass() or '{}'",
    '(password . "{}")',
    '{:password "{}"}',
    '%{password: "{}"}',
    'password -> "{}"',
)
add(
    "spoken",
    PW,
    "my password is {}",
    "The password for the db is {} by the way",
    "use {} as the password",
    "log in with user admin and password {}",
    "log in as admin / {}",
    "creds: admin:{}",
    "credentials are admin/{}",
    "username: bob password: {}",
    "user bob, pass {}",
    "pw={}",
    "the root password was changed to {}",
    "set the password to {} please",
    "change my password from old to {}",
    "Password for 'bob': {}",
    "bob's password: {}",
    "password (prod): {}",
    "Password → {}",
    "**Password:** {}",
    "**Password**: `{}`",
    "| password | {} |",
    "| Password | `{}` |",
    "- Password – {}",
    "Password\n{}\n",
    "Enter password: {}",
    "[sudo] password for bob: {}",
    "passcode {}",
    "PIN/password: {}",
    "my pass is {}",
    "login: bob pass: {}",
)
add(
    "cjk",
    PW,
    "密码：{}",
    "密码是 {}",
    "密码 {}",
    "密码为{}",
    "数据库密码为：{}",
    "账号 admin 密码 {}",
    "账号密码：admin/{}",
    "用户名：admin，密码：{}。",
    "登录密码改成了 {}",
    "密碼：{}",
    "密碼是{}",
    "口令是「{}」",
    "“密码”：“{}”",
    "密码=“{}”",
    "SMTP 授权码：{}",
    "授权码是 {}",
    "访问密钥：{}",
    "パスワードは {} です",
    "パスワード: 「{}」",
    "パスワードは「{}」です",
    "暗証番号：{}",
    "비밀번호: {}",
    "비밀번호는 {} 입니다",
    "암호: {}",
    "hasło: {}",
    "heslo: {}",
    "mật khẩu: {}",
    "parola: {}",
    "şifre: {}",
    "lösenord: {}",
    "salasana: {}",
    "jelszó: {}",
    "पासवर्ड: {}",
    "كلمة المرور: {}",
    "סיסמה: {}",
    "รหัสผ่าน: {}",
    "kata sandi: {}",
)
add(
    "cjk keys",
    alnum(32),
    "密钥：{}",
    "API密钥：{}",
    "令牌 {}",
    "APIキー：{}",
    "トークン：{}",
    "アクセスキー: {}",
    "シークレット：{}",
    "秘密鍵: {}",
    "私钥：{}",
    "API 키: {}",
    "토큰: {}",
    "金鑰：{}",
    "權杖：{}",
)

# ------------------------------------------------------------------- headers and keys
TOKEN = alnum(40)
add(
    "headers",
    TOKEN,
    "curl -H 'X-Api-Key: {}' https://x",
    'curl -H "apikey: {}" https://x',
    "curl --header='X-Auth-Token: {}' https://x",
    "curl -H X-Api-Key:{} https://x",
    'curl ^\n  -H ^"Authorization: Bearer {}^" ^\n  https://x',
    'curl.exe -H """X-Api-Key: {}""" https://x',
    'Invoke-RestMethod -Uri u -Headers @{ Authorization = "Bearer {}" }',
    "Invoke-RestMethod -Headers @{'X-Api-Key'='{}'}",
    '$h.Add("X-Api-Key", "{}")',
    "headers: { Authorization: `Bearer {}` }",
    "headers: { 'X-API-KEY': '{}' }",
    'headers: { "apikey": "{}" }',
    'headers={"Authorization": f"Token {}"}',
    "headers['Authorization'] = 'Bearer {}'",
    'req.Header.Set("Authorization", "Bearer {}")',
    'req.Header.Add("X-Api-Key", "{}")',
    '.header("X-Api-Key", "{}")',
    '.header(AUTHORIZATION, "Bearer {}")',
    '.bearer_auth("{}")',
    '.setHeader("X-Auth-Token", "{}")',
    'request.headers["X-Api-Key"] = "{}"',
    "http GET x X-Api-Key:{}",
    "http GET x 'Authorization:Bearer {}'",
    "http -A bearer -a {} GET x",
    'wget --header="Authorization: Bearer {}" https://x',
    "xh -A bearer -a {} x",
    "> authorization: bearer {}",
    "< set-cookie: sid={}; Path=/",
    ":authorization: Bearer {}",
    '"Authorization", "Bearer {}"',
    '-H "Authorization: $(echo Bearer {})"',
    "grpcurl -H 'authorization: {}' h:443 x",
    "Authorization: AWS4-HMAC-SHA256 Credential=x/20260101/eu/s3/aws4_request, SignedHeaders=host, Signature={}",
    "Sec-WebSocket-Protocol: bearer, {}",
    "X-CSRF-Token: {}",
    "x-goog-api-key: {}",
    "xi-api-key: {}",
    "X-Postmark-Server-Token: {}",
    "PRIVATE-TOKEN={}",
    "git -c http.extraHeader='Authorization: Basic {}' pull",
    'document.cookie = "session={}; path=/"',
    "cookies = {'session': '{}'}",
    'requests.get(u, cookies={"sessionid": "{}"})',
    "--cookie 'session={}'",
    "curl -b 'sid={}' https://x",
    "cookiejar: acme.io\tFALSE\t/\tTRUE\t0\tsessionid\t{}",
)
add(
    "query",
    TOKEN,
    "https://x.io/a?api_key={}",
    "https://x.io/a?access_token={}&b=1",
    "https://x.io/a?token={}#top",
    "https://x.io/cb#access_token={}&state=1",
    "https://x.io/cb?code={}&state=abc",
    "https://x.io/a?key={}",
    "https://x.io/a?apikey={}",
    "https://x.io/a?auth={}",
    "https://x.io/a?client_secret={}",
    "https://x.io/a?X-Goog-Signature=" + "{}",
    "https://x.io/a?Expires=1&Signature={}",
    "https://x.io/reset?reset_token={}",
    "https://x.io/invite?t=1&magic_token={}",
    "wss://x.io/s?auth_token={}",
    "https://x.io/a?sessionToken={}",
    "https%3A%2F%2Fx.io%2Fa%3Ftoken%3D{}%26b%3D1",
)
add(
    "named tokens",
    TOKEN,
    "TOKEN={}",
    "export GH_PAT={}",
    "SLACK_SIGNING_SECRET={}",
    "NEXTAUTH_SECRET={}",
    'AUTH_SECRET="{}"',
    "SECRET_KEY='django-insecure-{}'",
    "APP_SECRET={}",
    "RAILS_MASTER_KEY={}",
    "config.secret_key_base = '{}'",
    "WEBHOOK_SECRET: {}",
    "HMAC_KEY={}",
    "SALT={}",
    "CRON_SECRET={}",
    "REVALIDATE_TOKEN={}",
    "VAPID_PRIVATE_KEY={}",
    "LICENSE_KEY={}",
    "accessKeySecret: {}",
    "AccessKeySecret={}",
    "secretAccessKey: '{}'",
    "SecretId: x\nSecretKey: {}",
    'appSecret: "{}"',
    '"AppSecret": "{}"',
    "corpsecret={}",
    "clientSecret: '{}',",
    "consumer_secret={}",
    "oauth_token_secret={}",
    "signing_key: {}",
    "encryptionKey: {}",
    "bot_token: {}",
    "auth-token: {}",
    "authToken = {}",
    "  _authToken: {}",
    'npmAuthToken: "{}"',
    "always-auth=true\n_auth={}",
    "tokenAuth: {}",
    "my api key is {}",
    "the token is {}",
    "here's the key: {}",
    "API key — {}",
    "Token:\n{}",
    "Your new access token:\n\n    {}\n",
    "secret {}",
    "gh auth login --with-token <<< {}",
    "echo {} | gh auth login --with-token",
    "doppler configure set token {}",
    "vault login {}",
    "railway login --token={}",
    'wrangler secret put API_KEY <<< "{}"',
    'gh secret set API_KEY --body "{}"',
    "gh secret set API_KEY -b {}",
    "heroku config:set API_KEY={}",
    "fly secrets set API_KEY={}",
    "az keyvault secret set --vault-name v --name n --value {}",
    "aws ssm put-parameter --name /x --type SecureString --value {}",
    "aws secretsmanager create-secret --name x --secret-string {}",
    "gcloud secrets versions add x --data-file=- <<< {}",
    "printf '%s' '{}' | docker secret create x -",
    "kubectl config set-credentials bob --token={}",
    "argocd login h --auth-token {}",
    "sentry-cli --auth-token {} releases",
    "snyk auth {}",
    "cargo login {}",
    "poetry config pypi-token.pypi {}",
    "poetry config http-basic.acme bob {}",
    "dotnet nuget push x.nupkg -k {} -s u",
    "nuget setapikey {}",
    "gem push x.gem --key {}",
    ":rubygems_api_key: {}",
    "composer config http-basic.x bob {}",
    "composer config --global github-oauth.github.com {}",
    "stripe login --api-key {}",
    "supabase link -p {}",
    'firebase deploy --token "{}"',
    "expo login -u bob -p {}",
    "eas secret:create --name X --value {}",
    'sops --set \'["token"] "{}"\' f',
    "claude mcp add x -e API_KEY={} -- npx x",
    'claude mcp add --transport http x https://x --header "Authorization: Bearer {}"',
    '"env": {"API_KEY": "{}"}',
    '"args": ["--api-key", "{}"]',
    'args = ["--token", "{}"]',
    "['--password', '{}']",
    "api_key: !!str {}",
    "api_key: &key {}",
    "api_key: >\n  {}\n",
    '"api_key" = "{}"',
    "api-key = {}",
    "apiKey={}",
    "API_KEY={}  # prod",
    "API_KEY={}; export API_KEY",
    "API_KEY={} && run",
    "ApiKey {}",
)
_d = url_base64(32)
add(
    "jwk",
    _d,
    '{"kty":"EC","crv":"P-256","x":"' + url_base64(32) + '","y":"' + url_base64(32) + '","d":"{}"}',
    '{"kty":"oct","k":"{}"}',
)

# ----------------------------------------------------------------- keys in their armour
_LINES = [base64_text(48) for _ in range(6)]
_KINDS = {
    "pgp": (
        "-----BEGIN PGP PRIVATE" + " KEY BLOCK-----\nVersion: GnuPG v2\n\n",
        "\n=aB3d\n-----END PGP PRIVATE" + " KEY BLOCK-----",
    ),
    "ssh2": (
        "---- BEGIN SSH2 ENCRYPTED PRIVATE" + ' KEY ----\nComment: "x"\n',
        "\n---- END SSH2 ENCRYPTED PRIVATE" + " KEY ----",
    ),
    "ec": ("-----BEGIN EC PRIVATE" + " KEY-----\n", "\n-----END EC PRIVATE" + " KEY-----"),
    "putty": (
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: k\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 6\n",
        "\nPrivate-MAC: " + hexes(64),
    ),
    "rsa encrypted": (
        "-----BEGIN RSA PRIVATE"
        + " KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"
        + hexes(32).upper()
        + "\n\n",
        "\n-----END RSA PRIVATE" + " KEY-----",
    ),
}


def key(kind: str, text: str) -> None:
    CREDENTIALS.append((kind, text, tuple(_LINES)))


for _name, (_head, _tail) in _KINDS.items():
    _key = _head + "\n".join(_LINES) + _tail
    key(_name, _key)
    key(_name + " removed", "\n".join("-" + line for line in _key.split("\n")))
    key(_name + " added with space", "\n".join("+  " + line for line in _key.split("\n")))
    key(_name + " comments", "\n".join("# " + line for line in _key.split("\n")))
    key(_name + " slashes", "\n".join("// " + line for line in _key.split("\n")))
    key(_name + " stars", "\n".join(" * " + line for line in _key.split("\n")))
    key(
        _name + " numbers pipe",
        "\n".join(f"{i:4} | {line}" for i, line in enumerate(_key.split("\n"), 1)),
    )
    key(_name + " grep -n", "\n".join(f"{i}:{line}" for i, line in enumerate(_key.split("\n"), 1)))
    key(
        _name + " grep file",
        "\n".join(f"keys/id:{i}:{line}" for i, line in enumerate(_key.split("\n"), 1)),
    )
    key(_name + " arrows", "\n".join(f"{i:6}→{line}" for i, line in enumerate(_key.split("\n"), 1)))
    key(_name + " colours", "\n".join(f"\x1b[32m+{line}\x1b[m" for line in _key.split("\n")))
    key(_name + " json twice", json.dumps(json.dumps({"k": _key})))
    key(_name + " js concat", " +\n".join(f"  '{line}\\n'" for line in _key.split("\n")))
    key(
        _name + " array",
        "[\n" + ",\n".join(f'  "{line}"' for line in _key.split("\n")) + "\n].join('\\n')",
    )
    key(
        _name + " timestamps",
        "\n".join(f"2026-01-02T03:04:05.1234567Z {line}" for line in _key.split("\n")),
    )
    key(_name + " compose log", "\n".join(f"web-1  | {line}" for line in _key.split("\n")))
    key(_name + " no end", (_head + "\n".join(_LINES)))
    for _before in (
        "-",
        "+  ",
        "# ",
        "// ",
        " * ",
        "   3 | ",
        "3:",
        "keys/id:3:",
        "     3→",
        "2026-01-02T03:04:05.1234567Z ",
        "web-1  | ",
        "> > ",
        "| ",
        "\x1b[32m+",
        '    "',
        "echo '",
    ):
        key(
            _name + " no end " + _before,
            "\n".join(_before + line for line in (_head + "\n".join(_LINES)).split("\n")),
        )
        key(
            _name + " no end mark behind " + _before,
            "\n".join(
                _before + line + _before[::-1] for line in (_head + "\n".join(_LINES)).split("\n")
            ),
        )
        if "END" in _tail:
            key(
                _name + " no begin " + _before,
                "\n".join(_before + line for line in ("\n".join(_LINES) + _tail).split("\n")),
            )
    key(_name + " escaped env", 'KEY="' + _key.replace("\n", "\\n") + '"')
    key(_name + " literal crlf", 'KEY="' + _key.replace("\n", "\\r\\n") + '"')
    key(_name + " shell continuation", _key.replace("\n", "\\\n"))
    key(_name + " echo lines", "\n".join(f"echo '{line}' >> key" for line in _key.split("\n")))
    key(
        _name + " heredoc yaml",
        "key: >-\n" + "\n".join("      " + line for line in _key.split("\n")),
    )
    key(
        _name + " wrapped",
        _head
        + "\n".join(line[i : i + 40] for line in _LINES for i in range(0, len(line), 40))
        + _tail,
    )
    key(_name + " list", "\n".join("- " + line for line in _key.split("\n")))
    key(_name + " html", "<br>".join(_key.split("\n")))
    key(_name + " quote", "\n".join("> > " + line for line in _key.split("\n")))
    key(_name + " table", "\n".join("| " + line + " |" for line in _key.split("\n")))
    key(_name + " url", urllib.parse.quote(_key))
# ------------------------------------------------------------------ base64 of a secret
for _what in (
    "ghp_" + alnum(36),
    "postgres://app:Vt9mKq4Zr7@db:5432/prod",
    "DB_PASSWORD=Vt9mKq4Zr7x\nDB_USER=app\n",
    "bob:ghp_" + alnum(36),
    '{"password":"Vt9mKq4Zr7x"}',
):
    _b = base64.b64encode(_what.encode()).decode()
    CREDENTIALS.append(("in base64", f"echo {_b} | base64 -d", (_b,)))
    CREDENTIALS.append(("in base64 yaml", f"data:\n  env: {_b}\n", (_b,)))
_docker = base64.b64encode(
    json.dumps(
        {
            "auths": {
                "ghcr.io": {
                    "username": "bob",
                    "password": "Vt9mKq4Zr7x",
                    "auth": base64.b64encode(b"bob:Vt9mKq4Zr7x").decode(),
                }
            }
        }
    ).encode()
).decode()
CREDENTIALS.append(
    (
        "dockerconfigjson",
        f"data:\n  .dockerconfigjson: {_docker}\ntype: kubernetes.io/dockerconfigjson",
        (_docker,),
    )
)

# ------------------------------------------------------------------ in colours and torn
_t = "ghp_" + alnum(36)
CREDENTIALS += [
    ("colour after =", f"TOKEN=\x1b[33m{_t}\x1b[0m", (_t,)),
    ("colour within", f"\x1b[1m{_t[:20]}\x1b[0m\x1b[1m{_t[20:]}\x1b[0m", (_t[:20], _t[20:])),
    ("colour name", f'\x1b[36mpassword\x1b[0m: \x1b[32m"{PW}"\x1b[39m', (PW,)),
    ("colour yaml", f"\x1b[94mpassword\x1b[0m\x1b[37m:\x1b[0m \x1b[32m{PW}\x1b[0m", (PW,)),
    ("true colour", f"\x1b[38;2;1;2;3mpassword\x1b[0m=\x1b[38;5;12m{PW}\x1b[0m", (PW,)),
    ("zero-width in name", f"pass\u200bword: {PW}", (PW,)),
    ("zero-width in token", f"{_t[:10]}\u200b{_t[10:]}", (_t[10:],)),
    ("nbsp", f"password:\u00a0{PW}", (PW,)),
    ("fullwidth equals", f"password＝{PW}", (PW,)),
    ("fullwidth colon", f"password：{PW}", (PW,)),
    ("api key fullwidth", f"API Key：{TOKEN}", (TOKEN,)),
    ("soft wrapped", f"token: {_t[:22]}\n  {_t[22:]}", (_t[:22],)),
    ("path", f"/home/bob/backups/{_t}/dump.sql", (_t,)),
    ("branch", f"On branch fix/{_t}-login", (_t,)),
    ("commit message", f"[main 1a2b3c4] Use {_t} for CI", (_t,)),
    ("file name", f"?? notes_{_t}.txt", (_t,)),
    ("html entity", f"password&quot;:&quot;{PW}&quot;", (PW,)),
    ("html attribute", f"data-token='{TOKEN}'", (TOKEN,)),
    ("json unicode escape", f"{{\\u0022password\\u0022: \\u0022{PW}\\u0022}}", (PW,)),
    ("url in brackets", "[db](postgres://app:Vt9mKq4Zr7@db/x)", ("Vt9mKq4Zr7",)),
    ("ts declare", f"const password: string = '{PW}'", (PW,)),
    ("csv", f"name,password\nbob,{PW}\n", (PW,)),
    ("tsv", f"user\tpassword\nbob\t{PW}\n", (PW,)),
    ("ini quoted", f'password="""{PW}"""', (PW,)),
    ("toml literal", f"password = '''{PW}'''", (PW,)),
    ("repr", f"Settings(db_password='{PW}', debug=True)", (PW,)),
    ("secretstr", f"SecretStr('{PW}')", (PW,)),
    ("go struct", f'Password:(string)(len=10) "{PW}"', (PW,)),
    ("py tuple", f"('DB_PASSWORD', '{PW}')", (PW,)),
    ("env -0", f"HOME=/root\0DB_PASSWORD={PW}\0X=1", (PW,)),
    ("declare -x", f'declare -x DB_PASSWORD="{PW}"', (PW,)),
    ("fish", f"set -gx DB_PASSWORD {PW}", (PW,)),
    ("csh", f"setenv DB_PASSWORD {PW}", (PW,)),
    ("systemd", f'Environment="DB_PASSWORD={PW}"', (PW,)),
    ("nix", f'password = "{PW}";', (PW,)),
    ("launchd plist", f"<key>DB_PASSWORD</key>\n<string>{PW}</string>", (PW,)),
    ("android strings", f'<string name="api_key">{TOKEN}</string>', (TOKEN,)),
    ("xcconfig", f"API_KEY = {TOKEN}", (TOKEN,)),
    ("properties escaped", f"db.password\\={PW}", (PW,)),
    ("logfmt", f'level=info msg="x" password={PW} user=bob', (PW,)),
    ("json log", f'{{"msg":"login","password":"{PW}"}}', (PW,)),
    ("form", f"username=bob&password={PW}&remember=1", (PW,)),
    ("multipart", f'Content-Disposition: form-data; name="password"\r\n\r\n{PW}\r\n', (PW,)),
    ("soap", f'<wsse:Password Type="x">{PW}</wsse:Password>', (PW,)),
    ("graphql", f'mutation {{ login(email: "a@b.c", password: "{PW}") {{ token }} }}', (PW,)),
    ("strace", f'write(3, "PASS {PW}\\r\\n", 17)', (PW,)),
    ("ftp", f"331 Password required\n---> PASS {PW}", (PW,)),
    ("pop", f"USER bob\r\nPASS {PW}\r\n", (PW,)),
    ("redis url env", f"REDIS_URL=redis://:{PW}@h:6379/0", (PW,)),
    (
        "keepass csv",
        f'"Group","Title","Username","Password","URL"\n"x","y","bob","{PW}","u"',
        (PW,),
    ),
]

add(
    "more passwords",
    PW,
    "mysql://root:{}@127.0.0.1/x",
    "PGPASSWORD={} pg_dump x > y",
    'psql "host=h user=u password={}"',
    "mysql --user=root --password='{}' -e 'select 1'",
    "export MYSQL_PWD={}",
    "sudo -u x env PASSWORD={} ./a",
    "docker run --env=DB_PASSWORD={} x",
    "docker exec -e PGPASSWORD={} c psql",
    "podman secret create p <(echo {})",
    "ansible-playbook x -e 'db_password={}'",
    '--extra-vars \'{"pw": "{}"}\'',
    "vault kv put secret/x password={}",
    "chef: node['db']['password'] = '{}'",
    "class { 'mysql': root_password => '{}' }",
    "password_file_content: {}",
    "Login with\n  user: admin\n  pass: {}",
    "Default credentials: admin / {}",
    "user=admin&pass={}",
    "curl -d 'username=a&password={}' u",
    'curl -d \'{"password":"{}"}\' u',
    "curl --data-urlencode 'password={}' u",
    "http POST u password={}",
    "await page.type('#pwd', '{}')",
    "fill_in 'Password', with: '{}'",
    "$this->password = '{}';",
    "sqlite key: PRAGMA key = '{}';",
    "ATTACH 'x' AS y KEY '{}';",
    "jasypt.encryptor.password={}",
    "server.ssl.key-password: {}",
    'keystorePass="{}"',
    'truststorePassword="{}"',
    "git clone https://bob:{}@h/x.git",
    "svn co --username b --password {} u",
    "hg clone https://b:{}@h/x",
    "rsync --password-file=<(echo {})",
    "mount -t cifs //h/s /m -o username=b,password={}",
    "//h/s /m cifs username=b,password={},uid=1000 0 0",
    "wpa_passphrase home {}",
    "iwctl --passphrase {} station wlan0 connect h",
    "openconnect --user=b --passwd-on-stdin <<< '{}'",
    "xfreerdp /u:b /p:{} /v:h",
    "rdesktop -u b -p {} h",
    "winrm: username b password {}",
    "evil-winrm -i h -u b -p '{}'",
    "crackmapexec smb h -u b -p '{}'",
    "net rpc info -U b%{}",
    "kinit b <<< {}",
    "gpg --batch --passphrase '{}' -c f",
    "ssh-keygen -N '{}' -f k",
    "ssh-add <<< '{}'",
    "zip -e --password {} x",
    "pdftk a.pdf output b.pdf user_pw {}",
    "qpdf --encrypt {} {} 256 -- a b",
    "cryptsetup luksOpen d n <<< {}",
    "VNC password {}",
    "x11vnc -passwd {}",
    "rabbitmqctl add_user b {}",
    "rabbitmqctl change_password b {}",
    "redis-cli CONFIG SET requirepass {}",
    "etcdctl --user root:{} get x",
    "influx -username a -password {}",
    "cqlsh -u c -p {}",
    "clickhouse-client --password {}",
    "snowsql -a x -u y; password: {}",
    "ldapwhoami -D x -w {}",
    "samba-tool user setpassword b --newpassword={}",
    "passwd bob <<< $'{}\\n{}'",
    "echo 'bob:{}' | chpasswd",
    "usermod --password {} bob",
    "useradd bob -p '{}'",
    "htpasswd -bc f bob {}",
    "smbpasswd -a b {}",
    "Set-LocalUser -Name b -Password (ConvertTo-SecureString '{}' -AsPlainText -Force)",
    "IDENTIFIED VIA x USING PASSWORD('{}')",
    "user_pass: {}",
    "the wifi password here is {}",
    "parole de passe: {}",
    "das Passwort lautet {}",
    "la contraseña es {}",
    "le mot de passe est {}",
    "a senha é {}",
    "пароль {}",
    "密码改为{}",
    "新密码：{}",
    "初始密码为 {} ，请修改",
    "root密码是{}",
    "パスワードを {} に変更",
    "비번: {}",
)
add(
    "more tokens",
    alnum(32),
    "Authorization=Bearer {}",
    "x-api-key={}",
    '-H "x-api-key:{}"',
    "--oauth2-bearer {}",
    "export TOKEN='{}'",
    "os.environ['HF_TOKEN']='{}'",
    "openai.OpenAI(api_key='{}')",
    "new OpenAI({ apiKey: '{}' })",
    'Anthropic(auth_token="{}")',
    'ChatOpenAI(openai_api_key="{}")',
    "Client(token='{}')",
    'api = Api(access_token="{}")',
    "setToken('{}')",
    'withApiKey("{}")',
    'TOKEN := "{}"',
    'token: str = Field(default="{}")',
    "API_KEY: Final = '{}'",
    '[auth]\ntoken = "{}"',
    'registry.npmjs.org/:_authToken "{}"',
    "machine api.github.com password {}",
    "SECRET_KEY_BASE={}",
    "HASURA_GRAPHQL_ADMIN_SECRET: {}",
    "x-hasura-admin-secret: {}",
    "NUXT_SESSION_PASSWORD={}",
    "?sv=1&sig={}",
    "&hmac={}",
    "session_token={}",
    "csrf_token = '{}'",
    "JSESSIONID={}; Path=/",
    "laravel_session={}",
    "_ga=1; auth={}",
    "Your API key: {}",
    "Here is the token — {}",
    "token（测试环境）：{}",
    "密钥如下：\n{}",
    "AppKey: 1234  AppSecret: {}",
    "access key secret 是 {}",
    "微信 secret：{}",
)
add(
    "a sign at its end",
    "Summer2024!",
    "password: {}",
    "my password is {}",
    "log in with bob / {}",
    "PASSWORD={}",
    "the admin password ({}) works",
)
add(
    "without a sign",
    "correcthorse7",
    "password: {}",
    "DB_PASSWORD={}",
    "my password is {}",
    "--password {}",
    "密码：{}",
)

#: Texts that must come through as they are.
LOOK_ALIKES: list[str] = []
LOOK_ALIKES = r"""
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
sha256~ is the prefix of OpenShift tokens
access-control-allow-origin: *
access-production-logs-bucket
the sk_ prefix and the pk_live_ prefix
fc-list | grep Noto
fc-cache -fv
tk-us-east-1
pa-system-2024
st.set_page_config(page_title="x")
st.dataframe(df)
npg_connection = connect()
tr_prod_environment_name_for_trigger
nfc_reader_settings_for_the_device_1
hcl_parser_v2
A3-SHEET-2024
api-123 and sdk-2.4.1
1/2/2024: done
2/1201 tests ran
bedrock-api-key-rotation-runbook
jina-embeddings-v3
fw_version=1.2.3
csk-build-12
"jti": "4a2504e0-5f89-41d3-8a0c-0405e82c3302"
"kid": "2024-key-1"
{"kty":"EC","crv":"P-256","kid":"k1"}
the password must have 8 characters, one of !@#$%^&* and a digit
password must match ^(?=.*[A-Za-z])(?=.*\d)[A-Za-z\d@$!%*#?&]{8,}$
const PASSWORD_REGEX = /^[a-zA-Z0-9!@#$%^&*]{8,32}$/;
password-validator@5.3.0 is used for the password
npm i bcrypt@5.1.1 passport@0.7.0 password-hash@1.2.2
the password form is in LoginForm2.tsx, see page2.html
reset the password of user2@example.com
contact admin2@example.org for your password
the password page returns HTTP/1.1 403 in v1.24.3-rc1
password policy: min 12, rotate every 90d, lock after 5x
Password reset mail was sent at 2026-01-02T03:04:05Z
password hashing moved from sha256 to argon2id with m=65536
the login test takes 1.2s, the password test 350ms
const isPassword1Valid = password1 !== '' && pass1.length > 8;
if (password.length < MIN_LEN8 && !opts.allowShort2) return;
passwordInput.current?.focus(); step2Ref.current!.value1
expect(wrapper2.find('#password')).toHaveLength(1)
t('auth.password.too_short2', { count: 8 })
"password.label2": "Passwort bestätigen"
"login.password": "密码"
'パスワード': 'Password'
password: { type: String, required: true, minlength: 8 }
password: z.string().min(8).max(72)
password VARCHAR(255) NOT NULL
ALTER TABLE users ADD COLUMN password_hash text;
<label for="password">Password</label>
<input id="password2" name="password" autocomplete="new-password">
<PasswordField label="Password" v-model="form2.password" />
password: "{{ vault_db_password }}"
password: !vault |
password = var.db_password
password = data.aws_secretsmanager_secret_version.db.secret_string
password: ${{ secrets.DB_PASSWORD }}
POSTGRES_PASSWORD_FILE=/run/secrets/db_password
POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:?required}
-H "Authorization: Bearer ${GITHUB_TOKEN}"
headers: { Authorization: `Bearer ${token}` }
req.Header.Set("Authorization", "Bearer "+token)
$headers = @{ Authorization = "Bearer $env:TOKEN" }
ConvertTo-SecureString $env:DB_PASSWORD -AsPlainText -Force
curl -u "$USER:$PASS" https://x
requests.get(url, auth=(user, password))
.basic_auth(username, Some(password))
smtp.login(settings.user, settings.smtp_password)
jdbc:postgresql://localhost:5432/app
jdbc:oracle:thin:@localhost:1521/x
Server=localhost;Integrated Security=true
redis-cli -h localhost ping
gh auth login
gh auth status
vault login -method=oidc
docker login ghcr.io
npm login --scope=@acme
echo "$TOKEN" | gh auth login --with-token
tokenizer.decode(token_ids2, skip_special_tokens=True)
token count 1847 of 200000, cache_read_input_tokens: 18234
tokens/s: 54.21, prompt tokens 1024
CSRF token mismatch in handleSubmitV2ForUser
message msg_01XFDUDYJgAACzvnptvVoYEL used 120 tokens
the token check calls toolu_01A09q90qw90lq917835lq9 first
secret santa list 2026
secret: false
kubectl get secret db-credentials -o yaml
Secrets Manager rotates it: arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-Ab12Cd
git log --oneline: 4bdfc6a Use secrets.token_urlsafe(32)
integrity sha512-9NZyqHrk5WQoEdIvtnxPGYLmPNmXcNrUuJZwPzTzxQ5mSPzIhQ9UdfqPyeqZFVm7OnWQYsRbcrdDFNnQfqTmLg==
<img src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==">
aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0IG9mIGJhc2U2NAo=
eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbIm1haW4udHMiXX0=
usr/share/doc/python3/dist/packages/Readme
-----BEGIN PUBLIC KEY-----
-----BEGIN CERTIFICATE-----
grep -rn "BEGIN RSA PRIVATE KEY" .
if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0kD6p8e2s5n1gq7w3x9z4c6v8b2m5q7w9e1r3t5y bob@host
$2b$ is the prefix of bcrypt, $argon2id$ of Argon2
https://accounts.example.com/o/oauth2/auth?response_type=code&client_id=abc
https://example.com/callback?code=404&reason=not_found
?code=E_INVALID_ARGUMENT
document.cookie = "theme=dark"
用户登录后返回 token，前端存到 localStorage
密码长度不能少于8位，且必须包含字母和数字
密码错误次数超过5次后锁定账号30分钟
授权码登录流程见 docs/oauth2.md
パスワードは8文字以上で入力してください
パスワードリセットのテスト12件が通りました
비밀번호는 8자 이상이어야 합니다
密钥轮换周期为90天，见 README2.md
使用 JWT 令牌（RS256）代替会话
""".strip("\n").split("\n")
