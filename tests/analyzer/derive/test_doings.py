"""Which part of a training program a stack is in, as two ranks are held against each other by it."""

from __future__ import annotations

import pytest
from builders import Job
from flatline.analyzer.derive.doings import doing_of

from flatline.bundle.facts import Frame

C10D = "torch/distributed/distributed_c10d.py"


def stack(*frames: tuple[str, str]) -> tuple[Frame, ...]:
    """(file, function), innermost first."""
    return tuple(
        Frame("h1/1/1", 0, depth, function, file=file, is_user="/" not in file)
        for depth, (file, function) in enumerate(frames)
    )


@pytest.mark.parametrize(
    ("frames", "doing"),
    [
        ([(C10D, "barrier"), ("fit.py", "main")], ("collective", "barrier of main")),
        ([("torch/autograd/graph.py", "_engine_run_backward"), ("fit.py", "step")], ("backward", "the backward pass")),
        ([("detectron2/utils/comm.py", "gather"), ("fit.py", "log")], ("collective", "all_gather of log")),
        ([("horovod/torch/mpi_ops.py", "synchronize"), ("fit.py", "step")], ("collective", "synchronize of step")),
        (
            [("jax/experimental/multihost_utils.py", "sync_global_devices"), ("fit.py", "save")],
            ("collective", "barrier of save"),
        ),
        ([("jax/_src/array.py", "_value"), ("fit.py", "main")], ("device", "_value")),
        (
            [("queue.py", "get"), ("grain/_src/python/data_loader.py", "__next__"), ("fit.py", "main")],
            ("batch", "__next__"),
        ),
        ([("subprocess.py", "_communicate"), ("deep_gemm/jit/compiler.py", "compile")], ("compile", "compile")),
        ([("safetensors/torch.py", "load_file"), ("fit.py", "main")], ("load", "load_file")),
        ([("threading.py", "_shutdown")], ("exit", "_shutdown")),
        ([("ctypes/__init__.py", "__init__"), ("torch/__init__.py", "_load_global_deps")], ("import", "__init__")),
    ],
)
def test_the_innermost_known_frame_tells(frames: list[tuple[str, str]], doing: tuple[str, str]) -> None:
    assert doing_of(stack(*frames)) == doing


@pytest.mark.parametrize(
    ("function", "doing"),
    [
        ("PMPI_Allreduce", ("collective", "all_reduce")),
        ("ncclAllGather", ("collective", "all_gather")),
        ("MPI_Init_thread", ("rendezvous", "MPI_Init_thread")),
        (
            "torch::autograd::Engine::execute(std::vector<torch::autograd::Edge> const&)",
            ("backward", "the backward pass"),
        ),
    ],
)
def test_frames_of_c_tell_it_too(function: str, doing: tuple[str, str]) -> None:
    assert doing_of((Frame("h1/1/1", 0, 0, function, kind="native"),)) == doing


def test_a_collective_within_the_backward_pass_is_part_of_it() -> None:
    inner = [(C10D, "all_reduce"), ("deepspeed/runtime/zero/stage_1_and_2.py", "average_tensor")]
    assert doing_of(stack(*inner, ("torch/autograd/graph.py", "_engine_run_backward"))) == (
        "backward",
        "the backward pass",
    )


def test_the_same_collective_of_two_parts_of_a_step_is_told_apart() -> None:
    one = stack((C10D, "all_gather_into_tensor"), ("deepspeed/runtime/zero/coordinator.py", "fetch_sub_module"))
    other = stack((C10D, "all_gather_into_tensor"), ("deepspeed/runtime/zero/stage3.py", "_post_step"))
    assert doing_of(one) == ("collective", "all_gather of fetch_sub_module")
    assert doing_of(other) == ("collective", "all_gather of _post_step")


def test_where_in_the_fetch_of_parameters_a_rank_waits_is_all_one() -> None:
    deep = stack((C10D, "all_gather"), ("deepspeed/runtime/zero/coordinator.py", "fetch_sub_module"), ("fit.py", "f"))
    waits = stack(
        ("deepspeed/runtime/zero/partition.py", "wait"),
        ("deepspeed/runtime/zero/coordinator.py", "fetch_sub_module"),
        ("fit.py", "f"),
    )
    assert doing_of(deep) == doing_of(waits) == ("collective", "all_gather of fetch_sub_module")


def test_a_functional_collective_is_told_by_the_helper_that_waits_for_it() -> None:
    frames = [("torch/distributed/_functional_collectives.py", "wait_tensor"), ("job/distributed.py", "_dist_reduce")]
    assert doing_of(stack(*frames, ("fit.py", "step"))) == ("collective", "all_reduce of step")


def test_the_agent_of_torchrun_is_in_no_collective() -> None:
    assert doing_of(stack(("torch/distributed/elastic/multiprocessing/api.py", "wait"))) is None


def test_a_stack_that_was_cut_short_is_taken_for_the_same_collective() -> None:
    job = Job().without("hosts")
    for pid, frames in ((11, [(C10D, "barrier"), ("fit.py", "main")]), (12, [(C10D, "barrier")])):
        for depth, (file, function) in enumerate(frames):
            job.add("frames", Frame(f"h1/{pid}/{pid}", 0, depth, function, file=file, is_user=file == "fit.py"))
    assert {thread.doing_in for thread in job.derived()[1].rows("threads")} == {"barrier of main"}
