"""Which part of a training program a stack is in: what two ranks are held against each other by.

The innermost frame that is known has the word, but for the backward pass: its collectives are a part of it. Stacks of
pasted dumps print paths without their beginning, and own helpers around the collectives of a framework are named alike
(``comm.py:gather``, ``dist_utils.py:reduce_dict``), so that a row names a file's end or a part of its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from flatline.bundle.facts import Doing, Frame

from .known_wait import short_function
from .scene import Scene, Stack, is_user

DEPTH = 60
CALLER = " of "
_OPS = (
    "_?all_?gather(?:v|_object|_into_tensor|_coalesced|_base|_tensors?|_list|_dict|_with_padding|_flat_param|_dtype)*|"
    "_?all_?reduce(?:_coalesced|_dict|_mean|_multigpu)?|grouped_allreduce|_?reduce_scatter(?:_tensor|_base|_coalesced)*|"
    "_?(?:monitored_|_store_based_)?barrier|broadcast_(?:object(?:_list)?|coalesced|tensors?|tensor_dict|data|parameters|"
    "optimizer_state|variables|one_to_all)|_distributed_broadcast_coalesced|gather_(?:object|for_metrics|across_processes|"
    "all_tensors)|scatter_object_list|all_?to_?all(?:v|_single|_base)?|reduce_(?:dict|tensor|metrics_across_ranks|loss_dict)|"
    "_?dist_(?:reduce|max|min|mean|sum|gather|broadcast)|"
    "pad_across_processes|wait_for_everyone|wait_for_all(?:_processes)?|sync_global_(?:devices|processes)|"
    "process_allgather|assert_equal|mesh_reduce|wait_at_barrier|_sync_(?:module_)?buffers|_sync_params(?:_and_buffers)?|"
    "_sync_module_states|_verify_params?_across_processes|verify_params_across_processes|_rebuild_buckets|"
    "synchronize_between_processes|sync_dist|synclib_.*|gather_all_tensors|all_gather_cpu|"
    "_gpu_gather(?:_one)?|_gpu_broadcast(?:_one)?|hvd_?broadcast.*|Allreduce|Allgatherv?|Bcast|Barrier|Gatherv?|"
    "Reduce|Scatterv?|Alltoallv?"
)
"""Names that only collectives have, whoever wraps them."""
_SHORT_OPS = "broadcast|gather|scatter|reduce|synchronize|sync|wait|bcast|rendezvous|allreduce_?|allgather_?|join"
"""Names that are a collective's in a file that deals with them."""
_COMM_FILE = re.compile(
    r"(?:^|/)(?:\w*comm(?:s|_utils|unication\w*|unicator)?|dist(?:ributed)?(?:_utils?|_misc|_c10d|_comm)?|ddp_utils?|"
    r"parallel_state|operations|multihost_utils|mpi_ops|functions|pynccl\w*|custom_all_reduce|xla_model|all_?reduce|"
    r"collective\w*|_functional_collectives|_fsdp_collectives|multiprocessing_utils)\.py$|/comm/|/distributed/|/collective|"
    r"/multihost/|mpi4py|horovod/"
)
_WRAPPERS = re.compile(r"(?:^|/)(?:c10d_logger|_decorators|decorators|contextlib|_contextlib|functional)\.py$")


@dataclass(frozen=True)
class Row:
    """One way to know what a frame is a part of."""

    doing: Doing
    functions: re.Pattern[str]
    files: re.Pattern[str] | None = None
    """None: the name says it wherever it is."""


def _row(doing: Doing, functions: str, files: str = "") -> Row:
    return Row(doing, re.compile(rf"(?:{functions})\Z"), re.compile(files) if files else None)


