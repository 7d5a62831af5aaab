"""What to ask for: evidence that pasted texts lack, by the command that gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Question:
    """One command, and the facts that its output holds."""

    what: str
    """What it shows, in the reporter's words."""
    command: str
    """For a POSIX shell; ``$PID`` is a process of the job. Nothing in it changes anything, or prints a secret."""
    gives: tuple[str, ...]
    """Tables, and fields as ``table.field``; shell patterns."""
    needs_job: bool = True
    """Whether the job must still be there."""

    def answers(self, missing: str) -> bool:
        """Whether a missing table or field would be known then."""
        return any(fnmatchcase(missing, pattern) for pattern in self.gives)


LOGS = Question(
    "the whole log of every rank, from its start to its last line: the first error of any rank counts",
    "tail -n 2000 YOUR_LOGS    # a file for each rank, if there are several",
    ("logs*", "log*", "errors*", "log_lines*", "ranks*", "phases*"),
    needs_job=False,
)
"""What is asked first of a job that has ended."""
QUESTIONS: tuple[Question, ...] = (
    Question(
        "where every thread of every process of the job stands",
        "py-spy dump --nonblocking --subprocesses --pid $PID    # on every host, with the PID there",
        ("frames*", "threads", "wait_edges*", "chains*", "ends*", "collectives*"),
    ),
    Question(
        "which processes there are, their states, and what they wait in, at two moments",
        "for i in 1 2; do ps -eLo pid,tid,ppid,pgid,tpgid,tty,stat,wchan:32,time,args --width 200; sleep 10; done",
        ("processes*", "threads*", "process_samples*", "thread_samples*"),
    ),
    Question(
        "the system calls that the threads are in",
        'for t in /proc/$PID/task/*; do echo "$t: $(cat $t/wchan) $(cat $t/syscall)"; done',
        ("threads.syscall*", "threads.wchan", "futexes*"),
    ),
    Question(
        "what the kernel reports: killed for memory, hung tasks, faults of a GPU",
        "dmesg -T | tail -n 300",
        ("kernel_events*",),
        needs_job=False,
    ),
    Question(
        "the accelerators, their driver, and who uses them",
        "nvidia-smi; nvidia-smi -q | head -n 80    # or rocm-smi, npu-smi info",
        ("gpus*", "gpu_drivers*", "gpu_processes*", "gpu_samples*"),
        needs_job=False,
    ),
    Question(
        "the packages and their versions",
        "python -m torch.utils.collect_env; python -m pip freeze",
        ("packages*", "libraries*"),
        needs_job=False,
    ),
    Question(
        "the settings of the job that matter here; no others, so that no secret is among them",
        "tr '\\0' '\\n' < /proc/$PID/environ | grep -E "
        "'^(NCCL|TORCH_|GLOO|CUDA|HIP|ROCR|MASTER_|RANK|LOCAL_RANK|WORLD_SIZE|OMP|MKL|HF_HUB_|PYTHON|SLURM_(JOB_ID|N))'",
        ("env*",),
    ),
    Question(
        "what the job has open, and its connections",
        "ls -l /proc/$PID/fd; ss -tnap | head -n 100",
        ("fds*", "sockets*"),
    ),
    Question(
        "the mounts, and what is full (a file system that does not answer holds df up: end it with Ctrl-C)",
        "cat /proc/self/mounts; df -h; df -i",
        ("mounts*", "quotas*"),
        needs_job=False,
    ),
    Question(
        "the limits of the job and of its control group",
        "cat /proc/$PID/limits; d=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/$PID/cgroup); "
        "head -n 20 $d/memory.events $d/memory.max $d/cpu.max $d/cpu.stat $d/pids.max",
        ("limits*", "cgroups*"),
    ),
    Question(
        "the files and folders that the log or the command line names, and who holds locks on files",
        "ls -ld --time-style=full-iso PATHS; cat /proc/locks; lslocks",
        ("locks*", "files*"),
        needs_job=False,
    ),
    Question(
        "what the scheduler says of the job",
        "scontrol show job $SLURM_JOB_ID; squeue --me    # or kubectl describe pod, ray status",
        ("scheduler*",),
        needs_job=False,
    ),
    LOGS,
)
"""In the order in which they are asked for where they decide equally much."""

WORDS_OF_FAMILY: Mapping[str, str] = {
    "collective": r"(?i)nccl|\brank ?\d|all_?reduce|all_?gather|barrier|watchdog|\bddp\b|fsdp|deepspeed|zero|horovod",
    "transport": r"(?i)nccl|ibv_|roce|infiniband|\bACSCtl|iommu|NET/|gloo|socket",
    "rendezvous": r"(?i)rendezvous|rdzv|c10d|MASTER_(?:ADDR|PORT)|GLOBAL_RANK|world.?size|init_process_group",
    "workers": r"(?i)dataloader|num_workers|worker|multiprocessing|pool\.py|spawn",
    "fork": r"(?i)\bfork|tokenizers_parallelism|openmp|libgomp|libiomp|multiprocessing",
    "locks": r"(?i)\block|deadlock|mutex|semaphore|sqlite",
    "startup": r"(?i)import|compil|ninja|triton|inductor|extension|version|module",
    "params": r"(?i)no such file|not found|config|argument|Starting job",
    "terminal": r"(?i)\[y/n\]|password|passphrase|tty|prompt|choice|stdin|pdb",
    "network": r"(?i)https?:|retry|download|connect|timed out|huggingface|wandb|proxy|ssl",
    "storage": r"(?i)\bnfs|lustre|fuse|/mnt/|no space|disk|quota|mount",
    "gpu": r"(?i)cuda|gpu|nvidia|\bxid|rocm|\bhip\b|device",
    "limits": r"(?i)ulimit|cgroup|too many open|memory|rlimit|pids\.max|quota",
}
"""Words that tell what a text is about, by the family of rules; RE2 syntax."""
