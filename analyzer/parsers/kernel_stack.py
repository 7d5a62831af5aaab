"""/proc/PID/stack: the kernel's own stack of a task, with or without the command that printed it.

    # cat /proc/812/stack
    [<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]

What ``uniq -c`` made of the stacks of many tasks is read as one. Before the stack wchan may
stand on the same line, as it ends without a line break.
"""

from __future__ import annotations

import re

from flatline.bundle.facts import KERNEL_SAMPLE, Frame, Process, Thread, process_id, thread_id
from flatline.texts.kernel_stacks import frame_of

from .interface import HOST, NO_PID, Lines, Parsed, Parser

_MARK = r"\[<[0-9a-fA-F]{1,16}>\] [\w.]{1,200}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}"
_FILE = r"/proc/(?P<pid>\d{1,10}|self)/(?:task/(?P<tid>\d{1,10})/)?stack\b"
_PROMPT = re.compile(
    rf"(?:(?:.{{0,80}}[#$%>] )?(?:sudo )?(?:cat|head|tail|more|less|grep)\b.{{0,40}} |==> |){_FILE}(?::| <==)?$"
)
_COUNTED = r"(?:\d{1,6} {1,3})?"
"""What uniq -c puts before a line."""
_FIRST = re.compile(rf"{_COUNTED}(?P<wchan>[A-Za-z_][\w.]{{0,100}})?(?P<frame>{_MARK}.{{0,80}})$")
_END = re.compile(r"\[<f{8,16}>\] 0xf{8,16}$")
_BEGINS = re.compile(
    rf"{_COUNTED}(?:[A-Za-z_][\w.]{{0,100}})?{_MARK}|.{{0,120}}/proc/\d{{1,10}}/(?:task/\d{{1,10}}/)?stack\b"
)
_NEVER_RETURNS = frozenset({"kthread", "ret_from_fork"})


def parse(lines: Lines, start: int) -> Parsed | None:
    """One task's stack."""
    prompt = _PROMPT.match(lines[start].bare)
    at = start + 1 if prompt else start
    while at < min(start + 5, len(lines)) and not lines[at].bare:
        at += 1
    frames: list[Frame] = []
    wchan: str | None = None
    end = start
    for index in range(at, len(lines)):
        found = _FIRST.match(lines[index].bare)
        frame = frame_of(found["frame"]) if found else None
        if found is None or frame is None or (found["wchan"] and frames):
            if _END.match(lines[index].bare) and frames:
                end = index + 1
            break
        wchan = wchan or found["wchan"]
        frames.append(Frame("", KERNEL_SAMPLE, len(frames), frame.function, module=frame.module, kind="kernel",
                            is_user=False, line=lines[index].number))  # fmt: skip
        end = index + 1
    if not frames:
        return None
    return _parsed(lines, start, end, prompt, frames, wchan)


def _parsed(
    lines: Lines, start: int, end: int, prompt: re.Match[str] | None, frames: list[Frame], wchan: str | None
) -> Parsed:
    pid, tid = _whose(prompt)
    identity = thread_id(pid, tid or 1, HOST)
    is_kernel_thread = any(frame.function in _NEVER_RETURNS for frame in frames[-2:])
    process = Process(process_id(pid, HOST), HOST, pid, is_python=False if is_kernel_thread else None,
                      rank=lines[start].rank, line=lines[start].number)  # fmt: skip
    thread = Thread(identity, process.id, pid, tid or 1, is_main=tid == pid, rank=lines[start].rank,
                    wchan=wchan or frames[0].function, line=lines[start].number)  # fmt: skip
    rows = tuple(Frame(**{**vars(frame), "thread": identity}) for frame in frames)
    whose = f"task {tid} of pid {pid}" if pid != NO_PID and tid != pid else f"pid {pid}" if pid != NO_PID else "a task"
    return Parsed(end, (process, thread, *rows), about=f"the kernel's stack of {whose}")


def _whose(prompt: re.Match[str] | None) -> tuple[int, int]:
    groups = prompt.groupdict() if prompt else {}
    pid = groups.get("pid") or ""
    tid = groups.get("tid") or pid
    return (int(pid), int(tid)) if pid.isdigit() and tid.isdigit() else (NO_PID, NO_PID)


PARSERS = (Parser("kernel-stack", _BEGINS, parse),)
