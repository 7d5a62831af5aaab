"""The recorder: what a Python process of a job did last, kept where a kill cannot take it.

The folder of this file is put on PYTHONPATH, so every Python that the job starts loads it before its first line
(``site`` imports ``sitecustomize``). The job's own sitecustomize is run afterwards, as if this one did not exist.
Python 3.7 to 3.14, standard library, ASCII. Whatever goes wrong in here, the job goes on without it.

    FLATLINE_RECORDER         off, light (default), or debug: every module, thread, process and signal as well; slower
    FLATLINE_RECORDER_DIR     an existing private folder for the rings, which are then kept after the process's end
    FLATLINE_RECORDER_LINES   stderr, stdout or paths, separated by commas: each event also as a line there
    FLATLINE_RECORDER_SIGNAL  the signal for faulthandler; 0 for none
    FLATLINE_RECORDER_DUMP    at level debug: after so many seconds without a mark all stacks are printed; 0: never

The ring is a file of 65536 bytes named ``ring``, in the folder that flatline.collector.stacks.faulthandler describes,
or ``<FLATLINE_RECORDER_DIR>/flatline-ring-<pid>-<start ticks>``:

        0  header: lines "key value", the first "format flatline-ring/1", filled up with NUL
     8192  16 slots of 256 bytes: what is open now, "<monotonic ns> <tid> <kind> <text>\\n" behind blanks' padding;
           the first is the module that was looked for last, an empty one begins with NUL
    12288  208 slots of 256 bytes: event number n in slot n % 208, "<n> <monotonic ns> <tid> <kind> <text>\\n"

Descriptors belong to the job: it may close any of them (daemons close all) and gets their numbers for its own files.
So the ring has none once it is mapped. faulthandler needs one: for a signal it is a high number, which the job is given
last, and before it is used or closed it is looked at whether it still is the recorder's; the timer has one that is not
the job's at all (`Timer`).

No code of the job runs in here either: of an error or a name that is an object of the job's, only what Python itself
made of it is taken, never what its `__str__` says.

It is one file, and longer than others here, because it has to be all that the job's Python must find.
"""

import _thread
import atexit
import itertools
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # for type checkers only: importing typing takes longer than all of this
    from typing import Any, Callable, Iterable

SIZE, HEAD, SLOT = 65536, 8192, 256
OPEN_SLOTS = 16
EVENTS_AT = HEAD + OPEN_SLOTS * SLOT
EVENT_SLOTS = (SIZE - EVENTS_AT) // SLOT
LOOKED_FOR = slice(HEAD, HEAD + SLOT)
MONOTONIC_NS = time.monotonic_ns
DUMP_AFTER_S = 300.0  # at level debug: all stacks once nothing was marked for so long
MOST_DUMPED = 1 << 20
DUMP_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
LOW_NUMBERS = 960  # descriptors of ours have higher ones, where the job may have so many
CLOSE_RANGE, CLOSE_RANGE_UNSHARE = 436, 2
TIMER = b"flatline-timer"
SIGNAL = 50  # a real-time one: what jobs and libraries handle themselves are SIGUSR1, SIGUSR2 and SIGTERM

# Where a mapped page can wait for a server for ever, or (copy on write) end in SIGBUS on a full disk.
UNFIT = ("nfs", "cifs", "smb", "fuse", "9p", "lustre", "ceph", "gpfs", "beegfs", "afs", "gluster", "orangefs", "pvfs",
         "weka", "autofs", "panfs", "ocfs2", "gfs2", "btrfs", "zfs", "bcachefs", "f2fs", "virtiofs", "vboxsf", "proc",
         "sysfs")  # fmt: skip

ENV_VALUES = frozenset(
    """CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES
    ZE_AFFINITY_MASK HABANA_VISIBLE_DEVICES CUDA_LAUNCH_BLOCKING CUDA_DEVICE_ORDER RANK LOCAL_RANK WORLD_SIZE
    LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK MASTER_ADDR MASTER_PORT SLURM_JOB_ID SLURM_PROCID SLURM_LOCALID SLURM_NTASKS
    OMP_NUM_THREADS MKL_NUM_THREADS OMP_WAIT_POLICY KMP_AFFINITY MKL_THREADING_LAYER NCCL_DEBUG NCCL_SOCKET_IFNAME
    NCCL_IB_DISABLE NCCL_IB_HCA NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_TIMEOUT NCCL_BLOCKING_WAIT GLOO_SOCKET_IFNAME
    NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_BLOCKING_WAIT TORCH_DISTRIBUTED_DEBUG
    TORCH_SHOW_CPP_STACKTRACES TORCH_COMPILE_DISABLE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_DATASETS_OFFLINE HF_HOME
    TOKENIZERS_PARALLELISM WANDB_MODE WANDB_DISABLED PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONFAULTHANDLER
    PYTHONSTARTUP PYTHONASYNCIODEBUG TMPDIR VIRTUAL_ENV CONDA_PREFIX LD_PRELOAD LD_LIBRARY_PATH""".split()
)
ENV_NAMES = ("CUDA", "NCCL", "TORCH", "HF_", "WANDB", "OMP_", "MKL_", "ACCELERATE", "DEEPSPEED", "RAY_", "SLURM",
             "XLA", "TF_", "JAX", "FSDP", "GLOO", "UCX", "FI_", "KMP_", "PYTORCH", "PYTHON", "LD_", "HTTP",
             "NO_PROXY")  # fmt: skip
SECRET_WORDS = ("password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "api_key", "api-key",
                "access_key", "access-key", "accesskey", "accountkey", "auth", "private", "bearer", "signature", "pwd",
                "cookie", "_key", "-key")  # fmt: skip
SECRET_ENDS = ("_pass", "-pass", "_pw", "-pw")
SECRET_NAMES = ("pass", "pw", "sig")  # only as the whole name
SECRET_BEGINS = ("hf_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ",
                 "ya29.", "AIza", "npm_", "pypi-", "dop_v1_", "shpat_", "r8_", "nvapi-", "wandb_v1")  # fmt: skip
OUTPUT_FLAGS = frozenset(
    """log log-file logfile log-path output-dir out-dir outdir output-path log-dir logdir logging-dir save-dir save-path
    checkpoint-dir ckpt-dir work-dir default-root-dir save""".split()
)
SCHEMES = ("bearer", "basic", "token", "digest", "negotiate")  # what is secret is the word after it
USER_FLAGS = ("-u", "-U", "--user", "--proxy-user")
PARTS = {ord(mark): " " for mark in ",;&{}[]()<>|?=:\"'`\\"}
HIDDEN = "[hidden]"


def masked_words(words: "Iterable[str]") -> "list[str]":
    """Arguments without what looks like a secret; one after a flag of a secret's name is hidden whole."""
    shown, name, gap, was_hidden = [], "", "", False
    for word in words:
        was_hidden = is_value(name, gap, word, was_hidden)
        shown.append(HIDDEN if was_hidden else masked(word, is_argument=True))
        name = word.rstrip(":=")
        gap = word[len(name) :] + " "
        if "=" in name or ":" in name:  # has its value already
            name = ""
    return shown


