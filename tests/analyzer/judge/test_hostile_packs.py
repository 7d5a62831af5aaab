"""A pack from anybody: every fault with its place, all in one run, and neither a hang nor a crash."""

import json

import pytest
from flatline.analyzer.commands import rules
from flatline.analyzer.judge import verdicts
from flatline.analyzer.judge.evaluate import Solver
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.lint import lint
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.samples import sample_store
from flatline.analyzer.judge.verdicts import Fired, judge

FITS = "requires: [{weight: strong, find: threads, where: {state: D}}]\n"
SEEN = "requires: [{weight: strong, find: log, where: {pattern: seen}}]\n"
DEEP = "requires:\n  - " + "{all: [" * 17 + "{find: threads}" + "]}" * 17 + "\n"
BOMB = "requires: [{find: threads}]\nrefs:\n" + "  - &a0 [x, x]\n" + "".join(f"  - &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
WRITTEN = {
    "alias-bomb": (BOMB, ":13:5: anchors and aliases are not allowed"),
    "anchor": ("requires: &x [{find: threads}]\n", ":11:11: anchors"),
    "merge-key": (FITS + "<<: {why: x}\n", ":12:1: <<: there is no such key here"),
    "tag": (FITS + "refs: !!python/object/apply:os.system [id]\n", ":12:7: tag"),
    "duplicate": (FITS + "why: again\n", ":12:1: duplicate key 'why'"),
    "unknown-key": (FITS + "run: rm -rf /\n", ":12:1: run: there is no such key here"),
    "unknown-in-condition": ("requires: [{find: threads, exec: x}]\n", ":11:28: exec: there is no such key here"),
    "not-a-number": ("requires: [{find: threads, where: {cpu_ms: {gt: .nan}}}]\n", ":11:49: requires.0.where.cpu_ms.gt: "),
    "infinite": ("requires: [{find: threads, where: {cpu_ms: {gt: 1e999}}}]\n", ":11:49: 1e999 is larger"),
    "deep": (DEEP, ": nested too deeply"),
    "abyss": ("requires: " + "[" * 20_000 + "\n", ""),
    "half": ("requires: [{find: threads\n", ":12:1: "),
    "lookahead": (SEEN + "patterns: {seen: '(?=never ending)'}\n", ":12:18: pattern seen: invalid perl operator"),
    "backreference": (SEEN + "patterns: {seen: '(never) ending \\1'}\n", ":12:18: pattern seen: invalid escape sequence"),
    "repeats": (SEEN + "patterns: {seen: '((never{1000}){1000}){1000}'}\n", ":12:18: pattern seen: "),
    "brackets": (SEEN + f"patterns: {{seen: '{'(' * 5000}never{')' * 5000}'}}\n", ":12:18: pattern seen: "),
    "nested": (SEEN + f"patterns: {{seen: '{'(?:abcd|' * 200}never{')' * 200}'}}\n", ":12:18: pattern seen: its groups may be 50 deep"),
    "unfolded": (SEEN + "patterns: {seen: 'never\\pL{200}'}\n", ":12:18: pattern seen: it is too large: RE2 makes 2"),
    "not-its-name": ("requires: [{find: log, where: {pattern: {re: never}}}]\n", "`pattern` is the name of one"),
    "big-pattern": (SEEN + f"patterns: {{seen: 'never{'(a|b)?' * 100_000}'}}\n", ":12:18: pattern seen: it may have 4,000 characters"),
    "no-pattern": (SEEN, ":11:57: pattern 'seen' is not among"),
    "itself": (FITS + "explains: [itself]\n", ":12:11: explains itself"),
    "ring-one": (FITS + "explains: [ring-two]\n", ":12:11: explains itself"),
    "ring-two": (FITS + "supersedes: [ring-one]\n", ":12:13: explains itself"),
    "wrong-cause": (FITS.replace("requires", "cause: nowhere\nrequires"), ":11:1: duplicate key 'cause'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """One pack with everything, loaded once."""
    folder = tmp_path_factory.mktemp("hostile") / "pack"
    (folder / "made").mkdir(parents=True)
    (folder / "causes.yaml").write_text('- {id: made-up, family: made, title: "Made up"}\n')
    for name, (body, _) in WRITTEN.items():
        (folder / "made" / f"{name}.yaml").write_text(head(name) + body)
    (folder / "made" / "no-text.yaml").write_bytes(head("no-text").encode() + b"requires: x\xff\n")
    (folder / "made" / "huge.yaml").write_text(head("huge") + "refs:\n" + "  - x\n" * 2_000_000)
    (folder / "made" / "values.yaml").write_text(head("values") + "refs: [" + "x," * 60_000 + "]\n")
    (folder / "made" / "good.yaml").write_text(head("good") + FITS)
    return load_rulebook([folder], built_in=False)


def head(name):
    texts = "title: t\nwhy: w\nfix: [f]\nconfirm: [c]\naction: a\nnot_this_when: n\n"
    return f"id: {name}\nversion: 1\nstatus: stable\ncause: made-up\n{texts}"


def faults(book, name):
    return [str(problem) for problem in book.problems if problem.file.endswith(f"/{name}.yaml")]


@pytest.mark.parametrize(("name", "says"), [(name, says) for name, (_, says) in WRITTEN.items()])
def test_every_fault_has_file_line_and_column_in_one_run(book, name, says):
    found = faults(book, name)
    assert found, "refused by nobody"
    assert any(says in fault for fault in found) or not says, found


@pytest.mark.parametrize(("name", "says"), [("no-text", ":11:12: cannot be read as UTF-8"), ("huge", ":1:1: a rule file may have 1 MB"), ("values", "more than 50,000 values")])  # fmt: skip
def test_bytes_megabytes_and_too_many_values(book, name, says):
    assert says in faults(book, name)[0]


def test_the_good_rule_beside_them_still_fires(book):
    store, text_of = sample_store({"threads": [{"pid": 1, "tid": 1, "state": "D"}]})
    judgement = judge(book.rules, FactIndex(store, text_of))
    assert "good" in {fired.rule.id for fired in judgement.fired}


def test_lint_of_all_of_it_ends_and_names_the_same(book):
    found = {(problem.file, problem.line) for problem in lint(book).errors}
    assert {(problem.file, problem.line) for problem in book.problems} <= found


def test_patterns_that_would_backtrack_for_years_are_as_quick_as_any(pack, judged):
    pack("slow", SEEN + "patterns: {seen: '(never+)+$'}\n")
    line = "never" * 10_000 + "x"
    assert not isinstance(judged({"logs": [{"stream": "stdout", "content": line + "\n"}]}).get("slow"), Fired)


def test_the_command_exits_with_the_faults_and_no_traceback(pack, capsys, monkeypatch):
    monkeypatch.setattr("flatline.analyzer.commands.rules.load_rulebook", lambda folders, **_: load_rulebook(folders, built_in=False))
    pack("tag", FITS + "refs: !x y\n")
    pack("duplicate", FITS + "why: again\n")
    assert rules.main(["lint", "--rules", str(pack.folder)]) == 1
    out, err = capsys.readouterr()
    assert "tag.yaml:12:7: tag" in out
    assert "duplicate.yaml:12:1: duplicate key" in out
    assert err == ""


@pytest.mark.parametrize("text", ["[" * 100_000, "- 1", "{a: 1}", "name: ours\nversion: &v '1'\n", "name: ours\nversion: '1'\nengine: 1e3\n", "\x00", json.dumps({"name": "x" * 2_000_000})])  # fmt: skip
def test_a_pack_file_that_is_wrong_is_named_and_the_rules_are_loaded(pack, text):
    pack("good", FITS)
    (pack.folder / "pack.yaml").write_text(text)
    (pack.folder / "causes.yaml").write_text('- {id: made-up, family: made, title: "Made up"}\n- 7\n')
    loaded = load_rulebook([pack.folder], built_in=False)
    assert {str(problem).split(":")[0].rsplit("/")[-1] for problem in loaded.problems} == {"pack.yaml", "causes.yaml"}
    assert [rule.id for rule in loaded.rules] == ["good"]


def test_the_patterns_of_a_pack_are_bounded_together_and_what_is_too_much_is_not_even_compiled(pack):
    pack("good", FITS)
    large = "".join(f"  p{number}: '.{{0,1000}}never{{20}}{number}'\n" for number in range(3000))
    (pack.folder / "pack.yaml").write_text(f'name: ours\nversion: "1"\npatterns:\n{large}')
    book = load_rulebook([pack.folder], built_in=False)
    assert 100 < len(book.packs[0].patterns) < 1000
    first, *_, last = sorted(book.problems)
    assert "pattern p" in first.message
    assert "too large together" in last.message
    assert [rule.id for rule in book.rules] == ["good"]


MANY = "requires:\n" + "".join(f"  - {{find: log, as: v{n}, where: {{pattern: seen}}}}\n" for n in range(3))


def test_all_rules_together_look_at_so_many_rows_and_no_more(pack, monkeypatch):
    body = MANY + "  - {find: log, after: v1, where: {pattern: other}, with: [{find: log, where: {pattern: other, number: {lt: 0}}}]}\n"
    for number in range(30):
        pack(f"slow-{number}", body + "patterns: {seen: 'seen', other: 'other'}\n")
    pack("zz-good", SEEN + "patterns: {seen: 'seen'}\n")
    taken = []
    monkeypatch.setattr(verdicts, "MAX_STEPS_IN_ALL", 300_000)
    one_step = Solver._step
    monkeypatch.setattr(Solver, "_step", lambda self: (taken.append(1), one_step(self)))
    store, text_of = sample_store({"logs": [{"stream": "stdout", "content": "seen\nother\n" * 150}]})
    judgement = judge(load_rulebook([pack.folder], built_in=False).rules, FactIndex(store, text_of))
    assert len(taken) <= 300_000 + 31
    assert {reason for undecided in judgement.undecided for reason in undecided.missing} == {"too many rows to compare"}