ROWS: tuple[Row, ...] = (
    _row("exit", r"_shutdown|_exit_function|_run_exitfuncs|_python_exit|destroy_process_group|shutdown_distributed",
         r"threading\.py$|multiprocessing/util\.py$|concurrent/futures/|distributed_c10d\.py$|/distributed\.py$"),
    _row("rendezvous", r"init_process_group|_new_process_group_helper|_store_based_barrier|new_group|"
         r"init_distributed(?:_environment)?|_create_c10d_store|next_rendezvous|_env_rendezvous_handler|"
         r"_tcp_rendezvous_handler|_rendezvous_helper|initialize_distributed|_assign_worker_ranks|"
         r"connect_to_coordination_service"),
    _row("rendezvous", r"initialize",
         r"jax/_src/distributed\.py$"),
    _row("rendezvous", r".*",
         r"torch/distributed/rendezvous\.py$|elastic/rendezvous/"),
    _row("backward", r"_engine_run_backward|run_backward"),
    _row("backward", r"backward|grad",
         r"torch/autograd/(?:__init__|function|graph)\.py$|torch/_?tensor\.py$"),
    _row("backward", r"backward|loss_backward|backward_step|_backward_step"),
    _row("point-to-point", r"i?send|i?recv|batch_isend_irecv|(?:send|recv)_(?:object_list|tensor_dict|obj)|"
         r"_send_recv|_batched_p2p_ops|_p2p_ops|_communicate(?:_shapes)?|Send|Recv|Sendrecv",
         _COMM_FILE.pattern + r"|p2p|pipe"),
    _row("collective", _OPS),
    _row("collective", _SHORT_OPS, _COMM_FILE.pattern),
    _row("collective", r"_?unshard|_pre_forward_unshard|_lazy_init|_wait_unshard_streams|_all_gather_flat_param|"
         r"wait_for_unshard|foreach_all_gather|_?fetch_sub_module|__all_gather_params_?|_all_gather_params",
         r"fsdp|_flat_param|deepspeed|zero"),
    _row("compile", r".*",
         r"triton/(?:compiler|backends|runtime/(?:build|jit|autotuner))|torch/_inductor/(?!.*subproc_pool)|"
         r"torch/_dynamo/(?:convert_frame|output_graph|symbolic_convert|backends)|torch/_functorch/(?:aot_autograd|"
         r"_aot)|torch/utils/cpp_extension|deep_gemm/jit|flashinfer/jit|tilelang/(?:jit|engine)|tvm/|"
         r"jax/_src/(?:compiler|compilation_cache)|numba/core|tensorrt_llm/builder|torch_tensorrt|cutlass/|"
         r"pybind11/setup_helpers|torch_xla/_dynamo|distutils/|setuptools/command/build_ext"),
    _row("compile", r"backend_compile(?:_and_load)?|compile_or_get_cached|_cached_compilation|"
         r"_compile_and_write_cache|build_and_load|jit_compile|_jit_compile|load_inline|"
         r"_write_ninja_file_and_build_library|nvcc|run_ninja|_run_ninja_build|async_compile|precompile|"
         r"build_engine|build_serialized_network|warm_up_kernels|autotune|do_bench"),
    _row("batch", r"_next_data|_try_get_data|_get_data|_process_next_batch"),
    _row("batch", r"__next__|__iter__|__getitems?__|get_batch|_?get|fetch|next|_next_\w+|get_next\w*|pop|"
         r"_process_data|_iterate|iterator|decode\w*|tarfile_to_samples|get_element",
         r"(?i)data_?loader|data_?set|data_?pipe|prefetch|dataiter|iterator_ops|/grain/|webdataset|/dali/|"
         r"streaming/|/datasets?/|(?:^|/)data/"),
    _row("batch", r"(?:load_|get_)?next_batch|get_batch(?:_on_this_tp_rank)?|fetch_batch|read_batch|get_batch_pipe|"
         r"get_train_batch"),
    _row("device", r"synchronize|wait",
         r"torch/(?:cuda|npu|xpu|hpu)/"),
    _row("device", r"_value|__float__|__int__|__bool__|__array__|device_get|"
         r"_single_device_array_to_np_array_did_copy",
         r"jax/"),
    _row("device", r"block_until_ready|mark_step|wait_device_ops|xla_sync|local_scalar_dense"),
    _row("save", r"save|_save|_legacy_save|save_file|write_record|save_model",
         r"torch/serialization\.py$|safetensors/|torch/_?storage"),
    _row("save", r"copyfile(?:obj)?|copytree|copy2|rmtree|move|_rmtree_safe_fd|make_archive",
         r"shutil\.py$"),
    _row("load", r"load|_load|_legacy_load|load_file|load_tensor|safe_open|persistent_load|read|readinto",
         r"torch/serialization\.py$|safetensors/|numpy/lib/(?:_?npyio|format)"),
    _row("load", r"\w*(?:safetensors|pt|np_cache|gguf|weights)_?(?:weights)?_iterator|"
         r"_get_(?:all_)?weights(?:_iterator)?|load_weights|load_sharded_checkpoint|_load_state_dict_into_\w+|"
         r"load_state_dict|load_checkpoint|_load_checkpoint|load_base_checkpoint|_load_pretrained_model|"
         r"load_pretrained|load_shard_file|load_vision_tower|restore_checkpoint|load_ckpt"),
    _row("prepare", r"map|_map_single|filter|save_to_disk|from_generator|cast|train_test_split|flatten_indices|"
         r"_prepare_split\w*|download_and_prepare",
         r"datasets/|arrow_dataset"),
    _row("prepare", r"_?build_(?:index\w*|sample_idx|shuffle_idx|doc_idx|document_sample_shuffle_indices|mapping|"
         r"blending_indices|vocab|cache\w*)|\w*_index_mappings?|tokenize\w*|batch_encode_plus|_batch_encode_plus|"
         r"preprocess\w*|prepare_data|prepare_dataset|make_cache\w*|cache_(?:labels|images)|get_labels|createIndex|"
         r"read_csv|read_parquet|read_json|convert_examples\w*|pack_dataset"),
    _row("import", r".*",
         r"<frozen importlib|importlib/_bootstrap|ctypes/__init__\.py$|imp\.py$"),
    _row("import", r"_load_global_deps|_preload_cuda_deps|import_module"),
    _row("fetch", r"hf_hub_download|snapshot_download|http_get|_download_to_tmp_and_move|urlretrieve|"
         r"download_url\w*|load_state_dict_from_url|urlopen|getaddrinfo|do_handshake|cached_download|"
         r"download_file\w*"),
    _row("fetch", r".*",
         r"(?:^|/)(?:requests|urllib3|httpx|httpcore|aiohttp|botocore|boto3|s3fs|gcsfs|wandb|mlflow|comet_ml|"
         r"neptune|swanlab|clearml)/"),
)  # fmt: skip

