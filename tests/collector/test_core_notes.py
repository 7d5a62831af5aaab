"""The notes of a core dump are read within bounds, whatever the file is."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from flatline.collector.files import core_notes
from flatline.collector.files.core_notes import CoreNotes


def note(kind: int, content: bytes) -> bytes:
    return struct.pack("<III", 5, len(content), kind) + b"CORE\0\0\0\0" + content + b"\0" * (-len(content) % 4)


def core(*notes: bytes) -> bytes:
    """A core dump of one PT_NOTE segment."""
    raw = b"".join(notes)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(raw), 0, 4) + raw


PSINFO = struct.pack("<bcbb4xQIIiiii16s80s", 0, b"R", 0, 0, 0, 1000, 1000, 42, 7, 42, 42, b"python", b"python train.py ")
FILES = struct.pack("<QQQQQ", 1, 4096, 0, 1, 0) + b"/opt/bin/python3.11\0"
DUMP = core(
    note(1, struct.pack("<iiih2xQQi", 11, 0, 0, 11, 0, 0, 42) + bytes(300)),
    note(3, PSINFO),
    note(0x46494C45, FILES),
    note(1, struct.pack("<iiih2xQQi", 0, 0, 0, 0, 0, 0, 43) + bytes(300)),
)


@pytest.fixture
def read(tmp_path: Path):
    def one(content: bytes) -> CoreNotes | str:
        (tmp_path / "core").write_bytes(content)
        return core_notes.read(str(tmp_path / "core"))

    return one


def test_the_notes_name_the_process_its_end_and_its_threads(read) -> None:
    expected = CoreNotes(42, 7, 1000, "python", "python train.py", 11, (42, 43), "/opt/bin/python3.11")
    assert read(DUMP) == expected


def test_what_is_no_core_dump_says_so(read) -> None:
    assert "no ELF file" in read(b"\x28\xb5\x2f\xfd compressed")
    assert "no core dump" in read(Path("/proc/self/exe").read_bytes()[:4096])
    assert "another kind of machine" in read(b"\x7fELF\x01\x01" + bytes(100))


@pytest.mark.parametrize("length", [0, 4, 63, 64, 100, 119, 120, 130, 200, len(DUMP) - 1])
def test_a_cut_one_never_raises(read, length: int) -> None:
    assert isinstance(read(DUMP[:length]), (CoreNotes, str))


def test_numbers_that_lie_never_raise(read) -> None:
    chance = random.Random(7)
    for _ in range(400):
        broken = bytearray(DUMP)
        for _ in range(chance.randrange(1, 12)):
            broken[chance.randrange(16, len(broken))] = chance.randrange(256)
        assert isinstance(read(bytes(broken)), (CoreNotes, str))