def masked(text: str, is_argument: bool = False) -> str:
    """A message, part by part. `re` would cost the job's start more than all of this."""
    text = without_userinfo(text[:4000])
    flat = text.translate(PARTS)
    shown, done, name, end = [], 0, "", 0
    for part in flat.split():
        begin = flat.index(part, end)
        if begin >= done:
            gap = text[end:begin]
            to = end_of_value(text, begin, gap, is_argument)
            if not is_value(name, gap, text[begin:to], end <= done and done > 0):
                to = begin + len(part) if part.startswith(SECRET_BEGINS) else 0
            if to:
                shown += [text[done:begin], HIDDEN]
                done = to
        name, end = part, begin + len(part)
    return "".join(shown) + text[done:]


def is_value(name: str, gap: str, value: str, was_hidden: bool) -> bool:
    """Whether `value` belongs to a secret's name, with `gap` between them; `was_hidden`: the name itself was."""
    lowered = name.lower()
    if was_hidden and lowered in SCHEMES:
        return True
    if name in USER_FLAGS:
        return ":" in value
    if not is_secret_name(lowered):
        return False
    if "=" in gap:
        return True
    if ":" in gap:
        return gap != ":" or "/" not in name  # a search path, the port of an address
    if name.startswith("-"):
        return not value.startswith("-")
    return lowered in SECRET_WORDS and (gap.isspace() or (len(gap) > 1 and gap[-1] in "\"'"))


def is_secret_name(lowered: str) -> bool:
    lowered = lowered.replace("tokeniz", "").replace("tokens", "")
    if lowered.endswith(SECRET_ENDS) or lowered.lstrip("-") in SECRET_NAMES:
        return True
    return any(map(lowered.__contains__, SECRET_WORDS))


def end_of_value(text: str, begin: int, gap: str, is_argument: bool) -> int:
    """To the quote that closes it, else to the next blank; an argument that begins with its name is one value."""
    if text[begin] in "bBuUrR" and text[begin + 1 : begin + 2] in ("'", '"'):
        gap, begin = text[begin + 1], begin + 2
    if gap[-1:] in ("'", '"'):
        end = text.find(gap[-1], begin)
        while end > 0 and text[end - 1] == "\\" and gap[-2:-1] != "\\":
            end = text.find(gap[-1], end + 1)
        return end if end >= 0 else len(text)
    if is_argument and not any(map(str.isspace, text[:begin])):
        return len(text)
    return begin + len(text[begin:].split(None, 1)[0])


def without_userinfo(text: str) -> str:
    """``https://user:pass@host`` as ``https://[hidden]@host``."""
    first, *rest = text.split("://")
    shown = [first]
    for piece in rest:
        place = (piece.split("/", 1)[0].split("?", 1)[0].split(None, 1) or [""])[0]
        at = place.rfind("@")
        shown.append(HIDDEN + piece[at:] if at >= 0 and piece.startswith(place) else piece)
    return "://".join(shown)


def printable(text: str, most: int) -> bytes:
    """One line of ASCII."""
    if len(text) > most:
        text = text[: most - 3] + "..."
    return text.encode("ascii", "backslashreplace").translate(CONTROLS)[:most]


CONTROLS = b" " * 32 + bytes(range(32, 127)) + b" " * 129


class Ring:
    """The file and its slots. Every method may raise; who calls them is guarded."""

    def __init__(self) -> None:
        self.map = None  # type: Any
        self.dump = -1  # a number that faulthandler writes to
        self.dump_file = None  # type: Any
        self.folder = self.path = ""
        self.is_kept = False
        self.ticks = self.pid = 0
        self.numbers = itertools.count()
        self.mounts = []  # type: list[list[bytes]]
        self.open = {}  # type: dict[tuple[bytes, bytes], list[tuple[int, int]]]
        self.free = list(range(OPEN_SLOTS - 1, 0, -1))

    def begin(self, ticks: int, header: bytes) -> None:
        """Make the file for this process; OSError where there is no place that is safe."""
        self.pid, self.ticks = os.getpid(), ticks
        if not ticks:
            raise OSError("/proc/self/stat cannot be read")
        with open("/proc/self/mountinfo", "rb") as mounts:
            self.mounts = [line.split() for line in mounts]
        name = "flatline-recorder-%d-%d" % (os.getpid(), self.ticks)
        folders = [os.environ.get("TMPDIR") or "/tmp", "/tmp"]
        self.folder = first_that_works(lambda tmp: self.private(tmp + "/" + name), folders)
        places = [self.folder + "/ring"]
        kept = guarded(self.kept_folder)
        if kept:
            places.insert(0, kept + "/flatline-ring-%d-%d" % (self.pid, self.ticks))
        if any(map(is_open_here, places)):
            self.folder = ""
            raise OSError("another interpreter of this process records already")
        self.path = first_that_works(self.make, places)
        self.is_kept = self.path != places[-1]
        self.map[: len(header)] = header

    def make(self, path: str) -> str:
        import mmap

        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            self.refuse_unfit(fd)
            os.ftruncate(fd, 0)
            os.posix_fallocate(fd, 0, SIZE)  # a hole that the disk has no room for kills with SIGBUS when written
            if sys.version_info >= (3, 13):
                self.map = mmap.mmap(fd, SIZE, trackfd=False)
            else:
                likely = os.dup(fd)
                os.close(likely)
                self.map = mmap.mmap(fd, SIZE)
                keep_for_ever(self.map)
                close_duplicate(fd, likely)
        except Exception:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
        return path

    def kept_folder(self) -> str:
        """FLATLINE_RECORDER_DIR, or "" where none is given or it is not ours; OSError where it is missing or unfit."""
        folder = os.environ.get("FLATLINE_RECORDER_DIR", "")
        if not folder:
            return ""
        folder = os.path.abspath(folder)
        self.refuse_unfit_text(folder)
        return folder if is_own_folder(folder) else ""

    def refuse_unfit_text(self, folder: str) -> None:
        """By the text of the path: nothing is touched there."""
        if is_on_unfit(os.path.abspath(folder), self.mounts):
            raise OSError("no local file system")

    def private(self, folder: str) -> str:
        """The folder, made or found again after exec; OSError where it is not ours, or on no local disk."""
        self.refuse_unfit_text(os.path.dirname(folder))
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not is_own_folder(folder):
                raise
        return folder

    def refuse_unfit(self, fd: int) -> None:
        """Where links led elsewhere than the text of the path: by the number of the mount."""
        with open("/proc/self/fdinfo/%d" % fd, "rb") as info:
            numbers = [line.split()[1] for line in info if line.startswith(b"mnt_id")]
        if any(mount[0] in numbers and is_unfit(mount) for mount in self.mounts):
            raise OSError("no local file system")

    def write(self, at: int, line: bytes) -> None:
        self.map[at : at + SLOT] = line[: SLOT - 1].ljust(SLOT - 1) + b"\n"

    def event(self, now: int, tid: int, kind: bytes, text: bytes) -> None:
        number = next(self.numbers)  # in one step: other threads count as well
        at = EVENTS_AT + number % EVENT_SLOTS * SLOT
        self.write(at, b"%d %d %d %s %s" % (number, now, tid, kind, text))

    def enter(self, now: int, tid: int, kind: bytes, text: bytes) -> None:
        if self.free:
            slot = self.free.pop()
            self.write(HEAD + slot * SLOT, b"%d %d %s %s" % (now, tid, kind, text))
            self.open.setdefault((kind, text), []).append((tid, slot))

    def leave(self, tid: int, kind: bytes, text: bytes) -> None:
        held = self.open.get((kind, text))
        if held:
            own = [pair for pair in held if pair[0] == tid] or held
            held.remove(own[-1])
            at = HEAD + own[-1][1] * SLOT
            self.map[at : at + SLOT] = bytes(SLOT)
            self.free.append(own[-1][1])

    def dump_path(self) -> str:
        return self.folder + "/faulthandler.txt"

    def open_dump(self) -> None:
        self.dump = high(os.open(self.dump_path(), DUMP_FLAGS, 0o600))
        self.dump_file = identity(self.dump)

    def has_dump(self) -> bool:
        """Whether the number is still ours."""
        return self.dump >= 0 and identity(self.dump) == self.dump_file

    def let_go(self) -> None:
        """This process's own files, unless they are to be kept. In a child that C code forked they are the parent's."""
        self.map = None
        if not self.folder or self.pid != os.getpid():
            return
        own = [self.folder + "/recorder.json", self.dump_path()]
        for path in own if self.is_kept else [*own, self.path]:
            try:
                os.unlink(path)
            except OSError:
                pass
        os.rmdir(self.folder)


