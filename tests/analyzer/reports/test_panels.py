"""Panels: what can matter beside stacks and logs, with what is amiss first and said in a line."""

from __future__ import annotations

from flatline.analyzer.case import case_of
from flatline.analyzer.judge.samples import sample_store
from flatline.analyzer.reports.panels import MOST_ROWS, Panel, panels_of, size


def panels(**tables) -> dict[str, Panel]:
    store, _ = sample_store(tables)
    return {panel.id: panel for panel in panels_of(case_of(store))}


def test_without_facts_there_is_no_panel() -> None:
    assert panels() == {}


def test_a_driver_that_does_not_work_is_said_even_without_a_device() -> None:
    shown = panels(gpu_drivers=[{"host": "h1", "vendor": "nvidia", "state": "version-mismatch", "module": "550.1", "message": "no"}])
    assert shown["gpus"].notes == ("nvidia driver: version-mismatch, module 550.1: no",)


def test_a_driver_that_works_is_no_news() -> None:
    assert panels(gpu_drivers=[{"host": "h1", "vendor": "nvidia", "state": "ok"}]) == {}


def test_who_uses_a_device() -> None:
    users = [{"host": "h1", "gpu": 0, "pid": 9, "memory": 2**30, "in_job": False}, {"host": "h1", "gpu": 1, "pid": 8, "in_job": True}]
    (row,) = panels(gpus=[{"host": "h1", "index": 0, "used": 2**30, "memory": 2**31}], gpu_processes=users)["gpus"].rows
    assert row[2:] == ("1.0 GiB of 2.0 GiB", "", "another's pid 9 1.0 GiB", "")


def test_a_package_that_is_not_whole_comes_first_whatever_its_name() -> None:
    rows = [{"process": "h1/1", "name": "torch"}, {"process": "h1/1", "name": "left-pad", "broken": ["a.so: missing"]},
            {"process": "h1/1", "name": "right-pad"}]  # fmt: skip
    shown = panels(packages=rows)["packages"]
    assert [row[0] for row in shown.rows] == ["left-pad", "torch"]
    assert shown.notes == ("left-pad  is not whole: a.so: missing",)


def test_two_of_one_library_come_first() -> None:
    rows = [{"process": "h1/1", "path": "/a/libtorch.so", "family": "PyTorch"}, {"process": "h1/1", "path": "/b", "duplicate_of": ["/c"]}]
    assert [row[2] for row in panels(libraries=rows)["libraries"].rows] == ["/b", "/a/libtorch.so"]


def test_a_limit_far_from_its_end_is_not_shown_and_one_at_its_end_is_said() -> None:
    rows = [{"process": "h1/1", "name": name, "soft": 100, "used": used} for name, used in (("open files", 98), ("processes", 3))]
    shown = panels(limits=rows)["limits"]
    assert shown.rows == (("1", "open files", "98", "100", "98%"),)
    assert shown.notes == ("pid 1 uses 98% of its limit on open files",)


def test_what_a_control_group_allows_is_told_once_for_all_its_processes() -> None:
    group = {"path": "/job", "memory_current": 99, "memory_max": 100, "memory_oom_kills": 3, "pids_current": 1, "pids_max": 9}
    shown = panels(cgroups=[{"process": "h1/1", **group}, {"process": "h1/2", **group}])["limits"]
    assert [row[:2] for row in shown.rows] == [("/job", "memory"), ("/job", "tasks")]
    assert len(shown.notes) == 2


def test_a_silent_mount_comes_before_a_full_one_and_images_are_always_full() -> None:
    full = {"size": 100, "free": 0, "answers": True}
    rows = [{"path": "/full", "kind": "ext4", **full}, {"path": "/nfs", "kind": "nfs4", "network": True, "answers": False},
            {"path": "/snap", "kind": "squashfs", **full}, {"path": "/half", "kind": "ext4", "size": 100, "free": 50}]  # fmt: skip
    shown = panels(mounts=rows)["mounts"]
    assert [row[0] for row in shown.rows] == ["/nfs", "/full"]
    assert shown.notes == ("/nfs (nfs4) does not answer", "/full is full: 0 bytes of 100 bytes free")


def test_the_targets_environment_begins_with_what_steers_a_job() -> None:
    rows = [{"process": "h1/1", "name": name, "value": "x"} for name in ("ANT", "NCCL_DEBUG", "RANK", "ZOO")]
    other = {"process": "h1/2", "name": "RANK", "value": "y"}
    shown = panels(processes=[{"pid": 1, "relation": "target"}, {"pid": 2}], env=[*rows, other])["environment"]
    assert [row[0] for row in shown.rows] == ["NCCL_DEBUG", "RANK", "ANT", "ZOO"]


def test_paths_that_were_named_and_are_missing_or_closed() -> None:
    rows = [{"path": "/a", "why_looked": "argument", "named_by": "--config", "exists": False},
            {"path": "/usual", "why_looked": "usual", "exists": False},
            {"path": "/c", "why_looked": "cwd", "exists": True, "writable": False, "why_not_writable": "mode"}]  # fmt: skip
    assert panels(files=rows)["files"].rows == (("/a", "--config", "does not exist"), ("/c", "cwd", "may not be written (mode)"))


def test_a_long_panel_is_cut_and_says_how_much_is_left_out() -> None:
    shown = panels(kernel_events=[{"kind": "oom", "text": f"event {n}"} for n in range(MOST_ROWS + 5)])["kernel"]
    assert (len(shown.rows), shown.left_out) == (MOST_ROWS, 5)
    assert shown.rows[0][3] == f"event {MOST_ROWS + 4}"


def test_sizes_are_told_in_the_unit_that_fits() -> None:
    assert [size(n) for n in (None, 0, 2048, 64 << 20, 3 << 40)] == ["", "0 bytes", "2.0 KiB", "64.0 MiB", "3.0 TiB"]


def test_the_time_before_is_a_line_for_each_thing_that_was_used():
    points = [
        {"host": "h1", "mono_ns": n, "age_s": 100.0 - n, "cpu": 2.0 if n < 50 else 0.0, "rss": 2**30, "printed": 0, "gpu": None}
        for n in range(100)
    ]
    shown = panels(resource_points=points)["before"]
    assert shown.rows == (
        ("processors in use", "█" * 25 + "▁" * 25, "0.00", "2.00", "0.00"),
        ("memory", "█" * 50, "1.0 GiB", "1.0 GiB", "1.0 GiB"),
    )
    assert shown.notes == ("a processor was in use for the last time 51 s before the bundle",)


def test_what_was_not_known_for_a_while_is_a_gap_in_its_line():
    points = [{"host": "h2", "mono_ns": n, "cpu": cpu} for n, cpu in enumerate([1.0, None, 0.5])]
    assert panels(resource_points=points)["before"].rows == (("h2: processors in use", "█ ▅", "0.50", "1.00", "0.50"),)
