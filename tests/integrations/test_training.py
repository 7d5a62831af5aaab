"""The marks of a training, without any framework."""

from __future__ import annotations

import pickle
import sys

import pytest
from programs import real_python

import flatline
from flatline.integrations.training import Training, harmless

TRAINS = """
from flatline.integrations.training import Training
training = Training(every_s={every_s})
training.begins(40)
training.epoch_begins(2, 40)
for step in range(41, 44):
    training.step_ends(step)
"""


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_last_whole_step_is_the_innermost_phase_of_a_training_that_was_killed(job, is_installed):
    """Also by a Python that has no flatline but what the recorder gives."""
    python = sys.executable if is_installed else real_python("3.8")
    job.run(TRAINS.format(every_s=0) + "import os; os.kill(os.getpid(), 9)", python=python)
    assert [event.text for event in job.ring().open] == ["training", "epoch 2", "after step 43"]


def test_steps_are_marked_only_so_often(job):
    job.run(TRAINS.format(every_s=3600) + "training.epoch_ends(43)\ntraining.ends()")
    assert job.marks() == [
        "+ training", "+ after step 40", "- after step 40", "+ epoch 2", "+ after step 40",
        "- after step 40", "- epoch 2", "+ after step 43", "- after step 43", "- training",
    ]  # fmt: skip
    assert not job.ring().open


def test_a_training_that_begins_anew_has_left_what_an_error_left_open(job):
    job.run(TRAINS.format(every_s=0) + "training.begins(43)\ntraining.ends()")
    assert not job.ring().open


def test_without_the_recorder_nothing_is_kept_open():
    assert flatline.phase.listener is None
    training = Training(every_s=0)
    training.begins(0)
    training.step_ends(1)
    assert training._open == {}
    training.ends()


def test_an_error_in_a_handler_never_reaches_the_training():
    @harmless
    def on_step_end(state):
        Training().step_ends(state.global_step)

    on_step_end(object())


def test_what_is_open_can_be_sent_to_a_child_that_is_spawned():
    assert pickle.loads(pickle.dumps(Training(every_s=5)))._every_s == 5
