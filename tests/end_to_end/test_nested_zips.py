"""A zip within zips is a member like any other: no command unpacks what it finds inside, be it its own copy without end."""

from __future__ import annotations

import io
import os
import resource
import zipfile
from pathlib import Path

import pytest
from bundle_bytes import Raw, closing, raw_zip
from end_to_end_support import flatline
from faults.quine_zip import quine

from flatline.bundle.writer import file_entry

COMMANDS = (("analyze",), ("show",), ("salvage",), ("redact",), ("redact", "--check"))
NAME = "quine/what-is-in-this-zip-is-in-this-zip.log.zip"


def little() -> None:
    """In the child: enough to read a bundle, far too little to unpack these."""
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def deep() -> bytes:
    """Sixty zips, one in the other."""
    data = b"all is well\n"
    for _ in range(60):
        data = zipped({"inner.log": data})
    return data


def wide() -> bytes:
    """Sixteen in each of sixteen, four times, and at the bottom 50 MB of zeros: 3 TB in 22 KB."""
    data = zipped({"zeros.log": bytes(50 << 20)})
    for _ in range(4):
        data = zipped({f"{number}.log": data for number in range(16)})
    return data


NESTED = {"quine": quine, "deep": deep, "wide": wide}


def test_the_quine_is_one() -> None:
    data = quine(NAME)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == [NAME]
        assert archive.testzip() is None
        assert archive.read(NAME) == data


@pytest.mark.parametrize("kind", NESTED)
def test_it_is_refused_and_nothing_is_unpacked(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "nested.zip"
    path.write_bytes(NESTED[kind]())
    for command in COMMANDS:
        done = flatline(*command, path, preexec_fn=little, cwd=tmp_path)
        assert done.code == 20, (command, done)
        assert "holds no text" in done.err or "no flatline bundle" in done.err
    assert os.listdir(tmp_path) == ["nested.zip"]


def test_in_a_bundle_it_stays_a_member(tmp_path: Path) -> None:
    members = {f"raw/{kind}.zip": make() for kind, make in NESTED.items()}
    files = tuple(file_entry(name, data) for name, data in members.items())
    bundle = tmp_path / "b.flatline.zip"
    bundle.write_bytes(raw_zip(*(Raw(name, data) for name, data in (*members.items(), *closing(files)))))
    listed = flatline("show", bundle, preexec_fn=little)
    assert listed.code == 0, listed.err
    assert all(f"raw/{kind}.zip" in listed.out for kind in NESTED)
    assert flatline("analyze", bundle, preexec_fn=little).code == 11, "there is nothing in it to decide by"
    assert flatline("salvage", bundle, preexec_fn=little).code != 0, "it is whole"
    again = tmp_path / "again.flatline.zip"
    redacted = flatline("redact", bundle, "-o", again, preexec_fn=little)
    assert redacted.code == 0, redacted.err
    with zipfile.ZipFile(again) as archive:
        assert archive.testzip() is None
        assert {f"raw/{kind}.zip" for kind in NESTED} <= set(archive.namelist())
    assert sorted(os.listdir(tmp_path)) == ["again.flatline.zip", "b.flatline.zip"]
