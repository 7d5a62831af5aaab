"""What diagnosis needs passes untouched."""

from __future__ import annotations

import pytest

from flatline.redaction import redact_text

EVIDENCE = r"""
[rank3]:[E316 10:00:01.2 ProcessGroupNCCL.cpp:632] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)
localhost:4711:4888 [2] NCCL INFO comm 0x55d1c0 rank 2 nranks 8 cudaDev 2 busId 8a000 commId 0xc1f8beef5fcc6c91 - Init START
Thread 0x00007f3e4d5fe700 (most recent call first): File "/opt/conda/lib/python3.11/threading.py", line 327 in wait
GPU 00000000:3B:00.0 UUID: GPU-5f3a1c9e-8a6b-4f0e-9d55-1b0c77aa1e42
commit 94cd1987d7d5c3713788d35ac77cd26c70d11032 sha256:507a411333033f7976269351028060d73f03342c401082eba315a71e241ce8b3
tokenizers==0.20.3 google-auth==2.38.0 keyring==25.6.0 python-jose==3.3.0 secretstorage==3.3.3
4711 S+ python -m torch.distributed.run --max_tokens 512 --tokenizer gpt2 --key_dim 32 train.py
pad_token: <pad>, eos_token_id=2, max_new_tokens: 64, cache_key: 9f8e7d6c5b4a39281706f5e4d3c2b1a0
api_key = os.environ["WANDB_API_KEY"]
token=self.tokenizer.pad_token, auth=None, password=args.password, secret=config["secret"]
def login(user: str, password: str | None = None, token: Optional[str] = None) -> bool:
HF_TOKEN is not set; wandb: You can find your API key in your browser here: https://wandb.ai/authorize
7f3e4d5fe000-7f3e4d7fe000 r-xp 00000000 08:01 1835 /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.06
SigCgt:	0000000180004002 SigQ: 0/63432 Uid:	1000	1000	1000	1000
/etc/passwd: No such file or directory; open("/run/secrets/token", O_RDONLY) = -1 EACCES
0.91 loss tokens/s 9123 tokens_seen 81920 key=3 keys=12 author=team-vision
ssh://git@github.com/acme/model.git https://host:8080/path?rank=3&step=7 tcp://127.0.0.1:29500
{"vocab": {"password": 9206, "token": 30001, "secret": 3607, "key": 1945}}
secretKeyRef: {name: wandb, key: api-key} token: ${HF_TOKEN} auth: disabled use_auth_token=False
KeyError: 'attention_mask' RuntimeError: Expected all tensors on cuda:0, password prompt at pts/3
""".strip().splitlines()


@pytest.mark.parametrize("line", EVIDENCE)
def test_evidence_stays(line):
    assert redact_text(line) == line


def test_evidence_stays_in_one_document_too():
    text = "\n".join(EVIDENCE)
    assert redact_text(text) == text
