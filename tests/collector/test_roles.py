"""Facts about what a process is to the job, from its command line, name, parent and environment."""

from __future__ import annotations

import pytest
from flatline.collector.job.roles import (
    ProcessInfo,
    is_flatline,
    is_interactive_shell,
    is_python,
    plain_role,
    program_of,
    rank_of,
    roles,
    runs_only_flatline,
    start_method,
)
from flatline.collector.linux.procfs import parse_stat

from flatline.bundle.facts import starts_jobs


def process(pid: int, command: str, *, ppid: int = 0, name: str = "", exe: str = "", code: int = 0, tty: int = 0, start: int = 0):
    argv = tuple(command.split("|")) if "|" in command else tuple(command.split())
    comm = name or (argv[0].rsplit("/", 1)[-1] if argv else "x")
    fields = [ppid, pid, pid, tty, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 1, 0, start or pid, 0, 0, 0, code or pid * 16, 0, code or pid * 16]
    stat = parse_stat(f"{pid} ({comm}) S {' '.join(map(str, fields))}")
    return ProcessInfo(stat, uid=1000, exe=exe or (f"/usr/bin/{argv[0].rsplit('/', 1)[-1]}" if argv else None), argv=argv)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 1", "train.py"),
        ("/opt/py/bin/python3.11 -u -X dev /w/train.py", "train.py"),
        ("python -m torch.distributed.run train.py", "torch.distributed.run"),
        ("python -um torch.distributed.run train.py", "torch.distributed.run"),
        ("python -W ignore -c print(1)", "-c"),
        ("python3 /venv/bin/torchrun --nproc 2 x.py", "torchrun"),
        ("python", "python"),
        ("-bash", "bash"),
        ("ray::train|", "ray::train"),
        ("", ""),
    ],
)
def test_what_runs_behind_an_interpreter_is_named(command, name):
    assert program_of(tuple(command.split("|")) if "|" in command else tuple(command.split())).name == name


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("python3 /venv/bin/torchrun x.py", "launcher"),
        ("python -m torch.distributed.run x.py", "launcher"),
        ("python /venv/bin/accelerate launch x.py", "launcher"),
        ("python -m deepspeed.launcher.launch x.py", "launcher"),
        ("mpirun -n 2 python x.py", "launcher"),
        ("srun python x.py", "launcher"),
        ("node /app/launch.js", "launcher"),
        ("npm run train", "launcher"),
        ("timeout 60 python x.py", "launcher"),
        ("/bin/sh -c x", "shell"),
        ("-zsh", "shell"),
        ("/venv/bin/wandb-core --port 1", "tracker-service"),
        ("python -m wandb", "tracker-service"),
        ("python /x/torch/_inductor/compile_worker/__main__.py --workers=4", "compile-worker"),
        ("nvcc -c a.cu", "compile-worker"),
        ("python|-c|from multiprocessing.resource_tracker import main;main(4)", "resource-tracker"),
        ("python train.py", None),
    ],
)
def test_a_command_line_that_tells_its_role(command, role):
    assert plain_role(process(9, command)) == role


def tree(*members: ProcessInfo) -> dict[int, ProcessInfo]:
    return {member.pid: member for member in members}


def test_a_lone_program_is_a_rank_and_its_forked_child_a_worker():
    members = tree(process(1, "python train.py", code=77), process(2, "python train.py", ppid=1, code=77))
    assert roles(members, {}) == {1: "rank", 2: "pool-worker"}


def test_a_dataloader_worker_says_so_in_its_name():
    members = tree(process(1, "python t.py", code=7), process(2, "python t.py", ppid=1, code=7, name="pt_data_worker"))
    assert roles(members, {})[2] == "dataloader-worker"


def test_a_forked_child_of_a_launcher_or_a_forkserver_is_a_worker_despite_its_command_line():
    server = "python|-c|from multiprocessing.forkserver import main; main()"
    members = tree(
        process(1, "python /b/torchrun t.py", code=7), process(2, "python /b/torchrun t.py", ppid=1, code=7),
        process(3, server, code=8), process(4, server, ppid=3, code=8),
    )  # fmt: skip
    assert roles(members, {}) == {1: "launcher", 2: "pool-worker", 3: "other", 4: "pool-worker"}
    assert start_method(members[4], members) == "forkserver"
    assert start_method(members[2], members) == "fork"


def test_a_program_whose_children_have_ranks_of_their_own_is_their_launcher():
    members = tree(process(1, "python go.py"), process(2, "python t.py", ppid=1), process(3, "python t.py", ppid=1))
    found = roles(members, {2: {"RANK": "0"}, 3: {"RANK": "1"}})
    assert found == {1: "launcher", 2: "rank", 3: "rank"}


