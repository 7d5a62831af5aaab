"""The text of a bundle's member, unpacked ahead of its reader, and no less checked than by the reader itself."""

from __future__ import annotations

import random
import threading

import pytest
from bundle_bytes import Raw, raw_zip
from flatline.analyzer import case as case_module
from flatline.analyzer.case import log_text, open_bundles, whole_log
from flatline.analyzer.judge.logs import LogPattern, LogSearch
from flatline.analyzer.judge.patterns import compile_pattern
from flatline.analyzer.scan import member as module
from flatline.analyzer.scan.member import member_text

from flatline.bundle.facts import Log
from flatline.bundle.reader import open_bundle
from flatline.errors import UnreadableBundleError

RNG = random.Random(3)
BLOCK = b"".join(b"step %d loss %f\n" % (n, RNG.random()) for n in range(20_000))
LONG = BLOCK + b"the needle is here\n" + BLOCK * 5


@pytest.fixture(params=["isal", "zlib"])
def codec(request, monkeypatch):
    if request.param == "zlib":
        monkeypatch.setattr(module, "isal_zlib", None)
    elif module.isal_zlib is None:
        pytest.skip("isal has no wheel here")


@pytest.fixture
def opened(tmp_path):
    readers = []

    def write(*members: Raw):
        path = tmp_path / "job.flatline.zip"
        path.write_bytes(raw_zip(*members))
        readers.append(open_bundle(path))
        return readers[-1]

    yield write
    for reader in readers:
        reader.close()


def no_thread_is_left() -> bool:
    return all(thread.name != "unpack" for thread in threading.enumerate())


@pytest.mark.parametrize("method", [0, 8])
@pytest.mark.parametrize("data", [b"", b"x", BLOCK, LONG], ids=["empty", "tiny", "short", "long"])
def test_it_is_what_the_reader_reads(codec, opened, data, method):
    reader = opened(Raw("logs/a", data, method))
    text = member_text(reader, "logs/a")
    assert text.size == len(data)
    assert b"".join(text.pieces) == data == reader.read("logs/a")
    assert no_thread_is_left()


@pytest.mark.parametrize("lie", [{"crc": 1}, {"size": len(LONG) - 1}, {"size": len(LONG) + 1}], ids=str)
def test_what_the_headers_do_not_promise_is_refused(codec, opened, lie):
    text = member_text(opened(Raw("logs/a", LONG, 8, **lie)), "logs/a")
    with pytest.raises(UnreadableBundleError):
        list(text.pieces)
    assert no_thread_is_left()


class Damaged(Raw):
    """A member of which a part was overwritten on the way."""

    def stream(self) -> bytes:
        stream = super().stream()
        middle = len(stream) // 2
        return stream[:middle] + b"\xff" * 200 + stream[middle + 200 :]


def test_a_stream_that_is_damaged_is_refused(codec, opened):
    text = member_text(opened(Damaged("logs/a", LONG, 8)), "logs/a")
    with pytest.raises(UnreadableBundleError):
        list(text.pieces)


def test_who_stops_reading_leaves_no_thread_behind(codec, opened):
    pieces = iter(member_text(opened(Raw("logs/a", LONG, 8)), "logs/a").pieces)
    assert next(pieces)
    pieces.close()
    assert no_thread_is_left()


def test_other_members_are_read_meanwhile(codec, opened):
    reader = opened(Raw("logs/a", LONG, 8), Raw("logs/b", BLOCK, 8))
    found = bytearray()
    for piece in member_text(reader, "logs/a").pieces:
        found += piece
        assert reader.read("logs/b", 100) == BLOCK[:100]
    assert found == LONG


def test_a_line_far_before_the_end_of_a_member_is_found_by_its_number(codec, opened, monkeypatch):
    monkeypatch.setattr(case_module, "MAX_LOG_BYTES", 1000)
    reader = opened(Raw("logs/a", LONG, 8))
    with open_bundles([reader.path]) as case:
        search = LogSearch([Log("file", text="logs/a")], lambda log: whole_log(case, log))
        pattern = LogPattern("needle", "the needle", compile_pattern("the needle"))
        (hit,) = search.hits(pattern, "all")
        assert len(log_text(case, Log("file", text="logs/a"))) == 1000
    assert (hit.number, hit.text, hit.is_last) == (BLOCK.count(b"\n") + 1, "the needle is here", False)
