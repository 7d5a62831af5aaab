"""Learning, forking, adopting, rewriting, reporting."""

from __future__ import annotations

import json
import pickle

import pytest

from flatline.redaction import Redactor

HF = "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"
GITHUB = "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"


def test_what_the_environment_teaches_is_hidden_in_a_bare_mention():
    redactor = Redactor()
    redactor.learn_environment({"TRACKER_PASSWORD": "x8Fk2mQ9zL", "HOME": "/root", "FLAG": "true"})
    assert redactor.text("login with x8Fk2mQ9zL from /root true") == "login with ⟪password·1⟫ from /root true"


def test_learning_counts_no_replacement():
    redactor = Redactor()
    redactor.learn_environment({"HF_TOKEN": HF})
    redactor.learn_argv(["python", "--api-key", "x8Fk2mQ9zL77"])
    assert dict(redactor.counts) == {}
    assert redactor.revision == 2


def test_the_first_mention_is_hidden_although_only_the_last_has_a_name():
    hidden = Redactor().text("connect x8Fk2mQ9zL77\nAPI_KEY=x8Fk2mQ9zL77\n")
    assert hidden == "connect ⟪api-key·1⟫\nAPI_KEY=⟪api-key·1⟫\n"


def test_a_common_word_is_hidden_in_its_place_alone():
    assert Redactor().argv(["python", "--password", "python"]) == ("python", "--password", "⟪password·1⟫")


@pytest.mark.parametrize(
    ("name", "value"),
    [("PATH", "/usr/bin:/bin"), ("HF_TOKEN", ""), ("HF_TOKEN", "true"), ("SSH_AUTH_SOCK", "/tmp/ssh-q1W2e3/agent.9"),
     ("GPG_KEY", "7169605F62C751356D054A26A821E680E5FA6305"), ("HF_TOKEN_PATH", "/root/.cache/token"), ("PWD", "/app"),
     ("GOOGLE_APPLICATION_CREDENTIALS", "/secrets/gcp.json"), ("MAX_TOKENS", "4096"), ("NVIDIA_VISIBLE_DEVICES", "GPU-1a2b")],
)  # fmt: skip
def test_environment_values_that_stay(name, value):
    assert Redactor().env_value(name, value) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("DB_PASSWORD", "correct horse battery"), ("DB_PASSWORD", "swordfish"), ("API_TOKEN", 'a"b\\c;d e1'), ("SECRET_KEY", "$x9!k,l}")],
)
def test_a_secret_environment_value_is_hidden_whole(name, value):
    hidden = Redactor().env_value(name, value)
    assert hidden.startswith("⟪")
    assert hidden.endswith("·1⟫")


def test_secrets_inside_harmless_variables():
    redactor = Redactor()
    assert redactor.env_value("https_proxy", "http://bob:x8Fk2mQ9@proxy:3128") == "http://⟪user·1⟫:⟪password·1⟫@proxy:3128"
    assert redactor.env_value("PIP_INDEX_URL", f"https://{GITHUB}@host/simple") == "https://⟪github-token·1⟫@host/simple"


@pytest.mark.parametrize(
    ("argv", "hidden"),
    [
        (["t.py", "--token", "abc1234def"], ("t.py", "--token", "⟪token·1⟫")),
        (["t.py", "--token", "--lr=3"], ("t.py", "--token", "--lr=3")),
        (["t.py", "--api-key=x1y2z3w4"], ("t.py", "--api-key=⟪api-key·1⟫")),
        (["docker", "run", "-e", "DB_PASSWORD=a b c", "img"], ("docker", "run", "-e", "DB_PASSWORD=⟪password·1⟫", "img")),
        (["mysql", "-pS3cretPw1", "db"], ("mysql", "-p⟪password·1⟫", "db")),
        (["curl", "-u", "bob:pw123x", "https://x/"], ("curl", "-u", "⟪user·1⟫:⟪password·1⟫", "https://x/")),
        (["bash", "-c", f"export T={HF}; python"], ("bash", "-c", "export T=⟪hf-token·1⟫; python")),
        (["t.py", "--max_tokens", "512", "--tokenizer", "gpt2"], ("t.py", "--max_tokens", "512", "--tokenizer", "gpt2")),
        ([], ()),
        (["", "a\nb", ""], ("", "a\nb", "")),
    ],
)
def test_command_lines(argv, hidden):
    assert Redactor().argv(argv) == hidden


def test_a_child_knows_what_its_parent_knew_and_marks_the_new_as_provisional():
    parent = Redactor()
    parent.learn("token", HF)
    child = parent.fork("stacks")
    assert child.text(f"{HF} {GITHUB}") == "⟪hf-token·1⟫ ⟪github-token·stacks.1⟫"
    found = child.take_found()
    assert [one.value for one in found] == [GITHUB]
    assert child.take_found() == []
    assert pickle.loads(pickle.dumps(found)) == found


def test_adopting_gives_one_final_mark_to_what_two_children_met():
    parent = Redactor()
    one, two = parent.fork("one"), parent.fork("two")
    texts = [one.text(f"a {GITHUB} {HF}"), two.text(f"b {HF}")]
    for child in (one, two):
        for provisional, final in parent.adopt(child.take_found()).items():
            texts = [text.replace(provisional, final) for text in texts]
    assert texts == ["a ⟪github-token·1⟫ ⟪hf-token·1⟫", "b ⟪hf-token·1⟫"]
    assert [parent.text(text) for text in texts] == texts


def test_children_of_children_stay_apart():
    parent = Redactor()
    child = parent.fork("one")
    assert child.fork("two").text(HF) != child.text(HF)


def test_what_is_learnt_later_is_replaced_by_rewriting():
    parent = Redactor()
    written = parent.text("password was x8Fk2mQ9zL, said the log")
    assert parent.rewrite(written) is None
    child = parent.fork("env")
    child.env_value("DB_PASSWORD", "x8Fk2mQ9zL")
    before = parent.revision
    parent.adopt(child.take_found())
    assert parent.revision > before
    assert parent.rewrite(written) == "password was ⟪password·1⟫, said the log"
    assert parent.rewrite("password was ⟪password·1⟫, said the log") is None


def test_the_report_tells_counts_and_no_values():
    parent = Redactor()
    parent.text(f"{HF} {HF} PASSWORD=hunter22x")
    parent.add_counts({"jwt": 3})
    report = parent.report()
    assert report["replacements"] == {"hf-token": 2, "jwt": 3, "password": 1}
    assert report["distinct"] == {"hf-token": 1, "password": 1}
    assert HF not in json.dumps(report)


def test_unredacted_passes_everything():
    redactor = Redactor(enabled=False)
    assert redactor.text(f"HF_TOKEN={HF} ⟪a·1⟫") == f"HF_TOKEN={HF} ⟪a·1⟫"
    assert redactor.env_value("HF_TOKEN", HF) == HF
    assert redactor.argv(["--token", HF]) == ("--token", HF)
    assert redactor.learn("x", HF) is None
    assert redactor.rewrite(HF) is None
    assert redactor.fork("x").text(HF) == HF
    assert redactor.report()["sensitivity"] == "UNREDACTED"


def test_a_repr_shows_no_value():
    redactor = Redactor()
    redactor.learn("token", HF)
    assert HF not in repr(redactor)
