"""The search path of a Python is found from outside as that Python has it, and nothing of the job's Python is run."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.packages import distributions, starts
from flatline.collector.probes.packages import Packages
from job_view import gaps, rows, target_of, view_of
from programs import FIXTURES, open_to_others, pythons, real_python, wait_until
from python_jobs import ASK, JOB, answered, freeze, install, listed, look, make_venv, run_job

DEBIAN = "/usr/bin/python3"
CANARY = "import os; open(os.path.join({folder!r}, 'ran-%d' % os.getpid()), 'w').close()"


@pytest.fixture
def here(tmp_path):
    """A job's folder, with a script to run and one that asks."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "ask.py").write_text(ASK)
    return tmp_path


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    """A venv that holds two packages; tests add to it only what does not matter to others."""
    python, site = make_venv(sys.executable, tmp_path_factory.mktemp("venv") / "env")
    install(site, "Typing-Tools", "1.2.post3")
    install(site, "zeta.core", "0.1+local.7")
    return python, site


# --- the same list as the interpreter's own ---


@pytest.mark.parametrize(("version", "python"), pythons(), ids=[version for version, _ in pythons()])
def test_of_every_python_the_list_is_its_own(version, python, here, start):
    venv_python, site = make_venv(python, here / "env")
    install(site, "one-package", version)
    pid = run_job(start, here, [venv_python, "job.py"])
    assert listed(look(pid)) == answered([venv_python, "ask.py"], here) == {"one-package": version}


@pytest.mark.parametrize(("version", "python"), pythons(), ids=[version for version, _ in pythons()])
def test_without_a_venv_too(version, python, here, start):
    pid = run_job(start, here, [python, "job.py"])
    assert listed(look(pid)) == answered([python, "ask.py"], here)


@pytest.mark.skipif(not os.path.exists(DEBIAN), reason="no Python of the system's")
def test_of_the_systems_python_in_dist_packages(here, start):
    pid = run_job(start, here, [DEBIAN, "job.py"])
    assert listed(look(pid)) == answered([DEBIAN, "ask.py"], here)


@pytest.mark.skipif(not os.path.exists(DEBIAN), reason="no Python of the system's")
def test_of_a_venv_on_the_systems_python_that_sees_its_packages(here, start):
    if subprocess.run([DEBIAN, "-m", "venv", "--without-pip", here / "env"], capture_output=True).returncode:
        pytest.skip("the system's Python has no venv module")
    shutil.rmtree(here / "env")
    python, site = make_venv(DEBIAN, here / "env", "--system-site-packages")
    install(site, "mine", "1")
    found = listed(look(run_job(start, here, [python, "job.py"])))
    assert found == answered([python, "ask.py"], here)
    assert found["mine"] == "1"


def test_a_venv_that_sees_the_base_lists_both_and_its_own_package_wins(here, start):
    base = real_python("3.11")
    python, site = make_venv(base, here / "env", "--system-site-packages")
    install(site, "pip", "0.0.1")
    items = look(run_job(start, here, [python, "job.py"]))
    assert listed(items) == answered([python, "ask.py"], here)
    assert listed(items)["pip"] == "0.0.1"
    assert "# hidden by the first of its name: pip==" in freeze(items)


def test_pythonpath_its_order_and_entries_relative_to_the_folder_of_the_start(venv, here, start):
    python, _ = venv
    install(here / "first", "typing-tools", "9")
    install(here / "second", "added", "2")
    install(here / "second", "typing-tools", "10")
    env = {"PYTHONPATH": f"first:{here}/second:/no/such/folder"}
    found = listed(look(run_job(start, here, [python, "job.py"], env=env)))
    assert found == answered([python, "ask.py"], here, env)
    assert (found["typing-tools"], found["added"]) == ("9", "2")


