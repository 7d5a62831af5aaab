"""Finds the members of a file that has no central directory: a spool whose writer was killed, a truncated zip.

The local headers are followed one by one. A stream ends where deflate says it ends, whatever the header promises.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace

from . import container
from .container import DESCRIPTOR, ENCRYPTED, STORED, ContainerError, Inflater, Member, Source
from .format import MAX_MEMBERS, MAX_RATIO, MAX_UNPACKED, RATIO_FREE_TOTAL


@dataclass
class Walked:
    """The members found, in order, and what was odd about them."""

    members: list[Member] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reached_directory: bool = False
    """All members were there; only the central directory is damaged."""


def walk(source: Source) -> Walked:
    """Every member that is whole, and the beginning of the last one if that is cut off (`Member.partial`).

    ContainerError when the file is beyond the limits of a bundle.
    """
    found = Walked()
    at = unpacked = packed = 0
    while True:
        header = container.parse_local(source, at)
        if header is None:
            break
        if len(found.members) >= MAX_MEMBERS:
            raise ContainerError(f"it has more than {MAX_MEMBERS} members")
        if header.flags & ENCRYPTED or header.method not in (STORED, container.DEFLATED):
            found.notes.append(f"{header.name!r} is encrypted or packed in an unknown way; reading stopped there")
            return found
        member, whole, intact = _measure(source, header, MAX_UNPACKED - unpacked)
        unpacked, packed = unpacked + member.size, packed + member.packed
        if container.exceeds_ratio(unpacked, packed, free=RATIO_FREE_TOTAL, ratio=MAX_RATIO):
            raise ContainerError("it unpacks to far more than honest text does: a decompression bomb")
        if not whole:
            found.members += [member] if member.size else []
            found.notes.append(f"{header.name!r} is cut off after {member.size} bytes")
            return found
        if intact:
            found.members.append(member)
        else:
            found.notes.append(f"{header.name!r} is damaged (its checksum differs) and was left out")
        at = _skip_descriptor(source, member)
    _note_the_end(source, at, found)
    return found


def _measure(source: Source, header: Member, allowed: int) -> tuple[Member, bool, bool]:
    """(the member with true sizes, whether its stream is whole, whether its checksum is right)."""
    announced = header.data_at + header.packed
    stop = min(announced, source.size) if header.method == STORED else source.size
    stream = Inflater(source, header.method, header.data_at, stop)
    size = crc = 0
    for piece in stream:
        size += len(piece)
        crc = zlib.crc32(piece, crc)
        if size > allowed:
            raise ContainerError(f"it unpacks to more than {MAX_UNPACKED} bytes")
    whole = stream.finished and (header.method != STORED or announced <= source.size)
    unsigned = bool(header.flags & DESCRIPTOR)
    intact = unsigned or crc == header.crc
    member = replace(header, packed=stream.consumed, size=size, crc=crc, partial=not whole, expected=header.size)
    return member, whole, intact


def _skip_descriptor(source: Source, member: Member) -> int:
    """Where the next header begins: other programs write the sizes behind the data, with or without a signature."""
    end = member.data_at + member.packed
    if not member.flags & DESCRIPTOR:
        return end
    for length in (16, 24, 12, 20):
        if source.at(end + length, 2) == b"PK":
            return end + length
    return end


def _note_the_end(source: Source, at: int, found: Walked) -> None:
    rest = source.at(at, 4)
    if rest == container.CENTRAL_MAGIC:
        found.reached_directory = True
    elif rest:
        found.notes.append(f"{source.size - at} bytes from byte {at} on are no member and were left out")
