"""Out of what a killed collect left, or a zip that lost its end, comes a valid bundle that says what it is."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from bundle_bytes import GOLDEN, HEAD, Raw

from flatline.bundle import records
from flatline.bundle.format import BUNDLE_JSON, MANIFEST, LedgerEntry
from flatline.bundle.reader import open_bundle
from flatline.bundle.salvage import salvage, salvaged_name
from flatline.bundle.writer import BundleWriter
from flatline.errors import UnreadableBundleError, UsageError

NOISE = random.Random(2).randbytes(40_000)


@pytest.fixture
def spool(tmp_path):
    """What a writer leaves that was killed after three members."""
    writer = BundleWriter(tmp_path / "job.flatline.zip")
    head = HEAD.replace(b"}", b', "label": "night run", "sensitivity": "redacted"}')
    writer.add(BUNDLE_JSON, head)
    writer.add("ledger/000-host.json", records.to_json(LedgerEntry("host", "timeout", hint="ask again")))
    writer.add("logs/a", NOISE)
    writer.abandon()
    return writer.spool


def test_the_manifest_is_made_from_what_is_there(spool):
    with open_bundle(salvage(spool)) as reader:
        manifest = reader.manifest
    assert (manifest.complete, manifest.ended_by, manifest.redaction) == (False, "salvaged", "first pass only")
    assert (manifest.tool_version, manifest.label) == ("0.1.0", "night run")
    assert [(entry.probe, entry.status, entry.hint) for entry in manifest.ledger] == [("host", "timeout", "ask again")]
    assert [entry.path for entry in manifest.files] == [BUNDLE_JSON, "ledger/000-host.json", "logs/a"]


def test_another_program_opens_it(spool):
    with zipfile.ZipFile(salvage(spool)) as out:
        assert out.testzip() is None
        assert out.namelist()[-3:] == ["README.txt", "redaction.json", MANIFEST]
        assert b"first pass only" in out.read("README.txt")


@pytest.mark.parametrize("missing", [1, 1000, 39_000])
def test_a_torn_last_member_is_kept_and_marked(spool, missing):
    size = spool.stat().st_size
    with open(spool, "r+b") as file:
        file.truncate(size - missing)
    with open_bundle(salvage(spool)) as reader:
        kept = reader.read("logs/a")
        entry = reader.manifest.files[-1]
    assert kept == NOISE[: len(kept)]
    assert len(kept) >= len(NOISE) - missing - 64
    assert entry.original_bytes == len(NOISE)
    assert entry.truncated == ((len(kept), len(NOISE)),)


def test_a_deflated_member_gives_its_beginning_too(tmp_path):
    text = b"".join(b"step %d loss %f\n" % (n, n / 7) for n in range(20_000))
    torn = Raw("logs/a", text, method=8).local()
    part = tmp_path / "x.flatline.zip.part"
    part.write_bytes(Raw(BUNDLE_JSON, HEAD).local() + torn[: len(torn) // 2])
    with open_bundle(part) as reader:
        assert reader.truncated
        kept = reader.read("logs/a")
    assert len(kept) > len(text) // 4
    assert text.startswith(kept)


def test_a_damaged_member_is_left_out_and_the_next_is_kept(tmp_path):
    part = tmp_path / "x.flatline.zip.part"
    bad = Raw("logs/bad", b"text", crc=1)
    part.write_bytes(Raw(BUNDLE_JSON, HEAD).local() + bad.local() + Raw("logs/good", b"text").local())
    with open_bundle(part) as reader:
        assert reader.names == (BUNDLE_JSON, "logs/good")
        assert any("'logs/bad' is damaged" in note for note in reader.notes)


def test_what_stands_behind_the_members_is_told(tmp_path):
    part = tmp_path / "x.flatline.zip.part"
    part.write_bytes(Raw(BUNDLE_JSON, HEAD).local() + bytes(77))
    with open_bundle(part) as reader:
        assert any(note.startswith("77 bytes from byte") for note in reader.notes)


def test_members_with_their_sizes_behind_the_data_are_found(tmp_path):
    """As other zip programs stream them: nothing but deflate says where a member ends."""
    streamed = tmp_path / "streamed.zip"
    with open(streamed, "wb") as file:
        file.seekable = lambda: False  # type: ignore[method-assign]
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
            for name, data in ((BUNDLE_JSON, HEAD), ("logs/a", b"text" * 99), ("logs/b", NOISE)):
                out.writestr(name, data)
    whole = streamed.read_bytes()
    streamed.write_bytes(whole[: whole.rindex(b"PK\5\6")])
    with open_bundle(streamed) as reader:
        assert reader.truncated
        assert reader.read("logs/a") == b"text" * 99
        assert reader.read("logs/b") == NOISE


def test_a_truncated_bundle_is_saved_as_well(tmp_path):
    cut = tmp_path / "half.flatline.zip"
    cut.write_bytes(GOLDEN.read_bytes()[:-900])
    bundle = salvage(cut)
    assert bundle.name == "half.first-pass-only.flatline.zip"
    with open_bundle(bundle) as reader:
        assert reader.tables().rows["processes"]
        assert len(reader.manifest.ledger) == 7


@pytest.mark.parametrize("bombs", [3, 6])
def test_a_spool_that_unpacks_without_end_is_refused(tmp_path, bombs):
    part = tmp_path / "x.flatline.zip.part"
    bomb = [Raw(f"a{n}", bytes(100 * 1024**2), method=8).local() for n in range(1)]
    named = [bomb[0].replace(b"a0", b"a%d" % n, 1) for n in range(bombs)]
    part.write_bytes(Raw(BUNDLE_JSON, HEAD).local() + b"".join(named))
    with pytest.raises(UnreadableBundleError, match="bomb"):
        open_bundle(part)


def test_names_from_outside_are_checked_in_a_spool_too(tmp_path):
    part = tmp_path / "x.flatline.zip.part"
    part.write_bytes(Raw(BUNDLE_JSON, HEAD).local() + Raw("../../etc/cron.d/x").local())
    with pytest.raises(UnreadableBundleError, match="empty step in its path"):
        salvage(part)


@pytest.mark.parametrize(
    ("spool_name", "bundle"),
    [
        ("job.flatline.zip.part", "job.first-pass-only.flatline.zip"),
        ("job.flatline.zip.2.part", "job.first-pass-only.flatline.zip"),
        ("job.flatline.zip.new.part", "job.first-pass-only.flatline.zip"),
        ("job.UNREDACTED.flatline.zip.part", "job.UNREDACTED.first-pass-only.flatline.zip"),
        ("out.zip.part", "out.first-pass-only.flatline.zip"),
        ("out.part", "out.first-pass-only.flatline.zip"),
    ],
)
def test_the_name_says_what_it_is(spool_name, bundle):
    assert salvaged_name(Path("/x") / spool_name) == Path("/x") / bundle


def test_an_unredacted_spool_gives_a_bundle_that_says_so(spool):
    marked = spool.rename(spool.with_name("job.UNREDACTED.flatline.zip.part"))
    with open_bundle(salvage(marked)) as reader:
        assert reader.manifest.sensitivity == "UNREDACTED"
        notice = reader.text("README.txt")
        assert "NOTHING WAS HIDDEN" in notice
        assert "are hidden" not in notice


def test_nothing_is_salvaged_from_what_is_whole_or_empty(tmp_path):
    with pytest.raises(UsageError, match="is whole"):
        salvage(GOLDEN)
    empty = tmp_path / "x.part"
    empty.touch()
    with pytest.raises(UnreadableBundleError, match="is empty"):
        salvage(empty)


# --- the command ---


def run(*args) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flatline", "salvage", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_command_prints_the_bundle_and_keeps_the_spool(spool, tmp_path):
    done = run(spool, "-o", tmp_path / "saved.flatline.zip")
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "saved.flatline.zip"))
    assert "first pass only" in done.stderr
    assert "still runs" not in done.stderr
    assert spool.exists()


def test_the_command_does_not_say_of_an_unredacted_bundle_that_secrets_are_hidden(spool):
    done = run(spool.rename(spool.with_name("job.UNREDACTED.flatline.zip.part")))
    assert "Nothing is hidden" in done.stderr
    assert "first pass" not in done.stderr


def test_the_command_says_that_the_writer_still_lives(tmp_path):
    writer = BundleWriter(tmp_path / "job.flatline.zip")
    writer.add(BUNDLE_JSON, HEAD)
    done = run(writer.spool)
    writer.finish()
    assert done.returncode == 0
    assert "still runs" in done.stderr


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["/gone.part"], 20, "No such file"),
        ([GOLDEN], 2, "is whole"),
        ([], 2, "usage"),
        (["/etc/hostname"], 20, "it looks like text"),
    ],
)
def test_the_command_refuses_in_words(args, code, words):
    done = run(*args)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_another_file_is_not_written_over(spool, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("epoch 1\n")
    with pytest.raises(UsageError, match="it would be lost"):
        salvage(spool, log)
    assert log.read_text() == "epoch 1\n"


def test_nowhere_to_write_is_said(spool):
    done = run(spool, "-o", "/gone/saved.flatline.zip")
    assert done.returncode == 5
    assert "cannot be written" in done.stderr
