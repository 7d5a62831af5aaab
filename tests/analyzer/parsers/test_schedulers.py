"""What batch systems print of jobs and pods."""

from __future__ import annotations

import pytest
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Scheduler

QUEUE = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
             81002       a100 llm big      ann PD       0:00      4 (Resources)
     81003_[1-4%2]       a100    sweep      bob PD       0:00      1 (JobArrayTaskLimit)
             80990       a100  pretrain      ann  R 1-02:11:09      2 gpu[07-08]
"""
POD = """\
Name:             train-0
Namespace:        ml
Priority:         0
Node:             gpu-7/10.0.0.7
Status:           Running
Containers:
  main:
    Image:          train:1
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
Events:
  Type     Reason            Age                  From               Message
  ----     ------            ----                 ----               -------
  Normal   Pulled            3m (x3 over 9m)      kubelet            Container image already present
  Warning  BackOff           10s (x9 over 8m)     kubelet            Back-off restarting failed container
"""


def told(text: str, kind: str) -> list[tuple[object, ...]]:
    return [(row.job, row.state, row.reason, row.node) for row in rows_of(only(text, kind), Scheduler)]


def test_squeue_tells_who_waits_and_why():
    assert told(QUEUE, "squeue") == [
        ("81002", "PENDING", "Resources", None),
        ("81003_[1-4%2]", "PENDING", "JobArrayTaskLimit", None),
        ("80990", "RUNNING", None, "gpu[07-08]"),
    ]
    assert len(told("\n".join(QUEUE.splitlines()[1:]), "squeue")) == 3


@pytest.mark.parametrize(
    ("listed", "row"),
    [
        ("  JOBID PARTITION     NAME ST       TIME  NODES NODELIST(REASON)\n"
         "  90211      h100    llama PD       0:00      8 (AssocGrpGRES)", ("90211", "PENDING", "AssocGrpGRES", None)),
        ("JOBID STATE REASON\n90211 PENDING QOSMaxJobsPerUserLimit",
         ("90211", "PENDING", "QOSMaxJobsPerUserLimit", None)),
        ("JOBID ST START_TIME REASON\n90211_[0-3] PD N/A Priority", ("90211_[0-3]", "PENDING", "Priority", None)),
        ("JOBID NAME USER ST TIME_LEFT NODELIST\n90212 eval kim R 1:02:03 gpu04", ("90212", "RUNNING", None, "gpu04")),
        ("JOBID PARTITION NAME USER ST START_TIME NODES SCHEDNODES NODELIST(REASON)\n"
         "90213 a100 sft kim PD 2026-03-01T10:00:00 2 (null) (Resources)", ("90213", "PENDING", "Resources", None)),
    ],
)  # fmt: skip
def test_squeue_in_columns_of_ones_own(listed: str, row: tuple[str | None, ...]):
    assert told(listed, "squeue") == [row]


@pytest.mark.parametrize("joint", ["\n   ", " "])
def test_scontrol_tells_state_reason_and_end(joint: str):
    text = joint.join(["JobId=7 JobName=x", "JobState=PENDING Reason=Dependency Dependency=afterok:1",
                       "EndTime=2026-01-01T00:00:00", "Partition=a100 AllocNode:Sid=n:1", "NodeList=(null)"])  # fmt: skip
    (row,) = rows_of(only(text, "scontrol-job"), Scheduler)
    assert (row.job, row.state, row.reason, row.queue, row.ends_at, row.node) == (
        "7", "PENDING", "Dependency", "a100", "2026-01-01T00:00:00", None,
    )  # fmt: skip


def test_sacct_is_read_by_the_widths_of_its_dashes():
    text = (
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
        "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
        "7              pretrain       a100        lab         16 OUT_OF_ME+    0:125 \n"
        "7.batch           batch                   lab         16 OUT_OF_ME+    0:125 \n"
    )
    assert told(text, "sacct") == [("7", "OUT_OF_MEMORY", None, None)]


def test_pods_and_what_became_of_them():
    text = "NAME      READY   STATUS             RESTARTS      AGE\ntrain-0   0/1     CrashLoopBackOff   7 (30s ago)   11m\n"
    assert told(text, "kubectl-pods") == [("train-0", "CrashLoopBackOff", None, None)]


def test_a_described_pod_tells_its_node_and_what_is_wrong():
    rows = rows_of(only(POD, "kubectl-pod"), Scheduler)
    assert (rows[0].job, rows[0].state, rows[0].reason, rows[0].node) == (
        "train-0",
        "Running",
        "CrashLoopBackOff",
        "gpu-7",
    )
    assert [row.reason for row in rows[1:]] == ["BackOff: Back-off restarting failed container"]


def test_events_alone_tell_why_a_pod_is_not_scheduled():
    text = "  Warning  FailedScheduling  2m    default-scheduler  0/9 nodes are available: 9 Insufficient nvidia.com/gpu.\n"
    ((_, state, reason, _),) = told(text, "kubectl-events")
    assert (state, reason) == ("event", "FailedScheduling: 0/9 nodes are available: 9 Insufficient nvidia.com/gpu.")


@pytest.mark.parametrize(
    "line", ["Name: resnet50", "Warning  something failed", "12 a b c R 1", "JobId=7 started", "model-0 1/1 Running"]
)
def test_ordinary_lines_are_no_batch_systems(line: str):
    assert [block.kind for block in blocks_of(line)] == ["log"]
