"""Reports of an environment: torch's collect_env of several versions, and what other programs print of theirs."""

from __future__ import annotations

import pytest
from parsing import blocks_of, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Gpu, GpuDriver, Host, Library, Mount, Package, Process

ENVIRONMENT = FIXTURES / "pasted" / "environment"


def report(text: str):
    (block,) = [block for block in blocks_of(text) if block.kind == "environment-report"]
    return block


@pytest.mark.parametrize(
    ("name", "torch", "python"),
    [
        ("collect_env-1.9.1.txt", "1.9.1+cu102", "3.8"),
        ("collect_env-1.12.1.txt", "1.12.1+cu102", "3.10.13"),
        ("collect_env-2.13.0.txt", "2.13.0+cpu", "3.11.7"),
        ("accelerate-env.txt", "2.13.0+cpu", "3.11.7"),
        ("transformers-env.txt", "2.13.0+cpu", "3.11.7"),
    ],
)
def test_torch_and_python_of_every_report(name, torch, python):
    block = report((ENVIRONMENT / name).read_text())
    assert {row.name: row.version for row in rows_of(block, Package)}["torch"] == torch
    assert [row.python for row in rows_of(block, Process)] == [python]
    assert all("Could" not in row.name for row in rows_of(block, Package))


def test_kernel_processors_and_toolkit_of_a_new_one():
    block = report((ENVIRONMENT / "collect_env-2.13.0.txt").read_text())
    (host,) = rows_of(block, Host)
    assert (host.machine, host.cpus) == ("x86_64", 2)
    assert {row.family: row.version for row in rows_of(block, Library)} == {
        "C library": "2.36",
        "CUDA toolkit": "13.0.88",
    }


def test_deepspeed_tells_the_size_of_shared_memory():
    block = report((ENVIRONMENT / "ds_report.txt").read_text())
    assert {row.name: row.version for row in rows_of(block, Package)} == {"torch": "2.13.0+cpu", "deepspeed": "0.19.8"}
    (mount,) = rows_of(block, Mount)
    assert (mount.path, mount.size) == ("/dev/shm", int(23.54 * 2**30))


HEADLESS = """Python version: 3.9 (64-bit runtime)
Is CUDA available: False
CUDA runtime version: 11.8.89
GPU models and configuration:
GPU 0: NVIDIA A10
GPU 1: NVIDIA A10

Nvidia driver version: 525.60.13
cuDNN version: Probably one of the following:
/usr/lib/libcudnn.so.8.7.0

Versions of relevant libraries:
[pip3] numpy==1.24.1
[pip3] torchvision==0.15.2
[conda] mkl                       2023.1.0         h213fc3f_46344
[conda] Could not collect"""


def test_a_report_without_its_head_gives_devices_and_driver():
    block = report("\n".join(HEADLESS.splitlines()[1:]) + "\nstep 1: loss 3")
    assert [(gpu.index, gpu.name, gpu.driver) for gpu in rows_of(block, Gpu)] == [
        (0, "NVIDIA A10", "525.60.13"), (1, "NVIDIA A10", "525.60.13"),
    ]  # fmt: skip
    (driver,) = rows_of(block, GpuDriver)
    assert (driver.module, driver.message, driver.state) == (
        "525.60.13",
        "torch.cuda.is_available() is False",
        "unknown",
    )
    assert {row.name for row in rows_of(block, Package)} == {"numpy", "torchvision", "mkl"}
    assert "8.7.0" in {row.version for row in rows_of(block, Library)}


def test_the_log_goes_on_after_a_report():
    text = 'PyTorch version: 2.1.0\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: x\nEpoch: 3'
    block = report(text)
    assert (block.first, block.end) == (0, 1)


def test_the_report_of_vllm_has_its_colons_elsewhere():
    text = "==============================\n        PyTorch Info\n==============================\nPyTorch version              : 2.7.0+cu126\nIs debug build               : False\nGPU models and configuration : GPU 0: NVIDIA L4\nNvidia driver version        : 550.54.15\n"
    block = report(text)
    assert [row.version for row in rows_of(block, Package)] == ["2.7.0+cu126"]
    assert [(gpu.name, gpu.driver) for gpu in rows_of(block, Gpu)] == [("NVIDIA L4", "550.54.15")]
