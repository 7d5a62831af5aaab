"""What a command line runs, and what such a process is to a job as far as its own words tell."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from flatline.bundle.facts import Role

PYTHON = re.compile(r"^(python|pypy)[\d.]*t?d?([-_]\w+)?( \(deleted\))?$")
_VERSION = re.compile(r"(?:python|pypy)(\d+\.\d+)")
SHELLS = frozenset({"ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"})
JAVASCRIPT = frozenset({"bun", "deno", "node", "nodejs", "npm", "npx", "pnpm", "yarn"})
WRAPPERS = frozenset(
    {
        "chronic", "conda", "doas", "env", "flock", "ionice", "make", "mamba", "micromamba", "nice", "nohup", "numactl",
        "pdm", "pipenv", "poetry", "script", "setsid", "stdbuf", "su", "sudo", "taskset", "time", "timeout", "uv",
        "xvfb-run",
    }
)  # fmt: skip
"""Programs that run one other program: launchers, when it is the job that they run."""
_LAUNCHERS = frozenset(
    {
        "accelerate", "composer", "colossalai", "deepspeed", "fabric", "hq", "horovodrun", "hydra_pmi_proxy", "jsrun",
        "mpiexec", "mpiexec.hydra", "mpirun", "orted", "orterun", "parallel", "pdsh", "prted", "prterun", "prun",
        "raylet", "srun", "torchrun", "torchx", "tune", "xargs",
    }
)  # fmt: skip
_LAUNCHER_MODULES = re.compile(
    r"^(torch\.distributed\.(run|launch)|torch\.distributed\.elastic\b.*|accelerate(\.commands\.\w+)?|"
    r"deepspeed(\.launcher\.\w+)?|torchtune|colossalai(\.\w+)*|horovod\.run(ner)?|composer(\.cli)?|lightning\.fabric.*)$"
)
_TRACKERS = re.compile(
    r"^(wandb(-core|-service|-xpu)?|wandb-osx|gpu_stats|tensorboard|mlflow|aim|neptune.*|clearml.*|comet.*|trackio)$"
)
_COMPILERS = frozenset(
    {
        "c++", "cc", "cc1", "cc1plus", "cicc", "clang", "clang++", "collect2", "cudafe++", "fatbinary", "g++", "gcc",
        "hipcc", "ld", "ninja", "nvcc", "nvlink", "ptxas", "triton",
    }
)  # fmt: skip
EDITOR = re.compile(
    r"vscode-server|\.vscode|code-server|cursor-server|windsurf|pylsp|pyright|jedi.language|ruff[- ]server|ruff-lsp|"
    r"language[-_.]?server|copilot|debugpy/adapter|pycharm|jetbrains|jupyter|ipykernel|pylance|tsserver",
    re.IGNORECASE,
)
_RANK_FLAGS = {
    "--local-rank": "local_rank",
    "--local_rank": "local_rank",
    "--node-rank": "node",
    "--node_rank": "node",
    "--rank": "rank",
    "--world-size": "world_size",
    "--world_size": "world_size",
}


@dataclass(frozen=True)
class Program:
    """What a command line runs. ``python -u -m torch.distributed.run x`` is the module torch.distributed.run."""

    name: str
    """Base name of the script, the module's full name, or the base name of the executable."""
    path: str = ""
    """The script or executable as written."""
    code: str = ""
    """After -c."""
    arguments: tuple[str, ...] = ()


def program_of(argv: Sequence[str]) -> Program:
    """What runs behind an interpreter; a title written over the command line counts by its first word."""
    words = tuple(argv)
    if len(words) == 1 and " " in words[0]:
        words = tuple(words[0].split())
    if not words:
        return Program("")
    first = os.path.basename(words[0].lstrip("-"))
    return _python_program(words) if PYTHON.match(first) else Program(first, words[0], arguments=words[1:])


def _python_program(words: tuple[str, ...]) -> Program:
    position = 1
    while position < len(words):
        word, rest = words[position], words[position + 1 :]
        if not word.startswith("-") or word == "-":
            return Program(os.path.basename(word), word, arguments=rest)
        if word.startswith("--"):
            position += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for letter, value in (("m", "module"), ("c", "code")):
            if letter in word[1:] and not word.startswith(("-W", "-X")):
                attached = word[word.index(letter) + 1 :]
                text, after = (attached, rest) if attached else (rest[0] if rest else "", rest[1:])
                return Program(text, arguments=after) if value == "module" else Program("-c", "", text, after)
        position += 2 if word in ("-W", "-X") else 1
    return Program("python", words[0])


def is_python_command(argv: Sequence[str], name: str | None = None) -> bool:
    """By its first word, else by its name; PyTorch names its processes ``pt_…``."""
    first = os.path.basename(argv[0]) if argv else ""
    return bool(PYTHON.match(first) or PYTHON.match(name or "") or (name or "").startswith("pt_"))


def python_version(argv: Sequence[str], name: str | None = None) -> str | None:
    """``3.11`` of ``/usr/bin/python3.11 train.py``."""
    found = _VERSION.match(os.path.basename(argv[0]) if argv else name or "")
    return found[1] if found else None


def role_of(argv: Sequence[str], name: str) -> Role | None:
    """The role that a process's own name and command line tell; None: its parent decides."""
    program = program_of(argv)
    if name in ("pt_data_worker", "pt_data_pin"):
        return "dataloader-worker"
    if "multiprocessing.resource_tracker" in program.code or "multiprocessing.semaphore_tracker" in program.code:
        return "resource-tracker"
    if "multiprocessing.forkserver" in program.code:
        return "other"
    if "compile_worker" in program.path or "compile_worker" in program.name or program.name in _COMPILERS:
        return "compile-worker"
    runs = program.name or name
    if runs in SHELLS:
        return "shell"
    if _TRACKERS.match(program.name) or _TRACKERS.match(name):
        return "tracker-service"
    if runs in _LAUNCHERS or runs in WRAPPERS or _LAUNCHER_MODULES.match(program.name) or name == "pt_elastic":
        return "launcher"
    return "launcher" if JAVASCRIPT & {program.name, name} else None


def rank_flags(argv: Sequence[str]) -> dict[str, int]:
    """What flags like --local_rank say: ``rank``, ``local_rank``, ``world_size``, ``node``."""
    found: dict[str, int] = {}
    for position, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        following = argv[position + 1] if position + 1 < len(argv) else ""
        text = value if equals else following
        if flag in _RANK_FLAGS and text.isdecimal():
            found.setdefault(_RANK_FLAGS[flag], int(text))
    return found