def first_that_works(make: "Callable[[str], str]", folders: "list[str]") -> str:
    for folder in folders[:-1]:
        try:
            return make(folder)
        except OSError:
            pass
    return make(folders[-1])


def is_unfit(mount: "list[bytes]") -> bool:
    kind = mount[mount.index(b"-") + 1].decode("ascii", "replace")
    return kind.startswith(UNFIT)


def mount_point(mount: "list[bytes]") -> str:
    return os.fsdecode(mount[4].replace(b"\\040", b" ").replace(b"\\011", b"\t").replace(b"\\134", b"\\"))


def is_own_folder(path: "Any") -> bool:
    found = os.lstat(path)
    return found.st_uid == os.geteuid() and found.st_mode & 0o170077 == 0o040000


def is_open_here(path: "Any") -> bool:
    """Whether this very process has the ring already: the recorder runs once in a process, not once per interpreter."""
    if not os.path.exists(path):
        return False
    with open("/proc/self/maps", "rb") as maps:
        return any(line.rstrip(b"\n").endswith(b" " + os.fsencode(path)) for line in maps)


def identity(fd: int) -> "Any":
    """What a number stands for; None: for nothing."""
    try:
        return os.fstat(fd)[:3]
    except OSError:
        return None


def first_high() -> int:
    return min(LOW_NUMBERS, os.sysconf("SC_OPEN_MAX") * 15 // 16)


def high(fd: int) -> int:
    """The same file under a number that the job does not get by opening a file or two."""
    import fcntl

    try:
        number = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, first_high())
    except (OSError, ValueError):
        return fd
    os.close(fd)
    return number


def close_duplicate(fd: int, likely: int) -> None:
    """`mmap` keeps one, without use for us, and closes that number whenever it is freed."""
    file = identity(fd)
    numbers = [likely] if identity(likely) == file else map(int, os.listdir("/proc/self/fd"))
    for number in sorted(numbers):
        if number != fd and identity(number) == file:
            os.close(number)


def keep_for_ever(thing: "Any") -> None:
    """Not even the end of the interpreter frees it: a code object is not seen by the collector of cycles. Before
    Python 3.13 `mmap` closes, when it is freed, a number that may be a file of the job's by then."""
    loop = [thing]  # type: list[Any]

    def empty() -> None:
        pass

    code = empty.__code__  # type: Any
    if hasattr(code, "replace"):
        loop.append(code.replace(co_consts=(None, loop)))
    else:  # 3.7
        loop.append(type(code)(0, 0, 0, 1, 0, b"", (None, loop), (), (), "", "", 1, b""))


class Lines:
    """Events as lines, where they were asked for. A pipe that nobody reads gets none: the job never waits for it."""

    def __init__(self, wish: str) -> None:
        self.outs = []
        for name in filter(None, wish.split(",")):
            if name in ("stderr", "stdout"):
                fd = 2 if name == "stderr" else 1
                self.outs.append((fd, os.fstat(fd)[:3]))
            else:
                fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
                fd = high(fd)
                self.outs.append((fd, os.fstat(fd)[:3]))

    def write(self, line: bytes) -> None:
        import select

        for fd, identity in self.outs:
            try:
                ready = select.poll()
                ready.register(fd, select.POLLOUT)
                # The number may stand for another file by now; what can be written at once is at least PIPE_BUF.
                if os.fstat(fd)[:3] == identity and ready.poll(0):
                    os.write(fd, line[:500].rstrip(b"\n") + b"\n")
            except OSError:
                pass


