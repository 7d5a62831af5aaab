"""The tokens of known shape, as data: the prefix, the alphabet and the length that each service documents.

One row a format, sorted by service; the general ones (JWT, keys in base64) last. To add one: a row here. Its tests are
made from the row: tests/redaction/test_shapes.py. A pattern is anchored at its literal and has no nested quantifiers.
Sources: the public documentation of the services, as listed in docs/redaction.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_BEFORE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtb])|(?<=[0-9;\[]m)|(?<=%[0-9A-Fa-f][0-9A-Fa-f]))"
"""A boundary; an escaped newline, a colour code and a URL escape end in a letter and are one too."""

ANYWHERE = ""
"""A prefix so rare that it needs no boundary: a letter stands before it where a log forgot the space."""

_AFTER = r"(?![A-Za-z0-9])"

_ATOM = re.compile(r"\[[^]]+\]|\\.|\{[0-9,]+\}|\(\?[=!][^)]+\)|\((?:\?:)?|.")
"""What a body is written of: a class, an escaped character, a quantifier, a look ahead, the beginning of a group, a
character."""


@dataclass(frozen=True)
class Shape:
    """One service's token."""

    kind: str
    literals: tuple[str, ...]
    """Every such token has one of them; a text is searched for those first, which is fast."""
    before: str
    """What must stand before the literal, as a regular expression."""
    body: str
    """What follows it."""
    back: int = 0
    """How many characters before the literal belong to the token: services that sign in its middle."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches at the literal. Group 1, where there is one, is the secret; else all of it. Most are never needed."""
        prefix = "|".join(map(re.escape, self.literals))
        return re.compile(f"{self.before}(?:{prefix}){self.body}{_AFTER}", re.ASCII)

    @cached_property
    def alphabet(self) -> re.Pattern[str]:
        """Matches what is made of the characters of the body alone: what a cut leaves of one is."""
        characters = {atom for atom in _ATOM.findall(self.body) if atom[0] not in "{(" and atom not in ")|?"}
        return re.compile(f"(?:{'|'.join(sorted(characters))})*", re.ASCII)


def _shape(kind: str, literals: str, body: str, *, before: str = _BEFORE, back: int = 0) -> Shape:
    """`body` follows any of the literals."""
    return Shape(kind, tuple(literals.split()), before, body, back)


