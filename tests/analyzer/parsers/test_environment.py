"""Environments: what env and shells print here, and single settings that are one or are none."""

from __future__ import annotations

import subprocess

import pytest
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import EnvVar, Process


def values(block) -> dict[str, str | None]:
    return {row.name: row.value for row in rows_of(block, EnvVar)}


@pytest.mark.parametrize("command", ["env", "export -p", "declare -x", "printenv"])
def test_what_a_shell_prints_here_is_an_environment(command):
    variables = {"NCCL_DEBUG": "INFO", "PATH": "/usr/bin:/bin", "HOME": "/root", "EMPTY_ONE": "", "TITLE": "a b = c", "LANG": "C",
                 "CUDA_VISIBLE_DEVICES": "0,1", "RANK": "3", "WORLD_SIZE": "8"}  # fmt: skip
    done = subprocess.run(
        ["/bin/bash", "-c", command], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    block = only(done.stdout, "environment")
    assert {name: values(block)[name] for name in variables} == variables
    assert "env" in block.collected


def test_one_setting_in_a_file_of_its_own_is_an_environment():
    block = only("CUDA_VISIBLE_DEVICES=\n", "environment")
    assert values(block) == {"CUDA_VISIBLE_DEVICES": ""}
    assert [row.environ_state for row in rows_of(block, Process)] == ["unknown"]
    assert not block.collected


def test_one_setting_between_two_other_texts_is_one_where_jobs_have_it():
    kinds = [b.kind for b in blocks_of("hello\n\nCUDA_VISIBLE_DEVICES=\n\nPyTorch version: 1.7.1+cu110")]
    assert kinds == ["log", "environment", "environment-report"]


@pytest.mark.parametrize(
    "text",
    ["step 1\nCUDA_VISIBLE_DEVICES=0\nstep 2", "hello\n\nBATCH=4\n\nbye", "a\nLR=3\nBATCH=4\nb", "x\nFOO==BAR\ny", "INFO a=b c=d\nmore"],
)  # fmt: skip
def test_a_setting_in_a_log_is_none(text):
    assert all(block.kind == "log" for block in blocks_of(text))


def test_several_settings_in_a_log_are_one_when_some_are_known():
    found = blocks_of("start\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME=^docker0\nMY_OWN=1\ngo")
    assert [b.kind for b in found] == ["log", "environment", "log"]
    assert values(found[1])["MY_OWN"] == "1"


def test_exports_lose_their_quotes():
    block = only("export NCCL_IB_HCA=\"mlx5_0,mlx5_1\"\nexport OMP_NUM_THREADS='8'\n", "environment")
    assert values(block) == {"NCCL_IB_HCA": "mlx5_0,mlx5_1", "OMP_NUM_THREADS": "8"}


def test_a_command_with_its_variables_stays_in_the_log():
    block = only("CUDA_VISIBLE_DEVICES=0,1 NCCL_P2P_DISABLE=1 python3 train.py --lr 3", "command-line")
    (process,) = rows_of(block, Process)
    assert process.argv == ("python3", "train.py", "--lr", "3")
    assert values(block) == {"CUDA_VISIBLE_DEVICES": "0,1", "NCCL_P2P_DISABLE": "1"}
    assert block.is_log


@pytest.mark.parametrize(
    "line",
    [
        "(py) ann@n0:~/run$ NNODES=4 NODE_RANK=0 MASTER_ADDR=10.1.0.7 trainer-cli fit conf.yaml",
        "$ NNODES=4 NODE_RANK=0 MASTER_ADDR=10.1.0.7 ./go",
        "[ann@n0 run]$ NNODES=4 NODE_RANK=0 MASTER_ADDR=10.1.0.7 torchrun fit.py",
    ],
)
def test_behind_a_prompt_any_program_may_be_given_variables(line: str):
    block = only(line, "command-line")
    assert values(block) == {"NNODES": "4", "NODE_RANK": "0", "MASTER_ADDR": "10.1.0.7"}
    assert not block.is_log


@pytest.mark.parametrize(
    "command", ["$ env | grep NCCL", "me@n1:~$ printenv | grep P2P", "export | grep NCCL", "# set | grep NCCL"]
)
def test_one_setting_below_the_command_that_was_asked_for_it(command):
    blocks = blocks_of(f"{command}\nNCCL_P2P_DISABLE=1\nloading model\n")
    assert [values(b) for b in blocks if b.kind == "environment"] == [{"NCCL_P2P_DISABLE": "1"}]


def test_one_setting_below_another_line_is_part_of_the_log():
    assert [b.kind for b in blocks_of("loading config\nNCCL_P2P_DISABLE=1\nloading model\n")] == ["log"]


@pytest.mark.parametrize(
    ("answer", "value"), [("0,1\n", "0,1"), ("\n", ""), ("$ nvidia-smi -L\n", ""), ("me@n1:~$ python a.py\n", "")]
)
def test_a_variable_that_was_echoed(answer, value):
    blocks = blocks_of(f"$ echo $CUDA_VISIBLE_DEVICES\n{answer}")
    assert [values(b) for b in blocks if b.kind == "echoed-variable"] == [{"CUDA_VISIBLE_DEVICES": value}]
