"""What the job's user may do with the job's paths, and why not: by mode, by access list, by a mount that is read-only."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess

import pytest
from flatline.collector.files import named_paths, permissions
from flatline.collector.probes.files import Files
from job_view import rows, run_until_ready, target_of, view_of
from programs import open_to_others

NOBODY, OTHER_GROUP = 65534, 54321
WAIT = "ready(); time.sleep(600)"
BE_NOBODY = f"os.setgroups([{OTHER_GROUP}]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

USER, GROUP, OTHER, MASK, NAMED_USER, NAMED_GROUP, NO_ID = 0x01, 0x04, 0x20, 0x10, 0x02, 0x08, 0xFFFFFFFF


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def set_acl(path, *entries) -> None:
    try:
        os.setxattr(path, permissions.ACL_XATTR, acl(*entries))
    except OSError as error:
        pytest.skip(f"no access lists here: {error.strerror}")


@pytest.fixture
def run(start, tmp_path):
    return lambda code=BE_NOBODY + WAIT, **options: run_until_ready(start, tmp_path, code, **options)


@pytest.fixture
def here(tmp_path):
    open_to_others(tmp_path)
    tmp_path.chmod(0o777)
    return tmp_path


def gather(pid, *argv, env=None):
    target = target_of(pid, argv=("python", *map(str, argv)))
    return {row.path: row for row in rows(list(Files().gather(view_of(target, env_names={pid: env or {}}))), "files")}


def look(pid, path):
    return gather(pid, "--data", path)[str(path)]


# --- as an ordinary user ---


@pytest.mark.parametrize(
    ("owner", "group", "mode", "readable", "writable", "why"),
    [
        (0, 0, 0o644, True, False, "mode"),
        (0, 0, 0o600, False, False, "mode"),
        (0, 0, 0o666, True, True, None),
        (NOBODY, 0, 0o600, True, True, None),
        (NOBODY, 0, 0o066, False, False, "mode"),  # an owner has the owner's bits, and no others
        (0, NOBODY, 0o660, True, True, None),
        (0, OTHER_GROUP, 0o660, True, True, None),
        (0, OTHER_GROUP, 0o606, False, False, "mode"),
    ],
)
def test_the_mode_decides_for_owner_group_and_others(run, here, owner, group, mode, readable, writable, why):
    path = here / "x.bin"
    path.touch()
    os.chown(path, owner, group)
    path.chmod(mode)
    row = look(run(), path)
    assert (row.uid, row.gid, row.mode, row.acl) == (owner, group, mode, ())
    assert (row.readable, row.writable, row.why_not_writable) == (readable, writable, why)


def test_an_access_list_gives_what_the_mode_does_not(run, here):
    path = here / "x.bin"
    path.touch()
    set_acl(path, (USER, 6, NO_ID), (NAMED_USER, 6, NOBODY), (GROUP, 0, NO_ID), (MASK, 6, NO_ID), (OTHER, 0, NO_ID))
    row = look(run(), path)
    assert (row.readable, row.writable, row.why_not_writable) == (True, True, None)
    assert row.acl == ("user::rw-", f"user:{NOBODY}:rw-", "group::---", "mask::rw-", "other::---")


def test_an_access_list_takes_what_the_mode_seems_to_give(run, here):
    path = here / "x.bin"
    path.touch()
    set_acl(
        path, (USER, 6, NO_ID), (NAMED_USER, 4, NOBODY), (GROUP, 6, NO_ID), (NAMED_GROUP, 6, 7), (MASK, 6, NO_ID),
        (OTHER, 6, NO_ID),
    )  # fmt: skip
    row = look(run(), path)
    assert stat.filemode(row.mode | stat.S_IFREG) == "-rw-rw-rw-"
    assert (row.readable, row.writable, row.why_not_writable) == (True, False, "acl")
    assert "group:7:rw-" in row.acl


def test_the_mask_of_a_list_cuts_what_its_entry_gives(run, here):
    path = here / "x.bin"
    path.touch()
    set_acl(path, (USER, 6, NO_ID), (NAMED_USER, 6, NOBODY), (GROUP, 4, NO_ID), (MASK, 4, NO_ID), (OTHER, 0, NO_ID))
    row = look(run(), path)
    assert (row.readable, row.writable, row.why_not_writable) == (True, False, "acl")


@pytest.mark.skipif(not shutil.which("getfacl"), reason="needs getfacl (package acl)")
def test_getfacl_prints_the_same_list(run, here):
    path = here / "x.bin"
    path.touch()
    set_acl(path, (USER, 6, NO_ID), (NAMED_USER, 6, NOBODY), (GROUP, 4, NO_ID), (MASK, 4, NO_ID), (OTHER, 0, NO_ID))
    printed = subprocess.run(["getfacl", "-cnE", path], capture_output=True, text=True, check=True).stdout.split()
    assert list(look(run(), path).acl) == printed


def test_in_a_folder_to_write_is_to_make_files_and_takes_two_bits(run, here):
    for mode, writable in ((0o777, True), (0o776, False), (0o775, False)):
        folder = here / f"out{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        assert look(run(), folder).writable is writable


def test_what_lies_in_a_folder_that_may_not_be_passed_is_hidden(run, here):
    (here / "private").mkdir(mode=0o700)
    (here / "private/x.bin").touch(0o666)
    row = look(run(), here / "private/x.bin")
    assert (row.exists, row.readable, row.writable, row.why_not_writable) == (None, False, False, "hidden")


def test_on_a_read_only_mount_the_mount_is_the_reason_for_root_as_for_others(run, here):
    (here / "ro").mkdir()
    mount = (
        "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
        "assert c.unshare(0x20000) == 0 and c.mount(b'none', b'/', None, 0x44000, None) == 0\n"  # MS_REC|MS_PRIVATE
        f"assert c.mount(b'tmpfs', {str(here / 'ro').encode()!r}, b'tmpfs', 0, b'mode=777') == 0\n"
        f"open({str(here / 'ro/x.bin')!r}, 'w'); os.chmod({str(here / 'ro/x.bin')!r}, 0o666)\n"
        f"assert c.mount(b'tmpfs', {str(here / 'ro').encode()!r}, b'tmpfs', 33, b'mode=777') == 0\n"  # MS_REMOUNT|MS_RDONLY
    )
    for who in ("", BE_NOBODY):
        found = gather(run(mount + who + WAIT), "--data", here / "ro/x.bin", "--out", here / "ro")
        for path in ("ro/x.bin", "ro"):
            row = found[str(here / path)]
            assert (row.readable, row.writable, row.why_not_writable) == (True, False, "read-only"), path
            assert row.on_mount == str(here / "ro")


def test_an_immutable_file_is_told_from_one_that_lacks_a_bit(run, here):
    path = here / "x.bin"
    path.touch()
    path.chmod(0o666)
    if not shutil.which("chattr") or subprocess.run(["chattr", "+i", path], capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        row = look(run(), path)
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
    assert (row.writable, row.why_not_writable) == (False, "immutable")


# --- which paths are looked at without being named ---


def test_caches_shared_memory_and_the_temporary_folder_are_looked_at_also_by_default(run, here):
    (here / "home/.cache/torch").mkdir(parents=True)
    env = {"HOME": str(here / "home"), "HF_HOME": str(here / "hf"), "TMPDIR": str(here)}
    found = gather(run(), env=env)
    assert (found[str(here / "hf")].exists, found[str(here / "hf")].why_looked) == (False, "environment")
    assert found[str(here / "home/.cache/torch")].writable is False
    assert found[str(here / "home/.cache/torch")].why_looked == "usual"
    assert found[str(here / "home/.triton/cache")].exists is False
    assert found[str(here / "home")].named_by == "parent of TRITON_CACHE_DIR"
    assert (found["/dev/shm"].kind, found["/dev/shm"].why_looked) == ("directory", "usual")


def test_of_a_home_with_a_cache_folder_of_its_own_that_one_counts():
    found = {one.named_by: one.path for one in named_paths.usual({"HOME": "/h", "XDG_CACHE_HOME": "/c", "TMPDIR": "/t"})}
    assert found == {
        "HF_HOME": "/c/huggingface", "TORCH_EXTENSIONS_DIR": "/c/torch_extensions", "TORCH_HOME": "/c/torch",
        "TRITON_CACHE_DIR": "/h/.triton/cache",
    }  # fmt: skip
    assert [one.path for one in named_paths.usual({})] == ["/tmp"]


def test_the_file_its_output_goes_to_is_looked_at(run, here):
    with open(here / "train.out", "w") as out:
        pid = run(stdout=out)
    row = gather(pid)[str(here / "train.out")]
    assert (row.named_by, row.why_looked, row.writable) == ("stdout", "log", False)


def test_an_accelerators_device_is_looked_at_as_the_jobs_user(run, here):
    """In a root of its own, as this machine need not have one."""
    (here / "dev").mkdir()
    for name, mode in (("nvidia0", 0o666), ("nvidiactl", 0o600), ("kfd", 0o660), ("null", 0o666)):
        try:
            os.mknod(here / "dev" / name, stat.S_IFCHR | mode, os.makedev(1, 3))
        except OSError as error:
            pytest.skip(f"no device can be made here: {error.strerror}")
        (here / "dev" / name).chmod(mode)
    found = gather(run(f"os.chroot({str(here)!r}); os.chdir('/'); HERE = '/'; {BE_NOBODY}{WAIT}"))
    devices = {path: row for path, row in found.items() if row.named_by == "device"}
    assert {path: (row.kind, row.writable) for path, row in devices.items()} == {
        "/dev/kfd": ("device", False), "/dev/nvidia0": ("device", True), "/dev/nvidiactl": ("device", False)
    }  # fmt: skip


# --- the list itself ---


@pytest.mark.parametrize("raw", [b"", b"\2\0\0", b"\1\0\0\0", acl((USER, 6, 0))[:-1], acl((0x40, 6, 0))])
def test_what_is_no_access_list_is_refused(raw):
    with pytest.raises(ValueError, match=r"not an access list|an entry of kind"):
        permissions.decode(raw)
