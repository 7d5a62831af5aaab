"""Texts whose names and addresses were hidden tell as much as before."""

from __future__ import annotations

import pytest
from parsing import blocks_of

from flatline.redaction import redact_text

TEXTS = {
    "ss": (
        "State  Recv-Q Send-Q Local Address:Port  Peer Address:Port Process\n"
        'ESTAB  0      128    10.0.0.3:29500      10.0.0.4:41234    users:(("python",pid=4127,fd=3))\n'
        'LISTEN 0      128    0.0.0.0:29500       0.0.0.0:*         users:(("python",pid=4127,fd=4))\n'
        'SYN-SENT 0    1      [fd00:1::2]:29500   [fd00:1::7]:443   users:(("python",pid=4127,fd=5))\n'
    ),
    "netstat": (
        "Proto Recv-Q Send-Q Local Address           Foreign Address         State       User       Inode      PID/Program name\n"
        "tcp        0      0 10.0.0.3:29500          10.0.0.4:41234          ESTABLISHED karomin    55123      4127/python\n"
    ),
    "squeue": (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "              4127       gpu    train  karomin  R    1:02:03      2 gpubox[01-02]\n"
        "              4128       gpu    train   brivol PD       0:00      2 (Resources)\n"
    ),
    "lsof": (
        "COMMAND  PID    USER   FD   TYPE DEVICE SIZE/OFF NODE NAME\n"
        "python  4127 karomin  cwd    DIR    8,1     4096 1311 /home/karomin/exp\n"
        "python  4127 karomin    3u  IPv4  55123      0t0  TCP 10.0.0.3:29500->10.0.0.4:41234 (ESTABLISHED)\n"
    ),
    "ps": (
        "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
        "karomin     4127 99.0  1.2 123456 78900 pts/0    Rl+  10:00  12:34 python train.py\n"
    ),
    "journal": "Nov 29 20:59:01 gpubox-9 kernel: NVRM: Xid (PCI:0000:c1:00): 79, pid=4127, GPU has fallen off the bus.\n",
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_text_is_read_the_same_with_pseudonyms(name):
    text = TEXTS[name]
    hidden = redact_text(text)
    assert hidden != text
    before, after = blocks_of(text), blocks_of(hidden)
    assert [block.kind for block in after] == [block.kind for block in before]
    kinds = [[type(row).__name__ for row in block.rows] for block in before]
    assert [[type(row).__name__ for row in block.rows] for block in after] == kinds
    assert any(kinds), "the text itself is read"
