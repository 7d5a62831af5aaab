"""The words that names and values are judged by. Lower case; a line's order means nothing."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


QUALIFIERS = _words("""
    value values b64 base64 raw plaintext plain string str prod production dev staging test primary secondary old
    header write read rw ro main live
""")
"""Words after the telling one that change nothing: ``DB_PASSWORD_PROD``."""

_USES_OF_KEYS = _words("""
    api secret access private auth encryption encrypt encrypted signing sign account storage service license
    subscription master admin deploy rsa ed25519 ecdsa app application consumer shared aes hmac webhook publishable
    restricted server session jwt cookie flask django fernet crypto unseal recovery preshared functions
    client s3 b2 ssh sa
""")

SERVICES = _words("""
    wandb openai anthropic kaggle hf huggingface comet cohere mistral groq together replicate gemini
    google azure aws gcp nvidia ngc nvapi neptune clearml mlflow databricks sendgrid stripe slack discord telegram
    datadog dd sentry newrelic snowflake mongodb redis pinecone weaviate qdrant deepgram assemblyai elevenlabs
    stability civitai runpod vast fireworks perplexity deepseek openrouter xai voyage jina serper tavily serpapi
    langchain langsmith langfuse civit modal anyscale lightning wandbapi polygon algolia mailgun twilio ably rollbar
    vault grafana prometheus honeycomb gh minio cosmos backblaze
    snyk circleci buildkite doppler figma airtable sonar supabase planetscale cloudflare cf digitalocean heroku linode
    vultr hetzner ibm oracle alibaba aliyun tencent baidu qianfan dashscope zhipu moonshot minimax siliconflow
    modelscope swanlab determined paperspace gradient coreweave crusoe scaleway ovh jfrog bing newsapi exa firecrawl
    cartesia azureml cognitive translator maps mapbox pagerduty opsgenie splunk elastic axiom posthog segment amplitude
    fal novita friendli nebius hyperbolic baseten deepinfra cerebras sambanova dagshub zenml tigris browserbase
    mixpanel intercom zendesk jira confluence atlassian notion linear asana clickup dropbox rapidapi github gitlab
""")
"""Whose keys and tokens they are; the name may stand before (``OPENAI_API_KEY``) or behind (``API_KEY_OPENAI``)."""

KEY_OWNERS = _USES_OF_KEYS | SERVICES
"""``<word> key`` is a secret; ``cache key``, ``sort key``, ``primary key`` are not."""

KEY_OWNERS_OF_DOUBT = _words("session shared client s3 b2 ssh sa")
"""``s3 key`` may be the name of an object, ``ssh key`` a public one: the value decides."""

PIECES_OF_TEXT = _words("""
    pad padding bos eos unk mask sep cls start end stop image images img video audio vision speech special next prev
    previous first last per num n max min new total newline eot eod eom prefix suffix middle fim additional control
    byte sub subword word text input output prompt completion target source src tgt decoder encoder forced current cur
    single each every the a this that unexpected bad good unknown tool call assistant think thinking blank boi eoi
    draft drop cancellation cancel continuation page pagination sync fencing class patch visual rare common object
    begin beginning final initial begin empty dummy virtual placeholder separator top of ner pos lock starting request
    forward backward
""")
"""``<word> token`` is a piece of text, not a credential."""

PASS_OWNERS = _words("""
    db database user root admin smtp mail email mysql pg postgres redis proxy ssh ftp sftp ldap vnc login key http
    https basic auth registry docker jupyter sql mongo sudo rabbitmq mq kafka imap vpn wifi git svn nexus artifactory
    become default initial temporary require
    keystore truststore twine pypi service svc client my app rpc es elastic store bind zip keychain
""")

TURNS = _words("""
    test tests smoke unit suite e2e check checks lint build ci bench case first second third fourth 1st 2nd 3rd one two
    three single double multi last next final initial pre post warmup forward fwd backward bwd train eval render shadow
    depth low high band all any must should expect expected n num per each max min total count did has is was will can
    quick fast slow full dry opt optimizer compile compiler llvm mlir ir graph fx inductor fusion codegen analysis
    boarding by com tres under over out sur im mount ski
""")
"""``<word> pass`` is a turn of something, or a result."""

NOTHING = _words("""
    true false none null nil yes no on off y n undefined nan unset empty unknown default disabled enabled required
    optional redacted hidden masked secret password token key changeme str string int bool bytes object any dict list
    optional[str] secretstr incorrect invalid wrong missing must expired is not was for from to the a an ok failed
    provided given prompt authentication denied auto basic bearer digest negotiate env environment file stdin ask files
    interactive google github pass passwd pwd passed failed fail skipped success
""")
"""Values that hide nothing: switches, types, the words of an error message."""

BEGIN_A_MESSAGE = _words("""
    must is not no are was has cannot can could should shall will may needs need invalid incorrect wrong missing bad
    please try enter type required optional expired changed unchanged set unset reset given failed too none null prompt
    authentication access login permission error warning for from in on at by or and if when see use using same unknown
    unable does doesn't don't hash string str
""")
MAKE_A_SENTENCE = _words("is was were for from has had will used failed rejected accepted")
"""Behind ``password:`` the first word, or the second, of what is said of one; others are one that somebody chose."""
