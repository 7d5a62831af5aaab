"""Formats in which secrets stand: each holds one under a telling name, or of a telling shape."""

from __future__ import annotations

import base64

import pytest

from flatline.redaction import Redactor, redact_text

VALUE = "x8Fk2mQ9zL77aB"
HEX = "3d4c5fe7c0647eb23d4c5fe7c0647eb23d4c5fe7"
GITHUB = "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"
PEM = base64.b64encode(b"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75\n").decode() + "Zm9vYmFy" * 20
DOCKER = base64.b64encode(b'{"auths":{"ghcr.io":{"username":"bob","password":"x8Fk2mQ9zL77aB"}}}').decode()
LINES = "\n".join("MIIEvgIBADANBgkqhkiG9w0BAQEFAASC" + str(n) * 32 for n in range(9))

FORMATS = {
    "kube, PEM": (f"client-key-data: {PEM}", PEM),
    "kube, PEM under another name": (f"tls.key: {PEM}", PEM),
    "docker config": (f".dockerconfigjson: {DOCKER}", DOCKER),
    "yaml, value below": (f"password:\n  {VALUE}\nlr: 3", VALUE),
    "json, value below": (f'{{"password":\n   "{VALUE}"}}', VALUE),
    "json array": (f'{{"api_keys": ["{VALUE}", "b{VALUE}"]}}', VALUE),
    "json array of a password": (f'{{"password":["{VALUE}"]}}', VALUE),
    "json object": (f'{{"token":{{"value":"{VALUE}"}}}}', VALUE),
    "openai's message": (f"Incorrect API key provided: {VALUE}. You can", VALUE),
    "yaml list": (f"api_keys:\n  - {VALUE}\n  - b{VALUE}\nlr: 3", VALUE),
    "sql, identified with": (f"IDENTIFIED WITH mysql_native_password BY '{VALUE}'", VALUE),
    "unzip": (f"unzip -P {VALUE} a.zip", VALUE),
    "7z": (f"7z x -p{VALUE} a.7z", VALUE),
    "ideographic space": (f"password:\u3000{VALUE}", VALUE),
    "csh": (f"setenv HF_TOKEN {VALUE}", VALUE),
    "dockerfile": (f"ENV HF_TOKEN {VALUE}", VALUE),
    "fish": (f"set -x HF_TOKEN {VALUE}", VALUE),
    "fish, global": (f"set -gx HF_TOKEN {VALUE}", VALUE),
    "sql": (f"ALTER USER bob WITH PASSWORD '{VALUE}'", VALUE),
    "sql, identified": (f"CREATE USER bob IDENTIFIED BY '{VALUE}'", VALUE),
    "colour inside": ("\x1b[31mghp_uywZIW9baaVqaU4\x1b[0mU8Fufx6DmLY35hX0kuLWD", "U8Fufx6DmLY35hX0kuLWD"),
    "wandb.login": (f"wandb.login(key='{HEX}')", HEX),
    "curl, glued": (f"curl -ubob:{VALUE} https://x/", VALUE),
    "su": (f"curl -su bob:{VALUE} https://x/", VALUE),
    "wrapped": (f"{GITHUB[:20]}\n{GITHUB[20:]}", GITHUB[20:]),
    "concatenated": (f'"{GITHUB[:20]}" "{GITHUB[20:]}"', GITHUB[20:]),
    "a letter before": (f"x{GITHUB}", GITHUB[10:]),
    "PEM in a URL": ("-----BEGIN PRIVATE KEY-----%0A" + LINES.replace("\n", "%0A") + "%0A-----END PRIVATE KEY-----", LINES[40:60]),
    "PEM without BEGIN": (f"{LINES}\n-----END PRIVATE KEY-----", LINES[70:100]),
    "PEM behind a prefix, without END": ("-----BEGIN PRIVATE KEY-----\n" + "\n".join(f"12:00 INFO {line}" for line in LINES.split("\n")), LINES[75:95]),
    "escaped name": (f'{{"api\\u005fkey": "{VALUE}"}}', VALUE),
    "toml": (f'password = """{VALUE}"""', VALUE),
    "toml, lines": (f'password = """\n{VALUE}"""', VALUE),
    "cdata": (f"<password><![CDATA[{VALUE}]]></password>", VALUE),
    "vault": (f"vault login {VALUE}", VALUE),
    "ldapsearch": (f"ldapsearch -x -D cn=admin -w {VALUE} -b dc=x", VALUE),
    "zip": (f"zip -r -P {VALUE} a.zip b", VALUE),
    "kubectl": (f"kubectl create secret generic x --from-literal=foo={VALUE}", VALUE),
    "url-escaped": (f"body=api_key%3D{VALUE}%26x%3D3", VALUE),
    "no-break space": (f"password:\u00a0{VALUE}", VALUE),
    "zero width": (f"password\u200b: \u200b{VALUE}", VALUE),
    "full width": (f"password：{VALUE}", VALUE),
    "netrc account": (f"machine h login bob password y account {VALUE}", VALUE),
    "slash in a URL's password": (f"postgres://u:ab/{VALUE}@h:5432/db", VALUE),
    "shadow": ("root:$6$saltsalt$kT9vvq2Zs81mQ9zL77aBx8Fk2mQ9zL77aB:19000:0", "kT9vvq2Zs81mQ9z"),
    "password like a path": ("password: /opt/x8Fk2mQ9zL!77", "x8Fk2mQ9zL"),
    "password like a call": ("db_password: Qx8(Fk2mQ9", "Fk2mQ9"),
    "password like a reference": ("DB_PASSWORD=$ummerTime99", "ummerTime99"),
    "password like a tag": ("db_password: <x8Fk2mQ9zL>", "x8Fk2mQ9zL"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_no_secret_is_left(name):
    text, secret = FORMATS[name]
    assert secret not in redact_text(text)
    assert secret[:-3] not in redact_text(f"before\n{text}\nafter")


@pytest.mark.parametrize(
    "argv",
    [["curl", f"-ubob:{VALUE}", "https://x/"], ["curl", "-su", f"bob:{VALUE}", "https://x/"], ["vault", "login", VALUE],
     ["ldapsearch", "-x", "-w", VALUE], ["zip", "-P", VALUE, "a"], ["kubectl", "create", f"--from-literal=foo={VALUE}"]],
)  # fmt: skip
def test_no_secret_is_left_in_a_command_line(argv):
    hidden = Redactor().argv(argv)
    assert VALUE not in " ".join(hidden)
    assert hidden[0] == argv[0]


EVIDENCE = [
    "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURCVENDQWUyZ0F3SUJBZ0lJ",
    "tcp://[::1]:29500/a@b http://host:8080/path@2x s3://bucket/a:b/c",
    "password:\n  Enter\n",
    "auth:\n  - password\n  - publickey\ntokens:\n  - x1y2z3w4v5u6\nsecrets:\n  - db-credentials\n",
    "data: eyJsb3NzIjogMi4zNDUsICJzdGVwIjogMTIzNDU2Nzg5MCwgInJhbmsiOiAzfQ==",
    '{"token": {"type": "bpe", "value": "hello"}, "keys": ["x1y2z3w4v5u6a7"]}',
    "token:\n  bos: 1\n  eos: 2\npassword:\n  # none\n  file: /run/pw",
    "set -x; ENV PATH /usr/bin; setenv HF_HOME /data/hf",
    "zip -r a.zip b; su -u bob; vault status; ldapsearch -x -b dc=x",
    "SELECT password FROM users; identified by rank 3; PASSWORD EXPIRE",
    "password: getpass.getpass(), password=${DB_PASSWORD}, password: <your password>, password=/run/secrets/db",
    "\x1b[31mERROR\x1b[0m rank 3 \x1b[1mfailed\x1b[0m",
    "hf_transfer sk-learn xsk-2 task-3 risk-averse-strategy-for-training-models mask-rcnn-resnet50-fpn-coco-2017",
    "libs: libghp_test.so desk-0123456789 disk-nvme0n1p1aaaaaaaaaaaaaaaaaaa",
    "account 12345 machine node-3 default account team",
]


@pytest.mark.parametrize("line", EVIDENCE)
def test_what_only_looks_like_such_a_format_stays(line):
    assert redact_text(line) == line


def test_a_token_at_a_lines_end_does_not_take_the_next_line():
    for after in ("Done", "train.py", "epoch12 of 3", "x.log"):
        assert redact_text(f"see {GITHUB}\n{after}") == f"see ⟪github-token·1⟫\n{after}"
        assert redact_text(f"'{GITHUB}' '{after}'").endswith(f"' '{after}'")
        assert redact_text(f"\x1b[1m{GITHUB}\x1b[0m {after}").endswith(f"\x1b[0m {after}")
