"""What a hostile or damaged file may claim, and that each claim is refused with its reason."""

from __future__ import annotations

import json
import os
import random
import struct
import tracemalloc
import zipfile

import pytest
from bundle_bytes import GOLDEN, HEAD, Raw, raw_zip

from flatline.bundle.format import BUNDLE_JSON, MAX_MEMBERS
from flatline.bundle.reader import open_bundle
from flatline.errors import EXIT_UNREADABLE, UnreadableBundleError

REFUSED = {
    "absolute path": ([Raw("/etc/passwd")], "an absolute path"),
    "parent folder": ([Raw("logs/../../x")], "a '.', '..' or empty step"),
    "parent folder at the end": ([Raw("logs/..")], "a '.', '..' or empty step"),
    "dot": ([Raw("./logs")], "a '.', '..' or empty step"),
    "empty step": ([Raw("logs//x")], "a '.', '..' or empty step"),
    "backslash": ([Raw("logs\\x")], "a backslash"),
    "drive letter": ([Raw("C:evil")], "a drive letter"),
    "escape sequence": ([Raw("logs/\x1b[2J")], "control characters"),
    "zero byte": ([Raw("logs/a\0b")], "control characters"),
    "no name": ([Raw("")], "an empty or very long name"),
    "long name": ([Raw("a" * 5000)], "an empty or very long name"),
    "symbolic link": ([Raw("logs/link", b"/etc/shadow", mode=0o120777)], "the type of a link"),
    "symbolic link that poses as a folder": ([Raw("logs/", b"", mode=0o120777)], "the type of a link"),
    "fifo": ([Raw("logs/fifo", mode=0o010600)], "something other than a file"),
    "duplicate": ([Raw("a"), Raw("a")], "is there twice"),
    "duplicate but for case": ([Raw("logs/A.txt"), Raw("logs/a.TXT")], "is there twice"),
    "duplicate but for normalisation": ([Raw("caf\u00e9"), Raw("cafe\u0301")], "is there twice"),
    "second bundle.json": ([Raw(BUNDLE_JSON, b"{}")], "is there twice"),
    "bytes of another": ([Raw("a"), Raw("c", offset=0)], "contradict each other"),
    "encrypted": ([Raw("a", flags=0x801)], "encrypted"),
    "unknown compression": ([Raw("a", method=12)], "the unknown compression method 12"),
    "stored with two sizes": ([Raw("a", b"abc", size=2)], "two sizes"),
    "two names": ([Raw("logs/a", local_name="logs/b")], "contradict each other"),
    "offset into nowhere": ([Raw("a", offset=7)], "is not where the central directory says"),
    "data beyond the directory": ([Raw("a", b"abc", packed=10**6, size=10**6)], "overlaps"),
    "claimed bomb": ([Raw("a", b"abc", method=8, size=2**31)], "a bomb"),
    "real bomb": ([Raw("a", bytes(70 * 1024**2), method=8)], "a bomb"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_with_its_reason(kind, tmp_path):
    members, reason = REFUSED[kind]
    path = tmp_path / "evil.flatline.zip"
    path.write_bytes(raw_zip(*members))
    with pytest.raises(UnreadableBundleError, match=reason) as caught:
        open_bundle(path)
    assert caught.value.exit_code == EXIT_UNREADABLE
    assert caught.value.next_step


def test_members_that_share_bytes_are_refused(tmp_path):
    """A member hidden in the data of another: both headers are in order, but their bytes overlap."""
    inner = Raw("inner", b"hidden")
    outer = Raw("outer", inner.local() + b"....")
    body = Raw(BUNDLE_JSON, HEAD).local()
    at_inner = len(body) + len(outer.local()) - len(outer.data)
    directory = Raw(BUNDLE_JSON, HEAD).central(0) + outer.central(len(body)) + inner.central(at_inner)
    body += outer.local()
    path = tmp_path / "overlap.zip"
    path.write_bytes(body + directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 3, 3, len(directory), len(body), 0))
    with pytest.raises(UnreadableBundleError, match="overlaps"):
        open_bundle(path)


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (Raw("a", b"abcdef", method=8, size=3), "holds more than the 3 bytes it declares"),
        (Raw("a", b"abcdef", method=8, size=9), "is not the 9 bytes it declares"),
        (Raw("a", b"abcdef", method=8, crc=1), "the checksum"),
        (Raw("a", b"abcdef", crc=1), "the checksum"),
        (Raw("a", b"abcdef" * 99, method=8, packed=5), "is not the 594 bytes it declares"),
    ],
)
def test_a_lie_about_size_or_checksum_is_refused_when_the_member_is_read(member, reason, tmp_path):
    path = tmp_path / "lie.zip"
    path.write_bytes(raw_zip(member))
    with open_bundle(path) as reader, pytest.raises(UnreadableBundleError, match=reason):
        reader.read("a")


