"""Texts of the vendors' tools, of driver generations from 390 to 580, become rows; broken ones become nothing."""

from __future__ import annotations

import random
import time

import pytest
from programs import FIXTURES

from flatline.texts.gpu import any_text, complaints, kernel_module, rocm

TEXTS = sorted(path for path in (FIXTURES / "gpu").iterdir() if path.suffix in (".txt", ".xml", ".csv", ".json"))
MIB = 1 << 20


def parse(name):
    return any_text.parse((FIXTURES / "gpu" / name).read_text())


def test_the_table_of_driver_390():
    reading = parse("smi-390.txt")
    first, second = reading.gpus
    assert (reading.driver.state, reading.driver.module, reading.driver.cuda) == ("ok", "390.116", None)
    assert (first.index, first.name, first.bus_id, first.persistence) == (0, "Tesla P40", "00000000:05:00.0", True)
    assert (first.used, first.memory, first.utilisation) == (22010 * MIB, 22919 * MIB, 96.0)
    assert (first.temperature, first.power, first.power_limit) == (61.0, 181.0, 250.0)
    assert (first.compute_mode, second.compute_mode) == ("default", "exclusive-process")
    assert (first.ecc_uncorrected, second.ecc_uncorrected) == (0, 3)
    assert (first.mig, first.lost) == (None, False)
    (process,) = reading.processes
    assert (process.gpu, process.pid, process.name) == (0, 7123, "/opt/job env/bin/python")
    assert (process.type, process.memory) == ("compute", 22000 * MIB)


def test_a_device_whose_every_sensor_is_an_error_is_lost():
    reading = parse("smi-470-lost.txt")
    assert [gpu.lost for gpu in reading.gpus] == [False, True]
    assert reading.driver.state == "device-lost"
    assert reading.gpus[1].utilisation is None
    assert any("ERR!" in error for error in reading.gpus[1].errors)


def test_a_fan_that_cannot_be_read_is_no_lost_device():
    healthy = (FIXTURES / "gpu" / "smi-470-lost.txt").read_text().replace("|  0%   29C", "|ERR!   29C")
    first = any_text.parse(healthy).gpus[0]
    assert (first.lost, len(first.errors), first.temperature) == (False, 1, 29.0)


def test_the_table_of_driver_580_with_mig():
    reading = parse("smi-580-mig.txt")
    assert [(gpu.mig, gpu.utilisation) for gpu in reading.gpus] == [(True, None), (False, 100.0)]
    assert [(p.gpu, p.pid, p.type, p.memory) for p in reading.processes] == [
        (0, 2000321, "compute", 39060 * MIB), (1, 2000322, "both", None),
    ]  # fmt: skip
    assert (reading.driver.module, reading.driver.cuda) == ("580.82.07", "13.0")


def test_the_xml_of_driver_418():
    reading = parse("smi-418.xml")
    gpu = reading.gpus[1]
    assert (reading.driver.module, gpu.driver, gpu.cuda) == ("418.87.01", "418.87.01", "10.1")
    assert (gpu.index, gpu.minor, gpu.bus_id, gpu.used) == (1, 1, "00000000:01:00.0", 2000 * MIB)
    assert (gpu.power, gpu.power_limit, gpu.clock, gpu.clock_max) == (249.5, 240.0, 1230, 1380)
    assert (gpu.throttle, gpu.compute_mode) == (("power-cap",), "exclusive-process")
    assert (gpu.ecc, gpu.ecc_uncorrected, gpu.retired_pages, gpu.repair_pending) == (True, 2, 3, True)
    assert (gpu.mig, gpu.remapped_rows, gpu.lost) == (None, None, False)
    assert [(p.gpu, p.pid, p.name) for p in reading.processes] == [(0, 500, "python & co"), (1, 501, "python & co")]


def test_the_xml_of_driver_580():
    first, second = parse("smi-580.xml").gpus
    assert (first.power, first.power_limit, first.clock) == (141.2, 1000.0, None)
    assert (first.throttle, second.throttle) == (("hw-thermal",), ())
    assert (first.ecc_uncorrected, first.remapped_rows, first.repair_pending, first.repair_failed) == (4, 8, True, False)
    assert (first.mig, first.errors, second.errors) == (False, (), ("recovery action: Reset",))


def test_a_lost_device_in_the_xml_says_so_once():
    reading = parse("smi-525-lost.xml")
    assert [(gpu.lost, gpu.errors) for gpu in reading.gpus] == [(False, ()), (True, ("GPU is lost",))]
    assert (reading.driver.state, reading.processes) == ("device-lost", ())


def test_of_a_cut_xml_the_complete_devices_are_read():
    whole = (FIXTURES / "gpu" / "smi-418.xml").read_text()
    cut = any_text.parse(whole[: whole.rindex("<temperature>")])
    assert [gpu.index for gpu in cut.gpus] == [0]
    assert cut.gpus == any_text.parse(whole).gpus[:1]


def test_an_xml_that_defines_entities_is_not_read():
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    whole = (FIXTURES / "gpu" / "smi-418.xml").read_text()
    assert not any_text.parse(whole.replace('<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v10.dtd">', bomb)).gpus


