"""Logs as launchers and libraries print them: which errors they hold, and which of them nothing follows."""

from __future__ import annotations

from pathlib import Path

import pytest
from flatline.analyzer.intake.opening import open_case

LOGS = Path(__file__).parents[3] / "fixtures" / "pasted" / "logs"


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("gloo-timeout-mono", {"SignalException"}),
        ("hf-hub-no-network", {"LocalEntryNotFoundError", "OSError"}),
        ("torchelastic-kill-torch1.9.1", {"ChildFailedError", "RuntimeError"}),
        ("torchelastic-raise-record", {"ChildFailedError", "RuntimeError", "ValueError"}),
        ("torchelastic-rdzv-timeout", {"RendezvousTimeoutError"}),
        ("wandb-no-network", {"CommError"}),
        ("hf-trainer", set()),
        ("lightning-ddp-2", set()),
        ("tqdm", set()),
        ("ray-status", set()),
        ("ray-start-no-head", set()),
        ("jax-distributed-init-timeout-p1", set()),
    ],
)
def test_the_errors_that_ended_a_log_are_known(name, last):
    with open_case([LOGS / f"{name}.txt"]) as case:
        assert {row.type.rpartition(".")[2] for row in case.store.rows("errors") if row.is_last} == last
        (log,) = case.store.rows("logs")
        assert log.last_line is not None
        assert {block.kind for block in case.bundles[0].reader.recognised} <= {"log", "python-traceback", "ray-status"}


def test_of_a_bar_that_was_overwritten_the_last_state_is_kept():
    with open_case([LOGS / "hf-trainer.txt"]) as case:
        (log,) = case.store.rows("logs")
        assert "50/50" in log.last_line
