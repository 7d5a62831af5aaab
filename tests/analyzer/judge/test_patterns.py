"""Patterns are RE2: what could backtrack is refused; without RE2 only our own patterns run."""

import pytest
from flatline.analyzer.judge import patterns
from flatline.analyzer.judge.patterns import PatternRefused, compile_pattern
from flatline.analyzer.scan.needed import needed_texts, shortest_needed


def test_named_groups_come_back():
    assert compile_pattern(r"rank (?P<rank>\d+)").search("on rank 12").groupdict() == {"rank": "12"}


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?<=a)b", "(", "a{5000}"])
def test_what_re2_does_not_know_is_refused(pattern):
    if patterns.re2 is None:
        pytest.skip("google-re2 is not installed")
    with pytest.raises(PatternRefused):
        compile_pattern(pattern)


def test_without_re2_other_packs_have_no_patterns_and_ours_still_work(monkeypatch):
    monkeypatch.setattr(patterns, "re2", None)
    assert compile_pattern("abc+", trusted=True).search("xabcc")
    with pytest.raises(PatternRefused, match="google-re2"):
        compile_pattern("abc+")


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"os\.fork\(\) was called", ("os.fork() was called",)),
        (r"\d+ Watchdog .* collective", (" collective",)),
        (r"(Pdb|ipdb)>", ("pdb", "ipdb")),
        (r"(?i)TimeOut", ("timeout",)),
        (r"(abcd)?x", ("x",)),
        (r"(abcd)+", ("abcd",)),
        (r"\d+", ()),
        (r"(abcd|\d+)", ()),
    ],
)
def test_the_text_every_match_needs(pattern, texts):
    assert sorted(needed_texts(pattern)) == sorted(texts)


def test_a_pattern_without_a_literal_needs_nothing():
    assert shortest_needed(r"[a-z]+\s\d") == 0
