"""The lines around a frame, and the blocks that hold it."""

from __future__ import annotations

from textwrap import dedent

import pytest
from flatline.collector.stacks.source import Text, command_text, is_readable_name, is_user

PROGRAM = dedent(
    """\
    import threading

    a, b = threading.Lock(), threading.Lock()

    def outer():
        with a:
            for step in range(3):
                if step:
                    pass
                else:
                    take(
                        step,
                    )
            def inner():
                with b:
                    return 1
            return inner()

    def take(step):
        try:
            work()
        except ValueError:
            work()
    """
)


def line_of(text, program=PROGRAM):
    return next(number for number, line in enumerate(program.splitlines(), 1) if text in line)


def headers(program, line):
    return [shown.text.strip() for shown in Text(program).around(line).enclosing]


def test_the_line_comes_with_two_neighbours_on_each_side():
    line = line_of("take(")
    shown = Text(PROGRAM).around(line).source
    assert [one.line for one in shown] == list(range(line - 2, line + 3))
    assert shown[2].text.strip() == "take("


def test_the_edges_of_a_file_have_fewer_neighbours():
    assert [one.line for one in Text(PROGRAM).around(1).source] == [1, 2, 3]
    last = len(PROGRAM.splitlines())
    assert [one.line for one in Text(PROGRAM).around(last).source] == [last - 2, last - 1, last]
    assert Text(PROGRAM).around(last + 1).source == ()
    assert Text(PROGRAM).around(0).source == ()


@pytest.mark.parametrize("broken", [False, True], ids=["syntax", "indentation"])
class TestEnclosing:
    """The same answers where the file parses and where it does not."""

    def program(self, broken):
        return PROGRAM + ("print 'half edited\n" if broken else "")

    def test_the_locks_held_around_a_line_are_named_outermost_first(self, broken):
        found = headers(self.program(broken), line_of("step,"))
        assert found[:2] == ["with a:", "for step in range(3):"]

    def test_the_blocks_of_the_function_around_are_not_this_function_s(self, broken):
        assert headers(self.program(broken), line_of("return 1")) == ["with b:"]

    def test_a_block_that_ended_before_the_line_is_not_around_it(self, broken):
        assert headers(self.program(broken), line_of("return inner()")) == ["with a:"]

    def test_a_line_that_opens_a_block_is_not_inside_it(self, broken):
        assert headers(self.program(broken), line_of("with b:")) == []

    def test_a_line_in_a_handler_is_inside_that(self, broken):
        assert headers(self.program(broken), line_of("except") + 1)[-1] == "except ValueError:"


def test_a_line_on_the_same_indentation_as_a_sibling_block_is_not_inside_that():
    program = "if a:\n    f()\ng(\n    x)\n!"
    assert headers(program, 4) == []


@pytest.mark.parametrize("bomb", ["(" * 5000, "x = " + "-" * 20_000 + "1", "\x00", "if 1:\n" * 50, "a" * 500_000])
def test_a_hostile_file_is_text_like_any_other(bomb):
    (line,) = {line.text for line in Text(bomb).around(1).source if line.line == 1}
    assert bomb.split("\n")[0].startswith(line)


@pytest.mark.parametrize(
    ("file", "user"),
    [
        ("/home/u/train.py", True),
        ("train.py", True),
        ("<string>", True),
        ("<ipython-input-3-0a1b>", True),
        ("/tmp/ipykernel_12/345.py", True),
        ("/opt/pytorch/torch/nn/module.py", True),
        ("<frozen importlib._bootstrap>", False),
        ("<__array_function__ internals>", False),
        ("/usr/lib/python3.11/threading.py", False),
        ("/usr/lib/python3/dist-packages/torch/x.py", False),
        ("/root/.pyenv/versions/3.13.0/lib/python3.13/queue.py", False),
        ("/opt/conda/lib/python3.10/site-packages/torch/x.py", False),
        ("/venv/lib64/python3.13t/selectors.py", False),
        ("", False),
    ],
)
def test_user_code_is_what_is_neither_library_nor_made_up(file, user):
    assert is_user(file) is user


@pytest.mark.parametrize("file", ["/etc/shadow", "<string>", "/proc/self/environ", "/root/.ssh/id_rsa", "x.so", ""])
def test_only_names_of_python_source_are_ever_opened(file):
    assert not is_readable_name(file)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("python", "-c", "x = 1"), "x = 1"),
        (("python", "-uc", "x = 1"), "x = 1"),
        (("python", "-cx = 1"), "x = 1"),
        (("python", "-I", "-X", "dev", "-W", "ignore", "-c", "x = 1", "-c", "y"), "x = 1"),
        (("python", "-mtrace", "-c", "x"), None),
        (("python", "-m", "pdb", "-c", "x"), None),
        (("python", "train.py", "-c", "conf.yaml"), None),
        (("python", "-c"), None),
        ((), None),
    ],
)
def test_the_program_of_a_command_is_its_argument(argv, text):
    assert command_text(argv) == text