class Recorder:
    """What the hooks call. Nothing they call raises."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.began = time.monotonic_ns()
        self.ring = Ring()
        self.lines = None  # type: Any
        self.names = {}  # type: dict[str, bytes]
        self.ident = getattr(_thread, "get_native_id", lambda: 0)
        self.timer = None  # type: Any

    def start(self, how: str) -> None:
        why_no_ring, ticks = "", own_ticks()
        try:
            self.ring.begin(ticks, header(how, self.began, self.level, ticks))
        except Exception as error:
            self.ring.map = None
            why_no_ring = "%s: %s" % (type(error).__name__, error)
        if self.lines is None and os.environ.get("FLATLINE_RECORDER_LINES"):
            self.lines = guarded(Lines, os.environ["FLATLINE_RECORDER_LINES"])
        if self.ring.map is not None:
            guarded(arm, self.ring)
        self.note("start", how)
        if why_no_ring:
            self.note("no-ring", why_no_ring)
        if how == "exec" and self.ring.mounts:
            for text in guarded(list, refused_outputs(self.ring.mounts)) or ():
                self.note("not-writable", text)
        if self.lines:  # who asked for lines has no ring at hand; the ring has all this in its header
            for line in header(how, self.began, self.level, ticks).splitlines():
                if line.startswith((b"python", b"argv", b"cwd", b"env")):
                    self.line("start", line, time.monotonic_ns())

    def note(self, kind: str, text: str, most: int = 200) -> None:
        """An event."""
        try:
            if self.ring.dump >= 0 and not self.ring.has_dump():
                self.lost_dump()
            self.put(kind, printable(text, most))
        except Exception:
            pass

    def note_of(self, kind: str, thing: "Any", before: str = "") -> None:
        """An event that tells of an object of the job's."""
        try:
            self.note(kind, before + masked(plain(thing)))
        except Exception:
            pass

    def lost_dump(self) -> None:
        """The job has closed what faulthandler writes to, and may have its number now: another one, or none."""
        import faulthandler
        import signal

        number, self.ring.dump = wished_signal(), -1
        if signal.getsignal(number) is not signal.SIG_DFL:  # the job handles it itself
            return
        try:
            self.ring.open_dump()
            faulthandler.register(number, file=self.ring.dump, all_threads=True, chain=False)
        except Exception:
            self.ring.dump = -1
            faulthandler.unregister(number)

    def put(self, kind: str, text: bytes) -> None:
        now = time.monotonic_ns()
        if self.ring.map is not None:
            self.ring.event(now, self.ident(), kind.encode("ascii"), text)
        if self.lines:
            self.line(kind, text, now)
        timer = self.timer
        if timer is not None and now >= timer.due:
            self.set_timer(now)

    def set_timer(self, now: int) -> None:
        timer = self.timer
        if timer is not None and self.ring.map is not None and not timer.set(self.ring.dump_path(), now):
            self.timer = None

    def line(self, kind: str, text: bytes, now: int) -> None:
        age = (now - self.began) / 1e9
        self.lines.write(b"[flatline %d +%.3f s] %s %s\n" % (os.getpid(), age, kind.encode("ascii"), text))

    def shown(self, name: str) -> bytes:
        """As the ring may hold it; kept, since a phase is entered, left, and entered again."""
        text = self.names.get(name)
        if text is None:
            if len(self.names) >= 256:
                self.names.clear()
            text = self.names[name] = printable(masked(name), 160)
        return text

    def enter(self, kind: str, name: str) -> None:
        try:
            text = self.shown(name)
            if self.ring.map is not None:
                self.ring.enter(time.monotonic_ns(), self.ident(), kind.encode("ascii"), text)
            self.put(kind + "-enter", text)
        except Exception:
            pass

    def leave(self, kind: str, name: str, how: str = "") -> None:
        try:
            text = self.shown(name)
            if self.ring.map is not None:
                self.ring.leave(self.ident(), kind.encode("ascii"), text)
            self.put(kind + "-leave", text + (b" " + printable(masked(how), 60) if how else b""))
        except Exception:
            pass

    def looks_for(self, module: "Any") -> None:
        """The last module that was looked for: in a hang, the one that is being imported. Called a thousand times when
        torch is imported: what it takes is what an import costs."""
        ring = self.ring.map
        if ring is not None:
            try:
                line = f"{MONOTONIC_NS()} {self.ident()} module {module}"
                ring[LOOKED_FOR] = b"%-255.255b\n" % line.encode("ascii", "replace")
            except Exception:
                pass

    def exception(self, kind: str, error: "Any", traceback: "Any" = None, thread: "Any" = None) -> None:
        """The error and its innermost places, each an event of its own; of a `thread` that it has ended."""
        try:
            places = []
            if traceback is None and issubclass(type(error), BaseException):
                traceback = TRACEBACK_OF(error)
            at = traceback  # type: Any
            while type(at) is TRACEBACK and len(places) < 10000:
                places.append((at.tb_frame.f_code, at.tb_lineno))
                at = at.tb_next
            prefix = "in %s: " % masked(thread_name(thread)) if thread is not None else ""
            self.note(kind, prefix + masked(described(error)))
            for code, line in places[-4:]:
                self.note(kind + "-at", "%s:%d in %s" % (code.co_filename[-150:], line, code.co_name))
        except Exception:
            pass

    def forked(self) -> None:
        """In a forked child: another ring, for both would write into the same."""
        try:
            old, self.ring = self.ring, Ring()  # whatever happens now: the parent's files are not ours
            timer, self.timer = self.timer, None
            if called_from(2) == "_execute_child":  # subprocess with preexec_fn: exec follows at once
                return
            inside = b", ".join(b"%s %s" % key for key, held in old.open.items() if held).decode("ascii")
            self.began = time.monotonic_ns()
            if timer is not None:
                timer.begin()
                self.timer = timer
            self.start("fork" + (" inside " + inside if inside else ""))
            if old.dump >= 0:
                if self.ring.dump < 0:  # else it is registered anew already
                    import faulthandler

                    faulthandler.unregister(wished_signal())
                if old.has_dump():
                    os.close(old.dump)
        except Exception:
            pass

    def ended(self, how: str = "exit") -> None:
        try:
            self.note(how, "threads left: " + thread_names())
            if self.timer is not None:
                self.timer.stop()
            self.ring.let_go()
        except Exception:
            pass


NAME_OF = type.__dict__["__name__"].__get__  # type: Any
ARGS_OF = BaseException.__dict__["args"].__get__  # type: Any
TRACEBACK_OF = BaseException.__dict__["__traceback__"].__get__  # type: Any
FILES_OF = (OSError.__dict__["filename"].__get__, OSError.__dict__["filename2"].__get__)  # type: Any
TEXTS = (BaseException.__str__, KeyError.__str__, OSError.__str__, ImportError.__str__, UnicodeDecodeError.__str__,
         UnicodeEncodeError.__str__)  # fmt: skip
SIMPLE = (str, int, float, bool, type(None))
TRACEBACK = None  # type: Any
try:
    raise ValueError
except ValueError as _error:
    TRACEBACK = type(_error.__traceback__)


def plain(thing: "Any", depth: int = 0) -> str:
    """A text for an object of the job's, none of whose code is run: of what is not built in, the name of its type."""
    kind = type(thing)
    if kind is str:
        return repr(thing) if depth else thing
    if kind in SIMPLE or kind is bytes:
        return repr(thing)
    if kind in (list, tuple) and depth < 3:
        inner = ", ".join(plain(each, depth + 1) for each in thing[:32])
        return ("[%s]" if kind is list else "(%s)") % inner
    pathlib = sys.modules.get("pathlib")
    if pathlib is not None and kind is getattr(pathlib, "PosixPath", None):
        return str(thing)
    return "<%s>" % NAME_OF(kind)


def described(error: "Any") -> str:
    """Its type, and its text where Python's own code makes it, of nothing but texts and numbers."""
    kind = type(error)
    if not issubclass(kind, BaseException):
        return NAME_OF(kind)
    files = [of(error) for of in FILES_OF] if issubclass(kind, OSError) else []
    parts = [*ARGS_OF(error), *(file for file in files if file is not None)]
    if any(kind.__str__ is text for text in TEXTS) and all(type(part) in SIMPLE for part in parts):
        return "%s: %s" % (NAME_OF(kind), kind.__str__(error))
    return "%s: %s" % (NAME_OF(kind), ", ".join(map(plain, parts)))


def thread_name(thread: "Any") -> str:
    """Of an object of `threading`; its `name` may be code of the job's."""
    return plain(getattr(thread, "__dict__", {}).get("_name", "?"))


def refused_outputs(mounts: "list[list[bytes]]") -> "Iterable[str]":
    """Of the log and the folders that the arguments name: those that we, the job's user, may not write."""
    with open("/proc/self/cmdline", "rb") as cmdline:
        words = [os.fsdecode(word) for word in cmdline.read().split(b"\0")]
    for word, following in zip(words, words[1:]):
        flag, equals, value = word.partition("=")
        path = value if equals else following
        if flag.startswith("--") and flag[2:].replace("_", "-") in OUTPUT_FLAGS and path and not path.startswith("-"):
            place = nearest_place(path, mounts)
            if place and not os.access(place, os.W_OK):
                yield "%s %s: %s may not be written" % (flag, masked(path), masked(place))


def nearest_place(path: str, mounts: "list[list[bytes]]") -> str:
    """The file or folder, or the first above that exists, links followed; "" where a mount on the way may wait."""
    left, at = os.path.abspath(path).split("/")[1:], ""
    for _ in range(64):
        if not left:
            break
        inner = at + "/" + left[0]
        if is_on_unfit(inner, mounts):
            return ""
        try:
            if os.path.islink(inner):
                target = os.path.normpath(os.path.join(at or "/", os.readlink(inner)))
                left, at = target.split("/")[1:] + left[1:], ""
                continue
            os.lstat(inner)
        except OSError:
            break
        at, left = inner, left[1:]
    return at or "/"


