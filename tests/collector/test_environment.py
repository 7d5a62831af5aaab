"""Facts about the environments a job was started with."""

from __future__ import annotations

from flatline.collector.probes.environment import MAX_VALUE, Environment
from flatline.collector.probes.interface import Facts, Gap, Target, View


def target(pid: int, ppid: int, role: str, relation: str = "descendant", python: bool = True, argv: tuple[str, ...] = ()):
    return Target(pid, pid, ppid, 0, "python", relation, role, python, 1.0, argv)


def gather(targets, env):
    items = list(Environment().gather(View(targets=tuple(targets), env_names=env)))
    rows = {(row.process, row.name): row for item in items if isinstance(item, Facts) for row in item.tables["env"]}
    return rows, [item for item in items if isinstance(item, Gap)]


def test_a_variable_is_the_launchers_or_new_or_changed():
    targets = [target(2, 1, "rank", "target"), target(1, 0, "launcher", "ancestor")]
    env = {1: {"HOME": "/h", "RANK": "0"}, 2: {"HOME": "/h", "RANK": "1", "NCCL_DEBUG": "INFO"}}
    rows, gaps = gather(targets, env)
    origins = {name: row.from_launcher for (process, name), row in rows.items() if process == "h1/2"}
    assert origins == {"HOME": "same", "RANK": "changed", "NCCL_DEBUG": "added"}
    assert rows["h1/1", "HOME"].from_launcher == "unknown"
    assert not gaps


def test_a_shell_in_between_is_not_the_launcher():
    targets = [
        target(3, 2, "rank", "target"),
        target(2, 1, "shell", "ancestor", python=False, argv=("sh", "-c", "x")),
        target(1, 0, "launcher", "ancestor", python=False, argv=("node", "launch.js")),
    ]
    rows, _ = gather(targets, {1: {}, 2: {"A": "1"}, 3: {"A": "1"}})
    assert rows["h1/3", "A"].from_launcher == "added"


def test_of_workers_only_what_differs_is_written_and_what_names_their_rank():
    targets = [target(1, 0, "rank", "target"), target(2, 1, "pool-worker")]
    rows, _ = gather(targets, {1: {"HOME": "/h", "RANK": "0"}, 2: {"HOME": "/h", "RANK": "0", "OMP_NUM_THREADS": "1"}})
    assert sorted(name for process, name in rows if process == "h1/2") == ["OMP_NUM_THREADS", "RANK"]


def test_an_environment_that_could_not_be_read_is_a_gap_and_no_rows():
    rows, gaps = gather([target(1, 0, "rank", "target"), target(2, 1, "rank")], {1: {"A": "1"}})
    assert {process for process, _ in rows} == {"h1/1"}
    assert "(pid 2)" in gaps[0].message
    assert gaps[0].tables == ("env",)


def test_a_value_too_long_to_keep_is_unknown_and_not_cut():
    rows, _ = gather([target(1, 0, "rank", "target")], {1: {"A": "x" * (MAX_VALUE + 1), "B": "x" * MAX_VALUE}})
    assert rows["h1/1", "A"].value is None
    assert rows["h1/1", "B"].value == "x" * MAX_VALUE