def test_reading_stops_at_the_declared_size_whatever_the_stream_would_give(tmp_path):
    path = tmp_path / "more.zip"
    path.write_bytes(raw_zip(Raw("a", bytes(60 * 1024**2), method=8, size=1000)))
    with open_bundle(path) as reader:
        tracemalloc.start()
        with pytest.raises(UnreadableBundleError, match="holds more"):
            reader.read("a")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * 1024**2


def test_one_repeated_log_line_is_no_bomb(tmp_path):
    path = tmp_path / "log.zip"
    path.write_bytes(raw_zip(Raw("logs/a", bytes(20 * 1024**2), method=8)))
    with open_bundle(path) as reader:
        assert len(reader.read("logs/a")) == 20 * 1024**2


def test_many_members_that_are_a_bomb_together_are_refused(tmp_path):
    member = bytes(60 * 1024**2)
    path = tmp_path / "many.zip"
    path.write_bytes(raw_zip(*(Raw(f"a{n}", member, method=8) for n in range(5))))
    with pytest.raises(UnreadableBundleError, match="a bomb"):
        open_bundle(path)


def test_more_than_two_gigabytes_are_refused(tmp_path):
    member = Raw("a", b"", size=2**31 + 1, packed=2**31 + 1, crc=0)
    path = tmp_path / "large.zip"
    body = Raw(BUNDLE_JSON, HEAD).local()
    directory = Raw(BUNDLE_JSON, HEAD).central(0) + member.central(len(body))
    with open(path, "wb") as file:
        file.write(body + member.local())
        file.truncate(file.tell() + 2**31 + 1)  # a hole: takes no room on the disk
        at = file.seek(0, 2)
        file.write(directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(directory), at, 0))
    with pytest.raises(UnreadableBundleError, match=r"unpacks to 21\d+ bytes; a bundle has at most"):
        open_bundle(path)


def test_too_many_members_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "crowd.zip"
    with zipfile.ZipFile(path, "w") as out:
        for number in range(MAX_MEMBERS + 1):
            out.writestr(f"a/{number}", b"")
    with pytest.raises(UnreadableBundleError, match="it has 10001 members"):
        open_bundle(path)


def test_a_part_of_a_split_zip_is_refused(tmp_path):
    path = tmp_path / "part.zip"
    path.write_bytes(raw_zip(disk=1))
    with pytest.raises(UnreadableBundleError, match="spans several files"):
        open_bundle(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (bytes(5000), "zeros"),
        (b"\x1f\x8b\x08" + b"x" * 50, "gzip"),
        (b"<!DOCTYPE html><title>Log in", "a web page"),
        (b'{"a": 1}', "JSON"),
        (b"Traceback (most recent call last):\n", "text"),
        (b"\x7fELF\2\1\1", "ELF"),
        (b"x" * 257 + b"ustar\x0000", "tar"),
        (b"\x80\x04\x95", "pickle"),
    ],
)
def test_another_file_is_named_for_what_it_looks_like(content, words, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UnreadableBundleError, match=words):
        open_bundle(path)


def test_another_zip_is_told_from_a_bundle(tmp_path):
    path = tmp_path / "wheel.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("numpy/__init__.py", "")
    with pytest.raises(UnreadableBundleError, match=r"no flatline bundle: it has no bundle.json \(it holds numpy/"):
        open_bundle(path)


