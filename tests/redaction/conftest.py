"""Secrets of every kind and the syntaxes in which programs print them, made up from a seed."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

import pytest

LETTERS, DIGITS, HEX = string.ascii_letters, string.digits, "0123456789abcdef"
ALNUM, WORD = LETTERS + DIGITS, LETTERS + DIGITS + "_-"


@dataclass(frozen=True)
class MadeUp:
    """A secret under a name that programs use for it."""

    name: str
    value: str


class Secrets:
    """Makes secrets; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chars(self, alphabet: str, length: int) -> str:
        """That many, a letter or digit first, a digit last."""
        pick = self.random.choice
        return pick(HEX) + "".join(pick(alphabet) for _ in range(length - 2)) + pick("3456789")

    def all(self) -> list[MadeUp]:
        c = self.chars
        return [
            MadeUp("HF_TOKEN", "hf_" + "".join(self.random.choices(LETTERS, k=34))),
            MadeUp("HUGGING_FACE_HUB_TOKEN", "hf_" + c(ALNUM, 34)),
            MadeUp("WANDB_API_KEY", c(HEX, 40)),
            MadeUp("OPENAI_API_KEY", "sk-proj-" + c(WORD, 120)),
            MadeUp("ANTHROPIC_API_KEY", "sk-ant-api03-" + c(WORD, 95)),
            MadeUp("GITHUB_TOKEN", "ghp_" + c(ALNUM, 36)),
            MadeUp("GH_PAT", "github_pat_" + c(ALNUM, 82)),
            MadeUp("CI_JOB_TOKEN", "glpat-" + c(ALNUM, 20)),
            MadeUp("AWS_SECRET_ACCESS_KEY", c(ALNUM + "/+", 38) + "x1"),
            MadeUp("GOOGLE_API_KEY", "AIza" + c(ALNUM, 35)),
            MadeUp("DATABRICKS_TOKEN", "dapi" + c(HEX, 32)),
            MadeUp("REPLICATE_API_TOKEN", "r8_" + c(ALNUM, 37)),
            MadeUp("SLACK_BOT_TOKEN", "xoxb-" + c(DIGITS, 12) + "-" + c(ALNUM, 24)),
            MadeUp("SENDGRID_API_KEY", "SG." + c(ALNUM, 22) + "." + c(ALNUM, 43)),
            MadeUp("COMET_API_KEY", c(ALNUM, 25)),
            MadeUp("MLFLOW_TRACKING_PASSWORD", c(ALNUM, 14)),
            MadeUp("db_password", c(ALNUM, 12) + "!x"),
            MadeUp("client_secret", c(ALNUM, 32)),
            MadeUp("auth_token", c(WORD.replace("-", ""), 43)),
            MadeUp("encryption_key", c(ALNUM, 44)),
        ]


@pytest.fixture(params=range(3))
def secrets(request: pytest.FixtureRequest) -> list[MadeUp]:
    """One secret of each kind; three seeds."""
    return Secrets(request.param).all()


SYNTAXES = {
    "argv in /proc": "python\0train.py\0--{name}\0{value}\0lr=1e-4\0",
    "argv, Python list": "['python', 'train.py', '--{name}', '{value}', 'lr=1e-4']",
    "colour": "\x1b[32m{name}\x1b[0m=\x1b[1m{value}\x1b[0m lr=1e-4",
    "docker inspect": '"Env": [\n  "PATH=/usr/bin",\n  "{name}={value}",\n  "lr=1e-4"\n]',
    "docker option": "docker run --rm -e {name}={value} --gpus all image:1.2 lr=1e-4",
    "environ of Python": "environ({{'HOME': '/root', '{name}': '{value}', 'x': 'lr=1e-4'}})",
    "environ in /proc": "HOME=/root\0{name}={value}\0lr=1e-4\0",
    "environment": "HOME=/root\n{name}={value}\nlr=1e-4\n",
    "hydra override": "python train.py +logger.{name}={value} lr=1e-4",
    "ini": "[tracker]\n{name} = {value}\nlr=1e-4\n",
    "json": '{{"lr": "lr=1e-4", "{name}": "{value}"}}',
    "json in json": '{{"event": "{{\\"{name}\\": \\"{value}\\", \\"x\\": \\"lr=1e-4\\"}}"}}',
    "json lines log": '{{"level":"info","{name}":"{value}","x":"lr=1e-4"}}',
    "kubectl describe": "    Environment:\n      {name}:  {value}\n      lr=1e-4\n",
    "kubernetes yaml": "- name: {name}\n  value: {value}\n- name: X\n  value: lr=1e-4\n",
    "log, colon": "2026-03-01 10:00:00 DEBUG settings {name}: {value} lr=1e-4",
    "namespace": "Namespace(epochs=3, {name}='{value}', x='lr=1e-4')",
    "option": "python train.py --{name} {value} lr=1e-4",
    "option with equals": "torchrun train.py --{name}={value} lr=1e-4",
    "option, quoted": 'torchrun train.py --{name}="{value}" lr=1e-4',
    "powershell": "$env:{name} = '{value}'; python train.py lr=1e-4",
    "pydantic": "Settings({name}=SecretStr('{value}'), x='lr=1e-4')",
    "python item": "os.environ['{name}'] = '{value}'  # lr=1e-4",
    "python local": "    {name} = '{value}'\n    x = 'lr=1e-4'",
    "shell export": "export {name}={value}; python train.py lr=1e-4",
    "shell prefix": "{name}={value} python train.py lr=1e-4",
    "strace": 'execve("/usr/bin/python", ["python"], ["{name}={value}", "lr=1e-4"])',
    "table": "│ {name} │ {value} │\n│ x │ lr=1e-4 │",
    "toml": '{name} = "{value}"\nx = "lr=1e-4"\n',
    "url query": "GET https://api.example.org/v1?{name}={value}&x=lr=1e-4 HTTP/1.1",
    "xml": "<{name}>{value}</{name}><x>lr=1e-4</x>",
    "yaml": "tracker:\n  {name}: {value}\n  x: lr=1e-4\n",
    "yaml, quoted": "tracker:\n  {name}: '{value}'\n  x: lr=1e-4\n",
}


@pytest.fixture(params=sorted(SYNTAXES))
def syntax(request: pytest.FixtureRequest) -> str:
    """A template with {name} and {value}, and ``lr=1e-4`` that must stay."""
    return SYNTAXES[request.param]
