"""docker ps: the state of each container, and what is wrong with it."""

from __future__ import annotations

import pytest
from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Scheduler

CONTAINERS = FIXTURES / "pasted" / "containers"
STATES = [
    ("trainer", "running", None),
    ("redis", "running", "Up 9 days (unhealthy)"),
    ("eval", "exited", "Exited (137) 25 minutes ago"),
    ("prep", "paused", "Up 10 minutes (Paused)"),
]


@pytest.mark.parametrize("name", ["docker-ps-a.txt", "docker-ps-columns.txt"])
def test_the_state_of_each_container_is_read_whatever_the_columns(name: str):
    rows = rows_of(only((CONTAINERS / name).read_text(), "container-list"), Scheduler)
    assert [(row.job, row.state, row.reason) for row in rows] == STATES


def test_a_headline_alone_is_a_list_of_nothing():
    head = (CONTAINERS / "docker-ps-a.txt").read_text().splitlines()[0]
    assert only(head, "container-list").about == "0 containers"


def test_a_table_of_something_else_is_none():
    text = "NAME    STATUS   AGE\nnode-1  Ready    3d\n"
    assert "container-list" not in {block.kind for block in blocks_of(text)}


def test_columns_that_were_chosen_are_read_where_the_command_stands_above():
    asked = "$ docker ps -a --format '{{.Names}}\\t{{.Image}}\\t{{.Status}}'\n"
    rows = "store   lab/store:2   Up 3 days (healthy)\nlearn   lab/learn:7   Created\n"
    blocks = [block for block in blocks_of(asked + rows) if block.kind == "container-list-chosen"]
    found = [(row.job, row.state) for row in rows_of(blocks[0], Scheduler)]
    assert found == [("store", "running"), ("learn", "created")]
    assert "container-list-chosen" not in {block.kind for block in blocks_of(rows)}