def test_a_newer_major_version_is_refused_and_says_what_to_do(write):
    bundle = write(head=HEAD.replace(b"1.0", b"2.0"))
    with pytest.raises(UnreadableBundleError, match=r"format 2\.0; this flatline reads 1\.x") as caught:
        open_bundle(bundle)
    assert "upgrade" in caught.value.next_step


@pytest.mark.parametrize("version", ["one", "", "²", "9" * 30, None, []])
def test_a_version_that_is_none_is_refused(version, write):
    bundle = write(head=json.dumps({"format": "flatline-bundle", "format_version": version}).encode())
    with pytest.raises(UnreadableBundleError, match="no format version"):
        open_bundle(bundle)


def test_a_newer_minor_version_is_read(write):
    with open_bundle(write({"new/thing": b"?"}, head=HEAD.replace(b'"1.0"', b'"1.7"'))) as reader:
        assert "new/thing" in reader.names


def test_no_regular_file_is_waited_for(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, words in ((fifo, "no regular file"), (tmp_path, "a folder"), (tmp_path / "gone", "No such file")):
        with pytest.raises(UnreadableBundleError, match=words):
            open_bundle(path)


def test_folders_that_a_zip_program_adds_do_not_matter(tmp_path):
    path = tmp_path / "again.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.mkdir("logs") if hasattr(out, "mkdir") else out.writestr("logs/", b"")
        out.writestr("logs/a", b"text")
        out.writestr(BUNDLE_JSON, HEAD)
    with open_bundle(path) as reader:
        assert reader.names == ("logs/a", BUNDLE_JSON)


def test_what_zip_streams_with_data_descriptors_is_read(tmp_path):
    path = tmp_path / "streamed.zip"
    with open(path, "wb") as file:
        file.seekable = lambda: False  # type: ignore[method-assign]
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr(BUNDLE_JSON, HEAD)
            out.writestr("logs/a", b"text" * 100)
    with open_bundle(path) as reader:
        assert reader.read("logs/a") == b"text" * 100


def read_all(path):
    """Everything there is to ask of a bundle."""
    with open_bundle(path) as reader:
        reader.tables()
        for name in reader.names:
            try:
                reader.read(name)
                for _ in reader.lines(name):
                    pass
            except UnreadableBundleError:
                pass


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_is_refused_or_read_but_never_an_accident(seed, tmp_path):
    """Flipped, cut, doubled and zeroed bytes: an UnreadableBundleError or an answer, no other exception."""
    rng = random.Random(seed)
    good = GOLDEN.read_bytes()
    path = tmp_path / "damaged.zip"
    refused = 0
    for _ in range(40):
        data = bytearray(good)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(max(0, len(data) - 3000), len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del data[at : at + rng.randrange(1, 500)]
            elif kind == 2:
                data[at:at] = data[at : at + rng.randrange(1, 500)]
            else:
                data[at : at + 4] = b"\xff\xff\xff\xff"
        path.write_bytes(data)
        try:
            read_all(path)
        except UnreadableBundleError:
            refused += 1
    assert refused  # else the damage hit nothing


def test_a_bundle_cut_anywhere_is_read_as_far_as_it_goes(tmp_path):
    good = GOLDEN.read_bytes()
    path = tmp_path / "cut.zip"
    with zipfile.ZipFile(GOLDEN) as whole:
        ends = {info.filename: info.header_offset + 30 + len(info.filename) + info.compress_size for info in whole.filelist}
    for length in range(0, len(good), 211):
        path.write_bytes(good[:length])
        expected = {name for name, end in ends.items() if end <= length}
        if BUNDLE_JSON not in expected:
            with pytest.raises(UnreadableBundleError):
                open_bundle(path)
            continue
        with open_bundle(path) as reader:
            whole_members = {name for name in reader.names if not reader.member(name).partial}
            assert whole_members == expected
            assert reader.truncated
            assert any("truncated" in note for note in reader.notes)
            reader.tables()