_MPI = r"P?MPI_I?(?:{})(?:_init|_c|_)?"
NATIVE: tuple[Row, ...] = (
    _row("collective", _MPI.format("Allreduce|Bcast|Barrier|Allgatherv?|Gatherv?|Scatterv?|Alltoall[vw]?|Scan|"
                                   "Reduce(?:_scatter(?:_block)?)?|Exscan")),
    _row("collective", r"(?:p?nccl|rccl|hccl|xccl)(?:AllReduce|AllGather|ReduceScatter|Broadcast|Bcast|Reduce|"
         r"AllToAllv?)"),
    _row("collective", r"gloo::(?:allreduce|allgatherv?|barrier|broadcast|gatherv?|reduce|reduce_scatter|alltoallv?|"
         r"scatter)"),
    _row("collective", r"c10d::ProcessGroup\w*::(?:allreduce|_?allgather\w*|_?reduce_scatter\w*|broadcast|barrier|"
         r"reduce|gather|alltoall\w*|scatter)"),
    _row("point-to-point", _MPI.format("Ssend|Send|Recv|Sendrecv|Probe|Mprobe")),
    _row("rendezvous", _MPI.format("Init(?:_thread)?|Comm_(?:spawn|connect|accept|split|create|dup)")),
    _row("rendezvous", r"c10d::(?:TCPStore|PrefixStore|FileStore)::\w+|(?:p?nccl)CommInit\w+|gloo::rendezvous::.*"),
    _row("backward", r"torch::autograd::Engine::execute|THPEngine_run_backward|"
         r"torch::autograd::python::PythonEngine::execute"),
    _row("exit", _MPI.format("Finalize|Abort")),
    _row("import", r"_?_?dlopen(?:_doit|_implementation)?"),
)  # fmt: skip
"""The same of frames of C and C++, without their arguments."""
_ARGUMENTS = re.compile(r"[(<].*")