def test_relative_names_are_found_after_the_job_has_gone_to_another_folder(here, start):
    python, site = make_venv(sys.executable, here / "env")
    install(site, "in-venv", "1")
    install(here / "lib", "in-path", "2")
    (here / "elsewhere").mkdir()
    (here / "job.py").write_text(f"import os; os.chdir('elsewhere')\n{JOB}")
    env = {"PYTHONPATH": "lib", "PWD": str(here)}
    pid = run_job(start, here, [python.relative_to(here), "job.py"], env=env)
    assert listed(look(pid)) == {"in-venv": "1", "in-path": "2"}


def test_path_lines_of_pth_files_are_followed_and_their_code_is_named(venv, here, start):
    python, site = make_venv(sys.executable, here / "env")
    install(here / "src", "from-pth", "3")
    (site / "paths.pth").write_text(f"# a comment\n\n{here}/src\n/no/such/folder\nimport os; os.getpid()\n")
    items = look(run_job(start, here, [python, "job.py"]))
    assert listed(items) == answered([python, "ask.py"], here) == {"from-pth": "3"}
    assert "paths.pth: import os; os.getpid()" in freeze(items)


def test_the_users_own_packages_count_unless_they_are_switched_off(here, start):
    python = real_python("3.11")
    version = "python3.11"
    install(here / "home" / ".local" / "lib" / version / "site-packages", "of-the-user", "4")
    env = {"HOME": str(here / "home"), "PYTHONUSERBASE": ""}
    for options, more in (([], {}), (["-s"], {}), ([], {"PYTHONNOUSERSITE": "1"}), (["-E"], {"PYTHONNOUSERSITE": "1"})):
        found = listed(look(run_job(start, here, [python, *options, "job.py"], env={**env, **more})))
        assert found == answered([python, *options, "ask.py"], here, {**env, **more})
        assert ("of-the-user" in found) == (options == ["-E"] or not (options or more))


@pytest.mark.parametrize(
    "options", [["-I"], ["-S"], ["-s"], ["-E"], ["-P"], ["-IS"], ["-uB", "-W", "ignore", "-Xutf8"]]
)
def test_options_of_the_command_line_are_honoured(options, here, start):
    python, site = make_venv(real_python("3.11"), here / "env")
    install(site, "in-venv", "1")
    install(here, "beside-script", "2")
    install(here / "path", "in-path", "3")
    env = {"PYTHONPATH": str(here / "path")}
    found = listed(look(run_job(start, here, [python, *options, "job.py"], env=env)))
    assert found == answered([python, *options, "ask.py"], here, env)


@pytest.mark.parametrize("how", [["-c", JOB], ["-m", "job"], ["job.py"], ["link/job.py"], ["folder"]])
def test_the_first_entry_depends_on_what_is_run(how, venv, here, start):
    python, _ = venv
    install(here, "beside-cwd", "1")
    install(here / "folder", "in-folder", "2")
    for script, text in (("job.py", JOB), ("ask.py", ASK), ("__main__.py", JOB)):
        (here / "folder" / script).write_text(text)
    (here / "link").mkdir()
    (here / "link" / "job.py").symlink_to("../folder/job.py")
    (here / "link" / "ask.py").symlink_to("../folder/ask.py")
    found = listed(look(run_job(start, here, [python, *how])))
    (here / "folder" / "__main__.py").write_text(ASK)
    asking = [ASK if one == JOB else one.replace("job", "ask") for one in how]
    assert found == answered([python, *asking], here)
    assert ("in-folder" in found) == (how[0] in ("link/job.py", "folder"))


def test_a_script_with_a_line_that_names_its_python(venv, here, start):
    python, _ = venv
    for name, text in (("run", JOB), ("ask", ASK)):
        (here / name).write_text(f"#!{python}\n{text}")
        (here / name).chmod(0o755)
    assert listed(look(run_job(start, here, ["./run"]))) == answered(["./ask"], here)


