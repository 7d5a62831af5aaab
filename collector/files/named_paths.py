"""The paths that a job was given: in its arguments, and in its environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

_NOT_ONE_PATH = re.compile(r":/|[*?{}\[\]$|;<>\"'\s\x00]")
"""A URL, host:/path, a pattern, a piece of a script: not the name of one file."""
_BEGINS_LIKE_PATH = re.compile(r"(~?/|\.\.?/)[^/]")
_SUFFIX = re.compile(
    r"\.(bin|cfg|ckpt|conf|csv|err|gguf|h5|hdf5|ini|ipynb|json|jsonl|log|npy|npz|out|parquet|pkl|pt|pth|py|safetensors|"
    r"sh|toml|tsv|txt|xml|ya?ml)$",
    re.IGNORECASE,
)
_PLACE = re.compile(r"(^|[_.-])(\w*dir|\w*path|\w*file|folder|root|output|config|checkpoint|ckpt|log)$", re.IGNORECASE)
_OUTPUT = re.compile(r"out|log|save|sav|ckpt|checkpoint|cache|tmp|temp|dump|result|report|tensorboard", re.IGNORECASE)
_SHELL_NOISE = re.compile(
    r"(PATH|PWD|OLDPWD|HOME|SHELL|_|MAIL|LESS.*|LS_COLORS|MANPATH|INFOPATH|EDITOR|VISUAL|PAGER|TERMINFO.*|XDG_.*|"
    r"SSH_.*|DBUS_.*|GPG_.*|CONDA_.*|_CE_.*|VIRTUAL_ENV.*|PYENV.*|NVM_.*|NODE_.*|npm_.*|VSCODE_.*|LD_.*|PS\d|"
    r"BASH.*|ZSH.*|INVOCATION_ID|JOURNAL_STREAM|MEMORY_PRESSURE_.*|PYTHONPATH|PYTHONHOME|WINDOWID|DISPLAY|GIO_.*)$"
)
"""What every shell and session sets: a folder missing there means nothing."""
_CACHE = "~/.cache"
DEFAULTS: Mapping[str, str] = {
    "HF_HOME": f"{_CACHE}/huggingface",
    "TMPDIR": "/tmp",
    "TORCH_EXTENSIONS_DIR": f"{_CACHE}/torch_extensions",
    "TORCH_HOME": f"{_CACHE}/torch",
    "TRITON_CACHE_DIR": "~/.triton/cache",
}
"""Variable -> where its library writes when it is not set (their documentation)."""


@dataclass(frozen=True)
class NamedPath:
    """One path, and who named it."""

    path: str
    why: Literal["argument", "environment", "log", "cache", "cwd", "usual"]
    named_by: str
    is_sure: bool = True
    """False: it may be something else (``meta-llama/Llama-2-7b``); worth a row only if it is there."""

    @property
    def is_output(self) -> bool:
        """Something the job would make: then the folder above must be writable."""
        return self.named_by in DEFAULTS or bool(_OUTPUT.search(self.named_by))


def in_arguments(argv: Sequence[str]) -> Iterator[NamedPath]:
    """``--flag value``, ``--flag=value``, ``key=value`` and bare words, without the program itself."""
    flag = ""
    for word in argv[1:]:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[-+]*[\w.-]+", name):
            yield from _if_path(value, name)
        elif word.startswith("-"):
            flag = word
            continue
        else:
            yield from _if_path(word, flag or "argument")
        flag = ""


def in_environment(env: Mapping[str, str], home: str = "") -> Iterator[NamedPath]:
    """Variables whose value is one absolute path. Lists of paths are left out, and what every shell sets."""
    for name, value in env.items():
        if ":" in value or _SHELL_NOISE.match(name) or not value.startswith(("/", "~/")):
            continue
        if not _NOT_ONE_PATH.search(value) and len(value) > 1:
            yield NamedPath(from_home(value, home), "environment", name)


def usual(env: Mapping[str, str]) -> Iterator[NamedPath]:
    """Where such jobs write without being told: the defaults of the variables that are not set."""
    home = env.get("HOME", "")
    for name, default in DEFAULTS.items():
        path = from_home(default, home)
        if default.startswith(_CACHE) and env.get("XDG_CACHE_HOME", "").startswith("/"):
            path = env["XDG_CACHE_HOME"].rstrip("/") + default[len(_CACHE) :]
        if not env.get(name) and path.startswith("/"):
            yield NamedPath(path, "usual", name)


def from_home(path: str, home: str) -> str:
    """``~/x`` below the home folder, if that is known."""
    return f"{home.rstrip('/')}/{path[2:]}" if home and path.startswith("~/") else path


def _if_path(value: str, named_by: str) -> Iterator[NamedPath]:
    if not value or len(value) > 4096 or _NOT_ONE_PATH.search(value):
        return
    if _BEGINS_LIKE_PATH.match(value) or _SUFFIX.search(value):
        yield NamedPath(value, "argument", named_by)
    elif "/" in value or _PLACE.search(named_by.lstrip("-")):
        yield NamedPath(value, "argument", named_by, is_sure=False)
