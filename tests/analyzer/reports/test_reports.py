"""Reports show what was found, and nothing that a target wrote can act in them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import Case, open_bundles
from flatline.analyzer.findings import (
    ChainEnd,
    Evidence,
    Finding,
    Report,
    ReportBundle,
    ReportChain,
    ReportGap,
    Step,
    Verdict,
)
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.reports import render
from flatline.analyzer.reports.view import log_tails
from flatline.analyzer.reports.visible import visible

from flatline.bundle.writer import BundleWriter

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\n"
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07title \x00 NUL \u202etfel\n"
    "</pre></details><iframe src='http://127.0.0.1:9/x'></iframe>{{ 7*7 }} ${7*7} ```\n"
    + "A" * 1_000_000 + "\n"
)  # fmt: skip


def panel_tables(text: str) -> dict[str, list[dict[str, object]]]:
    """Rows for every panel, each with what is worth a note, and hostile wherever a text may stand."""
    return {
        "gpus": [{"host": "h1", "index": 0, "vendor": "nvidia", "name": text, "memory": 100, "used": 90, "lost": True, "errors": [text]}],
        "gpu_processes": [{"host": "h1", "gpu": 0, "pid": 9, "name": text, "memory": 80, "in_job": False}],
        "gpu_drivers": [{"host": "h1", "vendor": "nvidia", "state": "hangs", "message": text, "module": text}],
        "packages": [{"process": "h1/7", "name": "torch", "version": text, "path": text, "broken": [text]}],
        "libraries": [{"process": "h1/7", "path": text, "family": "OpenMP", "version": text, "duplicate_of": [text]}],
        "limits": [{"process": "h1/7", "name": text, "soft": 10, "used": 10, "unlimited": False}],
        "cgroups": [{"process": "h1/7", "path": text, "memory_current": 99, "memory_max": 100, "memory_oom_kills": 2, "cpu_quota": 0.5}],
        "mounts": [{"path": text, "kind": text, "source": text, "network": True, "answers": False}],
        "kernel_events": [{"kind": "oom", "pid": 7, "time": text, "text": text}],
        "env": [{"process": "h1/7", "name": text, "value": text, "from_launcher": "changed"}],
        "files": [{"path": text, "process": "h1/7", "why_looked": "argument", "named_by": text, "exists": False}],
    }  # fmt: skip


def bundle_with(tmp_path: Path, log: bytes) -> Path:
    """A bundle whose every text is hostile."""
    hostile = HOSTILE[:200]
    tables = {
        "processes": [
            {"id": "h1/7", "host": "h1", "pid": 7, "argv": ["python", hostile], "role": "rank", "rank": 0, "relation": "target"}
        ],
        "threads": [
            {"id": "h1/7/7", "process": "h1/7", "pid": 7, "tid": 7, "is_main": True, "state": "S", "name": "MainThread" + hostile}
        ],
        "frames": [
            {"thread": "h1/7/7", "sample": 0, "depth": 0, "function": hostile, "file": "/job/<b>.py", "line_no": 3, "is_user": True,
             "source": [{"line": 3, "text": hostile}], "enclosing": [{"line": 1, "text": "while True:"}]},
            {"thread": "h1/7/7", "sample": 901, "depth": 0, "function": "inner", "locals": None},
            {"thread": "h1/7/7", "sample": 901, "depth": 1, "function": hostile, "file": "/job/<b>.py", "line_no": 3, "is_user": True,
             "locals": {"batch": "(1, 2, 3)", hostile: hostile}},
        ],
        **panel_tables(hostile),
        "logs": [{"stream": "stdout", "kind": "file", "path": "/job/" + hostile, "text": "logs/0-train.txt", "size": len(log)}],
    }  # fmt: skip
    writer = BundleWriter(tmp_path / "hostile.flatline.zip")
    writer.add("bundle.json", b'{"format":"flatline-bundle","format_version":"1.0"}')
    writer.add("facts/all.json", json.dumps({"schema": "flatline/all/1", "tables": tables}).encode())
    writer.add("logs/0-train.txt", log)
    entry = {"probe": "stacks", "status": "denied", "message": hostile, "hint": hostile, "seconds": 1.5}
    manifest = {"format": "flatline-bundle", "format_version": "1.0", "created_at": "2026-01-01T00:00:00Z", "complete": True, "ended_by": "finished", "ledger": [entry]}
    path = writer.publish(lambda files: [("manifest.json", json.dumps(manifest).encode())])
    writer.finish()
    return path


def report_of(name: str) -> Report:
    """A report in which every text is hostile too."""
    evidence = [
        Evidence(artefact="logs/0-train.txt", line=1, quote=HOSTILE[:200]),
        Evidence(artefact="facts/all.json", pointer="/tables/threads/0", quote="state S", pid=7, tid=7),
    ]
    step = Step(node="thread:h1/7/7", text="pid 7 " + HOSTILE[:200], pid=7, thread="MainThread", liveness="frozen", strength="proven", evidence=evidence)
    return Report(
        verdict=Verdict(state="hung", confidence=0.97, because=["it waits for ever " + HOSTILE[:200]], since_s=5400.0, last_sign="line 3"),
        chains=[ReportChain(root="pid 7", text="pid 7 waits for " + HOSTILE[:200], steps=[step], end=ChainEnd(kind="sink", what="stdin-read"))],
        chain=0,
        findings=[
            Finding(rule="r", cause="interactive-prompt", role="root-cause", confidence=0.95, word="very likely", title="T " + HOSTILE[:200],
                    summary="S", evidence=evidence, fix=["answer it"], confirm=["ls -l /proc/7/fd/0"], refs=["javascript:alert(1)"]),
            Finding(rule="s", cause="healthy", role="symptom", confidence=0.4, word="possible", title="a symptom", summary="", evidence=[], explained_by="r"),
        ],
        gaps=[ReportGap(probe="stacks", status="denied", message=HOSTILE[:200], hint="sudo flatline collect", would_decide=["other-rule"])],
        bundles=[ReportBundle(name=name, created_at="2026-01-01T00:00:00Z", sensitivity="UNREDACTED", redaction="first pass only")],
    )  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Report, Case]:
    path = bundle_with(tmp_path, HOSTILE.encode() + b"invalid \xff\xfe UTF-8\nno newline at the end")
    return report_of(path.name), open_bundles([path])


def test_the_terminal_summary_says_verdict_chain_cause_fix_and_gap(hostile: tuple[Report, Case]) -> None:
    text = render("text", *hostile)
    for expected in ("HUNG, silent for 90 min", "Root cause (very likely)", "interactive-prompt", "answer it", "sudo flatline collect", "Also seen", "UNREDACTED", "first pass only"):
        assert expected in text


@pytest.mark.parametrize("name", ["text", "md", "html"])
def test_no_control_character_of_a_target_reaches_a_reader(name: str, hostile: tuple[Report, Case]) -> None:
    text = render(name, *hostile)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)


@pytest.mark.parametrize("name", ["text", "md", "html"])
def test_a_line_of_a_megabyte_is_cut_and_its_length_is_said(name: str, hostile: tuple[Report, Case]) -> None:
    text = render(name, *hostile)
    assert len(text) < 400_000
    assert name == "text" or "characters]" in text


def test_the_terminal_summary_is_coloured_only_when_asked(hostile: tuple[Report, Case]) -> None:
    assert "\x1b[" not in render("text", *hostile)
    assert "\x1b[1;31mHUNG" in render("text", *hostile, colour=True)


def test_markdown_escapes_what_would_format_and_fences_what_would_close_a_fence(hostile: tuple[Report, Case]) -> None:
    text = render("md", *hostile)
    outside = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", text)
    assert "````text" in text
    assert not re.search(r"(?<!\\)<(?!/?details>|/?summary>)", outside)


def test_json_is_the_published_shape(hostile: tuple[Report, Case]) -> None:
    parsed = json.loads(render("json", *hostile))
    assert parsed["schema"] == "flatline-report/1"
    assert Report.model_validate_json(json.dumps(parsed)) == hostile[0]


def test_the_html_report_holds_every_section_with_links_to_the_places_cited(hostile: tuple[Report, Case]) -> None:
    text = render("html", *hostile)
    anchors = set(re.findall(r'id="(e\d+)"', text))
    assert anchors
    assert {link for link in re.findall(r'href="#(e\d+)"', text)} <= anchors
    for section in ("verdict", "cause", "chain", "processes", "stacks", "logs", "around", "ledger"):
        assert f'<section id="{section}">' in text
    panels = ["gpus", "packages", "libraries", "limits", "mounts", "kernel", "files", "environment"]
    assert re.findall(r'<details id="panel-(\w+)">', text) == panels


def test_local_variables_are_folded_away_below_the_stacks(hostile: tuple[Report, Case]) -> None:
    stacks = render("html", *hostile).partition('<section id="stacks">')[2].partition("</section>")[0]
    (folded,) = re.findall(r"<details><summary>Local variables of pid 7 MainThread.*?</details>", stacks, re.DOTALL)
    assert re.search(r"<tr><td>batch</td><td[^>]*>\(1, 2, 3\)</td></tr>", folded)
    assert "inner" not in folded
    assert "(1, 2, 3)" not in stacks.replace(folded, "")


def test_the_html_report_names_no_outside_resource_and_no_script(hostile: tuple[Report, Case]) -> None:
    text = render("html", *hostile)
    assert "Content-Security-Policy" in text
    assert not re.search(r"<(script|iframe|img|link rel=.stylesheet|object|embed)\b", text)
    assert not re.search(r'(?:href|src|action)="(?!#|data:,)', text)


def test_visible_leaves_ordinary_text_alone() -> None:
    assert visible("Schritt 3: Verlust 0,25 – 再试 ✓ 🙂") == "Schritt 3: Verlust 0,25 – 再试 ✓ 🙂"


def test_the_html_report_is_inert_in_a_real_browser(hostile: tuple[Report, Case], tmp_path: Path) -> None:
    """Chromium runs no script of the page, logs no error, and asks nothing but the page itself."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs chromium")
    page, net_log = tmp_path / "report.html", tmp_path / "net.json"
    page.write_text(render("html", *hostile))
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-extensions", f"--user-data-dir={tmp_path}/profile", f"--log-net-log={net_log}",
         "--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "<title>flatline: hung, interactive-prompt</title>" in done.stdout
    assert not re.search(r"<(script|iframe|img)\b", done.stdout)
    assert "CONSOLE" not in done.stderr, done.stderr
    asked = {url for url in re.findall(r'"url":"([^"]+)"', net_log.read_text()) if not url.startswith(("file:", "data:", "chrome:"))}
    assert not [url for url in asked if "127.0.0.1:9" in url or url == "x"], asked
    assert "127.0.0.1:9" not in net_log.read_text()


