"""A site's own commands and files are taken within their limits, redacted, and a plan is followed whole or not at all."""

from __future__ import annotations

import builtins
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from flatline.collector import collection, site_plan
from flatline.collector.probes.site import RunCommand, TakeFile, site_probes
from flatline.collector.site_plan import SiteCommand, SiteFile, SitePlan
from job_view import artefacts, gaps, rows, run_until_ready, view_of
from programs import ROOT

from flatline.bundle.reader import open_bundle
from flatline.errors import UsageError

PAGE = (ROOT / "docs/site-plan.md").read_text()
EXAMPLE = re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1]


def run(argv, **limits):
    return list(RunCommand(SiteCommand("x", tuple(map(str, argv)), **limits)).gather(view_of(os.getpid())))


def take(path, **limits):
    return list(TakeFile(SiteFile("x", str(path), **limits)).gather(view_of(os.getpid())))


def read(path, text):
    path.write_text(text)
    return site_plan.read(str(path))


# --- the plan ---


def test_the_example_of_the_page_is_understood_and_the_same_as_json(tmp_path):
    entries = read(tmp_path / "plan.yaml", EXAMPLE)
    assert entries == (
        SiteCommand("lustre-health", ("lctl", "get_param", "-n", "health_check")),
        SiteCommand("fabric-errors", ("perfquery", "-x"), limit_s=10.0),
        SiteFile("prolog", "/var/log/slurm/prolog.log", max_bytes=65536),
    )
    assert read(tmp_path / "plan.json", json.dumps(yaml.safe_load(EXAMPLE))) == entries
    for number in (site_plan.MOST_ENTRIES, int(site_plan.MOST_LIMIT_S), site_plan.MOST_BYTES, SiteFile("x", "/x").max_bytes):
        assert str(number) in PAGE


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"commands": [{"name": "a", "argv": "ls -l | wc"}]}, "commands[0]: argv is a list of texts"),
        ({"commands": [{"name": "a", "argv": []}]}, "commands[0]: argv"),
        ({"commands": [{"name": "a", "argv": ["ls", 3]}]}, "commands[0]: argv"),
        ({"commands": [{"name": "../a", "argv": ["ls"]}]}, "commands[0]: name"),
        ({"commands": [{"name": "a", "argv": ["ls"], "shell": True}]}, "does not know 'shell'"),
        ({"commands": [{"name": "a", "argv": ["ls"], "limit_s": 0}]}, "limit_s is a number above 0"),
        ({"commands": [{"name": "a", "argv": ["ls"], "limit_s": True}]}, "limit_s"),
        ({"commands": [{"name": "a", "argv": ["ls"], "max_bytes": 10**12}]}, "max_bytes"),
        ({"files": [{"name": "a", "path": "x.log"}]}, "files[0]: path is an absolute path"),
        ({"files": ["/x"]}, "files[0]: is no mapping"),
        ({"command": []}, "does not know 'command'"),
        ({"commands": {}}, "commands is a list"),
        ([], "is no mapping"),
        ({"files": [{"name": f"a{n}", "path": "/x"} for n in range(51)]}, "51 entries"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(plan, said):
    with pytest.raises(UsageError) as refused:
        site_plan.parse(plan)
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["{", '{"commands": [], "commands": []}', "a: [", "- 1", "!!python/object:os.system x", "\x00"])
def test_a_broken_plan_is_a_usage_error(tmp_path, text):
    with pytest.raises(UsageError):
        read(tmp_path / "plan.yaml", text)


def test_a_plan_that_cannot_be_read_or_is_huge_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        site_plan.read(str(tmp_path / "none.yaml"))
    with pytest.raises(UsageError, match="larger than"):
        read(tmp_path / "huge.yaml", "#" * (site_plan.MOST_PLAN + 1))


def test_without_pyyaml_a_yaml_plan_says_what_to_do_and_json_still_works(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "yaml":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError) as refused:
        read(tmp_path / "plan.yaml", EXAMPLE)
    assert "PyYAML" in refused.value.next_step
    assert read(tmp_path / "plan.json", '{"files": [{"name": "a", "path": "/x"}]}') == (SiteFile("a", "/x"),)


def test_two_entries_of_one_name_are_refused_also_across_plans(tmp_path):
    paths = (tmp_path / "a.json", tmp_path / "b.json")
    for path in paths:
        path.write_text('{"files": [{"name": "same", "path": "/x"}]}')
    (item,) = SitePlan(tuple(map(str, paths))).gather(view_of(os.getpid()))
    assert isinstance(item.value, UsageError)


# --- commands ---


def test_what_a_command_prints_is_kept_and_no_shell_reads_it():
    items = run(["echo", "$HOME;", "ls"])
    (text,) = artefacts(items)
    assert (text.path, text.content) == ("raw/site-x.txt", b"$HOME; ls\n")
    assert [run.outcome for run in rows(items, "tool_runs")] == ["ok"]
    assert gaps(items) == []


