"""Opens a bundle that may come from anywhere: every claim in the file is checked before it is believed.

Nothing is extracted to disk, nothing unpickled, no member executed; memory stays bounded by what is asked for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from flatline.errors import UnreadableBundleError

from . import container, records, strict_json, tables
from .container import DEFLATED, ENCRYPTED, STORED, ZLIB, Codec, ContainerError, Inflater, Member, Source
from .decode import DecodeError, decode
from .format import (
    BUNDLE_JSON,
    FORMAT,
    FORMAT_VERSION,
    MAJOR,
    MANIFEST,
    MAX_RATIO,
    MAX_UNPACKED,
    RATIO_FREE_MEMBER,
    RATIO_FREE_TOTAL,
    FileEntry,
    Manifest,
)
from .looks import what_it_looks_like
from .strict_json import JsonError
from .tables import Decode, LoadedTables
from .walk import walk

MAX_JSON = 32 * 1024**2
"""A JSON member is parsed in one piece, and a byte of it can cost twenty-five of memory."""
MAX_LINE = 64 * 1024
MAX_LEDGER = 1000
_RESEND = "copy the bundle again (compare the sizes), or collect once more: flatline collect --pid PID"


def open_bundle(path: str | os.PathLike[str]) -> BundleReader:
    """The bundle at `path`; a truncated one is opened as far as it goes, with a note. Close it, or use it in a `with`.

    UnreadableBundleError says what the file is, or which claim of it is refused.
    """
    path = Path(path)
    file = _open_regular(path)
    try:
        return BundleReader(path, file)
    except BaseException as error:
        file.close()
        if isinstance(error, OSError):
            raise UnreadableBundleError(f"{path} cannot be read: {error.strerror}", next_step=_RESEND) from None
        if isinstance(error, ContainerError):
            why = ("it was damaged on the way", "it was not written by flatline")
            raise UnreadableBundleError(f"{path.name} is refused: {error}", why=why, next_step=_RESEND) from None
        raise


class BundleReader:
    """An open bundle. `notes` tell what was wrong with the container; `names` are its members in their order.

    `truncated`: the central directory is missing, and what is here was found by walking the file.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.notes: list[str] = []
        self.truncated = False
        self._source = Source(file)
        self._members = {member.name: member for member in self._find_members()}
        self.names: tuple[str, ...] = tuple(self._members)
        self._check_format()
        self.manifest: Manifest = self._read_manifest()

    def close(self) -> None:
        """Close the file; reading ends."""
        self._source.file.close()

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def member(self, name: str) -> Member:
        """What the container says about a member: sizes, and whether it is cut off. UnreadableBundleError: no such."""
        if name not in self._members:
            raise UnreadableBundleError(
                f"{self.path.name} has no member {name!r}", next_step=f"flatline show {self.path} lists them"
            )
        return self._members[name]

    def read(self, name: str, limit: int | None = None) -> bytes:
        """The member's bytes, at most `limit`. UnreadableBundleError when they are not what the headers promise."""
        pieces, size = [], 0
        for piece in self.pieces(name):
            pieces.append(piece)
            size += len(piece)
            if limit is not None and size >= limit:
                break
        return b"".join(pieces)[:limit]

    def pieces(self, name: str, codec: Codec = ZLIB) -> Iterator[bytes]:
        """The member's data; stops at the declared size and says so when there would be more, or less."""
        member = self.member(name)
        stream = Inflater(self._source, member.method, member.data_at, member.data_at + member.packed, codec)
        size = crc = 0
        for piece in self._readable(stream):
            size += len(piece)
            if size > member.size:
                raise self._refusal(f"is refused: {member.name!r} holds more than the {member.size} bytes it declares")
            crc = codec.crc32(piece, crc)
            yield piece
        if member.partial:
            return
        if not stream.finished or stream.consumed != member.packed or size != member.size:
            raise self._refusal(f"is refused: {member.name!r} is not the {member.size} bytes it declares")
        if crc != member.crc:
            raise self._refusal(f"is refused: the checksum of {member.name!r} differs")

    def _json_text(self, name: str) -> str:
        if self.member(name).size > MAX_JSON:
            raise UnreadableBundleError(f"{name} is larger than the {MAX_JSON} bytes a JSON member may have")
        return self.text(name)

    def _readable(self, stream: Inflater) -> Iterator[bytes]:
        try:
            yield from stream
        except OSError as error:
            raise self._refusal(f"cannot be read: {error.strerror}", "the disk or the mount it is on fails") from None

    def text(self, name: str, limit: int | None = None) -> str:
        """The member as text (of its first `limit` bytes); bytes that are no UTF-8 become U+FFFD."""
        return self.read(name, limit).decode("utf-8", "replace")

    def lines(self, name: str) -> Iterator[str]:
        """The member's lines without their ends. Only "\\n" ends a line; one over 64 KiB comes in pieces."""
        rest = b""
        for piece in self.pieces(name):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield from _split_long(line)
            while len(rest) > MAX_LINE:
                yield rest[:MAX_LINE].decode("utf-8", "replace")
                rest = rest[MAX_LINE:]
        if rest:
            yield rest.decode("utf-8", "replace")

    def json(self, name: str) -> Any:
        """The member as parsed JSON; UnreadableBundleError when it is broken, or no JSON that we accept."""
        try:
            return strict_json.loads(self._json_text(name))
        except JsonError as error:
            raise UnreadableBundleError(f"{name} {error}", next_step=_RESEND) from None

    def tables(self, decode: Decode = decode) -> LoadedTables:
        """The typed facts of all members. `decode` makes a row out of a JSON object."""
        return tables.load(self, decode)

    # --- opening ---

    def _find_members(self) -> list[Member]:
        if self._source.size == 0:
            raise self._refusal("is empty", "the disk was full when it was written", "it was not copied to its end")
        end = container.find_end(self._source)
        if end is not None:
            members = container.read_directory(self._source, end)
            _check_no_overlap(members, end.directory_at)
        elif self._source.at(0, 4) == container.LOCAL_MAGIC:
            members = self._walk()
        else:
            looks = what_it_looks_like(self._source.at(0, 4096))
            raise self._refusal(f"is no zip; it looks like {looks}", "it is another file than the one collect named")
        members = [member for member in members if not _is_folder(member)]
        _check_members(members)
        return members

    def _walk(self) -> list[Member]:
        self.truncated = True
        found = walk(self._source)
        self.notes += ["the zip is truncated: its central directory is missing; read as far as it goes", *found.notes]
        return found.members

    def _check_format(self) -> None:
        name = BUNDLE_JSON if BUNDLE_JSON in self._members else MANIFEST
        if name not in self._members:
            some = ", ".join(self.names[:3]) or "nothing"
            raise self._refusal(f"is a zip, but no flatline bundle: it has no {BUNDLE_JSON} (it holds {some} …)")
        head = self.json(name)
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise self._refusal(f"is a zip, but no flatline bundle: {name} does not say so")
        version = str(head.get("format_version"))[:40]
        major = version.partition(".")[0]
        if not (major.isascii() and major.isdigit() and len(major) < 9):
            raise self._refusal(f"has no format version that can be read ({version!r})")
        if int(major) > MAJOR:
            raise UnreadableBundleError(
                f"{self.path.name} has the bundle format {version}; this flatline reads {FORMAT_VERSION[0]}.x",
                why=("it was collected by a newer flatline",),
                next_step="pip install --upgrade flatline",
            )

    def _read_manifest(self) -> Manifest:
        if MANIFEST in self._members and not self._members[MANIFEST].partial:
            try:
                return decode(Manifest, records.parse_object(self._json_text(MANIFEST)))
            except (JsonError, DecodeError, UnreadableBundleError) as error:
                self.notes.append(f"{MANIFEST} {error}; what it would say was taken from the other members")
        else:
            self.notes.append(f"{MANIFEST} is missing; what it would say was taken from the other members")
        names = [name for name in self.names if name.startswith("ledger/")][:MAX_LEDGER]
        texts = {name: self.text(name, MAX_LINE) for name in names}
        ledger, notes = records.ledger_of(texts)
        self.notes += notes
        head = self.text(BUNDLE_JSON, MAX_LINE) if BUNDLE_JSON in self._members else ""
        files = [FileEntry(path=member.name, sha256="", bytes=member.size) for member in self._members.values()]
        marked = "UNREDACTED" in self.path.name
        return records.rebuilt_manifest(head, ledger, files, unredacted=marked, ended_by="unknown")

    def _refusal(self, what: str, *why: str) -> UnreadableBundleError:
        return UnreadableBundleError(f"{self.path.name} {what}", why=why, next_step=_RESEND)


