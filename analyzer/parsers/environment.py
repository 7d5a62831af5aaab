"""Environments: env, printenv, export, set, declare -x, /proc/PID/environ made readable, a command with its variables.

Several lines of ``NAME=value`` are one; a single one only where it stands by itself and its name is one that such jobs
have, or where it is all there is. A log that prints one setting is no environment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from flatline.bundle.facts import EnvVar, Process, process_id

from .interface import HOST, LOOKAHEAD, NO_PID, Line, Lines, Parsed, Parser
from .prompts import BEGINS, command_in
from .spans import MAX_BLANKS, is_all, span, stands_alone

NOBODY = process_id(NO_PID, HOST)
_NAME = r"[A-Z_][A-Z0-9_]{1,80}"
_ANY_NAME = r"[A-Za-z_][\w.%()-]{0,80}"
_DECLARES = r"(?:export |declare -\w+ |typeset -x |setenv |set )"
_BEGINS = re.compile(
    rf"(?:{_DECLARES})?{_NAME}=[^=].*|(?:{_DECLARES})?{_NAME}=$|ENV {_NAME}[= ]\S|(?:-e|--env) {_NAME}="
)
_ROW = re.compile(
    rf"(?P<how>{_DECLARES}|ENV |(?:-e|--env) )?(?P<name>{_ANY_NAME})(?:=(?P<value>.*)|(?<=\w) (?P<spaced>\S.*))$"
)
_PROMPT = re.compile(r"(?:[\w.@:~/()\[\] ⟪·⟫-]{0,80})?[$#%❯>] ?\S")
_ASKS = re.compile(
    r"(?:[\w.@:~/()\[\] ⟪·⟫-]{0,80}[$#%❯>!] ?)?"
    r"(?:(?:sudo|srun|ssh|docker|kubectl|podman|singularity|apptainer)\b.{0,80})?"
    r"\b(?:env|printenv|set|export|declare)(?: -\w)?(?: ?\||$)|.{0,80}/environ\b.{0,60}\b(?:grep|tr)\b"
)
_ECHO = re.compile(
    r"(?:[\w.@:~/()\[\] ⟪·⟫-]{0,80}[$#%❯>!] ?)(?:echo \"?\$\{?|printenv )(?P<name>[A-Z_][A-Z0-9_]{1,80})\}?\"?$"
)
_BARE = re.compile(rf"(?:{_DECLARES})?{_NAME}$")
KNOWN = re.compile(
    r"(?:CUDA|NCCL|TORCH|PYTORCH|NVIDIA|OMP|MKL|KMP|HIP|ROCR|HSA|RCCL|GLOO|PET|HF|HUGGINGFACE|TRANSFORMERS|TOKENIZERS|WANDB|RAY|JAX|"
    r"XLA|TF|TENSORFLOW|MASTER|SLURM|PMI|PMIX|OMPI|UCX|FI|MPI|HOROVOD|VLLM|DS|DEEPSPEED|ACCELERATE|FSDP|ASCEND|HCCL|ZE|SYCL|TRITON|"
    r"BITSANDBYTES|PYTHON|LD|DYLD|CONDA|OPENBLAS|NUMEXPR|TMP|XDG|http|https|no|HTTP|HTTPS|NO|ALL|KUBERNETES|SGE|PBS|LSB|TPU|"
    r"FLATLINE|MALLOC|NVSHMEM|NVTE|SHARP|GASNET|DLRM|MEGATRON|TORCHELASTIC|TORCHINDUCTOR|AWS|CUBLAS|CUDNN)_|"
    r"(?:RANK|WORLD_SIZE|NNODES|NUM_NODES|NPROC_PER_NODE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|PATH|HOME|USER|SHELL|PWD|HOSTNAME|LANG|TMPDIR|TERM|VIRTUAL_ENV|"
    r"PYTHONPATH|PYTHONUNBUFFERED|PYTHONFAULTHANDLER|DISPLAY|TZ)$"
)
"""Names that jobs of this kind have, by their beginning."""
_MANY = 8
"""Rows from which on one known name could be chance."""
MAX_ROWS = 5_000
MAX_VALUE = 8_192
_PROGRAM = re.compile(
    r"(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun|bash|sh|uv|ray|vllm|colossalai|node|npm|"
    r"nohup|numactl|time|timeout|exec|env|poetry|conda|\S+\.(?:sh|py))$"
)
_COMMAND = re.compile(rf"(?:env )?(?:{_NAME}=\S* +){{1,40}}[\w./~-]+(?: |$)")


def variable(line: Line, name: str, value: str | None, process: str = NOBODY) -> EnvVar:
    """A row; a value that is too long is left unknown, as collect does."""
    kept = value if value is not None and len(value) <= MAX_VALUE else None
    return EnvVar(process, name, kept, line=line.number)


def unquoted(value: str) -> str:
    """Without the quotes a shell prints around it."""
    value = value.strip()
    if value.startswith("$'") and value.endswith("'"):
        return value[2:-1]
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace('\\"', '"').replace("\\$", "$") if value[0] == '"' else value[1:-1]
    return value


def parse(lines: Lines, start: int) -> Parsed | None:
    """All lines of it. The dump of a shell goes on over functions and values of several lines."""
    near = span(lines[start : start + LOOKAHEAD], 0, _is_row, blanks=1)
    first = [row for line in near.lines if (row := _row(line))]
    if start > MAX_BLANKS and not _is_environment(first, lines, start, start + near.end):
        return None
    found = span(lines, start, _is_row, blanks=1)
    rows = [row for line in found.lines[:MAX_ROWS] if (row := _row(line))]
    if not rows or not (_is_environment(first, lines, start, found.end) or _is_all(rows, lines, start, found.end)):
        return None
    whole = len(rows) >= _MANY and any(row.name in ("PATH", "HOME", "PWD") for row in rows)
    process = Process(NOBODY, HOST, NO_PID, environ_state="read" if whole else "unknown", line=found.lines[0].number)
    collected = frozenset({"env"} if whole else ())
    return Parsed(found.end, (process, *rows), collected, f"{len(rows)} variables")


def _is_row(bare: str) -> bool:
    if _BARE.match(bare) and bare.startswith(("export ", "declare ")):
        return True  # declared, and without a value
    found = _ROW.match(bare)
    return found is not None and _has_value(found)


def _has_value(found: re.Match[str]) -> bool:
    return found["value"] is not None or bool(found["how"] and found["how"].startswith(("ENV", "setenv")))


def _row(line: Line) -> EnvVar | None:
    found = _ROW.match(line.bare)
    if found is None or not _has_value(found):
        return None
    value = found["value"] if found["value"] is not None else found["spaced"]
    return variable(line, found["name"], unquoted((value or "").removesuffix(";")))


def _is_environment(rows: Sequence[EnvVar], lines: Lines, start: int, end: int) -> bool:
    """By its first rows: names that jobs have, and how many; a single one must stand by itself."""
    known = sum(bool(KNOWN.match(row.name)) for row in rows)
    declared = lines[start].bare.startswith(("export ", "declare ", "setenv "))
    if len(rows) == 1:
        return known == 1 and (declared or stands_alone(lines, start, end) or _was_asked_for(lines, start))
    return known >= (1 if len(rows) < _MANY or declared else 2)


def _was_asked_for(lines: Lines, start: int) -> bool:
    """Whether the line above is the command that prints it: ``$ env | grep NCCL``."""
    return start > 0 and bool(_ASKS.match(lines[start - 1].bare))


def parse_echo(lines: Lines, start: int) -> Parsed | None:
    """``$ echo $CUDA_VISIBLE_DEVICES`` and the line it gave; a blank one, or the next prompt, says that it is empty."""
    asked = _ECHO.match(lines[start].bare)
    if asked is None or not KNOWN.match(asked["name"]):
        return None
    answer = lines[start + 1].bare if start + 1 < len(lines) else ""
    is_told = bool(answer) and not _PROMPT.match(answer)
    row = variable(lines[start], asked["name"], unquoted(answer) if is_told else "")
    process = Process(NOBODY, HOST, NO_PID, line=lines[start].number)
    return Parsed(start + 1 + is_told, (process, row), about=f"the value of {row.name}")


def _is_all(rows: Sequence[EnvVar], lines: Lines, start: int, end: int) -> bool:
    """Whether the input has nothing else; then its names need not be known."""
    return is_all(lines, start, end) and (len(rows) > 1 or rows[0].name.isupper())


def parse_command(lines: Lines, start: int) -> Parsed | None:
    """``CUDA_VISIBLE_DEVICES=0,1 python train.py``: the variables and the program they were given to. Behind a prompt
    it may be any program."""
    line = lines[start]
    typed = command_in(line.bare)
    text = typed.text if typed else line.bare
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    words = words[1:] if words[:1] == ["env"] else words
    count = next((i for i, word in enumerate(words) if not re.match(rf"{_NAME}=", word)), len(words))
    argv = tuple(words[count:])
    named = [word.partition("=") for word in words[:count]]
    if not argv or not (typed or _PROGRAM.match(argv[0])) or not any(KNOWN.match(name) for name, _, _ in named):
        return None
    process = Process(NOBODY, HOST, NO_PID, argv=argv, line=line.number)
    rows: list[Any] = [variable(line, name, value) for name, _, value in named]
    return Parsed(start + 1, (process, *rows), about=f"{argv[0]} with {len(rows)} variables")


PARSERS = (
    Parser("command-line", _COMMAND, parse_command, is_log=True),
    Parser("command-line", re.compile(rf"(?={BEGINS.pattern}).{{0,160}}[$#%❯➜>+] {_COMMAND.pattern}"), parse_command),
    Parser("environment", _BEGINS, parse),
    Parser("echoed-variable", _ECHO, parse_echo, is_log=True),
)
