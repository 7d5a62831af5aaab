"""YAML of rule files: plain data with places; whatever could surprise a reader is refused with its place."""

import pytest
from flatline.analyzer.judge.yaml_source import YamlRefused, read_document


def test_words_that_older_yaml_reads_as_booleans_stay_text():
    assert read_document("a: [no, on, yes, 12:30, 2026-01-01, 1.5, -3, true, ~]", "f").data == {
        "a": ["no", "on", "yes", "12:30", "2026-01-01", 1.5, -3, True, None]
    }


def test_quoted_and_folded_scalars_are_text():
    assert read_document("a: '1'\nb: >\n  true\n", "f").data == {"a": "1", "b": "true\n"}


def test_every_value_and_key_has_a_place():
    document = read_document("a:\n  - b: 1\n    c: 2\n", "f.yaml")
    assert document.values["a", 0, "c"] == (3, 8)
    assert document.keys["a", 0, "c"] == (3, 5)
    assert str(document.problem(("a", 0, "c", "missing"), "is wrong")) == "f.yaml:3:8: is wrong"


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("a: &x 1", "1:4", "anchors"),
        ("a: *x", "1:4", "anchors"),
        ("a: 1\na: 2", "2:1", "duplicate key 'a'"),
        ("a: !!python/object/apply:os.system [id]", "1:4", "tag"),
        ("a: !x 1", "1:4", "tag"),
        ("? [a]\n: b", "1:3", "plain text"),
        ("a: 010", "1:4", "leading zero"),
        ("a: " + "9" * 5000, "1:4", "too long"),
        ("a: 1e999", "1:4", "larger than any number"),
        ("[" * 40 + "]" * 40, "1:34", "too deeply"),
        ("[" * 100_000, "", "nesting"),
        ("---\na: 1\n---\nb: 2\n", "3:1", "one document"),
        ("a: 'x", "1:6", "unexpected end"),
        ("a: " + "x" * 1_100_000, "1:1", "1 MB"),
        ("- 1\n" * 60_000, "", "50,000"),
        ("b: 1\na: \x00", "2:4", "control characters"),
    ],
)
def test_what_a_rule_file_may_not_hold_is_refused_with_its_place(text, place, reason):
    with pytest.raises(YamlRefused) as refused:
        read_document(text, "f.yaml")
    assert str(refused.value).startswith(f"f.yaml:{place}")
    assert reason in str(refused.value)


def test_all_faults_that_can_be_read_past_are_named_in_one_go():
    text = "a: &x 1\na: 2\nb: *x\nc: !!binary aGk=\nd: 007\ne: [1, 'x\n"
    with pytest.raises(YamlRefused) as refused:
        read_document(text, "f")
    places = [str(problem).split(": ")[0] for problem in refused.value.problems]
    assert places == ["f:1:4", "f:2:1", "f:3:4", "f:4:4", "f:5:4", "f:7:1"]


def test_faults_without_end_are_not_all_named():
    with pytest.raises(YamlRefused) as refused:
        read_document("a: 1\n" * 1000, "f")
    assert len(refused.value.problems) == 51
    assert "more than 50 faults" in refused.value.problems[-1].message


def test_a_bomb_of_aliases_does_not_explode():
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    with pytest.raises(YamlRefused, match="anchors"):
        read_document("\n".join(lines), "f")