_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_JWT = (
    r"[\w-]{8,8000}(?:\r?\n[\w-]{8,8000})?\.(?:\r?\n)?eyJ[\w-]{8,16000}"
    r"(?:(?:\r?\n[\w-]{8,8000})?\.(?:\r?\n)?[\w-]{0,8000}(?:\r?\n[\w-]{20,8000})?)?"
)
SHAPES: tuple[Shape, ...] = (
    _shape("adafruit-key", "aio_", "[A-Za-z0-9]{28}"),
    _shape("adobe-secret", "p8e-", "[A-Za-z0-9_-]{30,40}"),
    _shape("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{40,64}"),
    _shape("alibaba-key-id", "LTAI", "[A-Za-z0-9]{12,24}"),
    _shape("anthropic-key", "sk-ant-", r"[\w-]{20,300}", before=ANYWHERE),
    _shape("anyscale-token", "aph0_ ash_ esecret_", r"(?=\w{0,19}[0-9])[A-Za-z0-9_]{20,120}"),
    _shape("asana-token", "1/ 2/", "[0-9]{15,17}(?:/[0-9]{15,17})?:[0-9a-f]{32}"),
    _shape("atlassian-token", "ATATT3xFfG ATCTT3xFfG", r"[\w=-]{60,300}"),
    _shape("aws-bedrock-key", "ABSK bedrock-api-key-", "[A-Za-z0-9+/]{60,2000}={0,2}"),
    _shape("aws-key-id", "AKIA ASIA ABIA ACCA", "[A-Z2-7]{16}"),
    _shape("aws-session-token", "IQoJb3JpZ2lu FwoGZXIvYXdz", "[A-Za-z0-9/+=]{60,4000}"),
    _shape("axiom-token", "xaat- xapt-", _UUID),
    _shape("azure-client-secret", "7Q~ 8Q~", r"[\w.~-]{31,34}", before="(?<=[A-Za-z0-9_~.-]{3})", back=3),
    _shape("azure-cognitive-key", "JQQJ9", "[A-Za-z0-9]{25,40}", before="(?<=[A-Za-z0-9]{52})", back=52),
    _shape("azure-devops-token", "AZDO", "[A-Za-z0-9]{4}", before="(?<=[A-Za-z0-9]{76})", back=76),
    _shape("azure-functions-key", "AzFu", r"[\w-]{6}={0,2}", before="(?<=[A-Za-z0-9_-]{44})", back=44),
    _shape(
        "azure-messaging-key", "+ASb +AEh +ARm AIoT AzCa",
        "[A-Za-z0-9+/]{5,6}=", before="(?<=[A-Za-z0-9+/]{33})", back=33,
    ),
    _shape("azure-search-key", "AzSe", "[A-Za-z0-9]{6}", before="(?<=[A-Za-z0-9]{42})", back=42),
    _shape("azure-signature", "sig=", "([A-Za-z0-9%/+]{40,100}(?:=|%3[dD])?)", before="(?<=[?&;])"),
    _shape("azure-storage-key", "+ASt ACDb", "[A-Za-z0-9+/]{6}==", before="(?<=[A-Za-z0-9+/]{76})", back=76),
    _shape("backblaze-key", "K00", "[0-9](?=[A-Za-z0-9/+]{0,26}[a-z])[A-Za-z0-9/+]{27}"),
    _shape("baidu-key", "bce-v3/ALTAK-", "[A-Za-z0-9]{20,22}/[0-9a-f]{40}"),
    _shape("bitbucket-token", "ATBB", "[A-Za-z0-9]{28,32}"),
    _shape("brevo-key", "xkeysib- xsmtpsib-", "[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    _shape("browserbase-key", "bb_live_", r"[\w-]{20,40}"),
    _shape("buildkite-token", "bkua_ bkaj_ bkct_", "[0-9A-Za-z]{30,60}"),
    _shape("cartesia-key", "sk_car_", r"[\w-]{20,40}"),
    _shape("cerebras-key", "csk-", "[a-z0-9]{40,60}"),
    _shape("chroma-key", "ck-", "(?=[A-Za-z]{0,43}[0-9])[A-Za-z0-9]{44}"),
    _shape("chutes-key", "cpk_", r"[0-9a-f]{32}\.[0-9a-f]{32}\.[A-Za-z0-9]{32}"),
    _shape("circleci-token", "CCIPAT_ CCIPRJ_", "[A-Za-z0-9_]{20,120}"),
    _shape("clickhouse-secret", "4b1d", "(?=[A-Za-z0-9]{0,37}[G-Zg-z])[A-Za-z0-9]{38}"),
    _shape("clickup-token", "pk_", "[0-9]{7,9}_[A-Z0-9]{32}"),
    _shape("clojars-token", "CLOJARS_", "[a-z0-9]{60}"),
    _shape("cloudflare-key", "v1.0-", "[0-9a-f]{24}-[0-9a-f]{120,160}"),
    _shape("cloudflare-tunnel", "eyJhIjoi", "[A-Za-z0-9+/]{80,2000}={0,2}"),
    _shape("cockroach-key", "CCDB1_", "[A-Za-z0-9]{22}_[A-Za-z0-9]{40}"),
    _shape("contentful-token", "CFPAT-", r"[\w-]{43}"),
    _shape("crates-token", "cio", "(?=[A-Za-z]{0,31}[0-9])[A-Za-z0-9]{32}"),
    _shape("databricks-token", "dapi dose dkea", "[0-9a-f]{32}(?:-[0-9])?"),
    _shape("daytona-key", "dtn_", "[0-9a-f]{64}"),
    _shape("dbt-token", "dbtc_ dbtu_", r"[\w-]{30,80}={0,2}"),
    _shape("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{64}"),
    _shape(
        "discord-token", "MT Mj Mz ND NT Nj Nz OD OT",
        r"[\w-]{21,26}\.[\w-]{6}\.(?=[\w-]{0,26}[0-9A-Z])[\w-]{27,40}",
    ),
    _shape("discord-webhook", "/api/webhooks/", r"[0-9]{15,22}/([\w-]{40,100})", before=""),
    _shape("docker-token", "dckr_pat_ dckr_oat_", r"[\w-]{20,60}"),
    _shape(
        "doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    ),
    _shape("dropbox-token", "sl.", r"(?:u\.)?(?=[\w-]{0,60}[0-9])(?=[\w-]{0,60}[A-Z])[\w-]{100,2000}"),
    _shape("duffel-token", "duffel_test_ duffel_live_", r"[\w-]{43}"),
    _shape("dynatrace-token", "dt0c01. dt0s16. dt0s01.", r"[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    _shape("e2b-key", "e2b_", "[0-9a-f]{40}"),
    _shape("easypost-key", "EZAK EZTK", "[A-Za-z0-9]{54}"),
    _shape("elastic-key", "essu_", "[A-Za-z0-9+/]{40,200}={0,2}"),
    _shape("elevenlabs-key", "sk_", "[0-9a-f]{48}"),
    _shape("exoscale-key", "EXO", "[0-9a-f]{24}"),
    _shape("facebook-token", "EAACEdEose0cBA", "[A-Za-z0-9]{20,300}"),
    _shape("figma-token", "figd_ figo_", r"[\w-]{30,60}"),
    _shape("firecrawl-key", "fc-", "[0-9a-f]{32}"),
    _shape("fireworks-key", "fw_", "[A-Za-z0-9]{22,40}"),
    _shape("flutterwave-key", "FLWSECK- FLWSECK_TEST-", "[0-9a-zA-Z]{12,32}(?:-X)?"),
    _shape("fly-token", "fm1a_ fm1r_ fm2_ fo1_", r"[\w+/=,-]{40,2000}"),
    _shape("frameio-token", "fio-u-", r"[\w-]{64}"),
    _shape("friendli-token", "flp_", "[A-Za-z0-9]{30,60}"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]{30,255}", before=ANYWHERE),
    _shape("github-token", "github_pat_", "[A-Za-z0-9_]{22,255}", before=ANYWHERE),
    _shape(
        "gitlab-token", "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glffct- glsoat- glagent- glimt- gloas- glwt-",
        r"[\w.-]{20,120}", before=ANYWHERE,
    ),
    _shape("gitlab-token", "GR1348941", r"[\w-]{20}"),
    _shape("gitpod-token", "gitpod_pat_", r"[\w.-]{20,200}"),
    _shape("google-api-key", "AIza", r"[\w-]{35}"),
    _shape("google-client-secret", "GOCSPX-", r"[\w-]{28}"),
    _shape("google-hmac-key", "GOOG1E", "[A-Z0-9]{40,60}"),
    _shape("google-oauth-token", "ya29.", r"[\w-]{20,2000}"),
    _shape("google-refresh-token", "1//0", r"[\w-]{40,200}"),
    _shape("grafana-token", "glsa_ glc_", "[A-Za-z0-9+/_=]{32,200}"),
    _shape("groq-key", "gsk_", "[A-Za-z0-9]{40,60}"),
    _shape("harness-token", "pat. sat.", r"[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    _shape("hashicorp-token", "hvs. hvb. hvr.", r"[\w-]{24,300}"),
    _shape("hashicorp-token", "s.", "(?=[A-Za-z]{0,23}[0-9])(?=[a-z0-9]{0,23}[A-Z])[A-Za-z0-9]{24}"),
    _shape("heroku-key", "HRKU-", r"[\w-]{36,70}"),
    _shape("hf-token", "hf_oauth_ hf_app_ hf_jwt_", r"[\w.-]{20,2000}"),
    _shape("hf-token", "hf_ api_org_", "[A-Za-z]{30,40}"),
    _shape("hf-token", "hf_", "[A-Za-z0-9]{34,40}", before=ANYWHERE),
    _shape("honeycomb-key", "hcaik_ hcxik_ hcbik_ hcalk_ hcxlk_", "[a-z0-9]{32,64}"),
    _shape("hubspot-token", "pat-na1- pat-na2- pat-eu1- pat-ap1-", _UUID),
    _shape("ifttt-key", "maker.ifttt.com/trigger/", r"\w{1,60}/(?:json/)?with/key/([\w-]{20,80})", before=""),
    _shape("infisical-token", "st.", r"[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}"),
    _shape("infracost-key", "ico-", "[A-Za-z0-9]{32}"),
    _shape("intra42-secret", "s-s4t2ud- s-s4t2af-", "[0-9a-f]{64}"),
    _shape("jfrog-token", "AKCp", "[A-Za-z0-9]{60,80}"),
    _shape("jfrog-token", "cmVmdGtuO", "[A-Za-z0-9]{50,60}"),
    _shape("jina-key", "jina_", r"[0-9a-f]{32}[\w-]{20,40}"),
    _shape("kaggle-token", "KGAT_", "[0-9a-f]{32}"),
    _shape("lambda-key", "secret_", r"[a-z0-9-]{1,40}_[0-9a-f]{32}\.[A-Za-z0-9]{32}"),
    _shape("langfuse-key", "sk-lf-", _UUID),
    _shape("langsmith-key", "lsv2_pt_ lsv2_sk_", "[0-9a-f]{32}_[0-9a-f]{10}"),
    _shape("lark-webhook", "/open-apis/bot/v2/hook/", r"([\w-]{20,60})", before=""),
    _shape("launchdarkly-key", "sdk- api- mob-", _UUID),
    _shape("linear-key", "lin_api_ lin_oauth_", "[A-Za-z0-9]{40,64}"),
    _shape("lob-key", "live_ test_", "[0-9a-f]{32,35}"),
    _shape("logfire-token", "pylf_v1_", "(?:us|eu)_[A-Za-z0-9]{40,50}"),
    _shape("mailgun-key", "key- pubkey-", "[0-9a-f]{32}"),
    _shape("mapbox-token", "sk.eyJ", r"[\w-]{30,300}\.[\w-]{20,60}"),
    _shape("matrix-token", "syt_", "[A-Za-z0-9+/=]{4,100}_[A-Za-z0-9]{20}_[A-Za-z0-9]{6}"),
    _shape("modal-token", "ak- as-", "(?=[A-Za-z]{0,21}[0-9])(?=[a-z0-9]{0,21}[A-Z])[A-Za-z0-9]{22}"),
    _shape("modelscope-token", "ms-", _UUID),
    _shape("mongodb-secret", "mdb_sa_sk_", r"[\w-]{40}"),
    _shape("neon-key", "napi_", "[a-z0-9]{40,70}"),
    _shape("neon-password", "npg_", "[A-Za-z0-9]{12}"),
    _shape("netbird-token", "nbp_", "[A-Za-z0-9]{36}"),
    _shape("netlify-token", "nfp_ nfc_ nfo_ nfu_", "[A-Za-z0-9]{36,40}"),
    _shape("newrelic-key", "NRAK- NRII- NRJS-", r"[\w-]{19,40}"),
    _shape("notion-token", "ntn_ secret_", "[A-Za-z0-9]{40,50}"),
    _shape("novita-key", "sk_", r"(?=[A-Za-z_-]{0,42}[0-9])(?=[a-z0-9_-]{0,42}[A-Z])[\w-]{43}"),
    _shape("npm-token", "npm_", "[A-Za-z0-9]{36}"),
    _shape("nuget-key", "oy2", "[a-z0-9]{43}"),
    _shape("nvidia-key", "nvapi-", r"[\w-]{40,100}", before=ANYWHERE),
    _shape("octopus-key", "API-", "(?=[A-Z]{0,25}[0-9])[A-Z0-9]{25,26}"),
    _shape("onepassword-key", "A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{5,6}-){1,2}(?:[A-Z0-9]{5}-){2}[A-Z0-9]{5}"),
    _shape("onepassword-token", "ops_eyJ", r"[\w-]{60,4000}={0,2}"),
    _shape("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{20,300}", before=ANYWHERE),
    _shape("openai-key", "sk-", "[A-Za-z0-9]{20,64}"),
    _shape("openai-session", "sess-", "[A-Za-z0-9]{40}"),
    _shape("openrouter-key", "sk-or-v1-", "[0-9a-zA-Z]{40,80}", before=ANYWHERE),
    _shape("openshift-token", "sha256~", r"[\w-]{43}"),
    _shape(
        "password-hash", "$5$ $6$ $y$ $7$",
        r"(?:rounds=[0-9]{1,9}\$)?[\w./]{1,64}\$[\w./]{20,100}(?:\$[\w./]{20,100})?",
    ),
    _shape("password-hash", "$apr1$ $1$", r"[\w./]{1,8}\$[\w./]{22,40}"),
    _shape("password-hash", "$2a$ $2b$ $2y$", r"[0-9]{2}\$[\w./]{53}"),
    _shape(
        "password-hash", "$argon2i$ $argon2d$ $argon2id$",
        r"v=[0-9]{1,3}\$m=[0-9]{1,9},t=[0-9]{1,9},p=[0-9]{1,9}\$[\w+/]{8,90}\$[\w+/]{16,120}",
    ),
    _shape("password-hash", "pbkdf2_sha256$ pbkdf2:sha256:", r"[0-9]{1,9}\$[\w+/.-]{4,60}\$[\w+/=]{30,140}"),
    _shape("perplexity-key", "pplx-", "[A-Za-z0-9]{40,60}"),
    _shape("pinecone-key", "pcsk_", "[A-Za-z0-9_]{50,90}"),
    _shape("plaid-token", "access-sandbox- access-development- access-production-", _UUID),
    _shape("planetscale-secret", "pscale_pw_ pscale_tkn_ pscale_oauth_", r"[\w.-]{32,64}"),
    _shape("posthog-key", "phx_ phs_", "[A-Za-z0-9_]{40,60}"),
    _shape("postman-key", "PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("predibase-token", "pb_", "(?=[A-Za-z_-]{0,21}[0-9])(?=[a-z0-9_-]{0,21}[A-Z])[A-Za-z0-9]{22}"),
    _shape("prefect-key", "pnu_ pnb_", "[A-Za-z0-9]{36}"),
    _shape("pulumi-token", "pul-", "[0-9a-f]{40}"),
    _shape("pypi-token", "pypi-AgE", r"[\w-]{40,500}"),
    _shape("readme-key", "rdme_", "[a-z0-9]{70}"),
    _shape("render-key", "rnd_", "(?=[A-Za-z]{0,30}[0-9])[A-Za-z0-9]{28,40}"),
    _shape("replicate-token", "r8_", "[A-Za-z0-9]{36,40}"),
    _shape("resend-key", "re_", "[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
    _shape("rubygems-key", "rubygems_", "[0-9a-f]{48}"),
    _shape("runpod-key", "rpa_ rps_", "[A-Za-z0-9]{30,60}"),
    _shape("scaleway-key-id", "SCW", "(?=[A-Z]{0,16}[0-9])[A-Z0-9]{17}"),
    _shape("scalingo-token", "tk-us-", r"[\w-]{48}"),
    _shape("sendgrid-key", "SG.", r"[\w-]{16,32}\.[\w-]{30,64}"),
    _shape("sentry-token", "sntrys_ sntryu_ sntrya_", "[A-Za-z0-9+/=_]{40,400}"),
    _shape("settlemint-token", "sm_pat_ sm_aat_ sm_sat_", "[A-Za-z0-9]{16}"),
    _shape("shopify-token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    _shape("slack-token", "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xoxe.", r"[\w%.-]{12,300}"),
    _shape("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/([\w/+-]{20,120})", before=""),
    _shape("snyk-token", "snyk_uat. snyk_sat.", r"[0-9a-f]{8}\.[\w.-]{40,200}"),
    _shape("sonar-token", "squ_ sqp_ sqa_", "[0-9a-f]{40}"),
    _shape("sourcegraph-token", "sgp_ sgd_ slk_", "(?:(?:[0-9a-f]{16}|local)_)?[0-9a-f]{40,64}"),
    _shape("square-token", "sq0atp- sq0csp- EAAAl", r"[\w-]{22,64}"),
    _shape("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", "[A-Za-z0-9+/=]{16,250}"),
    _shape("supabase-token", "sbp_ sb_secret_", "[A-Za-z0-9_-]{30,64}"),
    _shape("tailscale-key", "tskey-", "[A-Za-z0-9-]{20,100}"),
    _shape("tavily-key", "tvly-", "(?:dev-|prod-)?[A-Za-z0-9-]{20,64}"),
    _shape("teams-webhook", "webhook.office.com/webhookb2/", r"([\w@/-]{60,250})", before=""),
    _shape("telegram-token", ":AA", r"[\w-]{32,36}", before="(?<=[0-9]{8})"),
    _shape("tencent-key-id", "AKID", "[A-Za-z0-9]{30,36}"),
    _shape("terraform-token", ".atlasv1.", r"[\w=-]{60,80}", before="(?<=[A-Za-z0-9]{14})", back=14),
    _shape("tigris-secret", "tsec_", r"[\w+/-]{40,80}"),
    _shape("together-key", "tgp_v1_", r"[\w-]{40,60}"),
    _shape("trello-token", "ATTA", "[0-9a-f]{64}"),
    _shape("twilio-key", "SK", "[0-9a-f]{32}"),
    _shape("twitch-token", "oauth:", "[a-z0-9]{30}"),
    _shape("twitter-token", "AAAAAAAAAAAAAAAAAAAA", "(?=[A-Za-z0-9%]{0,40}[a-z])[A-Za-z0-9%]{60,120}"),
    _shape("typeform-token", "tfp_", r"[\w-]{40,70}"),
    _shape("upcloud-token", "ucat_", "[A-Z0-9]{26}"),
    _shape("vercel-token", "vcp_ vca_ vci_ vercel_blob_rw_", "[A-Za-z0-9_]{20,100}"),
    _shape("volcengine-key-id", "AKLT", r"[\w-]{30,60}={0,2}"),
    _shape("voyage-key", "pa-", r"(?=[\w-]{0,42}[0-9])(?=[\w-]{0,42}[A-Z])[\w-]{43}"),
    _shape("wandb-key", "wandb_v1_", "[A-Za-z0-9_]{40,120}"),
    _shape("wandb-key", "local-", "[0-9a-f]{40}"),
    _shape("xai-key", "xai-", "[A-Za-z0-9]{60,100}"),
    _shape("xata-key", "xau_", "[A-Za-z0-9]{30,50}"),
    _shape("yandex-key", "AQVN", r"[\w-]{35,38}"),
    _shape("yandex-token", "y0_", r"(?=[\w-]{0,54}[0-9])(?=[\w-]{0,54}[A-Z])[\w-]{50,200}"),
    _shape("zapier-webhook", "hooks.zapier.com/hooks/catch/", "([0-9]{4,10}/[a-z0-9]{5,12})", before=""),
    _shape("zenml-key", "ZENKEY_", r"[\w=-]{40,400}"),
    _shape("jwt", "eyJ", _JWT),
    _shape("encrypted-jwt", "eyJ", r"[\w-]{16,4000}\.[\w-]{0,4000}\.[\w-]{10,400}\.[\w-]{10,16000}\.[\w-]{10,400}"),
    _shape("neptune-token", "eyJhcGlfYWRkcmVzcyI6", "[A-Za-z0-9+/]{40,2000}={0,2}"),
    _shape("grafana-token", "eyJrIjoi", "[A-Za-z0-9+/]{40,2000}={0,2}"),
    _shape("docker-auth", "eyJhdXRocyI6", "[A-Za-z0-9+/_-]{16,20000}={0,2}"),
    _shape("private-key", "LS0tLS1CRUdJTi", "(?!BDRVJU|BQVUJMSUM)[A-Za-z0-9+/_-]{30,20000}={0,2}"),
    _shape("wallet-key", "xprv", "[A-Za-z0-9]{105,110}"),
    _shape("age-key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
)  # fmt: skip
