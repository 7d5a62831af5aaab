"""The machine, the limits of the job and its control groups, read from a real /proc and from stand-ins."""

from __future__ import annotations

import os
import resource
import uuid
from pathlib import Path

import pytest
from flatline.collector.linux import cgroups
from flatline.collector.linux.mounts import parse
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.probes import host as host_probe
from flatline.collector.probes.host import HostFacts
from job_view import artefacts, gaps, rows, run_until_ready, target_of, view_of
from programs import wait_until

WAIT = "ready(); time.sleep(600)"


def gather(*targets, **changes):
    return list(HostFacts().gather(view_of(*targets, **changes)))


@pytest.fixture
def run(start, tmp_path):
    return lambda code=WAIT, **options: run_until_ready(start, tmp_path, code, **options)


def test_the_machine_is_described(run):
    items = gather(run())
    (host,) = rows(items, "hosts")
    assert (host.kernel, host.machine, host.cpus) == (os.uname().release, os.uname().machine, os.cpu_count())
    assert host.memory_total > host.memory_available > 0
    assert host.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert host.collector_uid == os.geteuid()
    assert ("CAP_SYS_PTRACE" in host.collector_caps) == bool(
        int(dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())["CapEff"], 16) >> 19 & 1
    )
    assert host.hidepid is not None
    assert {"raw/meminfo.txt", "raw/mountinfo.txt", "raw/uptime.txt"} <= {found.path for found in artefacts(items)}


def test_how_much_tasks_stood_still_is_told_in_percent(tmp_path):
    proc = ProcFS(str(tmp_path))
    assert host_probe._pressure(proc) is None  # a kernel that does not count it
    _write(tmp_path / "pressure", cpu="some avg10=1.53 avg60=0.87 avg300=0.29 total=5")
    _write(tmp_path / "pressure", io="some avg10=0.00 avg60=0.0 total=1\nfull avg10=99.10 avg60=0.0 total=1")
    assert host_probe._pressure(proc) == {"cpu some": 1.53, "io some": 0.0, "io full": 99.1}


def test_what_this_kernel_counts_is_told(run):
    (host,) = rows(gather(run()), "hosts")
    try:
        counted = {line.split()[0] for line in Path("/proc/pressure/cpu").read_text().splitlines()}
    except OSError:
        counted = set()
    assert {f"cpu {kind}" for kind in counted} == {name for name in host.pressure or () if name.startswith("cpu ")}


