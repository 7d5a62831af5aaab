"""`flatline rules calibrate`: labelled cases in, figures out."""

import json
import re

import pytest
from flatline.analyzer.calibration.cases import LabelledCase, read_cases
from flatline.analyzer.calibration.figures import figures_of, is_wrong, records_of, same_first
from flatline.analyzer.calibration.result import falls_short
from flatline.analyzer.calibration.running import Named, Outcome, presented, run_all
from flatline.analyzer.commands import rules
from flatline.analyzer.findings import Measured
from flatline.analyzer.judge.measured import Calibration, parse_calibration
from flatline.analyzer.judge.pack import load_rulebook

from flatline.errors import UsageError

FULL = "Traceback (most recent call last):\n  File \"/job/train.py\", line 9, in <module>\n    save()\nOSError: [Errno 28] No space left on device\n"
CASES = [
    {"id": "full", "accept": ["disk-full"], "verdict": "crashed", "files": {"notes/start.txt": "sbatch train.sh\n", "train.log": FULL}},
    {"id": "nothing", "accept": [], "near_miss": True, "decidable": "no", "files": {"train.log": "epoch 1\nepoch 2\n"}},
]


@pytest.fixture(scope="module")
def book():
    return load_rulebook()


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in CASES))
    return path


def outcome(first, *, accept=("right",), word="likely", near_miss=False, shape="folder", name="case"):
    case = LabelledCase(id=name, accept=list(accept), near_miss=near_miss, files={"a": "b"})
    named = (Named("a-rule", first, "root-cause", word, 1.0, "very likely"),) if first else ()
    return Outcome(case, shape, "hung", named, tuple(n.rule for n in named))


def test_a_run_prints_the_figures_of_every_shape(cases, capsys):
    assert rules.main(["calibrate", str(cases), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    for shape in ("folder", "text", "ticket"):
        assert f"{shape}: right first 1/1 = 100.0% decidable" in out
    assert "near-misses wrong 0/1" in out
    assert "same first cause in all shapes: 2/2" in out


def test_several_processes_say_the_same_as_one(cases, book):
    one, two = (list(run_all(read_cases([cases]), ["folder"], book, jobs=jobs)) for jobs in (1, 2))
    assert one == two
    assert [o.first for o in one] == ["disk-full", None]


def test_json_has_everything_but_the_texts(cases, capsys):
    assert rules.main(["calibrate", str(cases.parent), "--jobs", "1", "--shape", "folder", "--holdout", "2", "--format", "json"]) == 0
    out = capsys.readouterr().out
    result = json.loads(out)
    assert result["shapes"]["folder"]["all"]["right_first"] == 1
    assert result["shapes"]["folder"]["put_aside"]["near_misses"] == 1
    assert [o["id"] for o in result["outcomes"]] == ["full", "nothing"]
    assert "No space left" not in out


def test_a_case_may_be_a_path_beside_its_labels(tmp_path, book):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "train.log").write_text(FULL)
    (tmp_path / "labels.jsonl").write_text(json.dumps({"id": "one", "accept": ["disk-full"], "path": "evidence"}))
    outcomes = list(run_all(read_cases([tmp_path]), ["folder", "text"], book))
    assert [(o.shape, o.first) for o in outcomes] == [("folder", "disk-full")]


def test_a_case_that_cannot_be_read_is_an_error_and_costs_only_itself(tmp_path, book):
    lines = [{"id": "gone", "accept": ["x"], "path": "nowhere"}, CASES[0]]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, lines)))
    gone, full = run_all(read_cases([tmp_path]), ["folder"], book)
    assert falls_short(gone) == "ERROR"
    assert "nowhere" in gone.error
    assert full.first == "disk-full"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "cases.jsonl:1: this is no JSON object"),
        ("[" * 100_000, "cases.jsonl:1: this is no JSON object"),
        ('{"id": "a"}', "cases.jsonl:1: Value error, a case has either files or a path"),
        ('{"id": "a", "files": {"../../etc/passwd": "x"}}', "is no name of a file in a folder"),
        ('{"id": "a", "files": {"/x": "x"}}', "is no name of a file in a folder"),
        ('{"id": "a", "verdict": "stuck", "files": {"x": "x"}}', "cases.jsonl:1: verdict: "),
        ('{"id": "a", "files": {"x": "x"}}\n\n{"id": "a", "files": {"x": "x"}}', "cases.jsonl:3: there is a case 'a' at"),
        ("", "there is no labelled case"),
    ],
)
def test_labels_that_are_wrong_are_named_with_their_line(tmp_path, line, says):
    (tmp_path / "cases.jsonl").write_text(line)
    with pytest.raises(UsageError, match=re.escape(says)):
        read_cases([tmp_path])


def test_a_folder_without_labels_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds neither"):
        read_cases([tmp_path])


def test_only_a_confident_wrong_cause_counts_as_wrong():
    assert is_wrong(outcome("other"))
    assert not is_wrong(outcome("other", word="possible"))
    assert not is_wrong(outcome(None))
    assert not is_wrong(outcome("right"))


def test_near_misses_and_positives_are_counted_apart():
    figures = figures_of([outcome("right"), outcome("other"), outcome("other", near_miss=True), outcome(None, near_miss=True)])
    assert (figures.decidable, figures.right_first, figures.wrong_confident) == (2, 1, 1)
    assert (figures.near_misses, figures.near_misses_wrong) == (2, 1)


def test_a_rule_record_counts_what_it_was_first_to_name():
    record = records_of([outcome("right"), outcome("other"), outcome("other", word="possible")])["a-rule"]
    assert (record.fired, record.named, record.right, record.wrong_confident) == (3, 3, 1, 1)


def test_shapes_agree_when_each_names_the_same_cause_first():
    same = [outcome("right", shape=shape, name="a") for shape in ("folder", "text")]
    differ = [outcome(cause, shape=shape, name="b") for cause, shape in (("right", "folder"), (None, "text"))]
    assert same_first([*same, *differ]) == (1, 2)


def test_every_shape_holds_every_text(tmp_path):
    case = LabelledCase(id="a", files={"one.log": "first text", "sub/two.log": "second text"})
    folder = presented(case, "folder", tmp_path)
    assert (folder / "sub/two.log").read_text() == "second text"
    text = presented(case, "text", tmp_path).read_text()
    ticket = presented(case, "ticket", tmp_path).read_text()
    assert "first text\n\nsecond text" in text
    assert "sub/two.log:\n\n```\nsecond text\n```" in ticket


def test_what_is_written_is_what_a_pack_is_read_with(cases, tmp_path, capsys):
    path = tmp_path / "calibration.json"
    assert rules.main(["calibrate", str(cases), "--jobs", "1", "--shape", "folder", "--write", str(path)]) == 0
    assert f"wrote {path}" in capsys.readouterr().err
    parsed = parse_calibration(path.read_text(), str(path))
    assert isinstance(parsed, Calibration)
    assert parsed.of_rule("disk-full") == Measured(cases=2, named=1, right=1)
