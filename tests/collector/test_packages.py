"""Packages that are broken are named with what is wrong; the list says where each came from."""

from __future__ import annotations

import json
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from flatline.collector.packages import distributions, integrity, reader
from flatline.collector.probes.packages import Packages
from job_view import artefacts, gaps, rows, target_of, view_of
from python_jobs import ASK, JOB, answered, freeze, install, key, listed, look, make_prefix, make_venv, run_job


@pytest.fixture
def here(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "ask.py").write_text(ASK)
    return tmp_path


@pytest.fixture
def venv(here):
    return make_venv(sys.executable, here / "env")


def broken(items):
    return {key(row.name): row.broken for row in rows(items, "packages") if row.broken}


# --- whole or not ---


def test_a_deleted_file_and_a_library_cut_short_are_named_libraries_first(venv, here, start):
    python, site = venv
    files = {
        "torch/lib/libtorch_cpu.so": b"\x7fELF" * 100,
        "torch/lib/libc10.so": b"\x7fELF" * 50,
        "torch/nn.py": "x = 1\n",
    }
    install(site, "torch", "2.9.0+cu128", files)
    install(site, "numpy", "2.0", {"numpy/core.py": "x = 1\n"})
    (site / "torch/nn.py").unlink()
    (site / "torch/lib/libc10.so").unlink()
    (site / "torch/lib/libtorch_cpu.so").write_bytes(b"\x7fELF" * 3)
    items = look(run_job(start, here, [python, "job.py"]))
    assert broken(items) == {
        "torch": (
            "torch/lib/libtorch_cpu.so: 12 bytes instead of 400",
            "torch/lib/libc10.so: missing",
            "torch/nn.py: missing",
        )
    }
    assert "#   broken: torch/lib/libc10.so: missing\n" in freeze(items)


def test_a_folder_that_is_gone_is_told_in_few_lines(venv, here, start):
    python, site = venv
    install(site, "transformers", "5.0", {f"transformers/models/m{number}.py": "x" for number in range(40)})
    shutil.rmtree(site / "transformers/models")
    told = broken(look(run_job(start, here, [python, "job.py"])))["transformers"]
    assert len(told) == integrity.MOST_NAMED + 1
    assert told[-1] == "and 30 more files"


def test_what_comes_and_goes_is_not_held_against_a_package(venv, here, start):
    python, site = venv
    info = install(site, "numpy", "2.0", {"numpy/a.py": "x", "numpy/__pycache__/a.cpython-311.pyc": "compiled"})
    shutil.rmtree(site / "numpy/__pycache__")
    (info / "INSTALLER").write_text("conda\n")
    record = info / "RECORD"
    record.write_text(
        record.read_text() + f"{info.name}/INSTALLER,sha256=x,4\n../../../bin/f2py,sha256=x,200\nnumpy/no_size.py,,\n"
    )
    (site / "numpy/no_size.py").write_text("anything")
    assert not broken(look(run_job(start, here, [python, "job.py"])))


def test_links_are_followed_as_some_installers_make_them(venv, here, start):
    python, site = venv
    install(site, "numpy", "2.0", {"numpy/a.py": "xyz", "numpy/b.py": "xyz", "numpy/c.py": "xyz"})
    for name, text in (("a.py", "xyz"), ("b.py", "x")):
        (here / name).write_text(text)
        (site / "numpy" / name).unlink()
        (site / "numpy" / name).symlink_to(here / name)
    (site / "numpy/c.py").unlink()
    (site / "numpy/c.py").symlink_to(here / "nowhere")
    told = broken(look(run_job(start, here, [python, "job.py"])))
    assert told == {"numpy": ("numpy/b.py: 1 bytes instead of 3", "numpy/c.py: a link that leads nowhere")}


def test_what_is_left_of_an_interrupted_uninstall_is_told_where_it_belongs(venv, here, start):
    python, site = venv
    install(site, "torch", "2.9")
    (site / "~orch").mkdir()
    (site / "~orch-2.8.dist-info").mkdir()
    (site / "~omebody").mkdir()
    items = look(run_job(start, here, [python, "job.py"]))
    told = broken(items)
    assert len(told["torch"]) == 2
    assert all(one.endswith("left by an uninstall that was interrupted") for one in told["torch"])
    assert [row.path for row in rows(items, "packages") if row.name == "~omebody"] == [str(site / "~omebody")]


def test_two_records_of_one_package_in_one_folder_are_told(venv, here, start):
    python, site = venv
    install(site, "numpy", "1.26.4")
    install(site, "numpy", "2.0.0")
    [(name, (fault,))] = broken(look(run_job(start, here, [python, "job.py"]))).items()
    assert name == "numpy"
    assert "is installed in the same place" in fault


def test_a_package_without_metadata_is_listed_by_its_folder(venv, here, start):
    python, site = venv
    info = install(site, "half-there", "1.0")
    (info / "METADATA").unlink()
    items = look(run_job(start, here, [python, "job.py"]))
    assert listed(items) == {"half-there": "1.0"}
    assert broken(items) == {"half-there": ("its metadata is missing or unreadable",)}


@pytest.mark.parametrize(
    "record", ["", "\0,,\n", "a,b\n", "torch/x.py,sha256=x,many\n", '"unfinished', ",,\n" * 50_000]
)
def test_a_record_that_is_garbage_breaks_nothing(record, venv, here, start):
    python, site = venv
    (install(site, "torch", "1") / "RECORD").write_text(record)
    items = look(run_job(start, here, [python, "job.py"]))
    assert listed(items) == {"torch": "1"}
    assert not gaps(items)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch", True),
        ("nvidia-cudnn-cu12", True),
        ("flash_attn", True),
        ("Pillow", True),
        ("torchsomething", False),
        ("six", False),
    ],
)
def test_the_files_of_packages_that_a_job_stands_on_are_compared(name, expected):
    assert integrity.matters(name) is expected


