"""What one analysis looks at."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass, field

import pytest
from flatline.analyzer.case import FactStore, OpenedBundle, case_of, lines_of, log_text, open_bundles
from flatline.analyzer.merge import gaps_of, merge_rows, moved_to_host, prefixed

from flatline.bundle.facts import Fd, Frame, Host, Log, Process, SourceLine, Syscall, Thread, ThreadSample
from flatline.bundle.format import LedgerEntry, Manifest
from flatline.errors import UnreadableBundleError


@dataclass
class Members:
    """A bundle in memory, as the reader shows it."""

    members: dict[str, str]
    manifest: Manifest = field(default_factory=Manifest)
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self):
        self.names = tuple(self.members)

    def read(self, name):
        return self.members[name].encode()

    def text(self, name):
        return self.members[name]

    def lines(self, name):
        return iter(self.members[name].splitlines())


def test_a_table_nobody_could_fill_has_no_rows_and_is_not_collected():
    store = FactStore({"fds": []})
    assert store.rows("locks") == []
    assert not store.collected("locks")
    assert store.collected("fds")


def test_a_table_that_is_set_is_collected_and_found_by_id():
    store = FactStore({"processes": [Process("h1/1", "h1", 1)]})
    assert store.by_id("processes")["h1/1"].pid == 1
    store.set("processes", [Process("h1/2", "h1", 2)])
    assert list(store.by_id("processes")) == ["h1/2"]
    assert store.collected("processes")


def test_what_several_probes_know_of_one_process_is_one_row():
    poor = Process("h1/7", "h1", 7, exit_status=-9, artefact="facts/kernel.json")
    rich = Process("h1/7", "h1", 7, ppid=1, name="python", relation="target", artefact="facts/processes.json")
    (row,) = merge_rows({"processes": [poor, rich]})["processes"]
    assert (row.ppid, row.exit_status, row.artefact) == (1, -9, "facts/processes.json")


def test_hosts_join_by_what_each_probe_knows():
    (row,) = merge_rows({"hosts": [Host("h1", cpus=2), Host("h1", processes_fds_unseen=0)]})["hosts"]
    assert (row.cpus, row.processes_fds_unseen) == (2, 0)


def test_the_last_look_at_a_thread_wins_and_never_mixes_two_moments():
    first = Thread("h1/7/7", "h1/7", 7, 7, name="python", state="S", syscall=Syscall("read"), wchan="pipe_read",
                   artefact="facts/processes.json")
    last = Thread("h1/7/7", "h1/7", 7, 7, state="R", artefact="facts/threads.2.json")
    (row,) = merge_rows({"threads": [last, first]})["threads"]
    assert (row.state, row.syscall, row.wchan, row.name) == ("R", None, None, "python")


def test_a_later_sample_tells_the_state_and_drops_a_stale_system_call():
    thread = Thread("h1/7/7", "h1/7", 7, 7, state="S", syscall=Syscall("read", nr=0), wchan="pipe_read")
    same = ThreadSample("h1/7/7", 2, 5, state="S", syscall="0 0x3 0x0", wchan="pipe_read")
    other = ThreadSample("h1/7/7", 2, 5, state="R", syscall="running")
    assert merge_rows({"threads": [thread], "thread_samples": [same]})["threads"][0].syscall == thread.syscall
    (row,) = merge_rows({"threads": [thread], "thread_samples": [other]})["threads"]
    assert (row.state, row.syscall, row.wchan) == ("R", None, None)


def test_threads_bear_the_name_python_gave_them():
    rows = {
        "threads": [Thread("h1/7/8", "h1/7", 7, 8, name="python")],
        "frames": [Frame("h1/7/8", 0, 0, "wait", thread_name="loader")],
    }
    assert merge_rows(rows)["threads"][0].name == "loader"


def test_source_and_locals_that_one_look_brought_are_known_to_all():
    line = SourceLine(8, "while not exists(path):")
    frames = [
        Frame("h1/7/7", 0, 0, "wait", file="a.py", line_no=8, source=(line,)),
        Frame("h1/7/7", 100, 0, "wait", file="a.py", line_no=8, locals={"path": "/x"}),
        Frame("h1/7/7", 1, 0, "wait", file="a.py", line_no=8),
        Frame("h1/7/7", 1, 1, "main", file="a.py", line_no=3),
    ]
    rows = merge_rows({"frames": frames})["frames"]
    assert [row.source for row in rows] == [(line,), (line,), (line,), ()]
    assert [row.locals for row in rows] == [{"path": "/x"}, {"path": "/x"}, {"path": "/x"}, None]


def test_rows_of_another_host_are_renumbered_everywhere():
    fd = moved_to_host(Fd("h1/7", 1, peers=("h1/8", "h1/9")), "h2")
    assert (fd.process, fd.peers) == ("h2/7", ("h2/8", "h2/9"))
    assert moved_to_host(Host("h1"), "h12").host == "h12"


def test_members_of_the_second_bundle_are_named_as_such():
    assert prefixed(Fd("h2/7", 1, artefact="facts/d.json"), "2:").artefact == "2:facts/d.json"
    log = prefixed(Log("file", text="logs/a", artefact="facts/logs.json"), "2:")
    assert (log.text, log.artefact) == ("2:logs/a", "2:facts/logs.json")


def test_the_ledger_becomes_one_gap_for_each_table_it_failed_to_fill():
    ledger = (
        LedgerEntry("host", "ok", tables=("hosts",)),
        LedgerEntry("stacks", "denied", target="h1/7", hint="--cap-add SYS_PTRACE", tables=("frames", "tool_runs")),
    )
    gaps = gaps_of(ledger, "manifest.json")
    assert [(g.table, g.process, g.pointer) for g in gaps] == [
        ("frames", "h1/7", "/ledger/1"), ("tool_runs", "h1/7", "/ledger/1"),
    ]


def test_the_text_of_a_log_is_found_in_its_own_bundle():
    case = case_of(FactStore(), [OpenedBundle("a", Members({"logs/a": "one"})),
                                 OpenedBundle("b", Members({"logs/a": "two\nthree"}))])
    assert log_text(case, Log("file", text="logs/a")) == "one"
    assert list(lines_of(case, "2:logs/a")) == ["two", "three"]
    assert log_text(case, Log("file", text="3:logs/a")) == ""
    assert log_text(case, Log("file")) == ""


def bundle(path, tables, ledger=()):
    document = {"schema": "flatline/made/1", "tables": tables}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("bundle.json", json.dumps({"format": "flatline-bundle", "format_version": "1.0"}))
        file.writestr("facts/made.json", json.dumps(document))
        file.writestr("logs/a.txt", "one\ntwo\n")
        file.writestr("manifest.json", json.dumps(asdict(Manifest(ledger=tuple(ledger)))))
    return path


def test_one_bundle_keeps_its_names_and_tells_its_gaps(tmp_path):
    tables = {"processes": [{"id": "h1/7", "host": "h1", "pid": 7}], "fds": []}
    path = bundle(tmp_path / "a.zip", tables, [LedgerEntry("locks", "denied", tables=("locks",))])
    with open_bundles([path]) as case:
        assert case.store.rows("processes")[0].artefact == "facts/made.json"
        assert (case.store.collected("fds"), case.store.collected("locks")) == (True, False)
        assert [gap.table for gap in case.store.rows("gaps")] == ["locks"]
        assert list(lines_of(case, "logs/a.txt")) == ["one", "two"]


def test_two_bundles_are_two_hosts_and_lack_what_one_of_them_lacks(tmp_path):
    process = {"id": "h1/7", "host": "h1", "pid": 7}
    first = bundle(tmp_path / "a.zip", {"processes": [process], "locks": []})
    second = bundle(tmp_path / "b.zip", {"processes": [process]})
    with open_bundles([first, second]) as case:
        rows = case.store.rows("processes")
        assert [(row.id, row.artefact) for row in rows] == [("h1/7", "facts/made.json"), ("h2/7", "2:facts/made.json")]
        assert not case.store.collected("locks")
        assert [b.name for b in case.bundles] == ["a.zip", "b.zip"]


def test_an_input_that_is_no_bundle_is_refused(tmp_path):
    (tmp_path / "x.zip").write_text("no zip")
    with pytest.raises(UnreadableBundleError):
        open_bundles([tmp_path / "x.zip"])
