"""The shared libraries of a process are told with version and package, and those that are there twice are flagged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.collector.packages import conda, libraries
from flatline.collector.packages.starts import MappedFile
from job_view import rows
from python_jobs import JOB, install, look, make_venv, run_job

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A tiny library; its copies are different files."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "empty.c").write_text("int nothing(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "empty.so", folder / "empty.c"], check=True, timeout=60)
    return (folder / "empty.so").read_bytes()


@pytest.fixture
def load(tmp_path, start, compiled):
    """Start a job that loads these libraries (path below its folder -> library); what the probe says, by file name."""
    python, site = make_venv(sys.executable, tmp_path / "env")

    def run(paths, *, package=None, after="", version="9.1.0.70"):
        if package:
            install(site, package, version, {path: compiled for path in paths})
        places = []
        for path in paths:
            place = site / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(compiled)
            places.append(str(place))
        (tmp_path / "job.py").write_text(
            f"import ctypes, os\nfor path in {places!r}: ctypes.CDLL(path)\n{after}\n{JOB}"
        )
        pid = run_job(start, tmp_path, [python, "job.py"])
        items = look(pid)
        return {Path(row.path).name: row for row in rows(items, "libraries") if row.path in places}

    return run


def twice(found):
    return {
        name: tuple(Path(path).name for path in row.duplicate_of) for name, row in found.items() if row.duplicate_of
    }


@needs_compiler
def test_two_openmp_runtimes_name_each_other(load):
    found = load(["a/libgomp.so.1", "b/libiomp5.so"])
    assert twice(found) == {"libgomp.so.1": ("libiomp5.so",), "libiomp5.so": ("libgomp.so.1",)}
    assert {row.family for row in found.values()} == {"OpenMP"}


@needs_compiler
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("libcudnn.so.9", "libcudnn.so.8.9.7"),
        ("libnccl.so.2", "libnccl.so.2.21.5"),
        ("libstdc++.so.6.0.30", "libstdc++.so.6.0.33"),
        ("libgomp.so.1", "libgomp-a34b3233.so.1.0.0"),
    ],
)
def test_a_second_file_of_one_library_is_flagged(first, second, load):
    assert twice(load([f"a/{first}", f"b/{second}"])) == {first: (second,), second: (first,)}


@needs_compiler
def test_what_belongs_together_is_not_flagged(load):
    paths = [
        "libcudnn.so.9",
        "libcudnn_ops.so.9",
        "libcudnn_cnn.so.9",
        "libnccl.so.2",
        "libnccl-net.so",
        "libgomp.so.1",
    ]
    blas = ["numpy.libs/libscipy_openblas64_-99b71e71.so", "scipy.libs/libscipy_openblas-68440149.so"]
    found = load([f"lib/{path}" for path in paths] + blas)
    assert len(found) == len(paths) + len(blas)
    assert not twice(found)


@needs_compiler
def test_a_library_has_the_version_and_name_of_the_package_that_brought_it(load):
    found = load(["nvidia/cudnn/lib/libcudnn.so.9"], package="nvidia-cudnn-cu12")["libcudnn.so.9"]
    assert (found.package, found.version, found.soname) == ("nvidia-cudnn-cu12", "9.1.0.70", "libcudnn.so.9")


@needs_compiler
def test_a_foreign_library_in_a_package_does_not_have_the_packages_version(load):
    found = load(["torch/lib/libgomp.so.1"], package="torch")["libgomp.so.1"]
    assert (found.package, found.version) == ("torch", None)


@needs_compiler
def test_a_library_that_was_replaced_under_the_job_is_told(load):
    found = load(["nvidia/nccl/lib/libnccl.so.2.21.5"], after="os.unlink(path)")["libnccl.so.2.21.5"]
    assert found.deleted
    assert found.version == "2.21.5"


def test_the_c_library_says_its_version(tmp_path, start):
    (tmp_path / "job.py").write_text(JOB)
    items = look(run_job(start, tmp_path, [sys.executable, "job.py"]))
    expected = subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True).stdout.split()
    if not expected:
        pytest.skip("no glibc here")
    assert [row.version for row in rows(items, "libraries") if row.soname == "libc.so.6"] == [expected[1]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libstdc++.so.6.0.30", ("libstdc++.so.6", "libstdc++", "6.0.30")),
        ("libcudnn_ops_infer.so.8.9.7", ("libcudnn_ops_infer.so.8", "cuDNN", "8.9.7")),
        ("libcudart-d0da41ae.so.11.0", ("libcudart-d0da41ae.so.11", "CUDA runtime", "11.0")),
        ("libc-2.31.so", ("libc-2.31.so", "C library", "2.31")),
        ("libcuda.so.535.104.05", ("libcuda.so.535", "CUDA driver", "535.104.05")),
        ("libtorch_python.so", ("libtorch_python.so", "PyTorch", "")),
        ("libmpi.so.40.30.5", ("libmpi.so.40", "MPI", "40.30.5")),
        ("_ssl.cpython-311-x86_64-linux-gnu.so", None),
        ("libfoo.so.1", None),
        ("data.bin", None),
    ],
)
def test_a_name_tells_interface_family_and_version(name, expected):
    found = libraries.of_interest([MappedFile(f"/lib/{name}", "8:1", 7)])
    assert [(one.soname, one.family, one.number) for one in found] == ([expected] if expected else [])


def test_one_file_under_two_names_is_one():
    files = [MappedFile("/a/libgomp.so.1", "8:1", 7), MappedFile("/b/libiomp5.so", "8:1", 7)]
    assert len(libraries.of_interest(files)) == 1


def test_condas_libraries_are_found_in_its_lists(tmp_path):
    class Texts:
        def raw(self, path, most):
            return Path(path).read_bytes()

        def names(self, folder):
            return sorted(path.name for path in Path(folder).iterdir())

    meta = tmp_path / "conda-meta"
    meta.mkdir()
    for stem, files in (("libgomp-13.2.0-h807b86a_5", ["lib/libgomp.so.1.0.0"]), ("zlib-1.3-0", ["lib/libz.so.1"])):
        (meta / f"{stem}.json").write_text(json.dumps({"files": files}))
    installed = conda.packages(Texts(), str(tmp_path))
    found = conda.owner(Texts(), f"{tmp_path}/lib/libgomp.so.1.0.0", installed)
    assert (found.name, found.version) == ("libgomp", "13.2.0")
    assert conda.owner(Texts(), f"{tmp_path}/lib/libother.so", installed) is None
    assert conda.owner(Texts(), "/usr/lib/libgomp.so.1.0.0", installed) is None
