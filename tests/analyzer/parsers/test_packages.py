"""Pasted lists of packages, with the pip of this machine too."""

from __future__ import annotations

import subprocess
import sys

import pytest
from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Package

ENVIRONMENT = FIXTURES / "pasted" / "environment"


def versions(block) -> dict[str, str | None]:
    return {row.name: row.version for row in rows_of(block, Package)}


def pip(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [(("list",), "pip-list"), (("list", "--format", "json"), "pip-list-json"), (("freeze",), "pip-freeze")],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_pip_prints_here_names_pytest(arguments, kind):
    block = only(pip(*arguments), kind)
    assert versions(block)["pytest"] == pytest.__version__
    assert "packages" in block.collected


def test_pip_show_tells_name_version_and_place():
    block = only(pip("show", "pytest", "pydantic"), "pip-show")
    shown = rows_of(block, Package)
    assert [row.name for row in shown] == ["pytest", "pydantic"]
    assert (shown[0].version, bool(shown[0].path)) == (pytest.__version__, True)


def test_recorded_lists():
    freeze = only((ENVIRONMENT / "pip-freeze-torch.txt").read_text(), "pip-freeze")
    assert versions(freeze)["torch"] == "2.13.0+cpu"
    columns = only((ENVIRONMENT / "pip-list-ray-jax.txt").read_text(), "pip-list")
    assert (versions(columns)["ray"], len(versions(columns))) == ("2.60.0", 64)


def test_a_list_that_lost_its_head_is_known_by_well_known_names():
    lines = (ENVIRONMENT / "pip-list-ray-jax.txt").read_text().splitlines()
    block = only("\n".join(lines[25:60]), "pip-list")
    assert "packages" not in block.collected
    assert [
        b.kind for b in blocks_of("loss       0.25\nepoch      3\nlr         0.001\nsteps      40\nseed       7")
    ] == ["log"]


def test_the_list_of_an_old_pip():
    assert (
        versions(only("numpy (1.13.3)\npip (9.0.1)\nsix (1.11.0)\nmine (0.1, /src/mine)", "pip-list"))["mine"] == "0.1"
    )


def test_sources_and_ranges_of_a_requirements_file():
    text = "torch==2.7.0+cu126 ; python_version > '3.9'\nnumpy>=1.2,<3\n# via torch\n-e git+https://example.org/x/tool.git@abc#egg=tool\nwheely @ file:///tmp/wheely-1.2-py3-none-any.whl"
    block = only(text, "pip-freeze")
    rows = {row.name: row for row in rows_of(block, Package)}
    assert (rows["torch"].version, rows["wheely"].version, rows["tool"].version) == ("2.7.0+cu126", "1.2", None)
    assert rows["tool"].direct_url.startswith("-e git+https://")
    assert "numpy" not in rows
    assert "packages" not in block.collected


@pytest.mark.parametrize("line", ["x==3", "assert a == b", "loss==0.5", "a.b == 2"])
def test_a_comparison_in_a_log_is_no_package(line):
    assert [b.kind for b in blocks_of(f"step 1\n{line}\nstep 2")] == ["log"]


def test_requirements_that_are_not_met_are_what_is_broken():
    text = "torchvision 0.15.2 requires torch==2.0.1, but you have torch 2.1.0.\nfoo 1.0 requires bar, which is not installed."
    block = only(text, "pip-check")
    torchvision, torch, foo = rows_of(block, Package)
    assert (torchvision.version, torch.name, torch.version) == ("0.15.2", "torch", "2.1.0")
    assert "but you have torch 2.1.0" in torchvision.broken[0]
    assert foo.broken == ("requires bar, which is not installed.",)
    assert block.is_log


def test_an_installation_says_it_in_other_words():
    said = "ERROR: tool 2.1 has requirement numpy<2, but you'll have numpy 2.0.1 which is incompatible."
    tool, numpy = rows_of(only(said, "pip-check"), Package)
    assert (tool.name, bool(tool.broken), numpy.version) == ("tool", True, "2.0.1")


CONDA = """# packages in environment at /opt/conda/envs/job:
#
# Name                    Version                   Build  Channel
_libgcc_mutex             0.1                        main
numpy                     1.26.4          py310h5f9d8c6_0
pytorch                   2.1.0           py3.10_cuda12.1_cudnn8.9.2_0    pytorch
torchvision               0.16.0                   pypi_0    pypi"""


def test_conda_lists():
    assert versions(only(CONDA, "conda-list"))["torchvision"] == "0.16.0"
    headless = only("\n".join(CONDA.splitlines()[-3:]), "conda-list")
    assert versions(headless) == {"numpy": "1.26.4", "pytorch": "2.1.0", "torchvision": "0.16.0"}
    exported = "# This file may be used to create an environment using:\n# platform: linux-64\nnumpy=1.26.4=py310_0\npytorch=2.1.0=x"
    assert versions(only(exported, "conda-list")) == {"numpy": "1.26.4", "pytorch": "2.1.0"}


def test_an_environment_file():
    text = "name: job\nchannels:\n  - pytorch\ndependencies:\n  - python=3.10.13=h955ad1f_0\n  - pip:\n      - torch==2.1.0\nprefix: /opt/x"
    assert versions(only(text, "conda-environment")) == {"python": "3.10.13", "torch": "2.1.0"}
