"""Under which batch system, CI service and container a job runs, from its environment, its mounts and their tools."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from flatline.collector.job import schedulers
from flatline.collector.linux.containers import container_of
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.probes import scheduler as probe
from flatline.collector.probes.processes import Processes
from flatline.collector.probes.scheduler import SchedulerFacts
from job_view import artefacts, gaps, rows, run_until_ready, target_of, view_of

from flatline.bundle.facts import Scheduler, process_id

WAIT = "ready(); time.sleep(600)"


@pytest.fixture
def run(start, tmp_path):
    return lambda code=WAIT, **options: run_until_ready(start, tmp_path, code, **options)


@pytest.fixture
def tool(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return write


def gather(env, pid=None):
    pid = pid or os.getpid()
    return list(SchedulerFacts().gather(view_of(pid, env_names={pid: env})))


# --- what the environment says ---


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (
            {"SLURM_JOB_ID": "77", "SLURMD_NODENAME": "n1", "SLURM_JOB_PARTITION": "gpu"},
            {"kind": "slurm", "job": "77", "node": "n1", "queue": "gpu"},
        ),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-0", "POD_NAMESPACE": "ml"},
            {"kind": "kubernetes", "job": "train-0", "queue": "ml"},
        ),
        ({"RAY_JOB_ID": "01000000", "RAY_NODE_ID": "ab"}, {"kind": "ray", "job": "01000000", "node": "ab"}),
        ({"LSB_JOBID": "5", "LSB_QUEUE": "q"}, {"kind": "lsf", "job": "5", "queue": "q"}),
        ({"PBS_JOBID": "9.server", "PBS_QUEUE": "workq"}, {"kind": "pbs", "job": "9.server", "queue": "workq"}),
        ({"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "1", "RUNNER_NAME": "r"}, {"kind": "github", "job": "1", "node": "r"}),
        ({"GITLAB_CI": "true", "CI_JOB_ID": "3"}, {"kind": "gitlab", "job": "3"}),
        ({"JENKINS_URL": "http://ci/", "BUILD_TAG": "t-4", "NODE_NAME": "a"}, {"kind": "jenkins", "job": "t-4", "node": "a"}),
    ],
)
def test_each_system_is_known_by_its_variables(env, expected):
    (row,) = rows(gather(env), "scheduler")
    assert {name: getattr(row, name) for name in expected} == expected
    assert (row.source, row.process) == ("environment", process_id(os.getpid()))


def test_a_job_under_two_systems_has_two_rows_and_one_under_none_an_empty_table():
    env = {"SLURM_JOBID": "7", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert {row.kind for row in rows(gather(env), "scheduler")} == {"slurm", "kubernetes"}
    items = gather({"PATH": "/bin"})
    assert rows(items, "scheduler") == []
    assert "scheduler" in items[-1].tables


def test_the_ranks_of_one_job_are_one_row(run):
    pids = [run(), run()]
    view = view_of(*map(target_of, pids), env_names={pid: {"SLURM_JOB_ID": "7"} for pid in pids})
    (row,) = rows(list(SchedulerFacts().gather(view)), "scheduler")
    assert row.process == process_id(pids[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root")
def test_a_pod_whose_environment_was_overwritten_is_known_by_its_mounted_account_and_the_token_stays_where_it_is(run, tmp_path):
    account = tmp_path / "var/run/secrets/kubernetes.io/serviceaccount"
    account.mkdir(parents=True)
    (account / "namespace").write_text("ml-team\n")
    (account / "token").write_text("eyJhbGciOiJSUzI1NiJ9.do-not-read")
    pid = run(f"os.chroot({str(tmp_path)!r}); os.chdir('/'); HERE = '/'; {WAIT}")
    items = gather({}, pid)
    (row,) = rows(items, "scheduler")
    assert (row.kind, row.queue) == ("kubernetes", "ml-team")
    assert "do-not-read" not in repr(items)


# --- what their tools say ---

SCONTROL = """\
JobId=77 JobName=train
   UserId=someone(1000) GroupId=someone(1000)
   JobState=PENDING Reason=Resources Dependency=(null)
   RunTime=00:10:00 TimeLimit=01:00:00 TimeMin=N/A
   StartTime=2026-01-01T00:00:00 EndTime=2026-01-01T01:00:00 Deadline=N/A
   Partition=gpu AllocNode:Sid=login:1
   Comment=JobState=RUNNING Reason=None Partition=mine
