"""analyze takes whatever somebody has: files, folders, archives, tickets, standard input, bundles made of them."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import struct
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from flatline.analyzer.commands import analyze, bundle
from flatline.analyzer.intake import regular
from flatline.analyzer.intake.opening import open_case

from flatline.errors import UnreadableBundleError

DUMP = """\
Process 4242: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4242 (idle): "MainThread"
    wait (threading.py:327)
    main (train.py:12)
    <module> (train.py:20)
"""
LOG = "epoch 1\nloading data\nwaiting for the lock\n"


def functions(case):
    return [frame.function for frame in case.store.rows("frames")]


@pytest.fixture
def loose(tmp_path):
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "pyspy.txt").write_text(DUMP)
    (folder / "train.log").write_text(LOG)
    return folder


def shapes(folder):
    texts = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    tar, archive = folder.parent / "e.tar.gz", folder.parent / "loose.ZIP"
    with tarfile.open(tar, "w:gz") as out:
        out.add(folder, "evidence")
    with zipfile.ZipFile(archive, "w") as out:
        for name, data in texts.items():
            out.writestr(name, data)
    whole = folder.parent / "all.txt.gz"
    whole.write_bytes(gzip.compress(b"\n\n".join(texts.values())))
    fences = "\n\n".join(f"{name}:\n\n```\n{data.decode()}\n```" for name, data in texts.items())
    ticket = folder.parent / "ticket.md"
    ticket.write_text(f"It hangs, error or not.\n\n{fences}\n")
    page = folder.parent / "ticket.html"
    page.write_text("<html><body><p>It hangs</p>\n" + "\n".join(
        f"<pre>\n{data.decode().replace('<', '&lt;')}\n</pre>" for data in texts.values()) + "\n</body></html>\n")  # fmt: skip
    return [[folder], sorted(folder.iterdir()), [tar], [archive], [whole], [ticket], [page]]


def test_every_shape_gives_the_same_facts(loose):
    found = []
    for paths in shapes(loose):
        with open_case(paths) as case:
            (log,) = [log for log in case.store.rows("logs") if log.last_line == "waiting for the lock"]
            found.append((functions(case), [p.pid for p in case.store.rows("processes")], log.last_line))
    assert found == [(["wait", "main", "<module>"], [4242], "waiting for the lock")] * 7


def test_what_a_person_wrote_around_the_fences_is_no_log(tmp_path):
    ticket = tmp_path / "t.md"
    ticket.write_text("RuntimeError is what I fear\n```\nepoch 1\n```\nbye\n")
    with open_case([ticket]) as case:
        assert [log.last_line for log in case.store.rows("logs")] == ["epoch 1"]


def test_standard_input_is_read_and_its_lines_are_quoted_by_number():
    run = subprocess.run(
        [sys.executable, "-m", "flatline", "analyze", "-", "--format", "json"],
        input="# py-spy dump --pid 4242\n" + DUMP, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    report = json.loads(run.stdout)
    quoted = {
        (e["artefact"], e["line"]) for chain in report["chains"] for step in chain["steps"] for e in step["evidence"]
    }
    assert ("stdin", 6) in quoted


def test_a_folder_of_bundles_and_texts_is_one_case(loose, tmp_path):
    assert bundle.main([str(loose / "train.log"), "-o", str(loose / "more.flatline.zip")]) == 0
    with open_case([loose]) as case:
        assert functions(case) == ["wait", "main", "<module>"]
        assert [log.text for log in case.store.rows("logs")].count("train.log") == 1


def test_a_bundle_of_texts_hides_secrets_and_is_analyzed_as_they_are(loose, capsys, monkeypatch):
    secret = "hf_" + "Ab1" * 11 + "x"
    (loose / "env.txt").write_text(f"export HF_TOKEN={secret}\n")
    (loose / "train.log").write_text(f"{LOG}login with {secret}\n")
    monkeypatch.chdir(loose.parent)
    assert bundle.main([str(loose)]) == 0
    path = capsys.readouterr().out.strip()
    with zipfile.ZipFile(path) as archive:
        assert all(secret.encode() not in archive.read(name) for name in archive.namelist())
        assert any("train.log" in name for name in archive.namelist())
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open_case([loose.parent / path]) as case:
        assert functions(case) == ["wait", "main", "<module>"]


def test_texts_of_one_name_are_told_apart(tmp_path):
    for node, text in (("node0", "step 1\nValueError: first\n"), ("node1", "step 2\n\nValueError: second\n")):
        (tmp_path / node).mkdir()
        (tmp_path / node / "train.log").write_text(text)
    with open_case([tmp_path / "node0" / "train.log", tmp_path / "node1"]) as case:
        names = [log.text for log in case.store.rows("logs")]
        assert len(set(names)) == 2
        assert [list(case.bundles[0].reader.lines(name))[-1] for name in names] == [
            "ValueError: first", "ValueError: second",
        ]  # fmt: skip


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("cut", [0.3, 0.5, 0.9])
def test_an_archive_that_breaks_off_holds_what_came_before(tmp_path, mode, cut):
    whole = tmp_path / "whole.tar"
    with tarfile.open(whole, mode) as archive:
        for number in range(40):
            member = tarfile.TarInfo(f"rank{number}.log")
            data = os.urandom(600).hex().encode()
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    data = whole.read_bytes()
    (tmp_path / "cut.tar").write_bytes(data[: int(len(data) * cut) + 100])
    with open_case([tmp_path / "cut.tar"]) as case:
        assert "rank0.log" in case.bundles[0].names


def test_a_text_in_which_the_mark_of_a_zip_stands_is_read(tmp_path):
    """zipfile takes anything for a zip that has its last record near the end."""
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 5000, 1000, 0)
    (tmp_path / "train.log").write_bytes(100 * LOG.encode() + DUMP.encode() + b"\n" + end + b"\n")
    with open_case([tmp_path / "train.log"]) as case:
        assert functions(case) == ["wait", "main", "<module>"]


def test_a_zip_that_names_a_million_members_is_refused_at_once(tmp_path):
    """Its directory would take a gigabyte of memory."""
    size = 64 * 1024**2
    with open(tmp_path / "many.zip", "wb") as file:
        file.write(b"PK\3\4")
        file.truncate(size + 4)
        file.seek(0, os.SEEK_END)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65534, 65534, size, 4, 0))
    with pytest.raises(UnreadableBundleError, match="it has 65534 members"):
        open_case([tmp_path / "many.zip"])


def test_a_name_that_is_no_text_stands_in_a_report(tmp_path, capsys):
    name = os.fsdecode(b"train-\xff.log")
    try:
        (tmp_path / name).write_text("RuntimeError: boom\n")
    except OSError:
        pytest.skip("this file system refuses such a name")
    analyze.main([str(tmp_path / name), "--format", "json"])
    assert json.loads(capsys.readouterr().out)
    with open_case([tmp_path]) as case:
        assert case.bundles[0].names == ("train-\\udcff.log",)


def test_a_bundle_keeps_both_texts_of_one_name(tmp_path):
    packed = tmp_path / "logs.tar"
    with tarfile.open(packed, "w") as archive:
        for text in (b"first\n", b"second\n"):
            member = tarfile.TarInfo("rank.log")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    assert bundle.main([str(packed), "-o", str(tmp_path / "both.flatline.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "both.flatline.zip") as archive:
        texts = [archive.read(name) for name in archive.namelist() if "rank.log" in name]
    assert texts == [b"first\n", b"second\n"]


def test_a_secret_with_a_nul_in_it_is_hidden_in_a_bundle(tmp_path):
    half = "Ab1" * 6
    (tmp_path / "train.log").write_text(f"login with hf_{half}\0{half}\nstep 2\nstep 3\nstep 4\n")
    assert bundle.main([str(tmp_path / "train.log"), "-o", str(tmp_path / "o.flatline.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "o.flatline.zip") as archive:
        assert all(half.encode() not in archive.read(name) for name in archive.namelist())


def test_a_bundle_of_texts_that_replaces_another_says_so(loose, capsys):
    place = loose / "b.flatline.zip"
    assert bundle.main([str(loose / "train.log"), "-o", str(place)]) == 0
    assert "replaced" not in capsys.readouterr().err
    os.utime(place, (1_800_000_000, 1_800_000_000))
    assert bundle.main([str(loose / "pyspy.txt"), "-o", str(place)]) == 0
    assert "flatline: replaced the bundle of 2027-01-15T08:00:00Z" in capsys.readouterr().err


def test_a_zip_that_is_no_bundle_is_not_replaced_by_one(loose, tmp_path, capsys):
    place = tmp_path / "data.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("shard-000.bin", b"x")
    before = place.read_bytes()
    assert bundle.main([str(loose / "pyspy.txt"), "-o", str(place)]) == 2
    assert "exists and is no bundle" in capsys.readouterr().err
    assert place.read_bytes() == before


def test_a_bundle_of_texts_takes_no_other_file_s_place(loose, capsys):
    assert bundle.main([str(loose / "pyspy.txt"), "-o", str(loose / "train.log")]) == 2
    assert "it would be lost" in capsys.readouterr().err
    assert (loose / "train.log").read_text() == LOG


def test_what_was_recognised_is_explained(loose, capsys):
    assert analyze.main([str(loose), "--explain-input"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in out] == [["pyspy.txt:1-7", "py-spy-dump"], ["train.log:1-3", "log"]]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("empty.log", b"", "holds no text"),
        ("core", b"\x7fELF\0\0" * 50, "ELF"),
        ("half.flatline.zip", b"no zip at all", "is no zip"),
        ("broken.gz", b"\x1f\x8b\x08\0\0", "holds no text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(tmp_path, capsys, name, data, says):
    (tmp_path / name).write_bytes(data)
    assert analyze.main([str(tmp_path / name)]) == 20
    assert says in capsys.readouterr().err


def test_a_bomb_in_an_archive_costs_no_more_than_a_long_log(tmp_path):
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as out:
        info = tarfile.TarInfo("zeros.log")
        info.size = 300_000_000
        out.addfile(info, io.BufferedReader(_Lines(info.size)))
    with open_case([path]) as case:
        (log,) = case.store.rows("logs")
        assert log.omitted_bytes > 200_000_000


class _Lines(io.RawIOBase):
    def __init__(self, size):
        self.left = size

    def readable(self):
        return True

    def readinto(self, buffer):
        count = min(len(buffer), self.left)
        buffer[:count] = (b"all is well\n" * (count // 12 + 1))[:count]
        self.left -= count
        return count


PS = "  PID STAT COMMAND\n 4242 D    python train.py\n"
KERNEL = "$ cat /proc/4242/stack\n[<0>] nfs_wait_on_request+0x2b/0x40\n[<0>] vfs_fsync_range+0x48/0x90\n[<0>] do_syscall_64+0x5b/0xc0\n"  # fmt: skip
ENVIRONMENT = "CUDA_VISIBLE_DEVICES=0\nNCCL_DEBUG=INFO\nHOME=/home/a\nPATH=/usr/bin\n"
PANIC = "#0  0x00007f01 in futex_wait () from /lib/x86_64-linux-gnu/libc.so.6\n#1  0x00007f02 in main ()\n"
REPORT = "PyTorch version: 1.12.1\nPython version: 3.7 (64-bit runtime)\nIs CUDA available: False\n"


def facts(paths):
    with open_case(paths) as case:
        tables = ("processes", "threads", "frames", "env", "packages", "limits")
        rows = [row for table in tables for row in case.store.rows(table)]
        return sorted(repr(replace(row, artefact="", line=None)) for row in rows)


@pytest.mark.parametrize(
    "texts",
    [(PS, KERNEL), (ENVIRONMENT, REPORT), (ENVIRONMENT, PANIC, DUMP), ("ulimit -v 1048576\nsrun a.out\n", PANIC)],
)
def test_the_order_of_the_files_changes_no_fact(tmp_path, texts):
    found = []
    for number, order in enumerate((texts, texts[::-1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        for count, text in enumerate(order):
            (folder / f"{count}.txt").write_text(text)
        found.append(facts([folder]))
    assert found[0] == found[1]
    assert found[0]


def analyzed(*args, **options):
    """As a person calls it; what never ends would end the test."""
    argv = [sys.executable, "-m", "flatline", *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("command", ["analyze", "bundle"])
def test_a_fifo_nobody_writes_to_is_refused_with_the_line_that_reads_it(command, tmp_path):
    os.mkfifo(tmp_path / "f 1")
    done = analyzed(command, "f 1", cwd=tmp_path)
    told = "flatline: f 1 is a FIFO, no file: it may never end\n  next:   cat 'f 1' | flatline analyze -\n"
    assert (done.returncode, done.stdout, done.stderr) == (20, "", told)


@pytest.mark.parametrize("command", ["analyze", "bundle"])
def test_a_device_that_never_ends_is_refused(command):
    done = analyzed(command, "/dev/zero")
    assert (done.returncode, done.stderr.splitlines()[0]) == (20, "flatline: /dev/zero is a device, no file: it may never end")


def test_a_socket_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        with pytest.raises(UnreadableBundleError, match="is a socket, no file"):
            open_case([tmp_path / "s"])


def test_of_a_file_of_the_kernel_no_more_is_read_than_its_like_can_hold(monkeypatch):
    """The page map of a process goes on for its whole address space, and has no size."""
    monkeypatch.setattr(regular, "MAX_OF_PROC", 1000)
    with regular.open_regular(Path("/proc/self/pagemap")) as file:
        assert len(file.read()) <= 1000
    with open_case([Path("/proc/self/mounts")]) as case:
        assert case.store.rows("mounts")


def test_what_the_shell_pipes_into_a_path_is_read(loose):
    """Process substitution, and /dev/stdin: pipes, but their other end is there."""
    script = f'{sys.executable} -m flatline analyze --explain-input <(cat pyspy.txt) /dev/stdin < <(cat train.log)'
    done = subprocess.run(["bash", "-c", script], cwd=loose, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "/dev/fd/" in done.stdout
    assert "py-spy-dump" in done.stdout
    assert "/dev/stdin" in done.stdout


@pytest.fixture(params=["text", "html", "md", "json"])
def own_report(request, loose):
    path = loose.parent / f"report.{request.param}"
    path.write_text(analyzed("analyze", loose, "--format", request.param).stdout)
    return path


def test_a_report_of_our_own_is_no_evidence_of_what_it_quotes(own_report, loose, capsys):
    assert analyze.main([str(own_report)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[0].endswith("it is a report of flatline: what it quotes is no evidence; give the bundle that it was made of")
    assert told[1] == "  next:   flatline analyze BUNDLE"
    with open_case([loose, own_report]) as case:
        assert functions(case) == ["wait", "main", "<module>"]
        assert any("is a report of flatline" in note for note in case.bundles[0].reader.notes)


def test_a_log_that_begins_with_such_a_word_is_a_log(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("HUNG\nstep 1 took 3 s\nCRASHED\n")
    with open_case([log]) as case:
        assert [row.last_line for row in case.store.rows("logs")] == ["CRASHED"]