_FAMILY = (
    (re.compile(r"(?i)reduce_?scatter"), "reduce_scatter"),
    (re.compile(r"(?i)gather|unshard|fetch_sub"), "all_gather"),
    (re.compile(r"(?i)reduce"), "all_reduce"),
    (re.compile(r"(?i)broadcast|bcast|_sync_|verify_param"), "broadcast"),
    (re.compile(r"(?i)barrier|wait_for_everyone|sync_global|wait_for_all"), "barrier"),
    (re.compile(r"(?i)to_?all"), "all_to_all"),
)
_STAGES = re.compile(
    r"fetch_sub_module|_post_step|partition_all_parameters|_pre_forward_unshard|_pre_backward_\w+|_full_pre_state_dict_hook|"
    r"_consolidate\w*|_optim_state_dict\w*|clip_grad_norm_?|get_global_norm|reduce_gradients|reduce_ipg_grads|"
    r"_post_backward_\w+|_sync_(?:module_)?buffers|_zero3_consolidated_16bit_state_dict|has_overflow\w*"
)
"""Functions of libraries that say which part of a step a collective is of."""


def tell_doings(scene: Scene) -> None:
    """Fill `doing` and `doing_in` of the main threads."""
    mains = [thread for process in scene.processes if (thread := scene.main_thread(process)) is not None]
    found = {thread.id: told for thread in mains if (told := doing_of(scene.stack(thread.id))) is not None}
    whole = (told for doing, told in found.values() if doing == "collective" and CALLER in told)
    callers = {told.partition(CALLER)[0]: told for told in whole}
    for thread in mains:
        if thread.id in found:
            doing, told = found[thread.id]
            # A stack that was cut short does not say whose its collective is: it is taken for the same.
            scene.judged(thread, doing=doing, doing_in=callers.get(told, told))


def doing_of(stack: Stack) -> tuple[Doing, str] | None:
    """What a stack is in, and what tells it from the same of another rank; None: it does not show."""
    frames = stack[:DEPTH]
    known = ((row, at) for at, frame in enumerate(frames) if (row := row_of(frame)) is not None)
    row, at = next(known, (None, 0))
    if row is None:
        return None
    doing = row.doing
    if doing in ("collective", "device") and any(_is_backward(frame) for frame in frames[at:]):
        return "backward", "the backward pass"
    if doing == "backward":
        return doing, "the backward pass"
    if doing != "collective":
        return doing, short_function(frames[at])
    return doing, _whose(frames, at)


def row_of(frame: Frame) -> Row | None:
    """The first row that fits."""
    if frame.kind == "python":
        return _row_of(frame.function.rpartition(".")[2], frame.file or "")
    return _native_row(frame.function) if frame.kind == "native" else None


@lru_cache(maxsize=8192)
def _native_row(function: str) -> Row | None:
    name = _ARGUMENTS.sub("", function)
    return next((row for row in NATIVE if row.functions.match(name)), None)


@lru_cache(maxsize=8192)
def _row_of(function: str, file: str) -> Row | None:
    path = file.replace("\\", "/")
    if "elastic/" in path and "rendezvous" not in path:  # the agent of torchrun is no rank
        return None
    return next((r for r in ROWS if r.functions.match(function) and (r.files is None or r.files.search(path))), None)


def _is_backward(frame: Frame) -> bool:
    row = row_of(frame)
    return row is not None and row.doing == "backward"


def _whose(stack: Sequence[Frame], at: int) -> str:
    """``all_gather of evaluate``: two ranks that call the same from different functions are in different ones."""
    family = next((name for pattern, name in _FAMILY if pattern.search(stack[at].function)), stack[at].function)
    return f"{family}{CALLER}{caller}" if (caller := _caller(stack[at:])) else family


def _caller(outer: Iterable[Frame]) -> str:
    for frame in outer:
        name = frame.function.rpartition(".")[2]
        if _STAGES.fullmatch(name):
            return name
        if is_user(frame) and not _COMM_FILE.search(frame.file or "") and not _WRAPPERS.search(frame.file or ""):
            row = row_of(frame)
            if row is None or row.doing != "collective":
                return name
    return ""
