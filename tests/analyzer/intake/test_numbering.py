"""Which of several processes without a name is "the process", and which the second."""

from __future__ import annotations

from io import BytesIO

import pytest
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import sieve
from flatline.analyzer.intake.sources import Source

TRACE = """\
^CTraceback (most recent call last):
  File "/srv/fit.py", line 40, in <module>
    run()
  File "/srv/fit.py", line 31, in run
    queue.get()
  File "/usr/lib/python3.11/queue.py", line 171, in get
    self.not_empty.wait()
KeyboardInterrupt
"""
RUN = "$ docker run --rm --gpus all -v /data:/data fit:2 python fit.py\n"
ENV = "CUDA_VISIBLE_DEVICES=0,1\nNCCL_DEBUG=INFO\nHOME=/home/a\nPATH=/usr/bin\n"


@pytest.mark.parametrize("texts", [(TRACE, RUN), (RUN, TRACE), (TRACE, RUN, ENV), (TRACE,)])
def test_the_process_whose_stack_was_pasted_is_the_first(texts):
    """Not the container's command line beside it, whichever stands first."""
    case = case_of_texts([Source(f"{n}.txt", sieve(BytesIO(t.encode()))) for n, t in enumerate(texts)], "x")
    assert {row.thread.rpartition("/")[0] for row in case.store.rows("frames")} == {"h1/-1"}
