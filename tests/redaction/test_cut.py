"""Half a secret: what is cut before it is hidden."""

from __future__ import annotations

import pytest

from flatline.bundle.facts import File, Log, Process, SourceLine
from flatline.redaction import Redactor

HF = "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"
PLAIN = "x8Fk2mQ9zL77aBcD9912"


def named(name: str, redactor: Redactor) -> object:
    return redactor.rows("processes", [Process(id="h1/1", host="h1", pid=1, name=name)])[0]["name"]


def test_the_kernel_keeps_fifteen_characters_of_a_thread_that_is_named_after_a_secret():
    redactor = Redactor()
    mark = redactor.learn("token", PLAIN)
    assert named(PLAIN[:15], redactor) == mark
    assert redactor.text(f"Name:\t{PLAIN[:15]}\nState: S") == f"Name:\t{mark}\nState: S"
    assert redactor.fork("x").text(f'"{PLAIN[:15]}"') == f'"{mark}"'


def test_the_beginning_inside_a_longer_word_is_another_word():
    redactor = Redactor()
    mark = redactor.learn("token", PLAIN)
    assert redactor.text(f"{PLAIN[:15]}Q7 {PLAIN}") == f"{PLAIN[:15]}Q7 {mark}"


def test_a_cut_name_that_begins_like_a_token_is_hidden():
    assert named(HF[:15], Redactor()) == "⟪hf-token·1⟫"


@pytest.mark.parametrize("name", ["hf_transfer_wor", "sk-learn-worker", "npm_config_watc", "pt_data_worker1", "wandb-service(2", "python3.11-work", "hf_download_012", "pathtool-worke2"])
def test_other_cut_names_stay(name):
    assert len(name) == 15
    assert named(name, Redactor()) == name


@pytest.mark.parametrize("before", range(440, 500, 7))
def test_a_text_is_cut_after_its_secrets_are_hidden(before):
    line = "x " * (before // 2) + f"token {HF} end"
    for row, field in ((Log(stream="file", last_line=line), "last_line"), (SourceLine(1, line[200:]), "text"), (File(path="/x", content=line[300:]), "content")):
        cut = Redactor().rows("t", [row])[0][field]
        assert "hf_Gou" not in cut
        assert cut.count("⟪") == cut.count("⟫")


def test_the_end_of_a_text_cuts_a_known_value():
    redactor = Redactor()
    mark = redactor.learn("token", PLAIN)
    assert redactor.text(f"token is {PLAIN[:9]}") == f"token is {mark}"
    redactor.learn("password", "training-x8Fk2mQ9zL77")
    assert redactor.text("it is training") == "it is training"


def test_the_end_of_a_text_cuts_a_token():
    assert Redactor().text(f"using {HF[:24]}") == "using ⟪hf-token·1⟫"
    for text in ("see hf_transfer_worker_12345", "npm_config_registry_v3", "sk-learn-worker-process-17", "task-0123456789abcdef0123"):
        assert Redactor().text(text) == text
