"""Containers, batch scripts, linked libraries and the compiler of CUDA, as they are pasted."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Cgroup, EnvVar, Library, Limit, Mount, Process, Scheduler

CONTAINERS = FIXTURES / "pasted" / "containers"
INSPECT = (CONTAINERS / "docker-inspect.json").read_text()


@pytest.mark.parametrize("text", [INSPECT, json.dumps(json.loads(INSPECT))], ids=["indented", "one line"])
def test_docker_inspect_tells_how_it_ended_and_what_it_had(text):
    block = only(text, "docker-inspect")
    (process,) = rows_of(block, Process)
    assert (process.argv, process.exit_status, process.state) == (("python", "train.py", "--epochs=3"), -9, "X")
    (cgroup,) = rows_of(block, Cgroup)
    assert (cgroup.memory_max, cgroup.memory_oom_kills, cgroup.process) == (16 << 30, 1, process.id)
    (mount,) = rows_of(block, Mount)
    assert (mount.path, mount.size) == ("/dev/shm", 64 << 20)
    assert {row.name: row.value for row in rows_of(block, EnvVar)}["CUDA_VISIBLE_DEVICES"] == ""


def test_a_part_of_docker_inspect_is_read_too():
    lines = INSPECT.splitlines()
    first = next(i for i, line in enumerate(lines) if "HostConfig" in line)
    block = next(b for b in blocks_of("\n".join(lines[first : first + 5])) if b.kind == "docker-inspect")
    assert [mount.size for mount in rows_of(block, Mount)] == [64 << 20]


def test_a_container_with_the_hosts_ipc_has_the_hosts_shared_memory():
    block = only(INSPECT.replace('"IpcMode": "private"', '"IpcMode": "host"'), "docker-inspect")
    assert rows_of(block, Mount) == []


def test_a_command_line_over_several_lines():
    text = "docker run --rm -it --gpus all --shm-size=64m \\\n  -e NCCL_DEBUG=INFO -v /a:/b img:tag python train.py"
    block = only(text, "docker-run")
    assert rows_of(block, Process)[0].argv == ("python", "train.py")
    assert rows_of(block, Mount)[0].size == 64 << 20
    assert {row.name: row.value for row in rows_of(block, EnvVar)} == {
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NCCL_DEBUG": "INFO",
    }


def test_a_pod_that_was_killed_for_memory():
    block = only((CONTAINERS / "pod.yaml").read_text(), "kubernetes-pod")
    (process,) = rows_of(block, Process)
    assert (process.exit_status, process.container) == (-9, "kubernetes")
    (cgroup,) = rows_of(block, Cgroup)
    assert (cgroup.memory_max, cgroup.memory_oom_kills) == (64 << 30, 1)
    assert [mount.size for mount in rows_of(block, Mount)] == [1 << 30]
    assert {row.name: row.value for row in rows_of(block, EnvVar)} == {"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": ""}
    (scheduler,) = rows_of(block, Scheduler)
    assert (scheduler.job, scheduler.node, scheduler.queue) == ("job-0", "n1", "ml")


def test_directives_of_slurm_and_sge():
    slurm = next(
        b
        for b in blocks_of("#!/bin/bash\n#SBATCH -p gpu\n#SBATCH --mem=64G\n\nsrun python t.py")
        if b.kind == "job-script"
    )
    assert [(row.kind, row.queue) for row in rows_of(slurm, Scheduler)] == [("slurm", "gpu")]
    assert [row.memory_max for row in rows_of(slurm, Cgroup)] == [64 << 30]
    sge = only("#$ -l gpu=1\n#$ -l h_vmem=10G,tmem=10G", "job-script")
    assert [(row.name, row.soft) for row in rows_of(sge, Limit)] == [("address space", 10 << 30)]


def test_slurm_sets_how_many_nodes_and_tasks_were_asked_for():
    block = only("#SBATCH --nodes=4 --exclusive\n#SBATCH -n8 -t 1-00:00:00\n", "job-script")
    assert [(row.name, row.value) for row in rows_of(block, EnvVar)] == [
        ("SLURM_JOB_NUM_NODES", "4"), ("SLURM_NTASKS", "8"),
    ]  # fmt: skip


@pytest.mark.skipif(not shutil.which("ldd"), reason="no ldd here")
def test_what_ldd_prints_here():
    done = subprocess.run(["ldd", "/bin/ls"], capture_output=True, text=True, timeout=60, check=True)
    libraries = rows_of(only(done.stdout, "ldd"), Library)
    assert any(row.soname.startswith("libc.") and row.path.startswith("/") for row in libraries)


def test_a_library_that_is_not_found_is_named():
    (missing,) = rows_of(only("\tlibcudart.so.12 => not found\n", "ldd"), Library)
    assert (missing.soname, missing.path, missing.line) == ("libcudart.so.12", "libcudart.so.12 (not found)", 1)


def test_the_compiler_of_cuda():
    text = "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2023 NVIDIA Corporation\nCuda compilation tools, release 12.1, V12.1.105"
    (row,) = rows_of(only(text, "nvcc"), Library)
    assert (row.family, row.version) == ("CUDA toolkit", "12.1.105")


@pytest.mark.parametrize(
    "text", ["env:\n  - name: lower\nmore", '{\n  "loss": 3\n}', "# a comment\n# another", "kind: Service"]
)
def test_other_settings_stay_log(text):
    assert {b.kind for b in blocks_of(text)} == {"log"}


def test_a_container_that_is_paused_is_so_in_the_scheduler():
    state = {"Status": "paused", "Paused": True, "OOMKilled": False, "Pid": 77}
    text = json.dumps([{"Id": "9f3c", "Created": "2024-01-01", "State": state, "Name": "/sampler"}], indent=4)
    rows = rows_of(blocks_of(text)[0], Scheduler)
    assert [(row.job, row.state) for row in rows] == [("sampler", "paused")]
