"""Many forms at once: what services call their secrets, in every syntax, and the commands that take one.

All are made up from a seed. The same syntaxes with names that are no secret, and the same commands without one, stay.
"""

from __future__ import annotations

import base64
import random
import re
import string
from urllib.parse import quote

import pytest

from flatline.redaction import redact_text

NAMES = [
    "WANDB_API_KEY",
    "COMET_API_KEY",
    "NEPTUNE_API_TOKEN",
    "CLEARML_API_SECRET_KEY",
    "MLFLOW_TRACKING_PASSWORD",
    "AWS_SECRET_ACCESS_KEY",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_KEY",
    "KAGGLE_KEY",
    "PGPASSWORD",
    "MYSQL_PWD",
    "REDIS_PASSWORD",
    "SECRET_KEY",
    "JWT_SECRET",
    "api_token",
    "auth_token",
    "accessToken",
    "refresh_token",
    "client_secret",
    "private_token",
    "db_passwd",
    "smtp_password",
    "encryption_key",
    "webhook_secret",
    "x-api-key",
    "bearer_token",
    "MASTER_KEY",
    "SLURM_JWT",
    "JUPYTER_TOKEN",
    "HUGGINGFACE_TOKEN",
    "storage_account_key",
    "s3_secret_key",
    "minio_secret_key",
    "COHERE_API_KEY",
    "apiKey",
    "ApiSecret",
    "passphrase",
    "GPG_PASSPHRASE",
    "ansible_become_pass",
    "vault_token",
    "RAY_REDIS_PASSWORD",
    "RABBITMQ_DEFAULT_PASS",
    "POSTGRES_PASSWORD",
    "GF_SECURITY_ADMIN_PASSWORD",
    "NGC_CLI_API_KEY",
    "signing_key",
]
HARMLESS = [
    "max_tokens",
    "pad_token_id",
    "cache_key",
    "tokenizer",
    "author",
    "num_keys",
    "TOKEN_FILE",
    "PASSWORD_FILE",
    "sort_key",
    "lr",
    "run_id",
    "commit",
]
SYNTAXES = [
    '{n}={v}',
    'export {n}={v}',
    "export {n}='{v}'",
    '{n}: {v}',
    '  {n}: "{v}"',
    "'{n}': '{v}',",
    '"{n}":"{v}"',
    '{n} = {v}',
    "{n} = '{v}'",
    "{n}='{v}',",
    '--{o} {v}',
    '--{o}={v}',
    '-e {n}={v}',
    '{n}:={v}',
    '<{n}>{v}</{n}>',
    "{n} => '{v}'",
    'ENV {n}={v}',
    'ENV {n} {v}',
    'setenv {n} {v}',
    'set {n}={v}',
    'os.environ["{n}"] = "{v}"',
    "os.environ.setdefault('{n}', '{v}')",
    'os.putenv("{n}", "{v}")',
    "Config({n}='{v}', lr=0.1)",
    "DEBUG config: {{'lr': 0.1, '{n}': '{v}'}}",
    '  {n}      {v}',
    '| {n} | {v} |',
    '?{n}={v}&x=1',
    '-D{n}={v}',
    'name: {n}\n  value: {v}',
    '{{"name": "{n}", "value": "{v}"}}',
    '{{"key": "{n}", "value": "{v}"}}',
    '{n}={v}; rank=0',
    '[{n}={v}]',
    '({n}={v})',
    'Environment="{n}={v}"',
    'environment: ["{n}={v}"]',
    '  - {n}={v}',
    '+ export {n}={v}',
    '++ {n}={v}',
    '$ {n}={v} python train.py',
    'declare -x {n}="{v}"',
    '$env:{n} = "{v}"',
    'setx {n} "{v}"',
    'kubectl set env deploy/x {n}={v}',
    'docker run -e {n}={v} img',
    'helm install x --set {n}={v}',
    'helm upgrade --set auth.{n}={v}',
    'sbatch --export=ALL,{n}={v} job.sh',
    'srun --export={n}={v},X=1 python t.py',
    'hydra: +{n}={v}',
    'git config --global {n} {v}',
    "flask run --{o} '{v}'",
    '{n}\t{v}',
    '{n}={v}\\n',
    '\\"{n}\\": \\"{v}\\"',
    '{n}%3D{v}',
    '{{{n}: {v}}}',
    'var.{n} = "{v}"',
    'TF_VAR_{n}={v}',
    '"{n}={v}"',
    'Setting {n} to {v}',
    "set {n} to '{v}'",
    'Using {n} {v}',
    'got {n}={v!r}',
    "{n}=SecretStr('{v}')",
    '_{n}: Final = "{v}"',
    'self.{n} = "{v}"',
    "{n}: str = '{v}'",
    '[DEBUG] {n}={v} (source: env)',
]  # fmt: skip
COMMANDS = [
    'curl -u bob:{p} https://x.io/',
    "curl --user 'bob:{p}' https://x.io",
    "curl -H 'Authorization: Bearer {k}' https://x",
    'curl -H "X-Api-Key: {k}" https://x',
    "curl -H 'PRIVATE-TOKEN: {k}' https://gitlab.io",
    "curl -H 'Cookie: session={k}' x",
    "curl -b 'sid={k}' x",
    'curl --oauth2-bearer {k} https://x',
    'wget --http-password={p} https://x',
    'wget --password={p} ftp://x',
    "wget --header='Authorization: token {k}' x",
    "wget --user=bob --password '{p}' x",
    'http -a bob:{p} GET x.io',
    'git clone https://oauth2:{k}@gitlab.com/a/b.git',
    'git clone https://{k}@github.com/a/b.git',
    'git remote add o https://bob:{u}@host/x.git',
    "git -c http.extraHeader='Authorization: Basic {b}' fetch",
    'pip install --index-url https://bob:{u}@pypi.io/simple x',
    'pip install -i https://__token__:{k}@pypi.io/simple',
    'mysql -ubob -p{u} db',
    'mysql --user=bob --password={p} db',
    "mysqldump -u bob -p'{u}' db",
    'psql postgresql://bob:{u}@db:5432/x',
    'PGPASSWORD={u} psql -h db',
    "psql 'host=db user=bob password={u} dbname=x'",
    'redis-cli -a {u} ping',
    'redis-cli -u redis://:{u}@h:6379',
    'redis://:{u}@h:6379/0',
    'rediss://default:{u}@h:6380',
    'mongodb+srv://bob:{u}@c.mongodb.net/x',
    'amqp://bob:{u}@mq:5672/v',
    'mysql+pymysql://bob:{u}@db/x',
    'postgresql+asyncpg://bob:{u}@db/x',
    'mongosh --username bob --password {u}',
    'sshpass -p {u} ssh bob@h',
    "sshpass -p'{u}' scp a b:",
    'az login --service-principal -u x -p {k} --tenant t',
    'az storage blob upload --account-key {b} -f x',
    "az storage blob list --sas-token 'sv=2022&sig={q}'",
    'az acr login -n x --password {u}',
    'aws configure set aws_secret_access_key {k40}',
    "gcloud auth activate-service-account --key-file=/x && gsutil -o 'Credentials:gs_secret_access_key={k40}' ls",
    'docker login -u bob -p {u} ghcr.io',
    'docker login --username bob --password={u}',
    'echo {k} | docker login -u bob --password-stdin',
    'kubectl config set-credentials bob --token={k}',
    'kubectl --token={k} get pods',
    'kubectl create secret generic s --from-literal=pw={u}',
    'kubectl create secret docker-registry r --docker-password={u}',
    'helm registry login x -u bob -p {u}',
    'oc login --token={k} https://x',
    'wandb login {h40}',
    'huggingface-cli login --token {k}',
    'kaggle config set -n key -v {h32}',
    'neptune --api-token {k}',
    'comet login --api-key {k}',
    'mlflow: Authorization: Basic {b2}',
    'rclone config create x s3 secret_access_key {k40}',
    's3cmd --secret_key={k40} ls',
    'mc alias set x http://m AK{c16} {k40}',
    'ldapsearch -D cn=x -w {u} -b y',
    'openssl enc -aes-256-cbc -pass pass:{u} -in x',
    'openssl rsa -passin pass:{u}',
    'gpg --batch --passphrase {u} -d x',
    'zip -P {u} a.zip b',
    '7z a -p{u} a.7z',
    'unrar x -p{u} a.rar',
    'smbclient //h/s -U bob%{u}',
    'mount -t cifs //h/s /m -o username=bob,password={u}',
    'net use z: \\\\h\\s {u} /user:bob',
    'rsync --password-file=/x rsync://bob@h/',
    'RSYNC_PASSWORD={u} rsync a b',
    'expect -c \'send "{u}\\r"\' # password',
    'ansible-playbook -e ansible_password={u} x.yml',
    "ansible all --extra-vars 'db_password={u}'",
    "terraform apply -var 'db_password={u}'",
    'vault kv put secret/x password={u}',
    'vault write auth/approle/login role_id=x secret_id={k}',
    'consul kv get --token={k}',
    'etcdctl --user root:{u} get x',
    'influx --password {u}',
    'clickhouse-client --password {u}',
    'snowsql -a x -u bob --password {u}',
    'bq --api_key {k}',
    'twine upload -u __token__ -p {k} dist/*',
    'npm config set //registry.npmjs.org/:_authToken {k}',
    '//registry.npmjs.org/:_authToken={k}',
    '_auth={b2}',
    'poetry config http-basic.x bob {u}',
    'poetry config pypi-token.pypi {k}',
    'uv publish --token {k}',
    'conda config --add channels https://conda.io/t/{k}/x',
    'ray start --redis-password={u}',
    'jupyter lab --NotebookApp.token={k}',
    'http://127.0.0.1:8888/?token={h48}',
    'http://h:8888/lab?token={h48}',
    'tensorboard --load x?auth_token={k}',
    'ngrok config add-authtoken {k}',
    'cloudflared tunnel run --token {k}',
    'tailscale up --authkey {k}',
    'nmcli dev wifi connect x password {u}',
    'wpa_passphrase x {u}',
    'wg set wg0 private-key {b}',
    'machine h login bob password {u}',
    'db:5432:x:bob:{u}',
    'Server=h;Database=x;User Id=bob;Password={p2};Encrypt=yes',
    'DefaultEndpointsProtocol=https;AccountName=a;AccountKey={b};EndpointSuffix=x',
    'Endpoint=sb://x;SharedAccessKeyName=r;SharedAccessKey={b}',
    'jdbc:mysql://h/x?user=bob&password={u}',
    'jdbc:sqlserver://h;user=bob;password={u}',
    'Driver={{ODBC}};Server=h;Uid=bob;Pwd={u};',
    'Data Source=h;Password={u}',
    'https://a.blob.core.windows.net/c?sv=1&sp=r&sig={q}',
    'https://s3.amazonaws.com/b?X-Amz-Credential=AK&X-Amz-Signature={h64}',
    'https://storage.googleapis.com/b?X-Goog-Signature={h64}',
    'https://maps.io/x?key={k}&y=1',
    'https://hooks.x.io/?token={k}',
    'wss://h/ws?access_token={k}',
    'Authorization: Bearer {k}',
    'authorization: Basic {b2}',
    'Authorization: token {k}',
    'Proxy-Authorization: Basic {b2}',
    'X-Auth-Token: {k}',
    'X-Amz-Security-Token: {k}',
    'X-Vault-Token: {k}',
    'Set-Cookie: sessionid={k}; Path=/; HttpOnly',
    'Cookie: a=1; sessionid={k}; csrftoken={c32}',
    '  "auths": {{"ghcr.io": {{"auth": "{b2}"}}}}',
    '    token: {k}\n    user: x',
    '    client-key-data: {b}',
    'password {u}',
    "IDENTIFIED BY '{u}'",
    "GRANT ALL ON x TO bob IDENTIFIED BY '{u}'",
    "ALTER USER bob WITH PASSWORD '{u}'",
    "CREATE USER bob PASSWORD '{u}'",
    'requirepass {u}',
    'masterauth {u}',
    'bindpw {u}',
    'rootpw {u}',
    'secret {u};',
    'SECRET KEY: {k}',
    'Your API key is {k}',
    'your new password is: {u}',
    "Password for 'https://bob@github.com': {u}",
    'Token: {k}',
    'token={k}',
    'access token: {k}',
    'The secret is {k}',
    'API Key: {k}',
    'credentials: bob:{u}',
    "auth=('bob', '{u}')",
    "auth=HTTPBasicAuth('bob', '{u}')",
    "requests.get(u, headers={{'Authorization': 'Bearer {k}'}})",
    'Client(api_key="{k}")',
    'openai.api_key = "{k}"',
    'wandb.login(key="{h40}")',
    'login(token="{k}")',
    "HfApi(token='{k}')",
    "boto3.client('s3', aws_secret_access_key='{k40}')",
    "storage_options={{'key': 'x', 'secret': '{k40}'}}",
    "psycopg2.connect(host='h', password='{u}')",
    "redis.Redis(host='h', password='{u}')",
    "paramiko.connect(h, username='bob', password='{u}')",
    "Fernet(b'{b}')",
    "jwt.encode(x, '{k}', algorithm='HS256') # secret",
    "app.secret_key = '{k}'",
    "SECRET_KEY = 'django-insecure-{c40}'",
    "KeyError: 'password={u}'",
]  # fmt: skip
AROUND = [
    "{}",
    "2026-03-01 10:00:00,123 INFO main: {}",
    "[rank3]: {}",
    "\x1b[33m{}\x1b[0m",
    "step 1\n{}\nstep 2",
    "{}, lr=0.1",
    "> {}",
]
LETTERS, DIGITS, HEX = string.ascii_letters, string.digits, "0123456789abcdef"