def is_on_unfit(path: str, mounts: "list[list[bytes]]") -> bool:
    """By the text of the path: nothing is touched there."""
    at = path.rstrip("/") + "/"
    holding = [m for m in mounts if at.startswith(mount_point(m).rstrip("/") + "/")]
    return bool(holding) and is_unfit(max(reversed(holding), key=lambda m: len(m[4])))  # of several at a place the last


def called_from(depth: int) -> str:
    """The name of the function that many frames up; "" where C code called."""
    try:
        return sys._getframe(depth).f_code.co_name
    except ValueError:
        return ""


def header(how: str, began: int, level: str, ticks: int) -> bytes:
    """Who this is and what it was given. Values of the environment only by a list."""
    argv = getattr(sys, "orig_argv", None) or [sys.executable or "python"] + list(getattr(sys, "argv", []))
    rows = [
        ("format", "flatline-ring/1"),
        ("pid", os.getpid()),
        ("ticks", ticks),
        ("ppid", os.getppid()),
        ("sid", os.getsid(0)),
        ("began", began),
        ("time", "%.3f" % time.time()),
        ("level", level),
        ("how", how),
        ("signal", wished_signal()),
        ("python", "%d.%d.%d" % sys.version_info[:3] + " " + sys.executable),
        ("argv", " ".join(masked_words(argv))),
        ("cwd", cwd()),
    ]
    names = sorted(os.environ)
    rows += [("env", "%s=%s" % (n, masked(os.environ.get(n, "")))) for n in names if n in ENV_VALUES]
    rows.append(("env-names", " ".join(n for n in names if n.startswith(ENV_NAMES) and n not in ENV_VALUES)))
    lines = [printable("%s %s" % row, 900) + b"\n" for row in rows]
    while sum(map(len, lines)) > HEAD - 1:
        lines.pop()
    return b"".join(lines)


def wished_signal() -> int:
    try:
        return int(os.environ.get("FLATLINE_RECORDER_SIGNAL", SIGNAL))
    except ValueError:
        return SIGNAL


def wished_dump() -> float:
    try:
        return float(os.environ.get("FLATLINE_RECORDER_DUMP", DUMP_AFTER_S))
    except ValueError:
        return DUMP_AFTER_S


def own_ticks() -> int:
    try:
        with open("/proc/self/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def cwd() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        return "unknown: %s" % error


def thread_names() -> str:
    """Without the lock of `threading`: a forked or dying process may find it taken for ever."""
    threading = sys.modules.get("threading")
    threads = list(getattr(threading, "_active", {}).values()) if threading else []
    return ", ".join(masked(thread_name(thread)) for thread in threads[:12]) or "main only"


def guarded(function: "Callable[..., Any]", *args: "Any") -> "Any":
    try:
        return function(*args)
    except Exception:
        return None


def arm(ring: "Ring") -> None:
    """faulthandler on a signal, announced for who may send it; and, under Yama, the right to look for our own user."""
    import faulthandler

    number = wished_signal()
    if number:
        ring.open_dump()
        faulthandler.register(number, file=ring.dump, all_threads=True, chain=False)
        told = b'{"format": "flatline-recorder/1", "pid": %d, "start_ticks": %d, ' % (os.getpid(), ring.ticks)
        told += b'"faulthandler": {"signal": %d, "file": "faulthandler.txt"}}\n' % number
        fd = os.open(ring.folder + "/new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, told)
        finally:
            os.close(fd)
        os.rename(ring.folder + "/new", ring.folder + "/recorder.json")
    if is_scope_one():

        class ULong(ctypes_module()._SimpleCData):
            _type_ = "L"

        c_function("prctl")(0x59616D61, ULong(2**64 - 1), 0, 0, 0)  # PR_SET_PTRACER, any of our user


def ctypes_module() -> "Any":
    """`_ctypes`, for `ctypes` takes some milliseconds. Many a libffi opens a file for good when it is loaded: that gets
    a high number like ours."""
    if "_ctypes" not in sys.modules:
        low = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)]
        try:
            while low[-1] < first_high() - 1:
                low.append(os.dup(low[-1]))
            __import__("_ctypes")
        finally:
            for fd in low:
                os.close(fd)
    return sys.modules["_ctypes"]


def c_function(name: str, flags: int = 0) -> "Any":
    """One of libc that returns an int, called with Python's lock kept."""
    ctypes = ctypes_module()

    class Int(ctypes._SimpleCData):
        _type_ = "i"

    class Function(ctypes.CFuncPtr):
        _flags_ = ctypes.FUNCFLAG_CDECL | ctypes.FUNCFLAG_PYTHONAPI | flags
        _restype_ = Int

    return Function(ctypes.dlsym(ctypes.dlopen(None, 0), name))


def is_scope_one() -> bool:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as scope:
            return scope.read(1) == b"1"
    except OSError:  # no Yama
        return False


# --- hooks ---


class Watching:
    """First on sys.meta_path: told of each module that is looked for, and goes along with those that matter."""

    def __init__(self, recorder: "Recorder") -> None:
        self.recorder = recorder
        self.known = getattr(sys, "stdlib_module_names", frozenset(sys.builtin_module_names))
        self.every = recorder.level == "debug"
        self.library = os.path.dirname(os.__file__)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        self.recorder.looks_for(name)
        if name not in AFTER and ("." in name or name in self.known) and not self.every:
            return None
        after = AFTER.get(name)
        spec = self.found(name, path, target)
        loader = getattr(spec, "loader", None)
        if spec is None or not hasattr(loader, "exec_module") or not hasattr(loader, "create_module"):
            return spec
        is_told = self.every or ("." not in name and not guarded(self.is_library, spec))
        if is_told or after:
            guarded(setattr, spec, "loader", Loading(loader, self.recorder, is_told, after))
        return spec

    def found(self, name: str, path: "Any", target: "Any") -> "Any":
        """What the finders after this one say: those before it were asked, and may be asking all themselves."""
        finders = list(sys.meta_path)
        own = [at for at, finder in enumerate(finders) if finder is self]
        for finder in finders[own[0] + 1 :] if own else []:
            if not hasattr(finder, "find_spec"):  # a finder of old: the import system's turn
                return None
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def is_library(self, spec: "Any") -> bool:
        origin = spec.origin or ""
        inside = origin.startswith(self.library) and "site-packages" not in origin and "dist-packages" not in origin
        return inside or origin in ("built-in", "frozen")


class Loading:
    """Stands in for a module's loader until the module runs."""

    def __init__(self, loader: "Any", recorder: "Recorder", is_told: bool, after: "Any") -> None:
        self.loader, self.recorder, self.is_told, self.after = loader, recorder, is_told, after

    def __getattr__(self, name: str) -> "Any":
        return getattr(self.loader, name)

    def create_module(self, spec: "Any") -> "Any":
        return self.loader.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        name, loader, recorder = module.__name__, self.loader, self.recorder
        module.__spec__.loader = loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = loader
        if self.is_told:
            recorder.enter("import", name)
        try:
            loader.exec_module(module)
        except BaseException as error:
            if self.is_told:
                recorder.leave("import", name, guarded(described, error) or "an error")
            raise
        if self.is_told:
            version = getattr(module, "__dict__", {}).get("__version__", "")
            recorder.leave("import", name, version if type(version) is str else "")
        if self.after:
            guarded(self.after, module, recorder)


