"""How a job is, as far as its log alone tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from flatline.analyzer.derive import derive
from flatline.analyzer.derive.logs.sign_table import SIGNS
from flatline.analyzer.derive.logs.signs import may_tell
from flatline.analyzer.findings import Verdict
from flatline.analyzer.intake.opening import open_case

TRACEBACK = """\
Traceback (most recent call last):
  File "/job/fit.py", line 31, in <module>
    main()
  File "/job/fit.py", line 12, in main
    {code}
{error}
"""
ELASTIC = """\
E0411 02:11:09.114000 71 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: 0 (pid: 90) of binary: /opt/venv/bin/python
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 264, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
fit.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-04-11_02:11:09
  rank      : 0 (local_rank: 0)
  exitcode  : {code} (pid: 90)
============================================================
"""
WATCHDOG = "[rank{rank}]:[E411 02:10:07.110 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600051 milliseconds before timing out.\n"


def verdict_of(tmp_path: Path, **texts: str) -> Verdict:
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    with open_case([tmp_path]) as case:
        return derive(case).verdict


def stepping(first: int, last: int) -> str:
    return "".join(f"step {n} loss 0.{n:03d}\n" for n in range(first, last + 1))


CRASHED = {
    "a traceback is the last thing it says": stepping(1, 9) + TRACEBACK.format(code="step(x)", error="ValueError: nan"),
    "a bare error line without its traceback": "PermissionError: [Errno 13] Permission denied: '/srv/run/a.lock'\n",
    "the kernel of Python died": stepping(1, 3) + "Fatal Python error: Segmentation fault\n",
    "a worker was killed": "RuntimeError: DataLoader worker (pid 40) is killed by signal: Killed.\n",
    "the shell says so": stepping(1, 4) + "./go.sh: line 3: 90 Killed                  python fit.py\n",
    "torchrun's table": stepping(1, 4) + ELASTIC.format(code=-9),
    "memory of the device, and a bar redrawn at the end": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\nsteps:   0%|          | 0/50 [00:03<?, ?it/s]\n",
    "a call of NCCL that failed": "n1:70:99 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 198.51.100.7<4100> failed : Software caused connection abort\n",
    "OpenBLAS interrupts the program itself": "OpenBLAS blas_thread_init: pthread_create failed for thread 9 of 64: Resource temporarily unavailable\n" + TRACEBACK.format(code="import numpy", error="KeyboardInterrupt"),
    "nodes that the scheduler gave to others": stepping(1, 4) + "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2025-04-11T02:11:09 DUE TO PREEMPTION ***\n",
    "MPI's first call": "[n1:90] pml_ucx.c:419  Error: ucp_ep_create(proc=4) failed\nMPI_INIT has failed because at least one MPI process is unreachable\n",
    "a signal of any name": stepping(1, 3) + "Illegal instruction (core dumped)\n",
    "the word of an editor": stepping(1, 3) + "\nProcess finished with exit code -1073741819 (0xC0000005)\n",
    "JAX's service": "E0411 02:11:09.110000 70 client.h:80] Terminating process because the JAX distributed service detected fatal errors.\n",
    "its last word is a complaint about its arguments": "preparing\nNo images found. Please verify the argument --data\n",
    "deepspeed's launcher": stepping(1, 4) + "[2025-04-11 02:11:09,114] [ERROR] [launch.py:325:sigkill_handler] ['python', 'fit.py'] exits with return code = -9\n",
    "the traceback is cut off": stepping(1, 4) + "Traceback (most recent call last):\n  File \"/job/fit.py\", line 4, in <module>\n    run()\n",
    "an error that tells of a time-out is an end": stepping(1, 2) + "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.\n",
    "a coordination service gave up": "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: all::0.\n",
    "an import that would wait for itself": "_frozen_importlib._DeadlockError: deadlock detected by _ModuleLock('fit.models') at 140\n",
    "a monitored barrier": "[E ProcessGroupGloo.cpp:138] [Rank 0]: Rank 2 failed to pass monitoredBarrier in 60000 ms\n",
    "a watchdog that says that it ends the process": "[E411 02:10:07.110 ProcessGroupNCCL.cpp:1316] [Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n[F411 02:18:07.110 ProcessGroupNCCL.cpp:1362] [Rank 1] Terminating the process after attempting to dump debug info, due to watchdog hang.\n",
    "an error behind the prefix of a worker's log": "(VllmWorkerProcess pid=90) ERROR 04-11 02:11:09 multiproc_worker_utils.py:226] RuntimeError: bad batch\n",
    "no interface for NCCL": "n1:70:99 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n",
    "NCCL's connect had no route": "n1:70:99 [0] misc/socket.cc:456 NCCL WARN socketStartConnect: Connect to 198.51.100.7<4100> failed : No route to host\n",
    "a container that was out of memory": "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n",
    "an error closes the bar, which is drawn once more": TRACEBACK.format(code="save(m)", error="RuntimeError: [enforce fail at inline_container.cc:300] . unexpected pos 64 vs 8") + " 61%|██████    | 610/1000 [20:20<13:00,  2.00s/it]\n",
    "a rank died, and then the others' watchdog struck": "[rank1]: RuntimeError: bad batch\n" + WATCHDOG.format(rank=0, seq=71, op="ALLREDUCE"),
}  # fmt: skip
HUNG = {
    "a watchdog ended it": stepping(1, 90) + WATCHDOG.format(rank=0, seq=712, op="ALLREDUCE") + ELASTIC.format(code=-6),
    "gloo has waited in vain": stepping(1, 3) + TRACEBACK.format(code="dist.barrier()", error="RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 30000ms for recv operation to complete") + ELASTIC.format(code=1),
    "the job's own faulthandler dumped after its time": "Timeout (0:10:00)!\nThread 0x00007f00aa (most recent call first):\n  File \"/job/fit.py\", line 3 in wait_for_it\n",
    "interrupted while it waited for its own worker": "Traceback (most recent call last):\n  File \"/v/site-packages/torch/utils/data/dataloader.py\", line 940, in _shutdown_workers\n    w.join()\n  File \"/usr/lib/python3.11/multiprocessing/popen_fork.py\", line 27, in poll\n    pid, sts = os.waitpid(self.pid, flag)\nKeyboardInterrupt\n",
    "a watchdog of an older release": "[E ProcessGroupNCCL.cpp:1616] [Rank 5] Exception (either an error or timeout) detected by watchdog at work: 71, last enqueued NCCL work: 75, last completed NCCL work: 70.\n",
    "what PyTorch's own analyzer says of its records": "Not all ranks joining collective, sequence number: 12\nmissing ranks: {3}\n",
    "interrupted at its exit": "done.\nException ignored in: <module 'threading' from '/usr/lib/python3.11/threading.py'>\nTraceback (most recent call last):\n  File \"/usr/lib/python3.11/threading.py\", line 1560, in _shutdown\n    lock.acquire()\nKeyboardInterrupt: \n",
    "stopped by job control": "$ jobs\n[1]+ 4120 Stopped (tty input)     fit.sh\n",
}  # fmt: skip
WAITING = {
    "a question": "Loading\nDo you wish to run the code of this repository? [y/N] ",
    "a password": "Cloning into 'models'...\nPassword for 'https://me@git.example.org': ",
    "it tries again": "wandb: Network error (ConnectTimeout), entering retry loop.\nwandb: Network error (ConnectTimeout), entering retry loop.\n",
    "a lock": "still waiting to acquire lock on /srv/hub/.locks/models--org--m/0a.lock (elapsed: 40.1 seconds)\n",
    "ranks that are joining": "GPU available: True, used: True\ninitializing ddp: GLOBAL_RANK: 0, MEMBER: 1/4\ninitializing ddp: GLOBAL_RANK: 1, MEMBER: 2/4\n",
    "resources": "(Driver pid=9) INFO 03-18 06:22:41 [ray_utils.py:463] Waiting for creating a placement group of specs for 70 seconds.\n",
    "a peer of Open MPI that is not the one expected": "[n1][[51207,1],0][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received unexpected process identifier [[51207,1],1]\n",
    "a volume that cannot be mounted": "  Warning  FailedMount  38s (x15 over 14m)   kubelet   MountVolume.SetUp failed for volume \"data\" : mount failed: exit status 32\n",
    "trials that all wait for resources": "Resources requested: 0/8 CPUs, 0/2 GPUs\nNumber of trials: 6/6 (6 PENDING)\n",
    "a device that is to become free": "no device has 30000 MiB free, will look again in 60 s\nno device has 30000 MiB free, will look again in 60 s\n",
    "a coordinator that does not answer": "2025-04-11 02:11:09.5: W xla/pjrt/distributed/client.cc:203] Connect() attempt failed; retrying: DEADLINE_EXCEEDED: Deadline Exceeded\n",
    "a client that asks again": "2025-04-11 02:11:09 INFO Retrying request to /chat/completions in 0.9 seconds\n",
    "an agent that is done before the others": "INFO:torch.distributed.elastic.agent.server.api:Local worker group finished (SUCCEEDED). Waiting 300 seconds for other agents to finish\n",
    "a download": "Downloading (incomplete total...):   0%|          | 12.6M/9.10G [00:20<4:01:10, 629kB/s]\n",
    "interrupted while a server did not answer": "Traceback (most recent call last):\n  File \"/usr/lib/python3.11/ssl.py\", line 1167, in read\n    return self._sslobj.read(len, buffer)\nKeyboardInterrupt\n",
    "Horovod's stall inspector": "[1,0]<stderr>:[2025-04-11 02:11:09.1: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks\n[1,0]<stderr>:Missing ranks:\n[1,0]<stderr>:1: [allreduce.w0]\n",
}  # fmt: skip
SLOW = {
    "a rank prepares data while the others' time runs out": "Tokenizing:  60%|██████    | 6000/10000 [09:58<06:38, 10.02 examples/s]"
    + WATCHDOG.format(rank=1, seq=3, op="ALLREDUCE"),
    "data that is prepared evenly for hours": "Map:   4%|▍         | 41000/986114 [21:14<8:09:22, 32.19 examples/s]\n",
    "a bar of vLLM's": "Loading safetensors checkpoint shards:   3% Completed | 1/30 [02:51<1:22:40, 171.05s/it]\n",
    "minutes for every step": stepping(1, 2) + "  2%|▏         | 3/200 [13:20<14:35:33, 266.67s/it]\n",
}
DEGRADED = {
    "the processor instead of the device": stepping(1, 4) + "WARNING  Torch reports CUDA not available\n",
    "the processor instead of the device, and therefore minutes for every step": "GPU available: False, used: False\nEpoch 0:   0%|          | 3/9000 [03:51<192:35:04, 77.05s/it]\n",
    "an error in a callback of asyncio": "ERROR:asyncio:socket.accept() out of system resource\n"
    + TRACEBACK.format(code="sock.accept()", error="OSError: [Errno 24] Too many open files"),
    "an error that did not end it": "[WORKER] Starting job 7\n[WORKER] Error moving log file: Error: EBUSY: resource busy or locked, rename 'a' -> 'b'\n",
}
UNKNOWN = {
    "steps, and then nothing": stepping(1, 40),
    "an error that ended one thread": "Exception in thread Thread-3:\n" + TRACEBACK.format(code="self.run()", error="OSError: [Errno 5] Input/output error"),
    "an error of a pool's worker, which is replaced": "Process SpawnPoolWorker-4:\n" + TRACEBACK.format(code="get()", error="AttributeError: Can't get attribute 'f' on <module '__main__'>"),
    "an error of a process that it has started": "Process ForkProcess-2:\n" + TRACEBACK.format(code="fill()", error="KeyError: 'text'"),
    "an error of what is called when a future is done": "exception calling callback <Future at 0x7f state=finished raised KeyError>\n" + TRACEBACK.format(code="done()", error="KeyError: 'text'"),
    "an error of a task, behind what a logger writes first": "2025-04-11 02:11:09 WARNING asyncio Task exception was never retrieved\nfuture: <Task finished name='Task-9'>\n" + TRACEBACK.format(code="fill()", error="KeyError: 'text'"),
    "an error that was tried to be got over": "2025-04-11 02:11:09 | WARNING | trainer | CUDA out of memory. Tried to allocate 2 GiB; attempting to recover\n",
    "resources that have come": "srun: job 7 queued and waiting for resources\nsrun: job 7 has been allocated resources\n",
    "what a listing did not find": "$ ls -l /proc/66120\nls: cannot access '/proc/66120': No such file or directory\n",
    "an error that a warning quotes": "/v/torch/cuda/__init__.py:118: UserWarning: CUDA initialization: Error 802: system not yet initialized (Triggered internally)\n  return f()\n",
    "data of which the preparation has stalled": "Map:   4%|▍         | 41000/986114 [08:21:14<8:09:22, 32.19 examples/s]\n",
    "trials of which some run": "Number of trials: 6/6 (5 PENDING, 1 RUNNING)\n",
    "a log record that could not be written": "--- Logging error ---\n" + TRACEBACK.format(code="emit()", error="OSError: [Errno 28] No space left on device"),
    "a command that somebody ended": "$ docker logs -f fit\n^C\n",
    "a warning that names the call which would avoid it": "[W ProcessGroupNCCL.cpp:1856] [Rank 3] using GPU 3 to perform barrier. Specify device_ids in barrier(), or call init_process_group() with a device_id.\n",
    "a barrier that is behind it": "Waiting in store based barrier to initialize process group for rank: 0\nRank 0: Completed store-based barrier for key:1 with 8 nodes.\n",
    "a server that starts": "INFO:     Waiting for application startup.\nINFO:     Application startup complete.\n",
    "stopped by job control, and sent on": "$ python fit.py\nstep 3 loss 0.2\n^Z\n[1]+  Stopped                 python fit.py\n$ bg\n[1]+ python fit.py &\nstep 4 loss 0.2\n",
    "only that it was started": "[WORKER] Starting job 7 on GPU(s) 0\n",
    "an error that was caught": TRACEBACK.format(code="fetch()", error="ConnectionError: reset") + stepping(1, 30),
    "an error before the bar went on": "  5%|▌  | 5/100 [00:05<01:35, 1.00it/s]\n" + TRACEBACK.format(code="log()", error="OSError: no") + "  6%|▌  | 6/100 [00:06<01:34, 1.00it/s]\n",
    "an end at the time limit of the scheduler": stepping(1, 4) + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-04-11T02:11:09 DUE TO TIME LIMIT ***\n",
    "NCCL that says what it found": "n1:70:70 [0] NCCL INFO Bootstrap : Using eth0:198.51.100.7<0>\nn1:70:70 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n",
    "trials that failed, and others that were finished": "[W 2026-05-02 08:00:09,100] Trial 0 failed with parameters: {'lr': 0.3} because of the following error: RuntimeError('CUDA out of memory').\n"
    + TRACEBACK.format(code="step(x)", error="torch.OutOfMemoryError: CUDA out of memory.") + "[W 2026-05-02 08:00:09,200] Trial 0 failed with value None.\n[I 2026-05-02 08:01:09,100] Trial 1 finished with value: 0.4 and parameters: {'lr': 0.1}.\n",
    "an error before a run that was begun anew": stepping(1, 9) + TRACEBACK.format(code="step(x)", error="ValueError: nan") + stepping(1, 5),
    "a part that has no device, between two steps": stepping(1, 4) + "tokenizer: CUDA is not available here, using cpu\n" + stepping(5, 8),
    "a stack of a task that the program prints": "<Task pending name='Task-3' coro=<fill() running at /job/fit.py:9>>\n  File \"/job/fit.py\", line 9, in fill\n",
    "stacks that the program prints of its threads": "=== stack of thread 0x7f03 ===\n  File \"/job/fit.py\", line 31, in <module>\n    main()\n  File \"/job/fit.py\", line 12, in main\n    loop()\n",
    "a bar that is full": "100%|██████████| 12/12 [00:51<00:00,  8.04it/s]\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("state", "text"),
    [
        pytest.param(state, text, id=f"{state}: {name}")
        for state, texts in (
            ("crashed", CRASHED), ("hung", HUNG), ("waiting", WAITING), ("slow", SLOW), ("degraded", DEGRADED),
            ("unknown", UNKNOWN),
        )
        for name, text in texts.items()
    ],
)  # fmt: skip
def test_what_a_log_says_last_decides(tmp_path: Path, state: str, text: str) -> None:
    verdict = verdict_of(tmp_path, log=text)
    assert verdict.state == state, verdict.because


def test_no_sign_is_overlooked_for_speed() -> None:
    texts = [text for texts in (CRASHED, HUNG, WAITING, SLOW, DEGRADED, UNKNOWN) for text in texts.values()]
    lines = [line for text in texts for line in text.splitlines()]
    signs = [line for line in lines if any(sign.pattern.search(line) for sign in SIGNS)]
    assert len(signs) > 40
    assert [line for line in signs if not may_tell(line)] == []


def test_an_error_of_its_own_after_that_of_a_thread_ends_a_process(tmp_path: Path) -> None:
    thread = "Exception in thread Thread-3:\n" + TRACEBACK.format(code="self.run()", error="OSError: lost")
    own = TRACEBACK.format(code="queue.get()", error="RuntimeError: the reader is gone")
    assert verdict_of(tmp_path, log=thread + own).state == "crashed"
    cut = thread.removesuffix("OSError: lost\n")
    assert verdict_of(tmp_path, log=cut + own).state == "crashed"


def test_a_trial_that_nobody_catches_ends_the_search(tmp_path: Path) -> None:
    error = TRACEBACK.format(code="step(x)", error="torch.OutOfMemoryError: CUDA out of memory.")
    text = f"[W 2026-05-02 08:00:09,100] Trial 0 failed with parameters: {{}} because of the following error: {error}{error}"
    assert verdict_of(tmp_path, log=text).state == "crashed"


def test_a_rank_whose_bar_is_drawn_again_behind_the_others_has_not_begun_anew(tmp_path: Path) -> None:
    bars = [f" {n}%|▏   | {n}/100 [00:{n:02}<05:00, 1.00it/s]\n" for n in (1, 1, 2, 2)]
    error = TRACEBACK.format(code="step(x)", error="ValueError: nan")
    assert verdict_of(tmp_path, log="".join(bars) + error + bars[0] + bars[3]).state == "crashed"


def test_the_device_that_a_job_names_before_it_begins_is_its_own(tmp_path: Path) -> None:
    text = "CUDA is not available, using cpu\n" + stepping(1, 40)
    assert verdict_of(tmp_path, log=text).state == "degraded"


def test_frames_of_python_in_a_debugger_are_no_traceback_that_was_cut_off(tmp_path: Path) -> None:
    text = '(gdb) py-bt\n  File "/usr/lib/python3.11/multiprocessing/popen_fork.py", line 71, in _launch\n    code = process_obj._bootstrap()\n'
    assert verdict_of(tmp_path, gdb=text).state != "crashed"


def test_the_verdict_quotes_the_line_it_rests_on(tmp_path: Path) -> None:
    because = verdict_of(tmp_path, log=stepping(1, 2) + "RuntimeError: bad batch\n").because
    assert "“RuntimeError: bad batch” (log.txt:3)" in because[0]


def test_the_log_of_one_rank_that_crashed_outweighs_the_silence_of_the_others(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, rank0=stepping(1, 9), rank1=stepping(1, 9) + "ValueError: nan\n")
    assert verdict.state == "crashed"


def test_what_the_kernel_says_is_no_error_of_the_job(tmp_path: Path) -> None:
    text = "[84012.104411] python3 invoked oom-killer: gfp_mask=0x14000c0\n[84012.104420] Memory cgroup out of memory\n"
    assert verdict_of(tmp_path, notes=stepping(1, 3) + text).state == "unknown"


def test_a_long_log_is_read_at_its_ends(tmp_path: Path) -> None:
    text = stepping(1, 60_000) + "RuntimeError: bad batch\n"
    assert verdict_of(tmp_path, log=text).state == "crashed"
