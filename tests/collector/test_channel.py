"""Frames between a probe's child and its parent."""

from __future__ import annotations

import os

import pytest
from flatline.collector.supervision import channel
from flatline.collector.supervision.channel import Frames, GarbageError, Kind


def encoded(*frames: tuple[Kind, dict, bytes]) -> bytes:
    read_end, write_end = os.pipe()
    for kind, header, payload in frames:
        channel.send(write_end, kind, header, payload)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        return pipe.read()


def test_frames_arrive_as_sent_however_the_pipe_cuts_them():
    data = encoded((Kind.MEMBER, {"path": "raw/ö.txt"}, b"\x00\xff" * 50), (Kind.END, {}, b""))
    for size in (1, 7, 4096):
        frames, got = Frames(), []
        for start in range(0, len(data), size):
            got += list(frames.feed(data[start : start + size]))
        assert [(one.kind, dict(one.header), one.payload) for one in got] == [
            (Kind.MEMBER, {"path": "raw/ö.txt"}, b"\x00\xff" * 50),
            (Kind.END, {}, b""),
        ]
        assert not frames.partial


def test_a_frame_cut_off_by_a_kill_is_kept_back_and_seen_as_partial():
    data = encoded((Kind.DOING, {"text": "a"}, b""), (Kind.MEMBER, {}, b"x" * 100))
    frames = Frames()
    assert [one.kind for one in frames.feed(data[:-1])] == [Kind.DOING]
    assert frames.partial


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        channel._FIXED.pack(b"flt1", 99, 2, 0) + b"{}",
        channel._FIXED.pack(b"flt1", 1, channel.MAX_HEADER + 1, 0),
        channel._FIXED.pack(b"flt1", 1, 2, channel.MAX_PAYLOAD + 1) + b"{}",
        channel._FIXED.pack(b"flt1", 1, 2, 0) + b"{]",
        channel._FIXED.pack(b"flt1", 1, 2, 0) + b"[]",
        channel._FIXED.pack(b"flt1", 1, 2, 0) + b"\xff\xff",
    ],
    ids=["other protocol", "unknown kind", "long header", "long payload", "broken header", "no object", "not UTF-8"],
)
def test_what_is_no_frame_is_refused_at_once(data: bytes):
    with pytest.raises(GarbageError):
        list(Frames().feed(data))


def test_a_payload_over_the_limit_is_not_sent_at_all():
    read_end, write_end = os.pipe()
    with pytest.raises(ValueError, match="too many"):
        channel.send(write_end, Kind.MEMBER, {}, bytes(channel.MAX_PAYLOAD + 1))
    os.close(write_end)
    assert os.read(read_end, 1) == b""
    os.close(read_end)
