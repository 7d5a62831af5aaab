"""Fitting odds to what was true."""

import random

import pytest
from flatline.analyzer.calibration.fit import Observation, Scale, fitted, held_out, measured, wilson


def seen(scale, count, *, seed=1, families=4):
    """Causes that are right as often as `scale` says."""
    source = random.Random(seed)
    zs = [source.uniform(-2, 5) for _ in range(count)]
    return [Observation(z, source.random() < scale.p(z), "very likely", f"family{n % families}") for n, z in enumerate(zs)]


def test_odds_that_promise_too_much_are_lowered():
    found = fitted(seen(Scale(0.8, -1.4), 4000))
    assert found.slope == pytest.approx(0.8, abs=0.15)
    assert found.offset == pytest.approx(-1.4, abs=0.3)


def test_a_fit_is_better_than_what_it_started_from():
    observations = seen(Scale(0.6, -1.0), 400)
    assert measured(observations, fitted(observations).p).log_loss < measured(observations, Scale().p).log_loss


def test_a_family_left_out_is_judged_by_the_others():
    """One family is always right, the other always wrong: each is judged by the opposite of itself."""
    observations = [Observation(1.0, family == "a", "very likely", family) for family in "ab" for _ in range(40)]
    assert held_out(observations).log_loss > measured(observations, fitted(observations).p).log_loss


def test_without_observations_nothing_is_fitted():
    assert fitted([]) == Scale()
    assert held_out([]).observations == 0


def test_observations_that_are_all_right_do_not_run_away():
    found = fitted([Observation(3.0, True, "very likely", "a")] * 50)
    assert 1.0 <= found.slope < 2.0
    assert 0.0 <= found.offset < 1.0


def test_a_capped_rule_counts_under_the_word_it_may_say():
    words = {one.word: one for one in measured([Observation(9.0, True, "possible", "a")], Scale().p).words}
    assert (words["possible"].said, words["very likely"].said) == (1, 0)


def test_a_word_is_confirmed_only_when_the_lower_bound_reaches_its_floor():
    assert wilson(19, 19) == pytest.approx(0.832, abs=0.001)
    assert wilson(0, 0) == 0.0
    few = measured([Observation(9.0, True, "very likely", "a")] * 19, Scale().p).words[0]
    many = measured([Observation(9.0, True, "very likely", "a")] * 60, Scale().p).words[0]
    assert not few.is_confirmed
    assert many.is_confirmed