def test_a_python_found_through_path(venv, here, start):
    python, _ = venv
    env = {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    pid = run_job(start, here, ["/bin/sh", "-c", "exec python job.py"], env=env)
    assert listed(look(pid)) == answered([python, "ask.py"], here)


# --- the name it goes by ---


def test_under_another_name_python_does_not_know_its_venv_and_this_is_said(venv, here, start):
    python, _ = venv
    pid = run_job(start, here, ["/bin/bash", "-c", f"exec -a trainer {python} job.py"])
    items = look(pid)
    asked = answered(["/bin/bash", "-c", f"exec -a trainer {python} ask.py"], here)
    assert listed(items) == asked
    assert "argv[0] is 'trainer'" in freeze(items)


def test_a_title_over_the_arguments_does_not_hide_the_venv(venv, here, start):
    python, _ = venv
    title = (
        "import ctypes, os\n"
        "stat = open('/proc/self/stat').read().rpartition(')')[2].split()\n"
        "begin, end = int(stat[45]), int(stat[48])\n"
        "ctypes.memset(begin, 0, end - begin)\n"
        "ctypes.memmove(begin, b'ray::IDLE', 9)\n"
    )
    ready = "READY = os.environ['READY']\n"
    (here / "job.py").write_text(f"import os\n{ready}{title}open(READY, 'w').close()\nimport time; time.sleep(600)\n")
    pid = run_job(start, here, [python, "job.py"])
    assert Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::IDLE\0\0")
    items = look(pid, env_names={})
    assert set(listed(items)) == {"typing-tools", "zeta-core"}
    assert "a process title overwrites its arguments" in freeze(items)
    assert "PYTHONPATH is not known" in freeze(items)


def test_when_the_reckoning_and_the_maps_disagree_the_maps_win(here, start):
    python, site = make_venv(sys.executable, here / "env")
    install(site, "in-venv", "1")
    shutil.copy(_a_library(), site / "native.so")
    load = f"import ctypes; ctypes.CDLL({str(site / 'native.so')!r})\n"
    (here / "job.py").write_text(load + JOB)
    pid = run_job(start, here, ["/bin/bash", "-c", f"exec -a trainer {python} job.py"])
    items = look(pid)
    assert listed(items) == {"in-venv": "1"}
    assert f"libraries of the venv {here}/env are mapped" in freeze(items)


def _a_library() -> str:
    return next(str(path) for path in Path(sys.base_prefix).rglob("lib-dynload/*.so"))


def test_sources_are_read_for_each_environment_once_not_for_each_process(venv, here, start):
    python, _ = venv
    fork = "import os\nfor _ in range(3):\n    if os.fork() == 0:\n        import time; time.sleep(600)\n"
    (here / "job.py").write_text(fork + JOB)
    pid = run_job(start, here, [python, "job.py"])
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    items = look(pid, *children)
    assert {row.process for row in rows(items, "packages")} == {f"h1/{pid}"}
    assert len({row.process for row in rows(items, "libraries")}) <= 1


# --- editable installs ---


def test_what_pip_installs_editable_is_told_with_its_source(here, start):
    python, _ = make_venv(sys.executable, here / "env")
    source = here / "src-tree"
    (source / "src" / "edited").mkdir(parents=True)
    (source / "src" / "edited" / "__init__.py").write_text("")
    (source / "outside").mkdir()
    (source / "outside" / "__init__.py").write_text("")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "Edited.Thing"\nversion = "0.3"\n[tool.setuptools]\npackages = ["edited", "other"]\n'
        '[tool.setuptools.package-dir]\nedited = "src/edited"\nother = "outside"\n'
    )
    _pip_install(python, "-e", source)
    env = {"PYTHONPATH": str(here / "lib")}
    install(here / "lib", "in-path", "2")
    items = look(run_job(start, here, [python, "job.py"], env=env))
    assert listed(items) == answered([python, "ask.py"], here, env) == {"edited-thing": "0.3", "in-path": "2"}
    row = next(row for row in rows(items, "packages") if row.version == "0.3")
    assert row.direct_url == f"-e file://{source}"
    assert f"-e file://{source}  # Edited.Thing==0.3\n" in freeze(items)
    assert f"edited from {source}/src/edited\n" in freeze(items)
    assert f"other from {source}/outside\n" in freeze(items)