class Phase:
    """``with flatline.phase("build model"):`` where flatline itself is not installed."""

    listener = None  # type: Any

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> "Phase":
        if Phase.listener is not None:
            Phase.listener(self.name, "enter")
        return self

    def __exit__(self, *_: "Any") -> None:
        if Phase.listener is not None:
            Phase.listener(self.name, "leave")


class Providing:
    """Last on sys.meta_path: gives ``import flatline`` where nobody else has it, and ``flatline.integrations``."""

    @classmethod
    def find_spec(cls, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "flatline":
            return None
        spec = type(sys.__spec__)(name, cls, origin="the recorder of flatline", is_package=True)
        root = os.path.abspath(__file__)
        for _ in ("start", "recorder", "collector", "the package, or the folder of its source"):
            root = os.path.dirname(root)
        spec.submodule_search_locations = [root, root + "/flatline"]
        return spec

    @staticmethod
    def create_module(spec: "Any") -> "Any":
        return None

    @staticmethod
    def exec_module(module: "Any") -> None:
        module.phase = Phase


def after_flatline(module: "Any", recorder: "Recorder") -> None:
    def listener(name: str, event: str) -> None:
        (recorder.enter if event == "enter" else recorder.leave)("phase", guarded(plain, name) or "")

    module.phase.listener = staticmethod(listener) if module.phase is Phase else listener


def after_threading(threading: "Any", recorder: "Recorder") -> None:
    """Errors that end a thread: nobody else may ever hear of them."""
    if hasattr(threading, "excepthook"):
        before = threading.excepthook

        def excepthook(args: "Any") -> None:
            if args.exc_type is not SystemExit:
                thread = args.thread if args.thread is not None else ""
                recorder.exception("thread-exception", args.exc_value, args.exc_traceback, thread)
            before(args)

        threading.excepthook = excepthook
    else:  # 3.7: this is called for nothing but such an error
        format_exc = threading._format_exc

        def told(*args: "Any", **kwargs: "Any") -> "Any":
            _, error, traceback = sys.exc_info()
            recorder.exception("thread-exception", error, traceback, threading.current_thread())
            return format_exc(*args, **kwargs)

        threading._format_exc = told
    if recorder.level == "debug":
        start = threading.Thread.start

        def starting(self: "Any") -> None:
            recorder.note_of("thread", guarded(thread_name, self))
            start(self)

        threading.Thread.start = like(starting, start)


def after_futures(module: "Any", recorder: "Recorder") -> None:
    """An error that a pool puts into a future is seen only by who asks for the result."""
    set_exception = module.Future.set_exception

    def told(self: "Any", exception: "Any") -> "Any":
        if exception is not None:
            recorder.exception("future-exception", exception)
        return set_exception(self, exception)

    module.Future.set_exception = like(told, set_exception)


def after_asyncio(module: "Any", recorder: "Recorder") -> None:
    call = module.BaseEventLoop.call_exception_handler

    def told(self: "Any", context: "Any") -> "Any":
        if type(context) is dict:
            recorder.note_of("asyncio", context.get("message", ""))
            if context.get("exception") is not None:
                recorder.exception("asyncio-exception", context["exception"])
        return call(self, context)

    module.BaseEventLoop.call_exception_handler = like(told, call)


def after_traceback(module: "Any", recorder: "Recorder") -> None:
    """Errors that somebody caught and only printed: multiprocessing those of its children, where a launcher may have
    swallowed what they print."""
    print_exc = module.print_exc

    def told(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            recorder.exception("printed-exception", sys.exc_info()[1])
        except RecursionError:  # even the call is one too many
            pass
        return print_exc(*args, **kwargs)

    module.print_exc = like(told, print_exc)


def after_logging(module: "Any", recorder: "Recorder") -> None:
    basic = module.basicConfig

    def told(*args: "Any", **kwargs: "Any") -> "Any":
        recorder.note("logging", "basicConfig")
        return basic(*args, **kwargs)

    module.basicConfig = phase_of(like(told, basic), "set up logging", recorder)
    opened = module.FileHandler.__init__

    def file_handler(self: "Any", filename: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        recorder.note_of("logging", filename, "FileHandler ")
        return opened(self, filename, *args, **kwargs)

    module.FileHandler.__init__ = like(file_handler, opened)


def is_compiling() -> bool:
    """Whether torch.compile reads the job's code instead of running it: then it reads what was there without us."""
    compiler = sys.modules.get("torch.compiler")
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


def phase_of(function: "Callable[..., Any]", name: str, recorder: "Recorder") -> "Any":
    """`function` as a phase of its own."""

    def told(*args: "Any", **kwargs: "Any") -> "Any":
        if is_compiling():
            return function(*args, **kwargs)
        recorder.enter("phase", name)
        try:
            return function(*args, **kwargs)
        finally:
            recorder.leave("phase", name)

    return like(told, function)


def once(owner: "Any", name: str, phase: str, recorder: "Recorder") -> None:
    """The first call of a function that is called in every step is a phase; then all is as it was."""
    function = getattr(owner, name)

    def told(*args: "Any", **kwargs: "Any") -> "Any":
        if getattr(owner, name) is not wrapper or is_compiling():  # who has kept it calls it for ever
            return function(*args, **kwargs)
        setattr(owner, name, function)
        recorder.enter("phase", phase)
        try:
            return function(*args, **kwargs)
        finally:
            recorder.leave("phase", phase)

    wrapper = like(told, function)
    setattr(owner, name, wrapper)


def after_phases(module: "Any", recorder: "Recorder") -> None:
    for path, phase in PHASES[module.__name__]:
        *owners, name = path.split(".")
        owner = getattr(module, owners[0], None) if owners else module
        function = getattr(owner, name, None)
        if function is not None:
            setattr(owner, name, phase_of(function, phase, recorder))


def after_dataloader(module: "Any", recorder: "Recorder") -> None:
    after_phases(module, recorder)
    once(module._BaseDataLoaderIter, "__next__", "first batch", recorder)


def after_optimizer(module: "Any", recorder: "Recorder") -> None:
    """From the first optimizer on until its first step has returned: the phase "first step"."""
    made = module.Optimizer.__init__

    def told(self: "Any", *args: "Any", **kwargs: "Any") -> None:
        made(self, *args, **kwargs)
        if module.Optimizer.__init__ is wrapper:
            module.Optimizer.__init__ = made
            guarded(first_step, type(self), recorder)

    wrapper = like(told, made)
    module.Optimizer.__init__ = wrapper


def first_step(optimizer: "Any", recorder: "Recorder") -> None:
    step = optimizer.step

    def told(*args: "Any", **kwargs: "Any") -> "Any":
        if optimizer.step is not wrapper or is_compiling():  # a scheduler of learning rates keeps it for ever
            return step(*args, **kwargs)
        try:
            return step(*args, **kwargs)
        finally:
            optimizer.step = step
            recorder.leave("phase", "first step")

    wrapper = like(told, step)
    optimizer.step = wrapper
    recorder.enter("phase", "first step")


def after_module(module: "Any", recorder: "Recorder") -> None:
    """Evaluation: from `eval()` of a model that was told to train before, until it is told to train again. What a
    framework has marked as one itself is not marked twice."""
    after_phases(module, recorder)
    train = module.Module.train
    root = []  # type: list[int]
    inside = []  # type: list[int]
    evaluated = []  # type: list[int]

    def told(self: "Any", mode: bool = True) -> "Any":
        if inside or is_compiling():  # it goes through all modules of the model
            return train(self, mode)
        if mode:
            root[:] = [id(self)]
            if evaluated:
                evaluated.clear()
                recorder.leave("phase", "evaluation")
        elif not evaluated and root == [id(self)] and not recorder.ring.open.get((b"phase", b"evaluation")):
            evaluated.append(1)  # by `eval()`, or by what a library has in its place
            recorder.enter("phase", "evaluation")
        inside.append(1)
        try:
            return train(self, mode)
        finally:
            inside.clear()

    module.Module.train = like(told, train)


def like(wrapper: "Any", wrapped: "Any") -> "Any":
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, name, getattr(wrapped, name, None))
    wrapper.__dict__.update(getattr(wrapped, "__dict__", {}))
    wrapper.__wrapped__ = wrapped
    return wrapper


AFTER = {
    "asyncio.base_events": after_asyncio,
    "concurrent.futures._base": after_futures,
    "flatline": after_flatline,
    "logging": after_logging,
    "threading": after_threading,
    "traceback": after_traceback,
    "torch.nn.modules.module": after_module,
    "torch.optim.optimizer": after_optimizer,
    "torch.utils.data.dataloader": after_dataloader,
}
PHASES = {  # what is called seldom, and can take its time
    "accelerate.accelerator": [
        ("Accelerator.prepare", "prepare"),
        ("Accelerator.save_state", "save state"),
        ("Accelerator.load_state", "load state"),
    ],
    "argparse": [("ArgumentParser.parse_known_args", "parse arguments")],
    "huggingface_hub._snapshot_download": [("snapshot_download", "download")],
    "huggingface_hub.file_download": [("hf_hub_download", "download")],
    "logging.config": [("dictConfig", "set up logging"), ("fileConfig", "set up logging")],
    "safetensors.torch": [("save_file", "save weights"), ("load_file", "load weights")],
    "torch._inductor.compile_fx": [("compile_fx", "compile")],
    "torch.distributed.distributed_c10d": [
        ("init_process_group", "init_process_group"),
        ("destroy_process_group", "destroy_process_group"),
    ],
    "torch.hub": [("download_url_to_file", "download")],
    "torch.nn.modules.module": [("Module.to", "model to device"), ("Module.cuda", "model to device")],
    "torch.serialization": [("save", "torch.save"), ("load", "torch.load")],
    "torch.utils.data.dataloader": [("DataLoader.__iter__", "start DataLoader")],
    "transformers.trainer": [
        ("Trainer.evaluate", "evaluation"),
        ("Trainer.predict", "evaluation"),
        ("Trainer._save_checkpoint", "save checkpoint"),
    ],
}
for _name in ("lightning.pytorch", "pytorch_lightning"):  # the same under two names
    PHASES[_name + ".loops.evaluation_loop"] = [("_EvaluationLoop.run", "evaluation")]
    PHASES[_name + ".trainer.trainer"] = [("Trainer.save_checkpoint", "save checkpoint")]
for _name in PHASES:
    AFTER.setdefault(_name, after_phases)


def hook_exceptions(recorder: "Recorder") -> None:
    before = sys.excepthook

    def excepthook(kind: "Any", error: "Any", traceback: "Any") -> None:
        recorder.exception("exception", error, traceback)
        before(kind, error, traceback)

    sys.excepthook = excepthook
    if hasattr(sys, "unraisablehook"):
        before_unraisable = sys.unraisablehook

        def unraisable(args: "Any") -> None:
            recorder.exception("unraisable", args.exc_value, args.exc_traceback)
            before_unraisable(args)

        sys.unraisablehook = unraisable


AUDITED = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork", "os.forkpty", "os.kill",
           "os.killpg", "signal.pthread_kill", "socket.connect", "socket.bind",
           "os.chdir"}  # fmt: skip


class Exit:
    """Stands for `os._exit`, and is like a function of C: as an attribute of a class it is not bound, and pickled it is
    a name. Children that fork, those of multiprocessing too, end by it: nothing registered with atexit runs there, and
    a server that forks for each request would fill the disk with rings."""

    __slots__ = ("end", "recorder")
    __class__ = property(lambda self: type(self.end))  # type: ignore

    def __init__(self, end: "Any", recorder: "Recorder") -> None:
        self.end, self.recorder = end, recorder

    def __call__(self, *args: "Any", **kwargs: "Any") -> "Any":
        try:
            self.recorder.ended("os._exit")
        except BaseException:  # the key on the terminal, right now: it ends all the same
            pass
        return self.end(*args, **kwargs)

    def __getattribute__(self, name: str) -> "Any":
        if name in ("end", "recorder"):
            return object.__getattribute__(self, name)
        if name in ("__class__", "__reduce_ex__", "__reduce__"):
            return object.__getattribute__(self, name)
        return getattr(self.end, name)

    def __repr__(self) -> str:
        return repr(self.end)

    def __reduce__(self) -> str:
        return self.end.__name__


def hook_exit(recorder: "Recorder") -> None:
    import posix

    end = os._exit
    told = Exit(end, recorder)
    for module in (os, posix):  # what pickles it looks in both
        if module._exit is end:
            module._exit = told  # type: ignore


def hook_audit(recorder: "Recorder") -> None:
    """At level debug: processes, threads, signals that are sent, connections. Every audit event costs a call."""

    def told(event: str, args: "Any") -> "Any":
        if event in AUDITED:
            shown = [guarded(plain, arg) or "" for arg in args[:3] if type(arg) in (str, int, list, tuple)]
            recorder.note_of(event, " ".join(shown))

    sys.addaudithook(told)


def hook_signals(recorder: "Recorder") -> None:
    """At level debug: signals that a handler of Python's gets. What `signal.getsignal` says stays the job's."""
    import signal

    set_handler, get_handler, given = signal.signal, signal.getsignal, {}

    def shown(handler: "Any") -> "Any":
        return given.get(handler, handler) if callable(handler) and not isinstance(handler, int) else handler

    def told(number: "Any", handler: "Any") -> "Any":
        if callable(handler) and not isinstance(handler, int) and handler is not signal.default_int_handler:

            def noting(signum: int, frame: "Any") -> "Any":
                recorder.note("signal", str(signum))
                return handler(signum, frame)

            given[noting] = handler
            return shown(set_handler(number, noting))
        return shown(set_handler(number, handler))

    signal.signal = like(told, set_handler)
    signal.getsignal = like(lambda number: shown(get_handler(number)), get_handler)


class Timer:
    """faulthandler's, at level debug: all stacks once nothing was marked for a while. It needs no lock of Python's, so
    it tells of code that never lets go of that one, too. It also prints late, when the job may long have closed the
    number that was given to it, and have a file of its own there. So its thread has a table of descriptors for itself.
    """

    def __init__(self, after_s: float) -> None:
        import _signal  # type: ignore
        import faulthandler

        self.after_s = after_s
        self.name_thread, self.syscall, self.open = map(c_function, ("prctl", "syscall", "open"))
        self.sigmask = _signal.pthread_sigmask
        self.signals = getattr(_signal, "valid_signals", lambda: set(range(1, 65)) - {32, 33})()
        self.set_dump, self.cancel = faulthandler.dump_traceback_later, faulthandler.cancel_dump_traceback_later
        # As they are now: gevent has others in their place, whose threads are none.
        self.start_thread, self.ident = _thread.start_new_thread, _thread.get_ident
        self.new_lock, self.sleep, self.all_of, self.until_true = _thread.allocate_lock, time.sleep, list, any
        self.begin()

    def begin(self) -> None:
        """In this process, where none of its threads is."""
        self.pid, self.due, self.busy = os.getpid(), 0, self.new_lock()

    def set(self, path: str, now: int) -> bool:
        """All stacks into that file, unless this is called again in time. Seldom: it takes two threads. False: never
        again.

        A thread shares the table of the one that starts it. So one is started that parts with the job's, opens the dump
        in its own, and starts faulthandler's. It runs no line of Python, only functions of C that keep Python's lock,
        make nothing that the collector of cycles counts, and are not interrupted by a signal: what is the job's would
        be closed, or written to, in the wrong table otherwise.
        """
        self.due = now + int(self.after_s * 1e8)
        if self.pid != os.getpid():  # a child that C code forked: faulthandler waits for a thread that is not there
            return False
        if not self.busy.acquire(False):
            return True
        try:
            keep_small(path)
            call, chain = itertools.starmap, itertools.chain
            until_one_fails = chain(  # what went well is 0, False or None
                call(self.ident().__eq__, zip(call(self.ident, [()]))),  # never in this thread
                itertools.islice(call(self.sigmask, [(0, self.signals)]), 1, None),  # SIG_BLOCK; its answer is not one
                call(self.name_thread, [(15, TIMER)]),  # PR_SET_NAME, of both
                call(self.syscall, [(CLOSE_RANGE, 0, 0xFFFFFFFF, CLOSE_RANGE_UNSHARE)]),
                call(self.open, [(os.fsencode(path), DUMP_FLAGS & ~os.O_CREAT)]),
                call(self.set_dump, [(self.after_s, False, 0)]),
            )
            in_order = chain(
                call(self.until_true, [(until_one_fails,)]),
                call(self.busy.release, [()]),
            )
            self.start_thread(self.all_of, (in_order,))
        except Exception:
            self.busy.release()
            raise
        if self.busy.acquire(True, 1.0):
            self.busy.release()
            return True
        return False

    def stop(self) -> bool:
        """Its threads are gone, and none is started until `go_on`. False: not in time."""
        if self.pid != os.getpid():
            return True
        if not self.busy.acquire(True, 1.0):
            return False
        self.cancel()
        for _ in range(500):
            if not are_there(TIMER):
                break
            self.sleep(0.001)
        return True

    def go_on(self) -> None:
        if self.pid == os.getpid():
            self.busy.release()


def are_there(name: bytes) -> bool:
    """Whether threads of this name, two at most, are all that there is beside one other: then Python warns of them."""
    tasks = os.listdir("/proc/self/task")
    if not 1 < len(tasks) <= 3:
        return False
    for task in tasks:
        try:
            with open("/proc/self/task/%s/comm" % task, "rb") as comm:
                if comm.read().rstrip() == name:
                    return True
        except OSError:  # it has just gone
            pass
    return False


def keep_small(path: str) -> None:
    """The dump is there, and not longer than it may be."""
    fd = os.open(path, DUMP_FLAGS, 0o600)
    try:
        if os.fstat(fd).st_size > MOST_DUMPED:
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def has_close_range() -> bool:
    """Linux 5.9; with a range that is none it does nothing but answer. Of old machines the number is another one."""
    import errno

    if sys.implementation.name != "cpython":
        return False
    if os.uname().machine not in ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "loongarch64"):
        return False
    ctypes = ctypes_module()
    refused = c_function("syscall", ctypes.FUNCFLAG_USE_ERRNO)(CLOSE_RANGE, 1, 0, CLOSE_RANGE_UNSHARE)
    return refused == -1 and ctypes.get_errno() == errno.EINVAL