class Maker:
    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))

    def chars(self, alphabet: str, length: int) -> str:
        """That many; a small letter, a capital and a digit first, so that chance makes no word of them."""
        return "k7Q"[: 3 if "Q" in alphabet else 2 if alphabet == HEX else 0].replace("k", "c") + "".join(
            self.random.choices(alphabet, k=length - 3)
        )

    def values(self) -> dict[str, str]:
        alnum = LETTERS + DIGITS
        pair = base64.b64encode(f"bob:{self.chars(alnum, 14)}".encode()).decode()
        key = base64.b64encode(bytes(self.random.randrange(256) for _ in range(32))).decode()
        word = self.chars(alnum, self.random.choice([12, 16, 20]))
        return {
            "u": word, "p": f"{self.chars(alnum, 10)}!{self.chars(alnum, 5)}", "k": self.chars(alnum, 40), "b": key, "b2": pair,
            "q": quote(key, safe=""), "p2": f"{self.chars(alnum, 9)}!x", "k40": self.chars(alnum, 40), "c32": self.chars(alnum, 32),
            "c16": "EXAMPLEEXAMPLEXX", "c40": self.chars(alnum + "!@#$%^&*(-_=+)", 46),
            **{f"h{n}": self.chars(HEX, n + 1) for n in (32, 40, 48, 64)},
        }  # fmt: skip


