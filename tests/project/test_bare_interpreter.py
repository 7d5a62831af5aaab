"""The collector runs from an unzipped wheel, under a Python 3.9 that has nothing else (-I -S)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from programs import real_python

from flatline.bundle.facts import thread_id
from flatline.bundle.reader import open_bundle

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """flatline's wheel, unzipped; built from a copy, so that no stale build folder comes back."""
    copy, out = tmp_path_factory.mktemp("source") / "flatline", tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info", "__pycache__", "tests", "fixtures", ".make")
    shutil.copytree(ROOT, copy, ignore=ignore)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(out.glob("*.whl"))) as archive:
        archive.extractall(out / "unzipped")
    return out / "unzipped"


def test_the_wheel_holds_rules_templates_and_the_demo_job(wheel: Path) -> None:
    assert list((wheel / "flatline" / "rules").rglob("output-pipe-full.yaml"))
    assert list((wheel / "flatline" / "analyzer" / "reports" / "templates").iterdir())
    assert (wheel / "flatline" / "commands" / "demo_job.py").exists()


def test_collect_runs_under_a_bare_python_3_9(wheel: Path, stuck, left_as_found, tmp_path: Path) -> None:
    pid = stuck("flock_held")
    left_as_found(pid)
    bundle = tmp_path / "bare.flatline.zip"
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); from flatline.cli import main; sys.exit(main())"
    run = [real_python("3.9"), "-I", "-S", "-c", code, "collect", "--pid", str(pid), "-o", str(bundle), "--window", "1"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin"})
    # 3: written, but without stacks, since this interpreter has no py-spy; where there is a gdb it shows C frames
    assert done.returncode == (3 if shutil.which("gdb", path="/usr/bin:/bin") is None else 0), done.stderr
    assert "py-spy" in done.stderr
    shown = subprocess.run([sys.executable, "-m", "flatline", "show", str(bundle)], capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0
    assert "facts/processes.json" in shown.stdout


def test_a_bare_python_3_14_reads_the_stacks_of_its_like_by_its_own_unwinder(wheel: Path, stuck, left_as_found, tmp_path: Path) -> None:
    pid = stuck("flock_held", python=real_python("3.14"))
    left_as_found(pid)
    bundle = tmp_path / "bare.flatline.zip"
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); from flatline.cli import main; sys.exit(main())"
    run = [real_python("3.14"), "-I", "-S", "-c", code, "collect", "--pid", str(pid), "-o", str(bundle), "--window", "1"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    with open_bundle(bundle) as reader:
        frames = [row for row in reader.tables().rows["frames"] if row.thread == thread_id(pid, pid) and row.kind == "python"]
    assert [(row.function, row.file, row.line_no) for row in frames] == [("<module>", "<string>", 4)]


@pytest.mark.parametrize("folder", ["collector", "flatline"])
def test_the_code_that_may_run_on_3_9_compiles_there(folder: str) -> None:
    code = "import sys; [compile(open(p).read(), p, 'exec') for p in sys.argv[1:]]"
    files = [str(p) for p in (ROOT / folder).rglob("*.py")]
    done = subprocess.run([real_python("3.9"), "-c", code, *files], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_what_jobs_import_compiles_on_3_7() -> None:
    done = subprocess.run(
        [real_python_3_7(), "-c", "import sys; sys.path.insert(0, sys.argv[1]); import flatline; flatline.phase('x').__enter__()", str(ROOT)],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.returncode == 0, done.stderr


def real_python_3_7() -> str:
    root = Path.home() / ".pyenv" / "versions"
    found = sorted(root.glob("3.7.*/bin/python3"))
    if not found:
        pytest.skip("needs a CPython 3.7 below ~/.pyenv")
    return str(found[0])