def hook_dump(recorder: "Recorder", after_s: float) -> None:
    """A process has one such timer: when the job wants it, it is the job's. Its thread is not there while the job
    forks: Python 3.12 would warn of it, and some versions (3.13.0) look for threads only after the hooks, so a parent
    without other threads gets it back with its next mark."""
    import faulthandler

    if not guarded(has_close_range):
        recorder.note("no-dump", "the timer needs close_range(2), as Linux 5.9 has it, and ctypes")
        return
    recorder.timer = timer = Timer(after_s)

    def given_up(*args: "Any", **kwargs: "Any") -> "Any":
        ours, recorder.timer = recorder.timer, None
        if ours is not None:
            guarded(ours.stop)
        return timer.set_dump(*args, **kwargs)

    def pause() -> None:
        if recorder.timer is not None and not guarded(recorder.timer.stop):
            recorder.timer = None

    def resume() -> None:
        ours = recorder.timer
        if ours is not None:
            guarded(ours.go_on)
            ours.due = 0
            if sys.version_info < (3, 12) or len(guarded(os.listdir, "/proc/self/task") or "") > 1:
                guarded(recorder.set_timer, time.monotonic_ns())

    faulthandler.dump_traceback_later = like(given_up, timer.set_dump)
    os.register_at_fork(before=pause, after_in_parent=resume)
    guarded(recorder.set_timer, time.monotonic_ns())


