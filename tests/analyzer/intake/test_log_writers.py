"""Whose log a text is: said to the reader, and nothing depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.intake.log_writers import LOOKED_AT, WRITERS, ends, log_of
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.reports.wording import taken_for

LOGS = Path(__file__).parents[3] / "fixtures" / "pasted" / "logs"


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("gloo-timeout-mono", "c10d"),
        ("hf-trainer", "the Transformers trainer"),
        ("jax-distributed-init-timeout-p1", "JAX"),
        ("lightning-ddp-2", "Lightning"),
        ("ray-start-no-head", "Ray"),
        ("torchelastic-raise-record", "torchrun"),
        ("tqdm", "a progress bar"),
        ("wandb-no-network", "Weights & Biases"),
    ],
)
def test_a_log_says_whose_it_is(name: str, writer: str):
    assert writer in log_of((LOGS / f"{name}.txt").read_text().splitlines())


@pytest.mark.parametrize(
    ("line", "writer"),
    [
        ("node1:412:430 [0] NCCL INFO Connected all rings", "NCCL"),
        ("[2026-11-29 10:00:00,001] [INFO] [launch.py:351:main] Process 12 exits successfully.", "DeepSpeed"),
        (" iteration        7/     100 | consumed samples:           56 | elapsed time", "Megatron"),
        ("(EngineCore_0 pid=88) INFO 11-29 10:00:00 [core.py:77] Initializing a V1 LLM engine", "vLLM"),
        ("slurmstepd: error: *** JOB 12 ON node1 CANCELLED AT 2026-11-29T10:00:00 DUE TO TIME LIMIT ***", "Slurm"),
        ("Warning  FailedScheduling  2m  default-scheduler  0/4 nodes are available", "Kubernetes"),
        ("[node1][[40318,1],3][btl_tcp_endpoint.c:796:complete_connect] connect() failed", "MPI"),
        ("[ERROR] HCCL(412,python):2026-11-29-10:00:00 [hccl_socket.cc:12] wait timeout", "HCCL"),
        ("Running  1 job", "ai-toolkit"),
        ("got prompt", "ComfyUI"),
    ],
)
def test_one_line_is_enough(line: str, writer: str):
    assert log_of([line]) == f"of {writer}"


@pytest.mark.parametrize(
    "line",
    ["step 12 loss 0.3", "I import deepspeed, horovod and ray", "nccl==2.20.5", "/opt/venv/lib/python3.11/site-packages/vllm", ""],
)
def test_a_name_alone_is_not_enough(line: str):
    assert log_of([line]) == ""


def test_of_a_long_log_both_ends_are_looked_at():
    nccl = "node1:412:430 [0] NCCL INFO Connected all rings"
    lines = ["step"] * 5000 + [nccl]
    assert len(ends(lines)) == 2 * LOOKED_AT
    assert log_of(ends(lines)) == "of NCCL"


def test_the_report_says_it_once_for_all_its_logs(tmp_path):
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("node1:412:430 [0] NCCL INFO Connected all rings\n")
    (tmp_path / "c.log").write_text("something else\n")
    with open_case([tmp_path]) as case:
        recognised = analyze(case, load_rulebook()).recognised
    assert taken_for(recognised) == "log of NCCL (2, 2 lines); not recognised, searched as a log: 1 line"


@pytest.mark.parametrize("text", ["a " * 500, "[" * 1000, "1" * 1000, "=" * 999 + "\0", "x]" * 500, "(" + "pid=" * 249])
def test_no_line_makes_it_slow(text: str):
    """Every pattern is held against the worst of its kind; a pattern that tries all pairs would not come back."""
    for pattern in WRITERS.values():
        for _ in range(50):
            pattern.search(text)
