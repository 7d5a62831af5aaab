"""Jobs that are well: no cause is named, and the verdict says that they are. And what only looks busy is never well."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from importlib.util import find_spec
from typing import Any

import pytest
from end_to_end_support import Outcome, outcomes
from programs import FIXTURES

GETS_ON = frozenset({"healthy", "slow"})
WAITS = frozenset({"waiting"})
WELL = {
    "single_loop": GETS_ON,
    "loader_training": GETS_ON,
    "gloo_training": GETS_ON,
    "pool_busy": GETS_ON,
    "pool_idle": GETS_ON,
    "executor_idle": WAITS,
    "executor_threads": GETS_ON,
    "executor_processes": GETS_ON,
    "thread_pool": GETS_ON,
    "asyncio_server": WAITS,
    "stop_event_service": WAITS,
    "http_server": WAITS,
    "node_parent_reads": GETS_ON,
    "notebook_kernel": WAITS,
    "compiling": GETS_ON,
    "downloading": GETS_ON,
    "checkpointing": GETS_ON,
    "evaluating": GETS_ON,
    "slow_reads": GETS_ON,
    "rate_limited": GETS_ON,
    "heartbeats_beside": GETS_ON,
    "queue_consumer": WAITS | {"unknown"},
    "paused_by_design": WAITS,
    "block_buffered": GETS_ON,
    "spawned_loader": GETS_ON,
}
"""Program -> the verdicts that are right for it."""
NEEDS = {"loader_training": "torch", "gloo_training": "torch", "spawned_loader": "torch"}
NOT_WELL = {
    "flag_spin": {},
    "flag_spin, yielding": {"YIELD": "1"},
    "spinning": {"HOLD_GIL": ""},
    "collective_spin": {},
}
"""What burns a CPU and does nothing, and the variables it is started with."""
AT_ONCE, WINDOW_S = 5, 1.2


def is_here(name: str) -> bool:
    if name == "node_parent_reads":
        return shutil.which("node") is not None
    return name not in NEEDS or find_spec(NEEDS[name]) is not None


def hang_causes(report: dict[str, Any]) -> list[str]:
    """Causes of a hang that are told with more than "possible", or as the root."""
    return [
        f"{f['cause']} ({f['role']}, {f['word']})"
        for f in report["findings"]
        if f["cause"] not in ("healthy", "slow-progress", "output-hidden", "compile-in-progress", "cpu-fallback")
        and (f["role"] == "root-cause" or f["word"] in ("likely", "very likely"))
    ]


@pytest.fixture(scope="module")
def well(tmp_path_factory) -> dict[str, Future[Outcome]]:
    here = {n: (FIXTURES / "healthy" / f"{n}{'.js' if n.startswith('node') else '.py'}", {}) for n in WELL if is_here(n)}
    return outcomes(here, tmp_path_factory.mktemp("well"), window=WINDOW_S, at_once=AT_ONCE)


@pytest.mark.parametrize("program", WELL)
def test_a_job_that_is_well_gets_no_cause_and_the_right_verdict(program: str, well) -> None:
    if program not in well:
        pytest.skip(f"needs {NEEDS.get(program, 'node')}")
    outcome = well[program].result()
    told = [chain["text"] for chain in outcome.report["chains"]]
    assert not hang_causes(outcome.report), (outcome.report["verdict"], told)
    assert outcome.report["verdict"]["state"] in WELL[program], (outcome.report["verdict"], told)
    assert set(outcome.changed) <= {"pipes", "children"}, "collecting changed it"


@pytest.fixture(scope="module")
def not_well(tmp_path_factory) -> dict[str, Future[Outcome]]:
    programs = {n: (FIXTURES / "stuck" / f"{n.partition(',')[0]}.py", env) for n, env in NOT_WELL.items()}
    return outcomes(programs, tmp_path_factory.mktemp("not-well"), window=WINDOW_S, at_once=AT_ONCE)


@pytest.mark.parametrize("program", NOT_WELL)
def test_what_only_burns_a_cpu_is_never_called_well(program: str, not_well) -> None:
    verdict = not_well[program].result().report["verdict"]
    assert verdict["state"] not in ("healthy", "slow"), verdict