# --- where they came from ---


@pytest.mark.parametrize(
    ("record", "url"),
    [
        ({"url": "https://x/y.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}, "git+https://x/y.git@abc"),
        (
            {"url": "https://x/y.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "py"},
            "git+https://x/y.git@abc#subdirectory=py",
        ),
        ({"url": "file:///wheels/y.whl", "archive_info": {}}, "file:///wheels/y.whl"),
    ],
)
def test_a_package_says_where_it_was_installed_from(record, url, venv, here, start):
    python, site = venv
    install(site, "Some.Package", "1.0", **record)
    items = look(run_job(start, here, [python, "job.py"]))
    assert [row.direct_url for row in rows(items, "packages")] == [url]
    assert f"\nSome.Package @ {url}  # Some.Package==1.0\n" in freeze(items)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"url": 3}', "[" * 100_000, '{"url": "x", "dir_info": 4, "vcs_info": []}']
)
def test_a_direct_url_that_is_garbage_breaks_nothing(text, venv, here, start):
    python, site = venv
    (install(site, "y", "1.0") / "direct_url.json").write_text(text)
    assert listed(look(run_job(start, here, [python, "job.py"]))) == {"y": "1.0"}


def test_what_conda_installed_is_listed_beside(here, start):
    python, site = make_prefix(here / "env")
    install(site, "numpy", "2.0")
    meta = here / "env" / "conda-meta"
    meta.mkdir()
    for stem in ("cuda-cudart-12.4.127-h99ab3db_0", "numpy-2.0-py311_0"):
        (meta / f"{stem}.json").write_text(json.dumps({"files": []}))
    (meta / "history").write_text("")
    items = look(run_job(start, here, [python, "job.py"]))
    assert answered([python, "ask.py"], here) == {"numpy": "2.0"}
    assert [(row.name, row.version, row.path) for row in rows(items, "packages")] == [
        ("numpy", "2.0", str(site / "numpy-2.0.dist-info")),
        ("cuda-cudart", "12.4.127", str(meta / "cuda-cudart-12.4.127-h99ab3db_0.json")),
    ]
    conda = next(str(one.content) for one in artefacts(items) if one.path == "raw/conda-list-1.txt")
    assert conda == "cuda-cudart=12.4.127=h99ab3db_0\nnumpy=2.0=py311_0\n"


# --- bounds ---


def test_a_folder_with_more_than_can_be_read_is_cut_and_this_is_said(venv, here, start, monkeypatch):
    monkeypatch.setattr(distributions, "MOST", 5)
    python, site = venv
    for number in range(9):
        install(site, f"p{number}", "1")
    items = look(run_job(start, here, [python, "job.py"]))
    assert len(listed(items)) == 5
    assert [(gap.status, "more than 5 distributions" in gap.message) for gap in gaps(items)] == [("partial", True)]


def test_no_more_bytes_are_read_than_allowed_and_this_is_said(venv, here, start, monkeypatch):
    monkeypatch.setattr(reader, "MOST_BYTES", 64 * 1024)
    python, site = venv
    install(site, "torch", "1", {f"torch/f{number}.py": "" for number in range(3_000)})
    items = look(run_job(start, here, [python, "job.py"]))
    assert listed(items) == {"torch": "1"}
    assert not broken(items)
    assert [gap.status for gap in gaps(items)] == ["partial"]


def test_without_time_there_is_a_gap_and_no_list(venv, here, start):
    python, _ = venv
    pid = run_job(start, here, [python, "job.py"])
    items = look(pid, deadline_ns=time.monotonic_ns())
    assert not rows(items, "packages")
    assert "no time was left" in gaps(items)[0].message


def test_a_job_without_python_has_no_packages(here, start):
    pid = run_job(start, here, ["/bin/sh", "-c", ": > $READY; sleep 600"])
    items = list(Packages().gather(view_of(target_of(pid, is_python=False))))
    assert [gap.status for gap in gaps(items)] == ["absent"]
    assert not artefacts(items)


# --- the real thing ---


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch beside flatline")
@pytest.mark.slow
def test_a_real_loader_of_pytorch_is_one_environment_whose_list_is_its_own(here, start):
    (here / "job.py").write_text(
        "import os, time\nimport torch\nfrom torch.utils.data import DataLoader, Dataset\n"
        "class Slow(Dataset):\n    def __len__(self): return 8\n"
        "    def __getitem__(self, index):\n"
        "        open(os.environ['READY'], 'w').close() if index else time.sleep(600)\n        time.sleep(600)\n"
        "for batch in DataLoader(Slow(), batch_size=1, num_workers=2): pass\n"
    )
    pid = run_job(start, here, [sys.executable, "job.py"])
    workers = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert workers
    items = look(pid, *workers)
    assert listed(items) == answered([sys.executable, "ask.py"], here)
    assert {row.process for row in rows(items, "packages")} == {f"h1/{pid}"}
    assert not broken(items)
    libraries = {Path(row.path).name: row for row in rows(items, "libraries")}
    torch = libraries["libtorch_cpu.so"]
    assert (torch.package, torch.version) == ("torch", listed(items)["torch"])
    assert not gaps(items)