def test_a_limit_is_told_with_what_is_used_of_it(run):
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (50, 60)); held = [os.dup(0) for _ in range(20)]; "
    pid = run(code + WAIT)
    limits = {row.name: row for row in rows(gather(pid), "limits")}
    files = limits["open files"]
    assert (files.soft, files.hard, files.unlimited) == (50, 60, False)
    assert files.used == len(os.listdir(f"/proc/{pid}/fd")) >= 23
    assert limits["processes"].used >= 1
    unlimited = resource.getrlimit(resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY
    assert (limits["cpu time"].unlimited, limits["cpu time"].soft is None) == (unlimited, unlimited)


def test_processes_without_limits_that_can_be_seen_leave_no_empty_table(run, start):
    gone = start(["true"])
    target = target_of(gone.pid)
    gone.wait(20)
    items = gather(target)
    assert rows(items, "limits") == []
    assert "limits" not in items[0].tables


# --- control groups ---


def make_group(root):
    """A new group and the file that freezes it; skips where none can be made."""
    group = root / f"flatline-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    return group, next(group / name for name in ("freezer.state", "cgroup.freeze") if (group / name).exists())


CGROUPS = Path("/sys/fs/cgroup")
HIERARCHIES = [CGROUPS / "freezer", CGROUPS / "unified"] if (CGROUPS / "freezer").exists() else [CGROUPS]
"""Of version 1 with its freezer, beside it perhaps of version 2; else of version 2 alone."""


@pytest.fixture(params=[root for root in HIERARCHIES if root.exists()], ids=lambda root: root.name)
def frozen_group(request):
    """A group and how to freeze it; thawed, emptied and removed at the end."""
    group, switch = make_group(request.param)
    frozen, thawed = ("FROZEN", "THAWED") if switch.name == "freezer.state" else ("1", "0")
    yield group, lambda: switch.write_text(frozen)
    switch.write_text(thawed)
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
    wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the group is empty")
    group.rmdir()


def test_a_frozen_group_is_said_to_be(run, frozen_group):
    group, freeze = frozen_group
    pid = run()
    (group / "cgroup.procs").write_text(str(pid))
    (row,) = rows(gather(pid), "cgroups")
    assert row.frozen is False
    freeze()
    wait_until(lambda: rows(gather(pid), "cgroups")[0].frozen, what="the group is frozen")


def _write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def cgroup_of(tmp_path, groups, mountinfo):
    (tmp_path / "self").mkdir(exist_ok=True)
    (tmp_path / "7").mkdir(exist_ok=True)
    (tmp_path / "self" / "mountinfo").write_text(mountinfo)
    (tmp_path / "7" / "cgroup").write_text(groups)
    return cgroups.of_process(ProcFS(str(tmp_path)), 7, "h1/7")


def test_of_version_2_the_tightest_limit_on_the_way_up_counts(tmp_path):
    root = tmp_path / "fs"
    _write(root / "pod", memory__max="1000", cpu__max="150000 100000", pids__max="max", memory__high="800")
    _write(root / "pod", memory__events="low 0\nhigh 0\nmax 7\noom 1", cpu__stat="nr_periods 100\nnr_throttled 40\nthrottled_usec 3000000")
    _write(root / "pod/job", memory__max="max", memory__current="900", cpu__max="max 100000", pids__max="64")
    _write(root / "pod/job", memory__events="low 0\noom 3\noom_kill 2", cpu__stat="usage_usec 5\nthrottled_usec 2500000\nnr_periods 0")
    _write(root / "pod/job", cgroup__events="populated 1\nfrozen 1", pids__current="12")
    row = cgroup_of(tmp_path, "0::/pod/job\n", f"30 1 0:26 / {root} rw - cgroup2 cgroup2 rw\n")
    assert (row.version, row.path, row.memory_current, row.memory_max) == ("2", "/pod/job", 900, 1000)
    assert (row.memory_oom_kills, row.cpu_quota) == (2, 1.5)
    assert (row.cpu_throttled_s, row.cpu_throttled_share) == (3.0, 0.4)  # of the group above, which has the quota
    assert (row.memory_high, row.memory_at_max) == (800, 7)
    assert (row.pids_current, row.pids_max, row.frozen) == (12, 64, True)


def test_what_version_2_does_not_offer_is_unknown_and_not_zero(tmp_path):
    """A hierarchy without the controllers: only what the core counts is there."""
    root = tmp_path / "fs"
    _write(root / "job", cgroup__events="populated 1\nfrozen 0", cpu__stat="usage_usec 5\nuser_usec 3\nsystem_usec 2")
    row = cgroup_of(tmp_path, "0::/job\n", f"30 1 0:26 / {root} rw - cgroup2 cgroup2 rw\n")
    assert (row.version, row.frozen) == ("2", False)
    assert {row.memory_current, row.memory_max, row.memory_oom_kills, row.cpu_quota, row.cpu_throttled_s, row.pids_max} == {None}


def test_beside_version_1_the_unified_hierarchy_gives_what_it_has(tmp_path):
    """As systemd's hybrid layout mounts them: memory is of version 1, everything else of version 2."""
    memory, unified = tmp_path / "memory", tmp_path / "unified"
    _write(memory / "a", memory__usage_in_bytes="5", memory__limit_in_bytes="10")
    _write(unified / "b", cpu__max="50000 100000", pids__max="9", cgroup__events="populated 1\nfrozen 1")
    mountinfo = f"30 1 0:26 / {memory} rw - cgroup cgroup rw,memory\n31 1 0:27 / {unified} rw - cgroup2 cgroup2 rw\n"
    row = cgroup_of(tmp_path, "4:memory:/a\n0::/b\n", mountinfo)
    assert (row.version, row.memory_current, row.memory_max) == ("1", 5, 10)
    assert (row.cpu_quota, row.pids_max, row.frozen) == (0.5, 9, True)


def test_of_version_1_each_controller_is_read_in_its_own_hierarchy(tmp_path):
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    _write(memory / "a", memory__usage_in_bytes="5", memory__limit_in_bytes="9223372036854771712")
    _write(memory / "a", memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 4", memory__failcnt="9")
    _write(cpu / "b", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000", cpu__stat="throttled_time 3000000000")
    mountinfo = f"30 1 0:26 / {memory} rw - cgroup cgroup rw,memory\n31 1 0:27 / {cpu} rw - cgroup cgroup rw,cpu,cpuacct\n"
    row = cgroup_of(tmp_path, "4:memory:/a\n3:cpu,cpuacct:/b\n0::/\n", mountinfo)
    assert (row.version, row.path, row.memory_current, row.memory_max) == ("1", "/a", 5, None)
    assert (row.memory_oom_kills, row.cpu_quota, row.cpu_throttled_s, row.frozen) == (4, 0.5, 3.0, None)
    assert (row.memory_at_max, row.cpu_throttled_share) == (9, None)


def test_in_a_container_the_mount_begins_at_the_containers_own_group(tmp_path):
    root = tmp_path / "fs"
    _write(root, memory__max="77")
    row = cgroup_of(tmp_path, "0::/docker/abc\n", f"30 1 0:26 /docker/abc {root} rw - cgroup2 cgroup2 rw\n")
    assert row.memory_max == 77


def test_without_any_hierarchy_nothing_is_claimed(tmp_path):
    assert cgroup_of(tmp_path, "0::/\n", "") is None
    assert list(parse("")) == []


def test_a_job_of_many_processes_is_cut_and_said(run, monkeypatch):
    monkeypatch.setattr("flatline.collector.probes.host.MOST_PROCESSES", 1)
    items = gather(run(), run())
    assert len({row.process for row in rows(items, "limits")}) == 1
    assert any("not of 1 more" in gap.message for gap in gaps(items))
