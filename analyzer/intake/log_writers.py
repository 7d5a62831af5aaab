"""Whose lines a log holds, for a person: ``of NCCL, torchrun``. What rules find in it does not depend on this.

Each writer is known by what only its lines begin with or hold; a library's name alone, which a path or a list of
packages may hold too, is not enough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

LOOKED_AT = 500
"""So many lines at the begin and at the end of a log tell whose it is, however long it is."""
MAX_LINE = 1000
"""Of a longer line no more is looked at."""
MAX_NAMED = 6
T = TypeVar("T")

WRITERS: Mapping[str, re.Pattern[str]] = {
    name: re.compile("|".join(alternatives))
    for name, *alternatives in (
        ("NCCL", r"\bN?R?CCL (?:INFO|WARN|TRACE|version \d)"),
        ("c10d", r"\[c10d\]|\bc10d::", r"\b(?:ProcessGroup\w{3,8}|TCPStore|socket|TraceUtils|NCCLUtils)\.[ch]pp:\d",
         r"\bProcessGroupNCCL's watchdog|Watchdog caught collective operation timeout"),
        ("torchrun", r"\btorch[./]distributed[./](?:run|launch|elastic|launcher)\b",
         r"\btorchelastic\b|\bChildFailedError\b"),
        ("DeepSpeed", r"\[deepspeed\]|\bDeepSpeed (?:info|Engine|Flops)",
         r"\[(?:launch|runner|engine|real_accelerator|comm|logging|config|stage_1_and_2|stage3|utils)\.py:\d+:\w+\]"),
        ("Accelerate", r"\baccelerate\.(?:commands|utils|accelerator|state|launchers)\b|`accelerate launch`"),
        ("Lightning", r"\b(?:pytorch_)?lightning[./](?:pytorch|fabric|trainer|utilities)\b",
         r"^(?:GPU|TPU|HPU) available: \w+, used|^LOCAL_RANK: \d+ - CUDA_VISIBLE_DEVICES|^distributed_backend=\w+"),
        ("the Transformers trainer", r"^\{'(?:loss|train_loss|eval_loss|train_runtime)': ",
         r"\*{5} Running (?:training|[Ee]valuation|[Pp]rediction) \*{5}",
         r"\btransformers\.(?:trainer|modeling_utils|tokenization)"),
        ("Megatron", r"\biteration +\d+/ *\d+ \| consumed samples:",
         r"^> (?:initializing|building|compiling|finished|setting) "),
        ("vLLM", r"\((?:EngineCore|APIServer|VllmWorker|Worker)[\w ]*pid=\d+\)",
         r"\b(?:INFO|WARNING|ERROR|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \["),
        ("Ray", r"\braylet\b|\bray::\w|\bgcs_server\b|\bcore_worker\.cc:\d",
         r"\((?!EngineCore|APIServer|VllmWorker|Worker\b)(?:\w+ )?pid=\d+(?:, ip=[\d.]+)?\)"),
        ("JAX", r"\bjax\._src\.|\bxla_bridge\.py:\d|external/(?:local_)?xla/|/tsl/|\bcoordination_service"),
        ("TensorFlow", r"\btensorflow/(?:core|compiler|stream_executor|lite)/"),
        ("Horovod", r"\bhorovod[./]\w+\.(?:cc|py)|Stalled (?:tensors|ops)",
         r"One or more tensors were submitted to be reduced"),
        ("MPI", r"^(?:mpirun|mpiexec|prterun|orterun)\b[: ]|\bMPI_(?:ABORT|Abort|Init)\b",
         r"\[[\w.-]+:\d+\] (?:PMIX|PRTE|ORTE|\[\[)|\]\[\[\d+,\d+\],\d+\]\[\w+\.c:\d"),
        ("Slurm", r"^(?:slurmstepd|slurmd|srun|sbatch|salloc|scancel)(?:-[\w.-]+)?: "),
        ("Kubernetes", r"\b(?:FailedScheduling|FailedMount|ImagePullBackOff|OOMKilled)\b|\bBack-off restarting"),
        ("a progress bar", r"\d{1,3}%\|[^|]{0,200}\| *[\d.,]+\w?/|\d+(?:it|step|batch|B) \[\d\d:\d\d, "),
        ("Weights & Biases", r"^wandb: "),
        ("the Hugging Face Hub", r"\bhuggingface_hub[./]\w|\bFetching \d+ files",
         r"\bhf_(?:xet|transfer)\b|\bxet_(?:core|client)\b"),
        ("pip", r"^(?:Collecting|Requirement already satisfied:|Building wheel for|Successfully installed) "),
        ("ComfyUI", r"^got prompt\b|\bComfyUI\b|\[Prompt Server\]|^Requested to load \w"),
        ("kohya's scripts", r"\b(?:library/train_util|library/model_util|networks/lora|sd-scripts)\b",
         r"^running training / 学習開始"),
        ("ai-toolkit", r"^Running +\d+ (?:job|process)|\bai-toolkit\b|^(?:\[\w+\] )?Starting job\b"),
        ("HCCL", r"^\[(?:ERROR|WARNING|INFO|EVENT)\] (?:HCCL|HCCP|GE|RUNTIME|ASCENDCL|ME|DEVICE)\("),
        ("the OpenMP runtime", r"^OMP: (?:Error|Warning|Info|Hint)\b"),
    )
}  # fmt: skip


def ends(lines: Sequence[T]) -> Sequence[T]:
    """The lines that are looked at."""
    return lines if len(lines) <= 2 * LOOKED_AT else [*lines[:LOOKED_AT], *lines[-LOOKED_AT:]]


def log_of(lines: Sequence[str]) -> str:
    """``of NCCL, torchrun``, the one with the most lines first; empty when nobody is known."""
    lines = [line[:MAX_LINE].strip() for line in lines]
    counts = {name: sum(pattern.search(line) is not None for line in lines) for name, pattern in WRITERS.items()}
    named = sorted((name for name, count in counts.items() if count), key=lambda name: -counts[name])
    return f"of {', '.join(named[:MAX_NAMED])}" if named else ""
