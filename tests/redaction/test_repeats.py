"""Lines that differ in their numbers and names only: looked at once, and hidden as if each had been looked at."""

from __future__ import annotations

import random

import pytest

from flatline.redaction import Redactor

TEMPLATES = (
    "node-{d}:{a}:{b} [{r}] NCCL INFO Channel {r:02}/0 : {r}[{r}] -> {a}[{a}] via P2P/CUMEM/read",
    "node-{d}:{a}:{b} [{r}] NCCL INFO NET/Socket : Using [0]ib{r}:{net}.{r}.0.{d}<0>",
    "gpu-{d:03}.train.nordwind.example: rank {r} connects to gpu-{e:03}:29500",
    "INFO: {net}.{r}.0.{d}:{a} - POST /v1/completions 200",
    "user{d}@node-{e}:~$ squeue -u user{d}",
    "driver 550.{d}.15.{r} torch 2.{r}.0.{d}",
    "step {a} of {b}",
    "used gpu-{e:03} and node-{d} and user{d}",
)


def a_log(seed: int, lines: int = 3000) -> str:
    rng = random.Random(seed)
    made = []
    for _ in range(lines):
        numbers = {
            name: rng.randrange(most) for name, most in (("a", 999), ("b", 9999), ("r", 8), ("d", 32), ("e", 32))
        }
        made.append(rng.choice(TEMPLATES).format(net=rng.choice(("10", "127", "255")), **numbers))
    return "\n".join(made) + "\n"


def line_by_line(text: str) -> str:
    """Each line looked at, twice over: the names that later lines tell are followed in earlier ones."""
    redactor = Redactor(keep_marks=True, key=b"one")
    once = [redactor.text(line) for line in text.split("\n")]
    return "\n".join(redactor.text(line) for line in once)


@pytest.mark.parametrize("seed", range(4))
def test_lines_that_repeat_are_hidden_as_if_each_had_been_looked_at(seed):
    text = a_log(seed)
    redactor = Redactor(keep_marks=True, key=b"one")
    halves = text[: text.find("\n", len(text) // 2) + 1], text[text.find("\n", len(text) // 2) + 1 :]
    together = "".join(redactor.text(half) for half in halves)
    assert (redactor.rewrite(together) or together) == line_by_line(text)


def test_an_address_that_is_the_machines_own_elsewhere_is_hidden_where_it_is_not():
    own = "node-11:1:2 [0] NCCL INFO Using 127.0.0.{n}\n"
    text = (
        "".join(own.format(n=n % 10) for n in range(900)) + "node-11:1:2 [0] NCCL INFO Using 192.1.1.7\n" + "x\n" * 900
    )
    hidden = Redactor().text(text)
    assert "127.0.0.3" in hidden
    assert "192.1.1.7" not in hidden


def test_what_is_hidden_in_lines_that_repeat_is_counted():
    redactor = Redactor()
    redactor.text("node-17:1:2 [0] NCCL INFO x\n" * 2000)
    assert redactor.counts["host"] == 2000