def _split_long(line: bytes) -> Iterator[str]:
    for at in range(0, max(len(line), 1), MAX_LINE):
        yield line[at : at + MAX_LINE].decode("utf-8", "replace")


# --- checks of the container ---


def _check_members(members: Sequence[Member]) -> None:
    """ContainerError for the first thing that no honest bundle has."""
    seen: set[str] = set()
    for member in members:
        reason = container.unsafe_reason(member.name) or _odd_reason(member)
        if reason:
            raise ContainerError(f"member {member.name[:200]!r} has {reason}")
        key = container.name_key(member.name)
        if key in seen:
            raise ContainerError(f"member {member.name[:200]!r} is there twice")
        seen.add(key)
        if container.exceeds_ratio(member.size, member.packed, free=RATIO_FREE_MEMBER, ratio=MAX_RATIO):
            raise ContainerError(f"member {member.name!r} unpacks {member.packed} bytes to {member.size}: a bomb")
    unpacked, packed = sum(m.size for m in members), sum(m.packed for m in members)
    if unpacked > MAX_UNPACKED:
        raise ContainerError(f"it unpacks to {unpacked} bytes; a bundle has at most {MAX_UNPACKED}")
    if container.exceeds_ratio(unpacked, packed, free=RATIO_FREE_TOTAL, ratio=MAX_RATIO):
        raise ContainerError(f"it unpacks {packed} bytes to {unpacked}: a bomb")


