"""Tokens of more services, told by their own form. A table beside ``secrets_rules``.

The formats are those that the services document or register with secret scanners.
"""

from __future__ import annotations

import re

from memsearch.pipeline.secrets_rules import Rule

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _has_digit(value: str) -> bool:
    """What was drawn by chance holds one; a name in code with the same beginning does not."""
    return any(char.isdigit() for char in value[4:])


def _rule(kind: str, pattern: str, *needles: str) -> Rule:
    return Rule(kind, needles, re.compile(pattern), _has_digit)


TOKENS: tuple[Rule, ...] = (
    _rule("aws-bedrock-key", r"ABSK[A-Za-z0-9+/]{100,200}={0,2}", "absk"),
    _rule("aws-bedrock-key", r"bedrock-api-key-[A-Za-z0-9+/=]{60,3000}", "bedrock-api-key-"),
    _rule("bitbucket-token", r"ATCTT3[A-Za-z0-9_=-]{50,300}", "atctt3"),
    _rule("jfrog-key", r"cmVmdGtu[A-Za-z0-9]{50,70}(?![A-Za-z0-9])", "cmvmdgtu"),
    _rule("clojars-token", r"CLOJARS_[0-9a-f]{60}", "clojars_"),
    _rule("dynatrace-token", r"dt0[a-z]\d{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}", "dt0"),
    _rule("duffel-token", r"duffel_(?:live|test)_[A-Za-z0-9_=-]{30,60}", "duffel_"),
    _rule("easypost-key", r"EZ[AT]K[A-Za-z0-9]{54}", "ezak", "eztk"),
    _rule("flutterwave-key", r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,40}(?:-X)?", "flwseck"),
    _rule("openshift-token", r"sha256~[A-Za-z0-9_-]{43}", "sha256~"),
    _rule("plaid-token", rf"access-(?:sandbox|development|production)-{_UUID}", "access-"),
    _rule("prefect-key", r"pnu_[A-Za-z0-9]{36}", "pnu_"),
    _rule("readme-key", r"rdme_[a-z0-9]{70}", "rdme_"),
    _rule("scalingo-token", r"tk-us-[A-Za-z0-9_-]{46,50}", "tk-us-"),
    _rule("shippo-token", r"shippo_(?:live|test)_[0-9a-f]{40}", "shippo_"),
    _rule("sourcegraph-token", r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}", "sgp_"),
    _rule("typeform-token", r"tfp_[A-Za-z0-9_.=-]{40,70}", "tfp_"),
    _rule("fireworks-key", r"fw_[A-Za-z0-9]{22,32}(?![A-Za-z0-9_])", "fw_"),
    _rule("cerebras-key", r"csk-[a-z0-9]{40,60}", "csk-"),
    _rule("nvidia-key", r"nvapi-[A-Za-z0-9_-]{50,80}", "nvapi-"),
    _rule("voyage-key", r"pa-[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])", "pa-"),
    _rule("jina-key", r"jina_[A-Za-z0-9_-]{50,80}", "jina_"),
    _rule("firecrawl-key", r"fc-[0-9a-f]{32}(?![0-9A-Za-z-])", "fc-"),
    # ElevenLabs and others that took over this form.
    _rule("service-key", r"sk_[0-9a-f]{40,64}(?![0-9A-Za-z])", "sk_"),
    _rule("runpod-key", r"rpa_[A-Za-z0-9]{40,60}", "rpa_"),
    _rule("posthog-key", r"ph[xs]_[A-Za-z0-9]{40,60}", "phx_", "phs_"),
    _rule("launchdarkly-key", rf"(?:sdk|api)-{_UUID}", "sdk-", "api-"),
    _rule("paddle-key", r"pdl_(?:live|sdbx)_apikey_[A-Za-z0-9_]{40,80}", "pdl_"),
    _rule("trigger-key", r"tr_(?:dev|stg|prod|preview)_[A-Za-z0-9]{16,40}", "tr_"),
    _rule("inngest-key", r"signkey-[a-z]{2,12}-[0-9a-f]{32,64}", "signkey-"),
    _rule("xata-key", r"xau_[A-Za-z0-9]{30,40}", "xau_"),
    _rule("neon-key", r"napi_[a-z0-9]{50,70}", "napi_"),
    _rule("neon-password", r"npg_[A-Za-z0-9]{12}(?![A-Za-z0-9_])", "npg_"),
    _rule("deno-token", r"dd[ow]?[po]?_[A-Za-z0-9]{36}(?![A-Za-z0-9_])", "ddp_", "ddo_", "ddw_"),
    _rule("jsr-token", r"jsr[pd]_[A-Za-z0-9]{36,60}", "jsrp_", "jsrd_"),
    _rule("vercel-token", r"vc[piark]_[A-Za-z0-9]{24,70}(?![A-Za-z0-9_])", "vc"),
    _rule("netlify-token", r"nf[bcou]_[A-Za-z0-9]{36,60}", "nf"),
    _rule("honeycomb-key", r"hc[a-z]{2,3}k_[a-z0-9]{50,64}", "hc"),
    _rule("axiom-token", rf"xa[ap]t-{_UUID}", "xaat-", "xapt-"),
    _rule("mailersend-token", r"mlsn\.[0-9a-f]{64}", "mlsn."),
    _rule("apify-token", r"apify_api_[A-Za-z0-9]{30,50}", "apify_api_"),
    _rule("browserbase-key", r"bb_(?:live|test)_[A-Za-z0-9_-]{20,50}", "bb_"),
    _rule("trello-token", r"ATTA[0-9a-f]{64}[A-Z0-9]{8}", "atta"),
    _rule("clickup-token", r"pk_\d{5,12}_[A-Z0-9]{32}", "pk_"),
    _rule("hubspot-token", rf"pat-(?:na|eu|ap)\d-{_UUID}", "pat-"),
    _rule("asana-token", r"[12]/\d{10,20}(?:/\d{10,20})?:[0-9a-f]{32}", "1/", "2/"),
    _rule("salesforce-token", r"00D[A-Za-z0-9]{9,15}![A-Za-z0-9._]{60,200}", "!aq", "!ar"),
    _rule("baidu-key", r"bce-v3/ALTAK-[A-Za-z0-9]{10,40}/[0-9a-f]{40}", "bce-v3/"),
    _rule("volcengine-key", r"AKLT[A-Za-z0-9]{30,60}(?![A-Za-z0-9])", "aklt"),
    _rule("yandex-key", r"AQVN[A-Za-z0-9_-]{35,60}", "aqvn"),
    _rule("brave-key", r"BSA[A-Za-z0-9_-]{28}(?![A-Za-z0-9_-])", "bsa"),
    _rule(
        "onepassword-key",
        r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
        "a3-",
    ),
    _rule("bitwarden-token", rf"0\.{_UUID}\.[A-Za-z0-9]{{20,40}}:[A-Za-z0-9+/=]{{20,60}}", "0."),
    _rule("infisical-token", rf"st\.(?:{_UUID}|[0-9a-f]{{24}})\.[0-9a-f.]{{32,100}}", "st."),
    _rule("grafana-token", r"eyJrIjoi[A-Za-z0-9+/]{60,400}={0,2}", "eyjrijoi"),
    _rule("slack-token", r"xoxe-\d-[A-Za-z0-9]{100,300}", "xoxe-"),
    _rule("gitlab-token", r"glwt-[A-Za-z0-9_.-]{16,300}", "glwt-"),
    _rule("azure-key", r"[A-Za-z0-9_-]{30,60}AzFu[A-Za-z0-9_-]{6,20}={0,2}", "azfu"),
    Rule(
        "webhook",
        ("/bot/v2/hook/", "/webhook/send?key=", "/robot/send?access_token="),
        re.compile(
            r"(?:/open-apis/bot/v2/hook/|/cgi-bin/webhook/send\?key=|/robot/send\?access_token=)"
            r"(?P<secret>[A-Za-z0-9-]{20,100})"
        ),
        glue=None,
    ),
    Rule(
        # What crypt(3), Apache and the libraries make of a password: it can be guessed from.
        "password-hash",
        ("$2", "$1$", "$5$", "$6$", "$y$", "$apr1$", "$argon2"),
        re.compile(
            r"\$(?:2[abxy]?\$\d{2}\$[./A-Za-z0-9]{53}|(?:1|apr1)\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}"
            r"|[56y]\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,40}\$(?:[./A-Za-z0-9]{86}|[./A-Za-z0-9]{43})"
            r"|argon2(?:id|i|d)\$v=\d{1,3}\$[a-z0-9=,]{1,60}\$[A-Za-z0-9+/]{8,100}\$[A-Za-z0-9+/]{20,200})"
        ),
        glue=None,
    ),
)