def record() -> None:
    """Begin in this process. Returns nothing and raises nothing."""
    level = os.environ.get("FLATLINE_RECORDER", "light").strip().lower()
    if level in ("off", "0", "no", "false") or "_flatline_recorder" in sys.modules:
        return
    sys.modules["_flatline_recorder"] = sys.modules[__name__]
    recorder = Recorder("debug" if level == "debug" else "light")
    recorder.start("exec")
    here = os.path.dirname(__file__)
    if here in sys.path_importer_cache:  # nothing else lies there: it is not searched for each module
        sys.path_importer_cache[here] = None
    sys.meta_path.insert(0, Watching(recorder))
    sys.meta_path.append(Providing)
    for name, after in AFTER.items():  # an interpreter with a busy .pth has some of them already
        if name in sys.modules:
            guarded(after, sys.modules[name], recorder)
    hook_exceptions(recorder)
    if recorder.level == "debug":
        guarded(hook_signals, recorder)
        guarded(hook_audit, recorder)
        if wished_dump() > 0:
            guarded(hook_dump, recorder, wished_dump())
    atexit.register(recorder.ended)
    hook_exit(recorder)
    os.register_at_fork(
        before=lambda: recorder.note("fork", "with threads: " + (guarded(thread_names) or "unknown")),
        after_in_child=recorder.forked,
    )


def go_on() -> None:
    """The sitecustomize that would have been run without us; what it raises is site's to handle."""
    here = os.path.dirname(os.path.abspath(__file__))
    finder = sys.modules["_frozen_importlib_external"].PathFinder
    path = [p for p in sys.path if guarded(os.path.abspath, p or ".") != here]  # the current folder may be gone
    spec = finder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = type(sys)(spec.name)
    module.__spec__, module.__loader__ = spec, spec.loader
    module.__file__, module.__cached__, module.__package__ = spec.origin, getattr(spec, "cached", None), ""
    sys.modules["sitecustomize"] = module  # before it runs, as the import system does
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    guarded(record)
    go_on()