def _pip_install(python, *arguments):
    folders = [path for path in sys.path if path.endswith("-packages")]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-build-isolation", *arguments]
    env = {**os.environ, "PYTHONPATH": ":".join(folders), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if not all(map(importlib.util.find_spec, ("pip", "setuptools"))):
        pytest.skip("no pip and setuptools here")
    subprocess.run([str(one) for one in pip], env=env, check=True, capture_output=True, timeout=120)


def test_a_project_in_development_mode_is_found_through_its_egg_link(here, start):
    python, site = make_venv(sys.executable, here / "env")
    info = here / "tree" / "old_style.egg-info"
    info.mkdir(parents=True)
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: old-style\nVersion: 5\n")
    (site / "easy-install.pth").write_text(f"{here}/tree\n")
    (site / "old-style.egg-link").write_text(f"{here}/tree\n.\n")
    items = look(run_job(start, here, [python, "job.py"]))
    assert listed(items) == answered([python, "ask.py"], here) == {"old-style": "5"}
    assert [row.direct_url for row in rows(items, "packages")] == [f"-e file://{here}/tree"]


@pytest.mark.parametrize(
    "source",
    ["MAPPING = {'a': '/x'}", "MAPPING: dict[str, str] = {'a': '/x'}\nNAMESPACES = {}\ndef install(): ..."],
)
def test_the_mapping_of_a_finder_is_read_as_text(source):
    assert distributions.mapping_of(source) == [("a", "/x")]


@pytest.mark.parametrize(
    "source", ["MAPPING = make()", "MAPPING = {'a': 1}", "MAPPING = {", "x" * 100_000 + "(" * 5_000, "\0", ""]
)
def test_a_finder_that_says_something_else_says_nothing(source):
    assert distributions.mapping_of(source) == []


# --- nothing of the job's is run, and nothing outside its reach is read ---


def test_nothing_of_the_job_is_run_or_changed(here, start, left_as_found):
    python, site = make_venv(sys.executable, here / "env")
    canary = CANARY.format(folder=str(here / "canaries"))
    (here / "canaries").mkdir()
    (site / "canary.pth").write_text(f"{canary}\n")
    (site / "sitecustomize.py").write_text(f"{canary}\n")
    (here / "usercustomize.py").write_text(f"{canary}\n")
    (site / "__editable___bait_1_0_finder.py").write_text(f"{canary}\nMAPPING = {{'bait': '/src/bait'}}\n")
    install(site, "bait", "1.0", {"bait/__init__.py": canary}, url="file:///src", dir_info={"editable": True})
    pid = run_job(start, here, [python, "job.py"], env={"PYTHONPATH": str(here)})
    left_as_found(pid)
    before = _state_of(here)
    assert [path.name for path in (here / "canaries").iterdir()] == [f"ran-{pid}"], "the job itself runs them"
    items = look(pid)
    assert "bait from /src/bait" in freeze(items)
    assert [path.name for path in (here / "canaries").iterdir()] == [f"ran-{pid}"]
    assert _state_of(here) == before


def _state_of(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a root folder")
@pytest.mark.skipif(not os.path.exists(DEBIAN), reason="no Python of the system's")
def test_in_another_root_and_mount_namespace_the_jobs_own_files_count(here, start):
    """As in a container: what lies in a folder there does not lie in the folder of that name here."""
    (here / "root").mkdir()
    install(here / "inside", "only-there", "1")
    entering = (
        f"mount --make-rprivate / && mount --rbind / {here}/root && mount --bind {here}/inside {here}/root{here}/root && "
        f"exec chroot {here}/root {DEBIAN} {here}/job.py"
    )
    env = {"PYTHONPATH": f"{here}/root"}
    pid = run_job(start, here, ["unshare", "-m", "sh", "-c", entering], env=env)
    assert os.readlink(f"/proc/{pid}/root") == f"{here}/root"
    items = look(pid)
    assert not (here / "root" / "only_there").exists()
    found = listed(items)
    assert found.pop("only-there") == "1"
    assert found == answered([DEBIAN, "ask.py"], here)
    assert f"# {DEBIAN} (" in freeze(items)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads what the job may not")
def test_for_root_too_only_what_the_job_may_read_is_read(venv, here, start):
    open_to_others(here)
    install(here / "closed", "secret-package", "1")
    install(here / "open", "open-package", "2")
    (here / "closed").chmod(0o700)
    python = DEBIAN if os.path.exists(DEBIAN) else sys.executable
    become = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    (here / "job.py").write_text(
        f"import os\nopen(os.environ['READY'], 'w').close()\n{become}import time; time.sleep(600)\n"
    )
    pid = run_job(start, here, [python, "job.py"], env={"PYTHONPATH": f"{here}/closed:{here}/open"})
    wait_until(lambda: os.stat(f"/proc/{pid}").st_uid == 65534 or None, what="the job is nobody", seconds=20)
    found = listed(look(pid))
    assert "open-package" in found
    assert "secret-package" not in found


def test_a_search_path_on_a_mount_that_is_silent_costs_its_limit_and_the_rest_is_listed(mount, venv, here, start):
    python, _ = venv
    install(here / "first", "answers", "1")
    folder = Path(mount.path)
    pid = run_job(start, here, [python, "job.py"], env={"PYTHONPATH": f"{here}/first:{folder}"})
    mount.stall()
    items = look(pid)
    assert {"answers", "typing-tools", "zeta-core"} <= set(listed(items))
    assert [gap.status for gap in gaps(items)] == ["timeout"]
    assert str(folder) in gaps(items)[0].message


# --- when it is not permitted, or there is none ---


def test_a_process_that_has_ended_is_a_gap(start, here, venv):
    pid = run_job(start, here, [venv[0], "job.py"])
    target = target_of(pid, start_ticks=1)
    items = list(Packages().gather(view_of(target, env_names={})))
    assert not rows(items, "packages")
    assert [gap.status for gap in gaps(items)] == ["partial"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_may_not_be_seen_is_a_gap_with_the_line_that_helps(venv, here, start):
    pid = run_job(start, here, [venv[0], "job.py"])
    code = (
        f"import os, sys; sys.path[:0] = {[str(FIXTURES), str(FIXTURES.parent / 'tests')]!r}\n"
        "from job_view import *\nfrom flatline.collector.probes.packages import Packages\nos.setuid(65534)\n"
        f"for gap in gaps(list(Packages().gather(view_of({pid})))): print(gap.status, gap.hint, gap.tables)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "denied run it with sudo, or as the user the job runs as ('packages', 'libraries')" in said.stdout, (
        said.stderr
    )


# --- the command line ---


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-Im", "a", "-S"], starts.Options(True, True, False, True, True, "-m")),
        (["-X", "-S", "a.py"], starts.Options(runs="a.py")),
        (["-Wignore", "-E", "a.py", "-I"], starts.Options(ignores_environment=True, runs="a.py")),
        (["-sSc", "x"], starts.Options(no_site=True, no_user_site=True, runs="-c")),
        (["--check-hash-based-pycs", "always", "-P", "a.py"], starts.Options(safe_path=True, runs="a.py")),
        (["-u", "-"], starts.Options()),
        ([], starts.Options()),
    ],
)
def test_options_before_the_script_are_pythons_those_behind_it_are_not(words, expected):
    assert starts.options_of(["python", *words]) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"python\0a.py\0", False), (b"trainer\0", False), (b"ray::IDLE\0\0\0\0", True), (b"a title", True), (b"", False)],
)
def test_a_title_is_told_by_what_pads_it(raw, expected):
    assert starts.is_title(raw) == expected


def test_the_name_handed_to_execve_is_read_from_the_auxiliary_vector(start, here):
    pid = run_job(start, here, ["/bin/bash", "-c", f"exec -a other {sys.executable} job.py"])
    assert starts.exec_name(ProcFS(), pid) == sys.executable
    assert re.match(r"other\0", Path(f"/proc/{pid}/cmdline").read_text())