def test_a_helper_that_inherits_the_rank_is_no_rank():
    members = tree(process(1, "python t.py"), process(2, "python prepare.py", ppid=1))
    assert roles(members, {1: {"RANK": "3"}, 2: {"RANK": "3"}}) == {1: "rank", 2: "other"}


@pytest.mark.parametrize(
    ("launcher", "child", "found"),
    [
        ("python train.py", "python train.py --worker", ("launcher", "rank")),
        ("python train.py", "python export.py", ("rank", "other")),
        ("python -c a()", "python -c b()", ("rank", "other")),
    ],
)
def test_a_script_that_starts_itself_again_is_the_launcher_of_what_it_started(launcher, child, found):
    known = roles({1: process(1, launcher), 2: process(2, child, ppid=1)}, {})
    assert (known[1], known[2]) == found


def test_a_program_that_another_python_program_runs_is_no_rank_without_a_number():
    members = tree(process(1, "python -m pytest"), process(2, "python train.py", ppid=1))
    assert roles(members, {}) == {1: "rank", 2: "other"}


@pytest.mark.parametrize(
    ("line", "is_script"),
    [("bash run.sh", True), ("sh -c x", True), ("bash -lc x", True), ("bash --norc run.sh", True), ("bash", False),
     ("-bash --norc", False), ("bash --rcfile x -i", False), ("bash --init-file x", False)],
)  # fmt: skip
def test_an_ancestor_shell_is_of_the_job_when_it_runs_a_script(line, is_script):
    assert starts_jobs("shell", False, line.split()) is is_script


def test_an_ancestor_that_is_a_launcher_or_python_is_of_the_job():
    assert starts_jobs("launcher", False, ["node", "ui.js"])
    assert starts_jobs("rank", True, None)
    assert not starts_jobs("other", False, ["login"])


def test_a_program_in_another_language_below_a_launcher_is_a_rank_when_it_has_one():
    members = tree(process(1, "mpirun -n 1 ./solver"), process(2, "./solver", ppid=1))
    assert roles(members, {2: {"OMPI_COMM_WORLD_RANK": "0"}})[2] == "rank"


@pytest.mark.parametrize(
    ("env", "argv", "expected"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "GROUP_RANK": "1"}, (), (3, 1, 8, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}, (), (3, None, 8, None)),
        ({"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4", "SLURM_NODEID": "1", "SLURM_STEP_ID": "0"}, (), (2, 0, 4, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (), (None, None, None, None)),
        ({"RANK": "three"}, (), (None, None, None, None)),
        ({"RANK": "²"}, (), (None, None, None, None)),
        ({}, ("t.py", "--local_rank=2"), (None, 2, None, None)),
        ({}, ("t.py", "--rank", "5"), (5, None, None, None)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (), (1, None, 2, None)),
    ],
)
def test_ranks_are_read_as_each_launcher_writes_them(env, argv, expected):
    told = rank_of(env, argv)
    assert (told.rank, told.local_rank, told.world_size, told.node) == expected


def test_an_interactive_shell_is_told_from_a_script():
    assert is_interactive_shell(process(1, "-bash"))
    assert is_interactive_shell(process(1, "bash", tty=34816))
    assert not is_interactive_shell(process(1, "bash run.sh", tty=34816))
    assert not is_interactive_shell(process(1, "bash|-lc|python x", tty=34816))
    assert not is_interactive_shell(process(1, "bash"))


def test_flatline_knows_itself_and_who_runs_only_it():
    assert is_flatline(process(1, "python /venv/bin/flatline collect"))
    assert is_flatline(process(1, "python -m flatline collect"))
    assert is_flatline(process(1, "python3 flatline.pyz collect"))
    assert not is_flatline(process(1, "python train.py --name flatline"))
    assert runs_only_flatline(process(1, "timeout 60 flatline collect"))
    assert runs_only_flatline(process(1, "bash|-c|x=$(/opt/bin/flatline collect --pid 3)"))
    assert not runs_only_flatline(process(1, "bash run.sh"))
    assert not runs_only_flatline(process(1, "python train.py flatline "))


def test_python_is_known_by_its_executable_even_under_a_title():
    assert is_python(process(1, "ray::Worker.step()|", exe="/opt/bin/python3.12"))
    assert is_python(process(1, "python train.py", exe="/usr/bin/python3.11 (deleted)"))
    assert not is_python(process(1, "pythonic", exe="/usr/bin/pythonic"))