def is_left(secret: str, text: str) -> bool:
    width = max(8, min(16, int(len(secret) * 0.45)))
    return any(secret[at : at + width] in text for at in range(len(secret) - width + 1))


@pytest.mark.parametrize("around", AROUND, ids=ascii)
@pytest.mark.parametrize("syntax", SYNTAXES, ids=ascii)
def test_a_value_is_hidden_in_every_syntax_under_every_name(syntax, around):
    maker = Maker((syntax, around))
    for name in maker.random.sample(NAMES, 6):
        value = maker.values()["k" if re.search("JWT|token", name, re.I) else maker.random.choice(["u", "k", "h40"])]
        hidden = redact_text(around.format(syntax.format(n=name, o=name.lower().replace("_", "-"), v=value)))
        assert not is_left(value, hidden), hidden
        assert redact_text(hidden) == hidden


@pytest.mark.parametrize("command", COMMANDS, ids=ascii)
def test_what_a_command_takes_is_hidden(command):
    for around in AROUND:
        values = Maker((command, around)).values()
        hidden = redact_text(around.format(command.format(ODBC="ODBC", **values)))
        for name in re.findall(r"(?<!\{)\{(\w+)\}", command):
            if name not in ("c16", "ODBC"):
                assert not is_left(values[name], hidden), hidden
        assert redact_text(hidden) == hidden


@pytest.mark.parametrize("syntax", SYNTAXES, ids=ascii)
def test_what_is_no_secret_stays_in_every_syntax(syntax):
    maker = Maker(syntax)
    for name in HARMLESS:
        value = maker.random.choice(["4096", "/data/ckpt/step_3000.pt", "llama-3", "3e-4", "true", "cuda12"])
        text = syntax.format(n=name, o=name.lower().replace("_", "-"), v=value)
        assert redact_text(text) == text


@pytest.mark.parametrize("syntax", SYNTAXES, ids=ascii)
def test_a_reference_or_a_placeholder_stays(syntax):
    for value in ("${WANDB_API_KEY}", "<your-key>", "***", "None", "/run/secrets/key"):
        text = syntax.format(n="WANDB_API_KEY", o="wandb-api-key", v=value)
        assert redact_text(text) == text
