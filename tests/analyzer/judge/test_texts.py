"""Texts quote what was bound, in words a person reads, and nothing a terminal obeys."""

import pytest
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.samples import sample_store
from flatline.analyzer.judge.texts import broken_braces, render

STORE, _ = sample_store({
    "processes": [{"pid": 7, "age_s": 7300.0, "argv": ["python", "train.py"], "tty": "pts/\x1b[31m3",
                   "tracer_pid": 0}],
    "threads": [{"pid": 7, "tid": 7, "stack": [{"at": "/job/train.py:3 main", "user": True}, "/l/queue.py:9 get"]}],
    "files": [{"path": "/a b", "holders": ["h1/7", "h1/8"]}],
})  # fmt: skip
BOUND = {"p": STORE.rows("processes")[0], "t": STORE.rows("threads")[0], "f": STORE.rows("files")[0]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pid {p.pid}", "pid 7"),
        ("{p.age_s} old", "2 h old"),
        ("{p.command}", "python train.py"),
        ("at {t.at}", "at train.py:3 in main"),
        ("{f.holders}", "pid 7, pid 8"),
        ("{p.rank}", "?"),
        ("{p.rank|no rank}", "no rank"),
        ("{q.pid|nobody}", "nobody"),
        ("{p.tracer_pid|nobody}", "nobody"),
        ("on {p.tty}", "on pts/ [31m3"),
        ("folded\ntext\n", "folded text"),
        ("ss -tnp | grep 'pid={p.pid}'    # ESTAB", "ss -tnp | grep 'pid=7' # ESTAB"),
        ("ss -tnp | grep 'pid={q.pid}'    # ESTAB", "ss -tnp # ESTAB"),
        ("ss -tnp | grep pid={q.pid}", "ss -tnp"),
    ],
)
def test_a_slot_shows_a_field(text, says):
    assert render(text, BOUND, FactIndex(STORE)) == says


@pytest.mark.parametrize("text", ["{pid}", "{t.pid", "{t.}", "}"])
def test_braces_that_are_no_slot_are_noticed(text):
    assert broken_braces(text)
