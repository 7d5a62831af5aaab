"""What was pasted beside each other is of one process, unless it contradicts itself."""

from __future__ import annotations

from io import BytesIO

from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import sieve
from flatline.analyzer.intake.sources import Source

ENV = "CUDA_VISIBLE_DEVICES=0,1\nNCCL_DEBUG=INFO\nHOME=/home/a\nPATH=/usr/bin\n"
FREEZE = "numpy==1.26.4\ntorch==2.3.1\ntransformers==4.41.2\naccelerate==0.30.1\n"
DUMP = 'Process 42: python a.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread 42 (idle): "MainThread"\n    main (a.py:1)\n'


def owners(*texts):
    case = case_of_texts([Source(f"{n}.txt", sieve(BytesIO(t.encode()))) for n, t in enumerate(texts)], "x")
    return [{row.process for row in case.store.rows(table)} for table in ("env", "packages")]


def test_an_environment_and_a_package_list_are_of_one_process():
    env, packages = owners(ENV, FREEZE)
    assert env == packages
    assert len(env) == 1


def test_they_are_of_the_one_process_whose_stack_was_pasted():
    assert owners(ENV, DUMP, FREEZE) == [{"h1/42"}, {"h1/42"}]


def test_of_two_dumped_processes_it_is_neither():
    env, packages = owners(ENV, DUMP, DUMP.replace("42", "43"), FREEZE)
    assert env == packages
    assert env.isdisjoint({"h1/42", "h1/43"})


def test_two_lists_that_contradict_each_other_are_of_two_environments():
    _, packages = owners(FREEZE, FREEZE.replace("2.3.1", "2.4.0"))
    assert len(packages) == 2
