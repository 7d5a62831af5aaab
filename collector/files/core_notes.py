"""What a core dump says of its process without any debugger: the notes the kernel wrote into it (core(5), elf(5)).

Reads headers and notes only, bounded; every number in them may be a lie. 64-bit little-endian cores, which are all that
training jobs leave.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..linux import unnoticed

MOST_HEADERS = 4096
MOST_NOTES = 1 << 20
"""Bytes of notes that are read: one thread needs 4 KiB."""
_PT_NOTE, _ET_CORE = 4, 4
_NT_PRSTATUS, _NT_PRPSINFO, _NT_FILE = 1, 3, 0x46494C45
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III")
_STATUS = struct.Struct("<iiih2xQQi")
"""Beginning of elf_prstatus: si_signo, si_code, si_errno, cursig, sigpend, sighold, pid."""
_PSINFO = struct.Struct("<bcbb4xQIIiiii16s80s")
"""elf_prpsinfo: state, sname, zombie, nice, flag, uid, gid, pid, ppid, pgrp, sid, fname, psargs."""


@dataclass(frozen=True)
class CoreNotes:
    """The process as it was when it was dumped."""

    pid: int | None = None
    ppid: int | None = None
    uid: int | None = None
    name: str = ""
    command: str = ""
    """The beginning of its command line, at most 80 bytes."""
    signal: int | None = None
    """What ended it; 0 where it was dumped alive (gcore)."""
    tids: tuple[int, ...] = ()
    exe: str = ""
    """The first file it had mapped: its program."""


def read(path: str) -> CoreNotes | str:
    """The notes, or why they say nothing. OSError when the file cannot be read."""
    descriptor = unnoticed.open_path(path)
    try:
        return _notes_of(descriptor)
    except (struct.error, OverflowError):
        return "its headers end early or lie: the dump was cut"
    finally:
        os.close(descriptor)


def _notes_of(descriptor: int) -> CoreNotes | str:
    raw = os.pread(descriptor, _HEADER.size, 0)
    if not raw.startswith(b"\x7fELF"):
        return "it is no ELF file: compressed, or no core dump"
    if raw[4:6] != b"\x02\x01":
        return "it is a core dump of another kind of machine (not 64-bit little-endian)"
    _, kind, _, _, _, offset, _, _, _, size, count, *_ = _HEADER.unpack(raw)
    if kind != _ET_CORE or size != _PROGRAM.size:
        return "it is an ELF file, but no core dump"
    count = min(count, MOST_HEADERS)
    headers = os.pread(descriptor, count * size, offset)
    found, left = CoreNotes(), MOST_NOTES
    for number in range(len(headers) // size):
        header = _PROGRAM.unpack_from(headers, number * size)
        if header[0] == _PT_NOTE and left > 0:
            raw = os.pread(descriptor, min(header[5], left), header[2])
            left -= len(raw)
            found = _taken(found, raw)
    return found if found.pid is not None or found.tids else "it holds no note of the kernel: the dump was cut"


def _taken(found: CoreNotes, raw: bytes) -> CoreNotes:
    for kind, note in _each(raw):
        if kind == _NT_PRPSINFO and len(note) >= _PSINFO.size:
            fields = _PSINFO.unpack_from(note)
            uid, pid, ppid, name, command = fields[5], fields[7], fields[8], fields[11], fields[12]
            found = replace(found, uid=uid, pid=pid, ppid=ppid, name=_text(name), command=_text(command))
        elif kind == _NT_PRSTATUS and len(note) >= _STATUS.size:
            signo, _, _, current, _, _, tid = _STATUS.unpack_from(note)
            # The thread that was ended comes first.
            signal = found.signal if found.tids else current or signo
            found = replace(found, signal=signal, tids=(*found.tids, tid))
        elif kind == _NT_FILE and not found.exe:
            found = replace(found, exe=_first_file(note))
    return found


def _each(raw: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + _NOTE.size <= len(raw):
        name_size, size, kind = _NOTE.unpack_from(raw, place)
        begin = place + _NOTE.size + _aligned(name_size)
        yield kind, raw[begin : begin + size]
        place = begin + _aligned(size)


def _aligned(size: int) -> int:
    return (size + 3) & ~3


def _first_file(note: bytes) -> str:
    """NT_FILE: count, page size, count times (start, end, offset), then the names."""
    if len(note) < 16:
        return ""
    count = struct.unpack_from("<Q", note)[0]
    return _text(note[16 + 24 * count :][:4096]) if count < len(note) else ""


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace").strip()
