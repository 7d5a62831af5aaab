"""Functions of C and C++ libraries in which threads wait: further rows of `known.WAITS`, for native frames only.

Underscores and ``__GI_`` in front of a name are the C library's own business and are left out on both sides.
"""

from __future__ import annotations

from .known_wait import KnownWait

_GPU_WAITS = (
    "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaStreamWaitEvent", "cudaMemcpy",
    "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "hipStreamSynchronize", "hipDeviceSynchronize",
    "hipEventSynchronize", "aclrtSynchronizeStream", "aclrtSynchronizeDevice",
)  # fmt: skip
_GPU_BEGINS = (
    "cuInit", "cuCtxCreate", "cuCtxCreate_v2", "cuDevicePrimaryCtxRetain", "cudaGetDeviceCount", "cudaSetDevice",
    "cudaFree", "cudaMalloc", "cudaHostAlloc", "cudaLaunchKernel", "cuLaunchKernel", "cuModuleLoadData",
    "nvmlInit", "nvmlInit_v2", "hipInit", "hipGetDeviceCount", "rsmi_init",
)  # fmt: skip

NATIVE_WAITS: tuple[KnownWait, ...] = (
    KnownWait("", ("ncclCommAbort", "ncclCommDestroy", "ncclCommFinalize"), "device", "device",
              "waits in {op} for the GPU to be done with a communicator that is being given up", native=True),
    KnownWait("", ("ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommInitRankDev", "bootstrapInit"), "rendezvous",
              "ranks", "waits in {op} for the other ranks to join", native=True),
    KnownWait("", ("c10d::Work::wait", "c10d::ProcessGroupNCCL::WorkNCCL::wait", "c10d::ProcessGroupNCCL::barrier",
                   "c10d::ProcessGroupGloo::AsyncWork::wait", "gloo::barrier", "gloo::allreduce", "MPI_Allreduce",
                   "MPI_Barrier", "MPI_Bcast", "MPI_Allgather", "PMPI_Barrier", "PMPI_Allreduce"),
              "collective", "ranks", "waits in {op} for the other ranks", native=True),
    KnownWait("", ("c10d::TCPStore::wait", "c10d::TCPStore::get", "c10d::PrefixStore::wait", "c10d::PrefixStore::get",
                   "c10d::TCPStore::doWait", "c10d::FileStore::wait"), "rendezvous", "ranks",
              "waits in {op} for the other ranks", native=True),
    KnownWait("", _GPU_WAITS, "device", "device", "waits in {op} for the GPU to finish its work", burns_cpu=True,
              native=True),
    KnownWait("", _GPU_BEGINS, "device", "device", "waits in {op} for the driver of the GPU", burns_cpu=True,
              native=True),
    KnownWait("libcuda.so", (), "device", "device", "is in the library of the GPU's driver", burns_cpu=True,
              native=True),
    KnownWait("", ("std::thread::join", "pthread_join", "pthread_clockjoin_ex", "pthread_timedjoin_ex"), "thread-join",
              "thread", "waits for {who} to end", native=True),
    KnownWait("", ("waitpid", "wait4", "waitid", "libc_wait4"), "child", "child", "waits for {who}", native=True),
    KnownWait("", ("lll_lock_wait", "lll_lock_wait_private", "pthread_mutex_lock", "pthread_mutex_lock_full",
                   "pthread_mutex_cond_lock", "lll_mutex_lock_optimized", "std::mutex::lock", "pthread_rwlock_rdlock",
                   "pthread_rwlock_wrlock"), "futex", "nobody-known", "waits for a mutex of native code", native=True),
    KnownWait("", ("pthread_cond_wait", "pthread_cond_clockwait", "std::condition_variable::wait", "sem_wait",
                   "new_sem_wait", "new_sem_wait_slow", "new_sem_wait_slow64", "do_futex_wait", "futex_wait",
                   "futex_abstimed_wait_common64", "futex_abstimed_wait_cancelable64", "futex_abstimed_wait_cancelable",
                   "futex_abstimed_wait"), "futex", "nobody-known",
              "waits in native code to be woken by another thread", native=True),
)  # fmt: skip

LOADER_LOCK = frozenset({
    "cxa_thread_atexit_impl", "dl_iterate_phdr", "tls_get_addr", "dlopen", "dlclose", "dlsym", "dl_open", "dl_close",
    "dlerror_run", "dl_tls_get_addr_soft", "tls_get_addr_slow", "update_get_addr",
})  # fmt: skip
"""Functions that take the lock of the dynamic loader; their frame is within a few of the innermost one."""
LOADS = frozenset({
    "dl_open", "dl_open_worker", "dl_open_worker_begin", "dl_init", "call_init", "dl_close", "dl_close_worker",
    "dl_fini",
})  # fmt: skip
"""Functions of the dynamic loader that run a library's own code while they hold that lock."""