"""


def test_slurm_is_asked_for_state_reason_and_when_it_will_end_the_job(tool):
    tool("scontrol", f"test \"$*\" = 'show job 77' && cat <<'END'\n{SCONTROL}END")
    items = gather({"SLURM_JOB_ID": "77"})
    (row,) = rows(items, "scheduler")
    assert (row.state, row.reason, row.queue, row.source) == ("PENDING", "Resources", "gpu", "tool")
    assert row.ends_at == "2026-01-01T01:00:00"
    assert [found.path for found in artefacts(items)] == ["raw/scontrol-job.txt"]
    assert [(run.tool, run.outcome) for run in rows(items, "tool_runs")] == [("scontrol", "ok")]


def test_pbs_and_lsf_answers_are_understood():
    pbs = schedulers.answered(Scheduler("pbs", job="9"), "Job Id: 9.server\n    job_state = Q\n    queue = workq\n    comment = Not Running: no nodes\n")
    assert (pbs.state, pbs.queue, pbs.reason) == ("Q", "workq", "Not Running: no nodes")
    lsf = schedulers.answered(Scheduler("lsf", job="7"), "Job <7>, User <u>, Sta\n                     tus <PEND>, Queue <gpu>\n")
    assert (lsf.state, lsf.queue) == ("PEND", "gpu")


@pytest.mark.parametrize("script", ["exit 1", "echo garbage", "yes", "echo slurm_load_jobs error: Invalid job id >&2; exit 1"])
def test_a_tool_that_fails_floods_or_prints_garbage_leaves_what_the_environment_said(tool, script):
    tool("scontrol", script)
    items = gather({"SLURM_JOB_ID": "77"})
    (row,) = rows(items, "scheduler")
    assert (row.job, row.state, row.source) == ("77", None, "environment")
    assert gaps(items)[0].tables == ("scheduler",)
    assert sum(len(found.content) for found in artefacts(items)) <= 256 << 10


def test_a_tool_that_hangs_costs_its_limit(tool, monkeypatch):
    monkeypatch.setattr(probe, "_TOOL_S", 0.3)
    tool("scontrol", "sleep 600")
    began = time.monotonic()
    items = gather({"SLURM_JOB_ID": "77"})
    assert time.monotonic() - began < 20
    assert [gap.status for gap in gaps(items)] == ["timeout"]


@pytest.mark.parametrize("job", ["--help", "7; rm -rf /", "-1", ""])
def test_a_job_number_that_a_tool_could_take_for_an_option_is_not_asked_for(job):
    assert schedulers.question(Scheduler("slurm", job=job)) is None


# --- containers ---

INITIAL = "pid:[4026531836]"


def stand_in(tmp_path: Path, groups: str, mounts: str, namespace: str = INITIAL) -> ProcFS:
    (tmp_path / "7/ns").mkdir(parents=True)
    (tmp_path / "7/cgroup").write_text(groups)
    (tmp_path / "7/mountinfo").write_text(mounts)
    (tmp_path / "7/ns/pid").symlink_to(namespace)
    return ProcFS(str(tmp_path))


ROOT = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
OVER_ETC = "2 1 8:1 {} /etc/hosts rw - ext4 /dev/sda1 rw\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "namespace", "expected"),
    [
        ("0::/kubepods.slice/pod1/cri-containerd-x.scope\n", ROOT, "pid:[5]", "kubernetes"),
        ("0::/system.slice/docker-abc.scope\n", ROOT, "pid:[5]", "docker"),
        ("0::/machine.slice/libpod-abc.scope\n", ROOT, "pid:[5]", "podman"),
        ("0::/\n", ROOT + OVER_ETC.format("/var/lib/docker/containers/abc/hosts"), "pid:[5]", "docker"),
        ("0::/\n", ROOT + OVER_ETC.format("/var/lib/kubelet/pods/1/etc-hosts"), "pid:[5]", "kubernetes"),
        ("0::/\n", "1 0 0:9 / / rw - overlay overlay rw,lowerdir=/var/lib/apptainer/mnt/session/x\n", INITIAL, "apptainer"),
        ("0::/user.slice\n", ROOT, "pid:[5]", "other"),
        # The host of a container sees its layers, too.
        ("0::/user.slice\n", ROOT + "3 1 0:9 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw\n", INITIAL, "none"),
    ],
)
def test_a_container_is_known_by_its_group_its_mounts_or_its_pids(tmp_path, groups, mounts, namespace, expected):
    assert container_of(stand_in(tmp_path, groups, mounts, namespace), 7) == expected


def test_of_a_process_that_shows_nothing_nothing_is_claimed(tmp_path):
    assert container_of(ProcFS(str(tmp_path)), 7) is None


def test_a_process_says_in_its_row_where_it_runs(run):
    (row,) = [row for row in rows(list(Processes().gather(view_of(run()))), "processes")][:1]
    assert row.container == container_of(ProcFS(), os.getpid())
