"""What a finding says of the other places that its rule fired on."""

from __future__ import annotations

from pathlib import Path

from flatline.analyzer.analysis import analyze
from flatline.analyzer.findings import Report
from flatline.analyzer.intake.opening import open_case

LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
OTHER = "NVRM: Xid (PCI:0000:af:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def report_of(tmp_path: Path, text: str) -> Report:
    (tmp_path / "pasted.txt").write_text(text)
    with open_case([tmp_path]) as case:
        return analyze(case)


def test_one_message_of_the_driver_is_one_fault(tmp_path: Path) -> None:
    finding = report_of(tmp_path, f"[Sat Nov 28 03:11:02 2026] {LOST}\n").findings[0]
    assert finding.cause == "gpu-hardware-fault"
    assert "not the only one" not in finding.summary


def test_a_second_device_is_another_fault_and_is_told_once(tmp_path: Path) -> None:
    finding = report_of(tmp_path, "".join(f"[Sat Nov 28 03:11:02 2026] {line}\n" for line in (LOST, OTHER))).findings[0]
    assert finding.summary.count("0000:af:00") == 1


def test_one_look_at_a_process_is_not_called_every_look(tmp_path: Path) -> None:
    table = "  PID STAT COMMAND\n 4711 D    python fit.py --data /mnt/nfs/corpus\n"
    because = " ".join(report_of(tmp_path, table).verdict.because)
    assert "in the one look there is" in because
    assert "in every look" not in because
