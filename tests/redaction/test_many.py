"""Thousands of secrets cost their number, not its square; beyond a limit they are hidden where they stand."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable

import pytest

from flatline.redaction import Found, Redactor
from flatline.redaction.learnt import MOST_PER_SOURCE, MOST_VALUES

GROWTH = 3.0
"""Twice the size may take so many times as long: 2 is linear, 4 is quadratic."""
TRIES = 6


def values(number: int) -> list[str]:
    rng = random.Random(number)
    return ["".join(rng.choices(string.ascii_letters + string.digits, k=18)) + "z9" for _ in range(number)]


def environment(number: int) -> Callable[[], object]:
    env = {f"V{n}_TOKEN": value for n, value in enumerate(values(number))}
    return lambda: Redactor().learn_environment(env)


def plain_environment(number: int) -> Callable[[], object]:
    env = {f"V{n}": value for n, value in enumerate(values(number))}
    return lambda: Redactor().learn_environment(env)


def arguments(number: int) -> Callable[[], object]:
    argv = [word for value in values(number) for word in ("--api-key", value)]
    return lambda: Redactor().learn_argv(argv)


def log_of_passwords(number: int) -> Callable[[], object]:
    text = "".join(f"password={value}\n" for value in values(number))
    return lambda: Redactor().text(text)


def log_of_what_is_known(number: int) -> Callable[[], object]:
    redactor = Redactor()
    redactor.learn_environment({f"V{n}_TOKEN": value for n, value in enumerate(values(1500))})
    text = "".join(f"see {value}\n" for value in random.Random(1).choices(values(1500), k=number))
    return lambda: redactor.text(text)


def log_of_nothing(number: int) -> Callable[[], object]:
    redactor = Redactor()
    redactor.learn_environment({f"V{n}_TOKEN": f"common-prefix-{value}" for n, value in enumerate(values(1500))})
    text = "".join(f"step {n} common-prefix-of-all {n}\n" for n in range(number))
    return lambda: redactor.text(text)


def log_of_users(number: int) -> Callable[[], object]:
    text = "".join(f"user={value[:9].lower()}q in /home/{value[:9].lower()}q/x\n" for value in values(number))
    return lambda: Redactor().text(text)


def log_of_unseen_characters(number: int) -> Callable[[], object]:
    text = "".join(f"step\u200b {n} {value[:9]}\u00ad{value[9:]}\x1b[0m\n" for n, value in enumerate(values(number)))
    return lambda: Redactor().text(text)


def adopting(number: int) -> Callable[[], object]:
    child = Redactor().fork("logs")
    child.text("".join(f"password={value}\n" for value in values(number)))
    found = child.take_found()
    return lambda: Redactor().adopt(found)


WORK = [environment, plain_environment, arguments, log_of_passwords, log_of_what_is_known, log_of_nothing, log_of_users, log_of_unseen_characters, adopting]


@pytest.mark.parametrize("work", WORK)
def test_twice_as_many_take_less_than_three_times_as_long(work):
    ratios = []
    for _ in range(TRIES):  # other processes on this machine can only make one try slower
        once, twice = seconds(work(3000)), seconds(work(6000))
        ratios.append(twice / max(once, 0.005))
        if ratios[-1] < GROWTH:
            return
    pytest.fail(f"{ratios} times as long for twice as many")


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def test_what_is_beyond_the_limit_is_hidden_in_its_place_and_counted():
    child = Redactor().fork("logs")
    lines = [f"password={value}" for value in values(MOST_PER_SOURCE + 5)]
    hidden = child.text("\n".join(lines)).split("\n")
    assert hidden[0] == "password=⟪password·logs.1⟫"
    assert hidden[-5:] == ["password=⟪password·0⟫"] * 5
    assert len(child.take_found()) == MOST_PER_SOURCE
    parent = Redactor()
    parent.add_counts(*child.take_counts())
    assert parent.report()["beyond_limit"] == {"password": 5}
    assert parent.counts == {"password": MOST_PER_SOURCE + 5}


def test_one_source_leaves_room_for_the_others():
    redactor = Redactor()
    redactor.learn_environment({f"V{n}_TOKEN": value for n, value in enumerate(values(MOST_PER_SOURCE + 5))})
    redactor.learn_argv(["t.py", "--api-key", "x8Fk2mQ9zL77"])
    assert redactor.text("x8Fk2mQ9zL77") == "⟪api-key·1⟫"
    assert redactor.has_reached_limit


def test_all_sources_together_are_bounded_too():
    parent = Redactor()
    for n in range(MOST_VALUES // MOST_PER_SOURCE):
        child = parent.fork(f"c{n}")
        child.text("".join(f"password={value}{n}\n" for value in values(MOST_PER_SOURCE)))
        parent.adopt(child.take_found())
    late = Found("password", "x8Fk2mQ9zL77", "⟪password·late.1⟫")
    assert parent.adopt([late]) == {late.mark: "⟪password·0⟫"}
    assert parent.report()["distinct"] == {"password": MOST_VALUES}
    assert parent.report()["beyond_limit"] == {"password": 1}


def test_when_no_time_is_left_names_still_tell_and_long_values_are_taken_whole():
    redactor = Redactor()
    env = {"RUN": "x8Fk2mQ9zL77", "URL": "a b c", "DB_PASSWORD": "y8Fk2mQ9zL77", "LANG": "en_US.UTF-8"}
    redactor.learn_environment(env, is_late=lambda: True)
    hidden = redactor.text("x8Fk2mQ9zL77 y8Fk2mQ9zL77 a b c en_US.UTF-8")
    assert hidden == "⟪unread·1⟫ ⟪password·1⟫ a b c en_US.UTF-8"
