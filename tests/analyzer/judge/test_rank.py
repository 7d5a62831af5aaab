"""From weights to words."""

import pytest
from flatline.analyzer.judge.rank import (
    Item,
    capped,
    cycles,
    highest_word,
    log_odds,
    probability,
    reachable,
    shared_out,
    word_for,
)

STRONG, MEDIUM, DECISIVE = Item("a", "strong"), Item("b", "medium"), Item("c", "decisive")


def test_of_a_group_only_the_heaviest_item_counts():
    assert log_odds([STRONG] * 10, []) == log_odds([STRONG], [])
    assert log_odds([STRONG, MEDIUM], []) == pytest.approx(-0.5 + 2.8 + 1.4)


def test_what_contradicts_takes_away():
    assert log_odds([STRONG], [Item("x", "strong")]) == pytest.approx(-0.5)


def test_explained_symptoms_help_up_to_two():
    assert log_odds([STRONG], [], 1) - log_odds([STRONG], []) == pytest.approx(0.7)
    assert log_odds([STRONG], [], 9) - log_odds([STRONG], []) == pytest.approx(1.4)


@pytest.mark.parametrize(("p", "word"), [(0.95, "very likely"), (0.9, "very likely"), (0.7, "likely"),
                                         (0.4, "possible"), (0.39, "weak hint"), (0.0, "weak hint")])  # fmt: skip
def test_a_probability_has_a_word(p, word):
    assert word_for(p) == word


def test_a_strong_and_a_medium_item_are_enough_for_likely():
    assert word_for(probability(log_odds([STRONG, MEDIUM], []))) == "very likely"
    assert word_for(probability(log_odds([MEDIUM], []))) == "likely"


@pytest.mark.parametrize(
    ("known", "word"),
    [
        ({}, "likely"),
        ({"settled": False}, "possible"),
        ({"facts": 1}, "possible"),
        ({"facts": 1, "decisive": True}, "very likely"),
        ({"proven": True}, "very likely"),
        ({"proven": True, "strong": False}, "likely"),
        ({"decisive": True, "proven": True, "refuted": True}, "possible"),
    ],
)
def test_the_highest_word_depends_on_the_kind_of_evidence(known, word):
    usual = {"proven": False, "decisive": False, "strong": True, "facts": 2, "settled": True}
    assert highest_word(**(usual | known)) == word


def test_a_capped_probability_reads_as_the_cap():
    assert word_for(capped(0.99, "possible")) == "possible"
    assert capped(0.5, "very likely") == 0.5


def test_causes_that_exclude_each_other_share_one_probability():
    shares = shared_out({"a": 3.0, "b": 3.0})
    assert shares["a"] == shares["b"] < 0.5
    assert sum(shares.values()) < 1


def test_explaining_reaches_through_others_and_a_loop_is_found():
    graph = {"a": ["b"], "b": ["c"], "c": []}
    assert reachable(graph, "a") == {"b", "c"}
    assert cycles(graph) == []
    assert cycles({"a": ["b"], "b": ["a"]}) == ["a", "b"]