def test_json_spells_out_what_would_steer_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nRuntimeError: \u202etfel \x9b2J \x7f\n",
        encoding="utf-8",
    )  # fmt: skip
    with open_case([tmp_path / "train.log"]) as case:
        text = render("json", analyze(case, load_rulebook([])), case, colour=False)
    assert not set(text) & {"\u202e", "\x9b", "\x7f"}
    assert "\u202etfel" in json.dumps(json.loads(text), ensure_ascii=False)


def test_the_html_report_of_pasted_text_says_no_time_of_a_collect(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 0.2\n", encoding="utf-8")
    with open_case([tmp_path / "train.log"]) as case:
        page = render("html", analyze(case, load_rulebook([])), case, colour=False)
    assert "train.log" in page
    assert "taken " not in page
    assert "incomplete" not in page


def test_a_report_of_pasted_text_does_not_call_it_redacted(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 0.2\n", encoding="utf-8")
    with open_case([tmp_path / "train.log"]) as case:
        report = analyze(case, load_rulebook([]))
        page, web, screen = (render(name, report, case, colour=False) for name in ("md", "html", "text"))
    assert [(bundle.sensitivity, bundle.redaction) for bundle in report.bundles] == [("as given", "none")]
    assert "their secrets are not hidden here" in page
    assert "their secrets are not hidden here" in web
    assert "UNREDACTED" not in page + web + screen


FULL = "OSError: [Errno 28] No space left on device: '/ckpt/a'"


def full_disk(tmp_path: Path, text: str, name: str) -> str:
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    with open_case([tmp_path / "train.log"]) as case:
        return render(name, analyze(case, load_rulebook([])), case, colour=False)


def test_a_line_of_a_log_comes_with_the_lines_beside_it_folded_where_a_page_can_fold(tmp_path: Path) -> None:
    text = f"step 8\nstep 9\nsaving <b>all</b>\n{FULL}\n\n  giving up\n"
    (found,) = json.loads(full_disk(tmp_path, text, "json"))["findings"][0]["evidence"]
    assert (found["line"], found["before"], found["after"]) == (4, ["step 9", "saving <b>all</b>"], ["", "  giving up"])
    around = f"      2  step 9\n      3  saving <b>all</b>\n      4> {FULL}\n      5\n      6    giving up\n"
    (folded,) = re.findall(r"<details><summary>The lines around</summary>.*?</details>", full_disk(tmp_path, text, "md"), re.DOTALL)
    assert around in folded
    cause = full_disk(tmp_path, text, "html").partition('<section id="cause">')[2].partition("</section>")[0]
    folded, *_ = re.findall(r'<details><summary class="dim">the lines around</summary>.*?</details>', cause, re.DOTALL)
    assert "saving &lt;b&gt;all&lt;/b&gt;" in folded
    assert "<b>" not in folded


@pytest.mark.parametrize("name", ["text", "md", "html"])
def test_a_report_says_of_a_line_that_it_is_one_of_very_many(name: str, tmp_path: Path) -> None:
    assert "such lines" not in full_disk(tmp_path, f"{FULL}\n" * 49, name)
    assert "one of at least 50 such lines" in full_disk(tmp_path, f"{FULL}\n" * 300, name)
    (found,) = json.loads(full_disk(tmp_path, f"{FULL}\n" * 300, "json"))["findings"][0]["evidence"]
    assert found["of_at_least"] == 50


def test_of_a_log_too_long_to_be_read_again_the_cited_place_still_shows(tmp_path: Path) -> None:
    text = "a line\n" * 200_100 + f"saving\n{FULL}\n"
    page = full_disk(tmp_path, text, "html")
    place = page.partition('<section id="excerpts">')[2]
    assert f" 200102&gt; {FULL.replace(chr(39), '&#39;')}" in place


@pytest.mark.parametrize(("name", "says"), [("text", "the rule: disk-full. "), ("md", "The rule: disk-full. "), ("html", "rule: disk-full")])
def test_a_report_names_the_rule_that_can_be_explained(name: str, says: str, tmp_path: Path) -> None:
    assert says in full_disk(tmp_path, f"{FULL}\n", name)


def test_what_came_after_a_log_was_read_is_said_beside_its_text(tmp_path: Path) -> None:
    text = b"retry 1\nretry 2\n"
    log = {"stream": "stdout", "kind": "file", "path": "/job/train.log", "text": "logs/01-train.txt", "size": len(text), "last_write_age_s": 6.7}
    sizes = [{"path": path, "sample": n, "mono_ns": n, "size": size} for path, given in (("/job/train.log", (16, 24)), ("/job/b", (9, 99))) for n, size in enumerate(given)]
    writer = BundleWriter(tmp_path / "job.flatline.zip")
    writer.add("bundle.json", b'{"format":"flatline-bundle","format_version":"1.0"}')
    writer.add("facts/all.json", json.dumps({"schema": "flatline/all/1", "tables": {"logs": [log], "log_samples": sizes}}).encode())
    writer.add("logs/01-train.txt", text)
    bundle = writer.publish(lambda files: [("manifest.json", b'{"format":"flatline-bundle","format_version":"1.0"}')])
    writer.finish()
    case = open_bundles([bundle])
    (tail,) = log_tails(case)
    assert tail.about.endswith("last written 7 s before it was read, 8 bytes more came while it was watched, and are not here")
