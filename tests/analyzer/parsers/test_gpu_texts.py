"""Pasted output of the accelerators' tools: which it is, its facts, and at which lines; with heads lost and ends cut."""

from __future__ import annotations

import pytest
from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess, ToolRun

MIB = 1 << 20


def text(name: str) -> str:
    folder = FIXTURES / "gpu" if (FIXTURES / "gpu" / name).exists() else FIXTURES / "pasted" / "gpu"
    return (folder / name).read_text()


@pytest.mark.parametrize(
    ("name", "kind", "devices", "processes"),
    [
        ("smi-390.txt", "gpu-table", 2, 1),
        ("smi-470-lost.txt", "gpu-table", 2, 0),
        ("smi-580-mig.txt", "gpu-table", 2, 2),
        ("smi-418.xml", "nvidia-smi-xml", 2, 2),
        ("smi-580.xml", "nvidia-smi-xml", 2, 0),
        ("smi-535-query.txt", "nvidia-smi-q", 1, 1),
        ("smi-list.txt", "nvidia-smi-list", 2, 0),
        ("smi-gpus.csv", "nvidia-smi-csv", 2, 0),
        ("smi-processes-nounits.csv", "nvidia-smi-csv", 0, 2),
        ("npu-smi.txt", "gpu-table", 2, 1),
        ("hl-smi.txt", "gpu-table", 1, 1),
        ("xpu-smi.txt", "gpu-table", 1, 0),
        ("amd-smi.txt", "gpu-table", 1, 1),
        ("amd-smi-monitor.txt", "amd-smi", 1, 0),
        ("amd-smi-metric.txt", "amd-smi", 2, 0),
        ("rocm-smi.txt", "rocm-smi", 2, 0),
        ("rocm-smi-old.txt", "rocm-smi", 1, 0),
        ("dmon.txt", "nvidia-smi-monitor", 2, 0),
        ("pmon.txt", "nvidia-smi-monitor", 0, 1),
        ("topo.txt", "nvidia-smi-topo", 0, 0),
        ("nvlink.txt", "nvidia-smi-list", 2, 0),
    ],
)
def test_each_text_is_one_block_of_its_kind(name, kind, devices, processes):
    block = only(text(name), kind)
    assert (len(rows_of(block, Gpu)), len(rows_of(block, GpuProcess))) == (devices, processes)


def test_json_below_a_warning_is_read():
    block = next(b for b in blocks_of(text("rocm-smi.json")) if b.kind == "amd-json")
    assert [gpu.name for gpu in rows_of(block, Gpu)] == ["AMD Instinct MI250X", "AMD Instinct MI250X"]


def test_every_row_stands_at_the_line_that_says_it():
    whole = text("smi-390.txt")
    lines = whole.splitlines()
    block = only(whole, "gpu-table")
    for gpu in rows_of(block, Gpu):
        assert gpu.bus_id.upper() in lines[gpu.line - 1]
    (process,) = rows_of(block, GpuProcess)
    assert str(process.pid) in lines[process.line - 1]
    for gpu in rows_of(only(text("smi-418.xml"), "nvidia-smi-xml"), Gpu):
        assert "<gpu " in text("smi-418.xml").splitlines()[gpu.line - 1]


def test_lines_count_from_the_beginning_of_the_input_whatever_stands_before():
    block = next(b for b in blocks_of("step 1\n\n\n" + text("smi-390.txt")) if b.kind == "gpu-table")
    assert (
        rows_of(block, Gpu)[0].bus_id.upper()
        in ("step 1\n\n\n" + text("smi-390.txt")).splitlines()[rows_of(block, Gpu)[0].line - 1]
    )


def test_a_table_without_its_head_is_recognised_by_its_rows():
    lines = text("smi-390.txt").splitlines()
    first = next(i for i, line in enumerate(lines) if "05:00.0" in line)
    block = only("\n".join(lines[first : first + 2]), "gpu-table")
    (gpu,) = rows_of(block, Gpu)
    assert (gpu.name, gpu.used, gpu.driver) == ("Tesla P40", 22010 * MIB, None)
    assert "gpus" not in block.collected


def test_a_process_table_alone_is_recognised():
    lines = text("smi-580-mig.txt").splitlines()
    first = next(i for i, line in enumerate(lines) if "| Processes:" in line)
    block = only("\n".join(lines[first - 1 :]), "gpu-table")
    assert [row.pid for row in rows_of(block, GpuProcess)] == [2000321, 2000322]
    assert "gpu_processes" in block.collected


def test_a_blank_line_after_every_line_changes_nothing():
    doubled = text("smi-390.txt").replace("\n", "\n\n")
    plain, wide = (rows_of(only(t, "gpu-table"), Gpu) for t in (text("smi-390.txt"), doubled))
    assert [(g.index, g.used, g.power) for g in plain] == [(g.index, g.used, g.power) for g in wide]


def test_memory_in_use_without_a_process_is_no_proof_that_nobody_uses_it():
    table = text("smi-390.txt")
    without = "\n".join(line for line in table.splitlines() if "7123" not in line)
    assert "gpu_processes" not in only(without, "gpu-table").collected


