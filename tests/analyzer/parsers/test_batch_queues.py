"""What PBS, Grid Engine, LSF and HTCondor print of their queues: in the words that Slurm has for the same."""

from __future__ import annotations

import pytest
from parsing import only, rows_of

from flatline.bundle.facts import Scheduler

PBS = """\
Job id            Name             User              Time Use S Queue
----------------  ---------------- ----------------  -------- - -----
7001.head         pretrain         ann               03:10:11 R a100
7002[].head       sweep            ann                      0 Q a100
"""
PBS_WIDE = """\
                                                            Req'd  Req'd   Elap
Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time
--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----
7002.head       ann      a100     sweep         --    2  64  256gb 24:00 Q   --
    Not Running: Insufficient amount of resource: ngpus
7003.head       ann      a100     eval        9911    1   8   64gb 12:00 H   --
"""
PBS_FULL = """\
Job Id: 7002.head
    Job_Name = sweep
    job_state = H
    queue = a100
    comment = Job held, too many failed attempts to
\trun
    Variable_List = PBS_O_HOME=/home/ann,PBS_O_LANG=C,
\tPBS_O_PATH=/usr/bin
"""
SGE = """\
job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID
-----------------------------------------------------------------------------------------------------------------
     91 0.60500 pretrain   ann          r     01/02/2026 03:04:05 gpu.q@node7                       16
     92 0.50500 sweep.sh   ann          qw    01/02/2026 03:04:05                                   16 1-9:1
     93 0.00000 eval.sh    ann          Eqw   01/02/2026 03:04:05                                    1
     94 0.00000 eval.sh    ann          hqw   01/02/2026 03:04:05                                    1
"""
LSF = """\
JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME
51      ann     RUN   gpu        login1      node3       pretrain   Jan  2 03:04
52      ann     PEND  gpu        login1                  sweep      Jan  2 03:05
53      ann     PSUSP gpu        login1                  eval       Jan  2 03:06
"""
LSF_LONG = """\
Job <52>, Job Name <sweep>, User <ann>, Project <default>, Status <PEN
                     D>, Queue <gpu>, Command <python sweep.py>
Fri Jan  2 03:05:00: Submitted from host <login1>, CWD <$HOME>;
 PENDING REASONS:
 Not enough GPUs: 4 hosts;
 Job slot limit reached: 2 hosts;
"""
CONDOR_BATCHES = """\
OWNER BATCH_NAME    SUBMITTED   DONE   RUN    IDLE   HOLD  TOTAL JOB_IDS
ann   ID: 61       1/2  03:04      1      2      _      1      4 61.0-3
"""
CONDOR = """\
 ID      OWNER            SUBMITTED     RUN_TIME ST PRI SIZE CMD
  61.0   ann             1/2  03:04   0+01:00:00 R  0    4.1 train.sh --lr 1
  61.1   ann             1/2  03:04   0+00:00:00 I  0    4.1 train.sh --lr 2
"""
CONDOR_HELD = """\
 ID          OWNER          HELD_SINCE  HOLD_REASON
  61.2       ann             1/2  03:05 Failed to initialize user log to /gone/log
"""


def told(text: str, kind: str) -> list[tuple[object, ...]]:
    return [(row.job, row.state, row.reason, row.queue) for row in rows_of(only(text, kind), Scheduler)]


def test_qstat_of_pbs():
    assert told(PBS, "qstat") == [
        ("7001.head", "RUNNING", None, "a100"),
        ("7002[].head", "PENDING", None, "a100"),
    ]


def test_qstat_in_wide_columns_with_what_the_server_says():
    text = PBS_WIDE.partition("\n")[2]
    assert told(text, "qstat") == [
        ("7002.head", "PENDING", "Not Running: Insufficient amount of resource: ngpus", "a100"),
        ("7003.head", "HELD", "held", "a100"),
    ]


def test_qstat_f_joins_values_of_several_lines():
    assert told(PBS_FULL, "qstat-full") == [
        ("7002.head", "HELD", "Job held, too many failed attempts torun", "a100"),
    ]


def test_qstat_of_grid_engine():
    assert [row[:3] for row in told(SGE, "qstat-sge")] == [
        ("91", "RUNNING", None),
        ("92", "PENDING", None),
        ("93", "HELD", "held: its start has failed (Eqw)"),
        ("94", "HELD", "held"),
    ]


def test_bjobs_also_without_a_host():
    assert [row[:3] for row in told(LSF, "bjobs")] == [
        ("51", "RUNNING", None),
        ("52", "PENDING", None),
        ("53", "HELD", "held"),
    ]


def test_bjobs_l_tells_why_though_a_word_is_cut():
    reason = "Not enough GPUs: 4 hosts; Job slot limit reached: 2 hosts;"
    assert told(LSF_LONG, "bjobs-long") == [("52", "PENDING", reason, "gpu")]


def test_condor_q_of_batches_and_of_jobs():
    assert [row[:2] for row in told(CONDOR_BATCHES, "condor-batches")] == [("61.0-3", "RUNNING"), ("61.0-3", "HELD")]
    assert [row[:2] for row in told(CONDOR, "condor-jobs")] == [("61.0", "RUNNING"), ("61.1", "PENDING")]
    assert told(CONDOR_HELD, "condor-jobs") == [
        ("61.2", "HELD", "held: Failed to initialize user log to /gone/log", None),
    ]


@pytest.mark.parametrize(("text", "kind", "above"), [
    (PBS, "qstat", 2), (SGE, "qstat-sge", 2), (LSF, "bjobs", 1), (CONDOR, "condor-jobs", 1),
])  # fmt: skip
def test_rows_without_their_headline_are_known(text: str, kind: str, above: int):
    assert told("\n".join(text.splitlines()[above:]), kind) == told(text, kind)