def _odd_reason(member: Member) -> str:
    if member.flags & ENCRYPTED:
        return "encrypted data, which a bundle never has"
    if member.method not in (STORED, DEFLATED):
        return f"the unknown compression method {member.method}"
    kind = stat.S_IFMT(member.attributes >> 16)
    if stat.S_ISLNK(kind):
        return "the type of a link"
    if kind not in (0, stat.S_IFREG):
        return "the type of something other than a file"
    if member.method == STORED and member.packed != member.size:
        return "two sizes, though it is not compressed"
    return ""


def _is_folder(member: Member) -> bool:
    """An entry that only names a folder, as zip programs write when a person packs a bundle again."""
    named = member.name.endswith("/") and member.size == 0
    return named and not container.unsafe_reason(member.name) and not stat.S_ISLNK(member.attributes >> 16)


def _check_no_overlap(members: Sequence[Member], stop: int) -> None:
    ordered = sorted(members, key=lambda member: member.offset)
    ends = [*(member.offset for member in ordered[1:]), stop]
    for member, end in zip(ordered, ends):
        if member.data_at + member.packed > end:
            raise ContainerError(f"member {member.name[:200]!r} overlaps what follows it")


def with_a_name(path: Path) -> Path:
    """`path`, which names a file that another can lie beside. UnreadableBundleError: ``.`` and ``/`` do not."""
    if not path.name:
        raise _refused(path, "a folder")
    return path


def _refused(path: Path, kind: str) -> UnreadableBundleError:
    return UnreadableBundleError(f"{path} is {kind}", next_step="name the .flatline.zip itself")


def _open_regular(path: Path) -> BinaryIO:
    """The file, without waiting for a FIFO's writer and without touching a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise UnreadableBundleError(
            f"{path} cannot be opened: {error.strerror}", next_step="check the path, and who may read it"
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refused(path, "a folder" if path.is_dir() else "no regular file")
    return open(descriptor, "rb")
