"""Who has what open: links of /proc/PID/fd, and fuser."""

from __future__ import annotations

from parsing import blocks_of, rows_of

from flatline.bundle.facts import Fd, Process, Socket

LINK = "lrwx------ 1 ann ann 64 Mar  2 08:02 "


def fds(text: str) -> list[tuple[str, int, str, str | None, str]]:
    return [
        (fd.process, fd.fd, fd.kind, fd.path, fd.mode or "unknown")
        for block in blocks_of(text)
        for fd in rows_of(block, Fd)
    ]


def test_the_command_says_whose_descriptors_they_are():
    text = f"$ ls -l /proc/77/fd\ntotal 0\nl-wx------ 1 ann ann 64 Mar  2 08:02 1 -> pipe:[912]\n{LINK}6 -> /dev/tty\n"
    assert fds(text) == [("h1/77", 1, "pipe", "pipe:[912]", "write"), ("h1/77", 6, "tty", "/dev/tty", "both")]


def test_another_command_of_the_same_line_may_have_printed_first():
    assert (
        fds(f"$ cat /proc/77/wchan; echo; ls -l /proc/77/fd | tail -1\nwait_woken\n{LINK}6 -> /dev/tty\n")[0][0]
        == "h1/77"
    )


def test_a_link_with_its_path_says_it_itself():
    assert fds(f"{LINK}/proc/77/fd/9 -> /srv/study.db\n") == [("h1/77", 9, "file", "/srv/study.db", "both")]


def test_a_link_that_is_named_by_a_number_is_no_descriptor():
    assert fds("lrwxrwxrwx 1 ann ann 12 Mar  2 08:02 7 -> run_0007\n") == []


def test_fuser_names_who_has_a_device_open():
    assert [(fd[0], fd[2], fd[3]) for fd in fds("$ fuser /dev/nvidia2\n/dev/nvidia2:        871m 872m\n")] == [
        ("h1/871", "device", "/dev/nvidia2"), ("h1/872", "device", "/dev/nvidia2"),
    ]  # fmt: skip


TABLE = """\
                     USER        PID ACCESS COMMAND
/srv/study.db:       ann         771 F.... python
                     root       2206 F.... sqlite3
29500/tcp:           ann         772 F.... python
"""


def test_fuser_v_names_users_and_commands_and_a_port_is_listened_on():
    block = blocks_of(TABLE)[0]
    assert [(row.pid, row.user, row.name) for row in rows_of(block, Process)] == [
        (771, "ann", "python"), (2206, "root", "sqlite3"), (772, "ann", "python"),
    ]  # fmt: skip
    assert [row.local for row in rows_of(block, Socket)] == ["*:29500"]
    assert [fd.path for fd in rows_of(block, Fd)] == ["/srv/study.db", "/srv/study.db", None]


def test_a_listing_of_very_many_is_cut_and_says_so():
    numbers = "\n".join(f"/dev/nvidia{n}: " + " ".join(f"{1000 * n + i}m" for i in range(100, 450)) for n in range(20))
    table = "\n".join(f"                     ann       {5000 + n} F.... python" for n in range(6000))
    for text in (
        numbers,
        "                     USER        PID ACCESS COMMAND\n/srv/study.db:       ann         771 F.... sh\n" + table,
    ):
        (block,) = blocks_of(text)
        assert block.end == text.count("\n") + 1, "its lines are its own still"
        assert len(rows_of(block, Process)) == 4000
        assert "the first 4000 of" in block.about


def test_a_listing_that_is_not_cut_does_not_say_so():
    (block,) = blocks_of("/dev/nvidia2: 871m 872m\n/dev/nvidia3: 871m")
    assert block.about == "who has /dev/nvidia3 open"