def test_an_xml_without_its_head_gives_its_devices():
    lines = text("smi-418.xml").splitlines()
    first = next(i for i, line in enumerate(lines) if "<gpu " in line)
    block = only("\n".join(lines[first:]), "nvidia-smi-xml")
    assert [gpu.line for gpu in rows_of(block, Gpu)] == [
        i + 1 for i, line in enumerate(lines[first:]) if "<gpu " in line
    ]


def test_inactive_links_are_errors_of_their_device():
    first, second = rows_of(only(text("nvlink.txt"), "nvidia-smi-list"), Gpu)
    assert first.errors == ("NVLink 1 is inactive",)
    assert second.errors[0].startswith("NVML: Unable to retrieve NVLink")


def test_of_a_monitor_the_last_line_of_each_device_counts():
    first, second = rows_of(only(text("dmon.txt"), "nvidia-smi-monitor"), Gpu)
    assert (first.utilisation, first.power, first.used, first.line) == (97.0, 309.0, 60211 * MIB, 5)
    assert (second.index, second.clock) == (1, 345)
    (process,) = rows_of(only(text("pmon.txt"), "nvidia-smi-monitor"), GpuProcess)
    assert (process.gpu, process.pid, process.type, process.name) == (0, 51234, "compute", "python3")


def test_other_vendors_say_as_much():
    npu, ill = rows_of(only(text("npu-smi.txt"), "gpu-table"), Gpu)
    assert (npu.vendor, npu.name, npu.used, npu.memory) == ("huawei", "910B4", 29012 * MIB, 32768 * MIB)
    assert ill.errors == ("health: Warning",)
    (gaudi,) = rows_of(only(text("hl-smi.txt"), "gpu-table"), Gpu)
    assert (gaudi.vendor, gaudi.utilisation, gaudi.used) == ("habana", 88.0, 95000 * MIB)
    (xpu,) = rows_of(only(text("xpu-smi.txt"), "gpu-table"), Gpu)
    assert (xpu.vendor, xpu.bus_id) == ("intel", "00000000:29:00.0")
    busy, idle = rows_of(only(text("rocm-smi.txt"), "rocm-smi"), Gpu)
    assert (busy.vendor, busy.utilisation, busy.power, busy.power_limit, idle.utilisation) == (
        "amd",
        100.0,
        512.0,
        750.0,
        0.0,
    )
    (mi300,) = rows_of(only(text("amd-smi.txt"), "gpu-table"), Gpu)
    assert (mi300.name, mi300.used, mi300.power, mi300.driver) == ("AMD Instinct MI300X", 285 * MIB, 140.0, "6.14.14")
    assert rows_of(only(text("amd-smi-metric.txt"), "amd-smi"), Gpu)[0].used == 190001 * MIB


@pytest.mark.parametrize(
    ("said", "state", "tool"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "version-mismatch", "nvidia-smi"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure …",
            "not-loaded",
            "nvidia-smi",
        ),
        ("Unable to determine the device handle for GPU 0000:03:00.0: Unknown Error", "device-lost", "nvidia-smi"),
        ("No devices were found", "no-devices", "nvidia-smi"),
        ("dcmi module initialize failed. ret is -8005", "error", "npu-smi"),
        ("Unable to open /dev/kfd read-write: Permission denied", "no-permission", "rocm-smi"),
    ],
)
def test_a_complaint_is_a_state_of_the_driver_and_stays_in_its_log(said, state, tool):
    blocks = blocks_of(f"$ nvidia-smi\n{said}\nnext line of a log")
    block = next(b for b in blocks if b.kind == "gpu-tool-failure")
    (driver,) = rows_of(block, GpuDriver)
    (run,) = rows_of(block, ToolRun)
    assert (driver.state, driver.message, driver.line, run.tool, run.outcome) == (state, said, 2, tool, "error")
    assert block.is_log
    assert ("gpus" in block.collected) == (state == "no-devices")


def test_a_tool_that_is_not_there_is_told_in_the_words_of_every_shell():
    for said in ("bash: nvidia-smi: command not found", "sh: 1: nvidia-smi: not found", "zsh: command not found: nvidia-smi",
                 "Command 'nvidia-smi' not found, but can be installed with:"):  # fmt: skip
        (run,) = rows_of(only(said, "tool-missing"), ToolRun)
        assert (run.tool, run.outcome) == ("nvidia-smi", "absent")


@pytest.mark.parametrize(
    "line",
    ["| epoch | loss | acc |", "| 1     | 0.35 | 0.8 |", "+-------+------+-----+", "GPU 0: 35% done", "12 files, 30%   40%", "name, index",
     "GPU0 X", "Model: resnet50", "ERROR: no devices were found in the config file", "{", "[", "Mon Jan  5 10:00:00 2026"],
)  # fmt: skip
def test_lines_of_ordinary_logs_stay_log(line):
    assert [block.kind for block in blocks_of(f"begin\n{line}\n{line}\nend")] == ["log"]


def test_the_kernel_modules_files():
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\nGCC version:  gcc version 12.3.0"
    (driver,) = rows_of(only(version, "nvidia-module-version"), GpuDriver)
    assert driver.module == "550.90.07"
    information = (
        "Model: \t\t NVIDIA H100\nIRQ:   \t\t 42\nGPU UUID: \t GPU-1\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 3"
    )
    (gpu,) = rows_of(only(information, "nvidia-gpu-information"), Gpu)
    assert (gpu.minor, gpu.bus_id) == (3, "00000000:3b:00.0")
