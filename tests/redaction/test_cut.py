"""Half a secret: what is cut before it is hidden."""

from __future__ import annotations

import pytest

from flatline.bundle.facts import File, Log, Process, SourceLine
from flatline.redaction import Redactor
from flatline.redaction.shape_table import SHAPES

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


@pytest.mark.parametrize(
    "text",
    [
        "/venv/lib/python3.11/site-packages/sentry_sdk-2.19.2.dist-info",
        "opentelemetry_sdk-1.29.0.dist-info",
        "aws_xray_sdk-2.14.0.dist-info",
        "google_api-2.24.0rc1-py3-none-any.whl",
        "tests/analyzer/test_own_rules.py",
        "pytest tests/test_a1_b2_c3.py::test_z3_x",
        "test_rank0_batch.py",
        "runs/test_bf16-h100-8x8-v2",
        "live_2024-11-05T10-32-01Z",
        "secret_key_from_env.py",
        "ckpt/pb_r1-v2-s3-lr3e4-wd1",
    ],
)
def test_the_name_of_a_file_at_the_end_of_a_text_is_no_cut_token(text):
    assert Redactor().text(text) == text
    assert Redactor().rows("t", [File(path=text)])[0]["path"] == text


@pytest.mark.parametrize("token", ["sdk-3f9a02c7-41be-4d", "test_0c9e4b7a1f38d25", "key-9d0e1f7a6b5c4d3e2", "pb_T7q2Zk9XwB4mR"])
def test_the_beginning_of_a_token_at_the_end_of_a_text_is_hidden(token):
    assert token not in Redactor().text(f"using {token}")


def test_what_a_cut_leaves_of_a_token_is_written_in_its_alphabet():
    kinds = {shape.kind: shape for shape in SHAPES}
    assert kinds["launchdarkly-key"].alphabet.fullmatch("3f9a02c7-41b")
    assert not kinds["launchdarkly-key"].alphabet.fullmatch("2.19.2.dist-info")
    assert not kinds["predibase-token"].alphabet.fullmatch("r1-v2")  # its look ahead allows more than its body
    assert all(shape.alphabet.fullmatch("") for shape in SHAPES)
