"""Fields that are worked out on the spot."""

from __future__ import annotations

import pytest
from flatline.analyzer.judge.fields import value_of

from flatline.bundle.facts import Scheduler


@pytest.mark.parametrize(
    ("pod", "group"),
    [
        ("fit-master-0", "fit"),
        ("fit-worker-1-x7k2p", "fit"),
        ("team-a/fit-large-worker-0", "fit-large"),
        ("llm-70b-3-c8t5n", "llm-70b"),
        ("serve-6d4cf56db6-9qzpl", "serve"),
        ("cluster-a-head-2b7mw", "cluster-a"),
        ("train", "train"),
        ("prep-old", "prep-old"),
        ("worker-0", ""),
    ],
)
def test_the_pods_of_a_job_are_known_by_what_their_names_have_in_common(pod: str, group: str):
    assert value_of(Scheduler("kubernetes", pod), "group") == group


def test_a_job_of_another_scheduler_is_no_pod():
    assert value_of(Scheduler("slurm", "fit-0"), "group") is None