@pytest.mark.parametrize(
    ("script", "status", "kept"),
    [
        ("echo out; echo bad >&2; exit 3", "error", b"out\n\n[stderr]\nbad\n"),
        ("echo begun; sleep 600", "timeout", b"begun\n"),
        ("trap '' TERM; echo begun; while :; do sleep 600; done", "timeout", b"begun\n"),
        ("yes", "partial", b"y\n" * 500),
    ],
)
def test_one_that_fails_hangs_or_floods_costs_its_limit_and_what_it_printed_is_kept(script, status, kept):
    began = time.monotonic()
    items = run(["sh", "-c", script], limit_s=1.0, max_bytes=1000)
    assert time.monotonic() - began < 20
    assert [gap.status for gap in gaps(items)] == [status]
    assert artefacts(items)[0].content == kept


def test_a_command_that_is_not_there_is_absent():
    items = run(["no-such-command-at-all"])
    assert [gap.status for gap in gaps(items)] == ["absent"]
    assert artefacts(items) == []


# --- files ---


def test_of_a_file_the_end_is_taken_and_what_is_missing_is_said(tmp_path):
    (tmp_path / "x.log").write_text("a" * 100 + "end")
    (text,) = artefacts(take(tmp_path / "x.log", max_bytes=3))
    assert (text.content, text.original_bytes, text.truncated) == (b"end", 103, ((0, 100),))
    (text,) = artefacts(take("/proc/self/status"))
    assert b"Name:" in text.content


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero"):
        items = take(path)
        assert [gap.status for gap in gaps(items)] == ["error"], path
        assert artefacts(items) == []
    assert [gap.status for gap in gaps(take(tmp_path / "none"))] == ["absent"]


# --- all of it ---


def test_collect_includes_it_redacted_and_a_hanging_one_is_in_the_ledger(start, tmp_path):
    token = "ghp_" + "A7f9Kd3Lq8Zx5Vb2Nm6Jh1Gs4Pt0RyWc9QeU"
    (tmp_path / "prolog.log").write_text(f"cloning with {token}\n")
    plan = {
        "commands": [
            {"name": "hello", "argv": ["echo", "hello"]},
            {"name": "hangs", "argv": ["sleep", "600"], "limit_s": 0.5},
            {"name": "limits", "argv": ["cat", "/proc/self/limits", "/proc/self/oom_score_adj"]},
        ],
        "files": [{"name": "prolog", "path": str(tmp_path / "prolog.log")}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    pid = run_until_ready(start, tmp_path, "ready(); time.sleep(600)")
    bundle = tmp_path / "x.flatline.zip"
    argv = ["--pid", pid, "--window", "0.5", "--include", tmp_path / "plan.json", "-o", bundle]
    flatline("collect", *argv)
    with open_bundle(bundle) as reader:
        assert reader.read("raw/site-hello.txt") == b"hello\n"
        assert b"cloning with" in reader.read("raw/site-prolog.txt")
        assert token.encode() not in reader.read("raw/site-prolog.txt")
        limits = reader.text("raw/site-limits.txt")
        entries = {entry.probe: entry for entry in reader.manifest.ledger}
    assert (entries["site-hello"].status, entries["site-prolog"].status) == ("ok", "ok")
    assert entries["site-hangs"].status != "ok"
    assert "sleep: ended after" in entries["site-hangs"].message
    # What collect lets each of its children and their tools have, and that one of them is killed before the job is.
    assert re.search(rf"Max data size +{collection.MEMORY} ", limits), limits
    assert re.search(rf"Max cpu time +{30 + collection.CPU_S} ", limits), limits
    assert limits.endswith("\n1000\n")


def test_a_plan_that_is_wrong_is_told_before_anything_is_collected_and_a_dry_run_shows_what_would_be_run(start, tmp_path):
    pid = run_until_ready(start, tmp_path, "ready(); time.sleep(600)")
    (tmp_path / "plan.json").write_text('{"commands": [{"name": "a", "argv": "ls"}]}')
    done = flatline("collect", "--pid", pid, "--include", tmp_path / "plan.json", "-o", tmp_path, check=False)
    assert done.returncode == 2
    assert "commands[0]: argv" in done.stderr
    assert not list(tmp_path.glob("*.zip"))
    (tmp_path / "plan.json").write_text('{"commands": [{"name": "a", "argv": ["ls", "a b"]}]}')
    done = flatline("collect", "--pid", pid, "--include", tmp_path / "plan.json", "--dry-run")
    assert "site-a" in done.stdout
    assert "ls 'a b'" in done.stdout


def flatline(*argv, check=True):
    done = subprocess.run(
        [sys.executable, "-m", "flatline", *map(str, argv)], capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stderr
    return done


def test_each_entry_is_a_probe_of_its_own():
    made = site_probes((SiteCommand("a", ("ls",), limit_s=3.0), SiteFile("b", str(Path("/x")))))
    assert [(probe.name, probe.limit_s) for probe in made] == [("site-a", 4.0), ("site-b", 2.0)]
