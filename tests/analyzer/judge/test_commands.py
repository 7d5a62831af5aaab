"""``flatline analyze`` and ``flatline rules`` as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.analyzer.commands import analyze, rules
from flatline.analyzer.judge.pack import load_rulebook

GOLDEN = Path(__file__).parents[3] / "fixtures" / "bundles" / "golden-1.0.flatline.zip"


def test_the_json_is_the_report(capsys):
    code = analyze.main([str(GOLDEN), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "flatline-report/1"
    assert report["bundles"][0]["name"] == GOLDEN.name
    assert code in (0, 10, 11)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(["--format", "html", "-o"], "golden-1.0.html"), (["-o", "r.md"], "r.md"), (["-o", "r.json"], "r.json")],
)
def test_the_report_is_written_where_it_is_wanted(tmp_path, monkeypatch, capsys, arguments, name):
    monkeypatch.chdir(tmp_path)
    analyze.main([str(GOLDEN), *arguments])
    assert (tmp_path / name).stat().st_size > 100
    assert capsys.readouterr().out == ""


def test_what_cannot_be_read_is_said_in_a_line_with_exit_code_20(tmp_path, capsys):
    path = tmp_path / "no.zip"
    path.write_text("no bundle")
    assert analyze.main([str(path)]) == 20
    err = capsys.readouterr().err
    assert err.startswith("flatline: ")
    assert "Traceback" not in err


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path, capsys):
    assert analyze.main([str(GOLDEN), "-o", str(tmp_path / "none" / "r.txt")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_folder_of_rules_that_is_none_is_a_usage_error(tmp_path, capsys):
    assert analyze.main([str(GOLDEN), "--rules", str(tmp_path / "none")]) == 2
    assert "is no folder of rules" in capsys.readouterr().err


def test_a_broken_rule_of_ones_own_is_said_once_before_anything_is_analyzed(pack, capsys):
    path = pack("bad", "requires: 7\n")
    assert analyze.main([str(GOLDEN), "--rules", str(pack.folder), "--format", "json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"flatline: {path}:11:11")
    assert err.count("bad.yaml") == 1


def test_a_report_is_for_its_owner_only_also_where_one_was_before(tmp_path):
    for name in ("new.html", "old.html"):
        path = tmp_path / name
        if name == "old.html":
            path.write_bytes((tmp_path / "new.html").read_bytes() + b"x" * 1_000_000)
            path.chmod(0o644)
        analyze.main([str(GOLDEN), "-o", str(path)])
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("name", ["report.txt", "report.html", "report.md", "report.json"])
def test_only_an_earlier_report_is_replaced_unasked(name, tmp_path, capsys):
    path = tmp_path / name
    path.write_text("step 41 loss 2.07\n")
    assert analyze.main([str(GOLDEN), "-o", str(path)]) == 2
    assert "exists and is no report of flatline" in capsys.readouterr().err
    assert path.read_text() == "step 41 loss 2.07\n"
    assert analyze.main([str(GOLDEN), "-o", str(path), "--force"]) == 10
    first = path.read_text()
    assert analyze.main([str(GOLDEN), "-o", str(path)]) == 10
    assert path.read_text() == first
    path.write_text("")
    assert analyze.main([str(GOLDEN), "-o", str(path)]) == 10, "nothing is lost with an empty file"


@pytest.mark.parametrize("name", ["job.flatline.zip", "other.zip", "fifo.html", "link.html", "device"])
def test_a_bundle_or_what_is_no_file_is_never_overwritten(name, tmp_path, capsys):
    bundle, place = tmp_path / "job.flatline.zip", tmp_path / name
    bundle.write_bytes(GOLDEN.read_bytes())
    if name == "fifo.html":
        os.mkfifo(place)
    if name == "link.html":
        place.symlink_to(bundle)
    if name == "device":
        place = Path("/dev/full")
    assert analyze.main([str(bundle), "--format", "html", "-o", str(place)]) == 2
    assert "flatline: " in capsys.readouterr().err
    assert bundle.read_bytes() == GOLDEN.read_bytes()


@pytest.mark.parametrize("name", ["report.pdf", "report"])
def test_a_suffix_that_names_no_format_is_a_usage_error_that_names_those_that_do(name, tmp_path, capsys):
    assert analyze.main([str(GOLDEN), "-o", str(tmp_path / name)]) == 2
    assert ".html, .htm, .md, .json, .txt" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m flatline rules show lock-file-stale | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_rules_list_show_lint_and_schema(capsys):
    assert rules.main(["list"]) == 0
    assert "lock-file-stale" in capsys.readouterr().out
    assert rules.main(["show", "lock-file-stale"]) == 0
    assert "id: lock-file-stale" in capsys.readouterr().out
    assert rules.main(["lint"]) == 0
    assert "rules are in order" in capsys.readouterr().out
    assert rules.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"].startswith("flatline rule")


def test_rules_test_fails_with_the_case_that_fails(pack, capsys):
    case = "- {name: it should, kind: fires, facts: {threads: [{pid: 1, tid: 1, state: S}]}}\n"
    pack("made-rule", "requires: [{weight: strong, find: threads, where: {state: D}}]\n", test=case)
    assert rules.main(["test", "made-rule", "--rules", str(pack.folder)]) == 1
    assert "made-rule: fires: it should: it does not fire" in capsys.readouterr().out


def test_rules_lint_of_a_broken_pack_names_file_line_and_column(pack, capsys):
    path = pack("bad", "requires: 7\n")
    assert rules.main(["lint", "--rules", str(pack.folder)]) == 1
    out, err = capsys.readouterr()
    assert f"{path}:11:11" in out
    assert err == ""


def test_an_unknown_rule_is_a_usage_error(capsys):
    assert rules.main(["show", "nope"]) == 2
    assert "there is no rule 'nope'" in capsys.readouterr().err


def test_a_cause_stands_for_all_rules_that_name_it(capsys):
    assert rules.main(["show", "lock-file-unsupported"]) == 0
    out, err = capsys.readouterr()
    ids = [line.removeprefix("id: ") for line in out.splitlines() if line.startswith("id: ")]
    book = load_rulebook()
    assert ids == [rule.id for rule in book.naming("lock-file-unsupported")]
    assert len(ids) > 1
    assert err == ""
    assert rules.main(["explain", "lock-file-unsupported", str(GOLDEN)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in told if line.partition(": ")[0] in ids] == ids


def test_a_rule_named_like_its_cause_is_shown_alone_and_what_else_names_the_cause_is_said(capsys):
    assert rules.main(["show", "crashed"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("id: ")] == ["id: crashed"]
    assert rules.main(["explain", "crashed", str(GOLDEN)]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    others = [rule.id for rule in load_rulebook().naming("crashed") if rule.id != "crashed"]
    assert others
    assert first.startswith("crashed: ")
    assert last == f"The cause crashed is named by these rules as well: {', '.join(others)}"


def test_the_list_has_the_cause_of_every_rule(capsys):
    assert rules.main(["list"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if " output-pager " in line)
    assert line.split()[:4] == ["terminal", "output-pager", "stable", "output-pipe-full"]


def test_explain_tells_of_every_condition_whether_it_holds(capsys):
    assert rules.main(["explain", "output-pipe-full", str(GOLDEN)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("output-pipe-full: ")
    assert "  stable, cause output-pipe-full, built-in" in out
    assert "requires, all of:" in out
    assert "supports (makes it likelier):" in out


def test_a_report_of_this_folder_has_its_name(tmp_path, monkeypatch, capsys):
    """``analyze . -o``: a folder without a name would give a report that is hidden."""
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    (evidence / "train.log").write_text("epoch 1\n")
    monkeypatch.chdir(evidence)
    analyze.main([".", "--format", "md", "-o"])
    assert capsys.readouterr().err == "wrote evidence.md\n"