def test_the_indented_form_says_the_same():
    reading = parse("smi-535-query.txt")
    (gpu,) = reading.gpus
    assert (reading.driver.module, reading.driver.cuda) == ("535.161.08", "12.2")
    assert (gpu.bus_id, gpu.minor, gpu.name) == ("00000000:8a:00.0", 4, "NVIDIA A100-SXM4-40GB")
    assert (gpu.used, gpu.utilisation, gpu.temperature, gpu.power) == (38000 * MIB, 100.0, 55.0, 88.1)
    assert (gpu.power_limit, gpu.clock, gpu.clock_max, gpu.persistence) == (400.0, 1095, 1410, False)
    assert gpu.throttle == ("hw-slowdown", "hw-power-brake")
    assert (gpu.compute_mode, gpu.ecc_uncorrected, gpu.remapped_rows) == ("prohibited", 4, 3)
    assert (gpu.repair_pending, gpu.repair_failed, gpu.errors) == (False, True, ("reset required",))
    (process,) = reading.processes
    assert (process.pid, process.name, process.memory) == (31337, "/opt/job/bin/python: worker", 37990 * MIB)


def test_the_list_and_the_columns_of_scripts():
    assert [(gpu.index, gpu.name) for gpu in parse("smi-list.txt").gpus] == [(0, "NVIDIA H100 PCIe"), (1, "NVIDIA H100 PCIe")]
    first, second = parse("smi-gpus.csv").gpus
    assert (first.used, first.utilisation, first.power, first.driver) == (45000 * MIB, 100.0, 344.2, "550.54.15")
    assert (second.utilisation, second.power, second.compute_mode) == (None, None, "exclusive-process")
    processes = parse("smi-processes-nounits.csv").processes
    assert [(p.gpu, p.pid, p.name, p.memory) for p in processes] == [
        (0, 900, "python train.py", 44990 * MIB), (1, 901, "python", 12 * MIB),
    ]  # fmt: skip


def test_rocm_smi_in_the_spelling_of_several_releases():
    reading = parse("rocm-smi.json")
    first, second = reading.gpus
    assert (reading.driver.vendor, reading.driver.module) == ("amd", "6.3.6")
    assert (first.name, first.bus_id, first.utilisation) == ("AMD Instinct MI250X", "00000000:c1:00.0", 99.0)
    assert (first.power, first.power_limit, first.temperature, first.clock) == (410.0, 500.0, 58.0, 1700)
    assert (second.name, second.used, second.power) == ("AMD Instinct MI250X", 11000000, None)


def test_amd_smi_tells_in_several_texts():
    found = [(FIXTURES / "gpu" / f"amd-smi-{part}.json").read_text() for part in ("static", "metric", "process")]
    reading = rocm.parse_amd_smi(*found)
    (gpu,) = reading.gpus
    assert (gpu.name, gpu.bus_id, gpu.driver) == ("AMD Instinct MI300X", "00000000:05:00.0", "6.8.5")
    assert (gpu.memory, gpu.used, gpu.utilisation) == (196592 * MIB, 190000 * MIB, 93.0)
    assert (gpu.power, gpu.power_limit, gpu.temperature, gpu.clock, gpu.ecc_uncorrected) == (512.0, 750.0, 61.0, 2100, 2)
    (process,) = reading.processes
    assert (process.pid, process.name, process.memory) == (4711, "python3", int(180.5 * 2**30))


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183", "version-mismatch"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that …", "not-loaded"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure …", "library-missing"),
        ("No devices were found", "no-devices"),
        ("Unable to determine the device handle for GPU0000:86:00.0: GPU is lost.  Reboot the system …", "device-lost"),
        ("Unable to determine the device handle for GPU 0000:03:00.0: Unknown Error", "device-lost"),
        ("Failed to initialize NVML: Insufficient Permissions", "no-permission"),
        ("Failed to initialize NVML: Unknown Error", "error"),
        ("Failed to initialize NVML: GPU access blocked by the operating system", "no-permission"),
    ],
)
def test_what_nvidia_smi_complains_of_is_a_state_of_the_driver(text, state):
    driver = any_text.parse(text).driver
    assert (driver.vendor, driver.state, driver.message) == ("nvidia", state, text.splitlines()[0])
    assert driver.library == ("535.183" if "library version:" in text else None)


def test_other_vendors_complain_too():
    assert any_text.parse("ERROR:root:Driver not initialized (amdgpu not found in modules)").driver.vendor == "amd"
    assert any_text.parse("dcmi module initialize failed. ret is -8005").driver.vendor == "huawei"
    assert complaints.of_driver("all is well") is None


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023", "535.129.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (root@host)", "580.82.07"),
        ("GCC version:  gcc version 11.4.0", None),
    ],
)
def test_the_version_of_the_kernel_module(line, version):
    assert kernel_module.parse_version(line) == version


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_text_that_is_cut_or_changed_anywhere_never_raises(path):
    whole = path.read_text()
    chance = random.Random(path.name)
    for _ in range(60):
        cut = whole[: chance.randrange(len(whole))]
        any_text.parse(cut)
        where, what = chance.randrange(len(whole)), chance.choice(["\0", "|", "9" * 5000, "<", "\n", "٣", "::", "{", '"'])
        any_text.parse(whole[:where] + what + whole[where:])


@pytest.mark.parametrize(
    "text",
    ["", "\n" * 200_000, " " * 200_000, "|" * 200_000, "| NVIDIA-SMI " + " 1" * 100_000, "[" * 100_000, '{"card0":' * 20_000,
     "==NVSMI LOG==\n" + "".join(" " * depth + "a\n" for depth in range(1500)),
     "<nvidia_smi_log>" + "<a>" * 50_000, "NVML: " * 30_000, "GPU 0: " * 30_000, "index, name\n" + "," * 200_000],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_garbage_costs_little_and_gives_nothing(text):
    began = time.process_time()
    assert not any_text.parse(text).processes
    assert time.process_time() - began < 5
