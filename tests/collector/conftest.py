"""A mount that can stop answering, and a GPU driver's library that does what it is told, for tests of the collector."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from programs import FIXTURES


@pytest.fixture
def mount():
    """A FUSE mount that answers until `mount.stall()`; all that hang in it are freed at the end."""
    reason = why_not_here()
    if reason:
        pytest.skip(reason)
    with stalling_mount() as running:
        yield running


@pytest.fixture(scope="session")
def nvml_standin(tmp_path_factory):
    """`nvml_standin()` compiles a stand-in of NVIDIA's library; the folder it is in."""

    def compile_(*options: str) -> Path:
        folder = tmp_path_factory.mktemp("nvml")
        command = ["cc", "-Wall", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", *options]
        try:
            subprocess.run([*command, "-o", folder / "libnvidia-ml.so.1", FIXTURES / "gpu" / "nvml_standin.c"], check=True, timeout=60)
        except FileNotFoundError:
            pytest.skip("there is no C compiler")
        return folder

    return compile_
