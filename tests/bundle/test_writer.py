"""The writer: what a bundle looks like from outside, and what happens when there is no room for it."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
from bundle_bytes import HEAD, closing

from flatline.bundle import container, spool
from flatline.bundle.format import BUNDLE_JSON, MANIFEST, MAX_MEMBERS, README
from flatline.bundle.reader import open_bundle
from flatline.bundle.salvage import salvage
from flatline.bundle.shelf import Disk
from flatline.bundle.spool import sweep
from flatline.bundle.writer import BundleFull, BundleWriter

NOISE = random.Random(1).randbytes


@pytest.fixture
def writer(tmp_path):
    with_head = BundleWriter(tmp_path / "job.flatline.zip")
    with_head.add(BUNDLE_JSON, HEAD)
    yield with_head
    with_head.abandon()


def add_until(error: type[Exception], message: str, writer: BundleWriter, data: bytes) -> int:
    """Add ``logs/0``, ``logs/1`` … until the writer refuses; how many it took."""
    for number in range(2 * MAX_MEMBERS):
        try:
            writer.add(f"logs/{number}", data)
        except error as refusal:
            if message not in str(refusal):
                raise
            return number
    pytest.fail("the writer took everything")


def test_members_come_in_the_order_added_and_the_manifest_last(writer):
    writer.add("ledger/000-host.json", b"{}")
    writer.add("logs/a", b"text")
    with zipfile.ZipFile(writer.publish(closing)) as out:
        assert out.namelist() == [BUNDLE_JSON, "ledger/000-host.json", "logs/a", README, MANIFEST]


def test_headers_are_right_from_the_start_and_timed(tmp_path):
    writer = BundleWriter(tmp_path / "a.zip", clock=lambda: 1767225600.0)
    writer.add("träger/日本", b"text" * 1000)
    with zipfile.ZipFile(writer.publish(closing)) as out:
        info = out.infolist()[0]
        assert info.filename == "träger/日本"
        assert info.date_time == (2026, 1, 1, 0, 0, 0)
        assert not info.flag_bits & 0x8
        assert info.external_attr >> 16 == stat.S_IFREG | 0o600
    writer.finish()


def test_unzip_and_python_open_what_is_written(writer, tmp_path):
    writer.add("logs/noise", NOISE(5000))
    writer.add("logs/zeros", bytes(5000))
    writer.add("logs/empty", b"")
    bundle = writer.publish(closing)
    with zipfile.ZipFile(bundle) as out:
        assert out.testzip() is None
    if shutil.which("unzip") is None:
        pytest.skip("needs unzip")
    assert subprocess.run(["unzip", "-tq", bundle], capture_output=True, timeout=60).returncode == 0


def test_equal_input_gives_equal_bytes(tmp_path):
    bundles = []
    for name in ("a", "b"):
        writer = BundleWriter(tmp_path / name, clock=lambda: 1767225600.0)
        writer.add("logs/a", b"text" * 100)
        bundles.append(writer.publish(closing).read_bytes())
        writer.finish()
    assert bundles[0] == bundles[1]


def test_spool_and_bundle_are_for_their_owner_only(writer):
    for path in (writer.spool, writer.publish(closing)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_checkpoint_is_replaced_by_the_next(writer):
    writer.add("logs/a", b"1")
    writer.publish(closing)
    writer.add("logs/b", b"2")
    bundle = writer.publish(closing)
    with open_bundle(bundle) as reader:
        assert {"logs/a", "logs/b"} <= set(reader.names)
    writer.finish()
    assert os.listdir(bundle.parent) == [bundle.name]


def test_replaced_members_are_rewritten_and_told_and_the_spool_keeps_what_it_had(writer):
    writer.add("logs/a", b"password=hunter2\n")
    writer.add("logs/b", b"nothing\n")
    bundle = writer.publish(
        closing, replace=lambda name, data: data.replace(b"hunter2", b"***") if b"hunter2" in data else None
    )
    with open_bundle(bundle) as reader:
        assert reader.read("logs/a") == b"password=***\n"
        entries = {entry.path: entry for entry in reader.manifest.files}
        assert entries["logs/a"].sha256 == hashlib.sha256(b"password=***\n").hexdigest()
        assert entries["logs/a"].bytes == 13
    assert b"hunter2" not in bundle.read_bytes()
    assert writer.read("logs/a") == b"password=hunter2\n"


@pytest.mark.parametrize("name", ["/a", "a/../b", "..", "a\\b", "c:a", "", "a/", "a//b", "a\nb", "x" * 2000])
def test_a_name_no_reader_would_take_is_refused(writer, name):
    with pytest.raises(ValueError, match="cannot be a member's name"):
        writer.add(name, b"")


@pytest.mark.parametrize("name", ["logs/a", "Logs/A"])
def test_a_taken_name_is_refused(writer, name):
    writer.add("logs/a", b"")
    with pytest.raises(ValueError, match="already in the bundle"):
        writer.add(name, b"")


def test_a_full_bundle_refuses_evidence_but_takes_its_ledger_and_stays_in_its_limit(tmp_path):
    limit = 512 * 1024
    writer = BundleWriter(tmp_path / "a.flatline.zip", max_size=limit)
    writer.add(BUNDLE_JSON, HEAD)
    number = add_until(BundleFull, "limit", writer, NOISE(20_000))
    assert number > 10
    for probe in range(40):
        writer.add(f"ledger/{probe:03}-x.json", b'{"probe": "x", "status": "skipped"}')
    bundle = writer.publish(closing)
    writer.finish()
    assert bundle.stat().st_size <= limit
    with open_bundle(bundle) as reader:
        assert len(reader.manifest.files) == 1 + number + 40


def test_nothing_is_written_that_a_reader_would_call_a_bomb(writer):
    with pytest.raises(BundleFull, match="bomb"):
        writer.add("logs/zeros", bytes(65 * 1024**2))
    add_until(BundleFull, "bomb", writer, bytes(40 * 1024**2))
    open_bundle(writer.publish(closing)).close()


def test_as_many_members_as_readers_take(tmp_path):
    writer = BundleWriter(tmp_path / "a.flatline.zip")
    writer.add(BUNDLE_JSON, HEAD)
    add_until(BundleFull, "readers accept", writer, b"")
    writer.add("ledger/000-x.json", b"{}")
    with open_bundle(writer.publish(closing)) as reader:
        assert len(reader.names) > MAX_MEMBERS - 300
    writer.finish()


def test_sizes_beyond_four_gigabytes_get_zip64_fields(tmp_path, monkeypatch):
    """With the limit lowered, so that a test need not write four gigabytes."""
    monkeypatch.setattr(container, "ZIP64_FROM", 1000)
    monkeypatch.setattr(container, "ZIP64_COUNT", 3)
    members, blobs, at = [], [], 0
    for number in range(5):
        member, blob = container.pack_member(f"logs/{number}", NOISE(3000), offset=at, stamp=(0x21, 0))
        members.append(member)
        blobs.append(blob)
        at += len(blob)
    path = tmp_path / "large.zip"
    text = b"".join(blobs) + container.pack_directory(members, at)
    # the packer wrote the lowered limit where the format has all ones
    path.write_bytes(text.replace((1000).to_bytes(4, "little"), b"\xff" * 4).replace(b"\3\0\3\0", b"\xff" * 4))
    with zipfile.ZipFile(path) as out:
        assert out.testzip() is None
        assert len(out.namelist()) == 5
    with open(path, "rb") as file:
        source = container.Source(file)
        end = container.find_end(source)
        assert end is not None
        assert container.read_directory(source, end) == members


# --- spools ---


def test_a_living_spool_is_left_alone(writer):
    second = BundleWriter(writer.final)
    assert second.spool != writer.spool
    assert sweep(writer.final.parent) == []
    second.finish()
    writer.add("logs/a", b"still mine")
    assert writer.read("logs/a") == b"still mine"


def test_a_link_in_the_place_of_the_spool_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    (tmp_path / "job.flatline.zip.part").symlink_to(victim)
    writer = BundleWriter(tmp_path / "job.flatline.zip")
    writer.add("logs/a", b"secret")
    writer.finish()
    assert not victim.exists()


def test_a_renamed_member_is_published_under_its_new_name_alone(writer):
    writer.add("logs/hunter2.txt", b"step 1")
    writer.add("logs/other.txt", b"step 2")
    bundle = writer.publish(closing, rename=lambda name: name.replace("hunter2", "hidden-name-1"))
    with zipfile.ZipFile(bundle) as archive:
        assert archive.read("logs/hidden-name-1.txt") == b"step 1"
        assert archive.read("logs/other.txt") == b"step 2"
    assert b"hunter2" not in bundle.read_bytes()
    with open_bundle(bundle) as opened:
        assert {"logs/hidden-name-1.txt", "logs/other.txt"} <= {entry.path for entry in opened.manifest.files}


def test_the_final_rename_replaces_a_link_not_what_it_points_to(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "job.flatline.zip").symlink_to(victim)
    writer = BundleWriter(tmp_path / "job.flatline.zip")
    writer.publish(closing)
    writer.finish()
    assert victim.read_text() == "precious"


def test_sweep_finds_abandoned_spools_removes_dead_copies_and_touches_nothing_else(tmp_path):
    dead = BundleWriter(tmp_path / "dead.flatline.zip")
    dead.add(BUNDLE_JSON, HEAD)
    dead.abandon()
    shutil.copy(dead.spool, tmp_path / ("dead.flatline.zip" + spool.NEW_SUFFIX))
    download = tmp_path / "film.new.part"
    download.write_bytes(b"a download of another program")
    other_zip = tmp_path / "numpy.zip.part"
    with zipfile.ZipFile(other_zip, "w") as out:
        out.writestr("numpy/__init__.py", "")
    assert sweep(tmp_path) == [dead.spool]
    assert sorted(tmp_path.iterdir()) == sorted([dead.spool, download, other_zip])
    assert sweep(tmp_path / "gone") == []


def test_a_failing_closing_leaves_bundle_and_folder_as_they_were(writer):
    bundle = writer.publish(closing)
    before = bundle.read_bytes()

    def broken(files):
        raise RuntimeError("no manifest")

    with pytest.raises(RuntimeError):
        writer.publish(broken)
    assert bundle.read_bytes() == before
    assert sorted(os.listdir(bundle.parent)) == sorted([bundle.name, writer.spool.name])


# --- a full disk ---


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", place], capture_output=True, timeout=60)
    if mounted.returncode:
        pytest.skip("may not mount a tmpfs here")
    yield place
    subprocess.run(["umount", "-l", place], check=True, timeout=60)


def test_a_full_disk_costs_the_member_that_did_not_fit_and_no_other(small_disk, tmp_path):
    writer = BundleWriter(small_disk / "job.flatline.zip")
    writer.add(BUNDLE_JSON, HEAD)
    data = NOISE(50_000)
    kept = {f"logs/{number}" for number in range(add_until(OSError, "No space left", writer, data))}
    assert len(kept) > 5
    assert writer.spool.stat().st_size == writer.size
    writer.add("logs/small", b"still fits")
    for name in kept:
        assert writer.read(name) == data
    writer.move(Disk(tmp_path / "moved.flatline.zip"))
    assert os.listdir(small_disk) == []
    with open_bundle(writer.publish(closing)) as reader:
        assert reader.read("logs/small") == b"still fits"
        assert {entry.path for entry in reader.manifest.files} == {BUNDLE_JSON, *kept, "logs/small"}
    writer.finish()


def test_no_room_for_the_bundle_leaves_the_spool_to_be_salvaged(small_disk, tmp_path):
    writer = BundleWriter(small_disk / "job.flatline.zip")
    writer.add(BUNDLE_JSON, HEAD)
    kept = {f"logs/{number}" for number in range(add_until(OSError, "No space left", writer, NOISE(50_000)))}
    with pytest.raises(OSError, match="No space left"):
        writer.publish(closing)
    assert os.listdir(small_disk) == [writer.spool.name]
    writer.abandon()
    with open_bundle(salvage(writer.spool, tmp_path / "saved.flatline.zip")) as reader:
        assert kept < set(reader.names)


def test_a_folder_that_takes_no_file_says_so_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        BundleWriter(tmp_path / "gone" / "job.flatline.zip")


def test_publishing_onto_a_folder_fails_and_leaves_nothing(tmp_path):
    final = Path(tmp_path / "job.flatline.zip")
    final.mkdir()
    writer = BundleWriter(final)
    with pytest.raises(OSError, match="directory"):
        writer.publish(closing)
    writer.finish()
    assert os.listdir(tmp_path) == [final.name]
