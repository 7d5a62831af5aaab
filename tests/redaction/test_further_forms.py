"""Further forms of secrets, names and addresses, one by one and all in one text; and what only looks like them."""
# fmt: off

from __future__ import annotations

import pytest
from redaction.further_forms import SECRETS

from flatline.redaction import redact_text

LOOK_ALIKES = """\
max_tokens: 4096
--max-tokens 4096 --stop-token-ids 1 2
pad_token_id=50256 eos_token_id=2
tokens per second: 81234.5
Setting `pad_token_id` to `eos_token_id`:151643 for open-end generation.
special_tokens_map.json: 100%|██████████| 280/280
{"add_bos_token": true, "bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}
Special tokens have been added in the vocabulary, make sure the associated word embeddings are fine-tuned or trained.
num_tokens 1048576 tokens_per_sec 91234.12 tokens_seen 73400320
commit 4f1c2d3e4b5a69788796a5b4c3d2e1f00f1e2d3c
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
md5=d41d8cd98f00b204e9800998ecf8427e
GPU-8f2b1c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d
MIG-GPU-8f2b1c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d/1/0
uuid: 123e4567-e89b-12d3-a456-426614174000
torch 2.6.0+cu124 triton 3.2.0 numpy 2.1.3
tensor([[ 0.1234, -1.2345]], device='cuda:0', grad_fn=<AddBackward0>)
torch.Size([8, 4096, 128])
listening on 0.0.0.0:29500
rank 3 local_rank 3 world_size 64
2026-03-01T10:00:00.123456Z
key_padding_mask shape torch.Size([8, 512])
RuntimeError: The size of tensor a (128) must match the size of tensor b (64)
KeyError: 'model.layers.0.self_attn.q_proj.weight'
missing keys: ['lm_head.weight'], unexpected keys: ['score.bias']
Missing key(s) in state_dict: "fc.weight", "fc.bias".
cache_key: 8f14e45fceea167a5a36dedd4bea2543
primary key (id), foreign key (user_id)
sort_key=lambda x: x[0]
hotkey ctrl+c; keyboard interrupt
tokenizer_class: LlamaTokenizer
tokenizer.json vocab.txt merges.txt
auth: none
author: Jane
authority: localhost:8080
session: started
passes=3 passed=41 failed=0
bypass_checks=True
compass=north
PASS=3 FAIL=0
SMOKE_TEST_PASS=true E2E_PASS=41/41 UNIT_PASS=12
N_PASS=128 FIRST_PASS=done BY_PASS=1 bypass=1 MY_COMPASS=north passes=12 PASS_RATE=0.97
forward_pass: 0.31s backward pass: 0.62s
Invalid password: authentication failed
password: must be at least 8 characters
Set-Cookie: lang=en; theme=darkmode; Path=/
python -u train.py
sudo -n python -u train.py
docker run -u 1000:1000 image
git push -u origin main
https://oauth2:${CI_TOKEN}@gitlab.example.com/x.git
by max of 3, normalized by max
password: ****
password: <your password here>
HF_TOKEN=${HF_TOKEN}
token: $(cat /run/secrets/token)
api_key=os.environ["OPENAI_API_KEY"]
token = get_token(repo_id)
password=getpass.getpass()
secretName: db-credentials
secretKeyRef: {name: hf, key: token}
secret_name=db-credentials
imagePullSecrets: [regcred]
TOKEN_FILE=/run/secrets/token
--token-file /run/secrets/token
SSH_AUTH_SOCK=/tmp/ssh-XXXX/agent.812
XDG_SESSION_ID=c2
XDG_SESSION_TYPE=tty
DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus
KEY_LENGTH=4096
key=value
keys: 128 values: 128
key_size=64 query_size=64
num_key_value_heads: 8
signature: (x: int) -> int
missing 1 required positional argument: 'token'
TypeError: __init__() got an unexpected keyword argument 'use_auth_token'
FutureWarning: The `use_auth_token` argument is deprecated
Token indices sequence length is longer than the specified maximum sequence length for this model (1234 > 1024)
Bearer authentication is required
Basic block 12 of 24
Digest: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
nccl unique id 0x5d0c0a8b6e03a1b4
comm 0x55d0c0a8b6e0 rank 3 nranks 64 cudaDev 3 busId 3b000 commId 0xdeadbeefcafe1234 - Init START
opt_state/0/mu/params/layers_0/kernel
checkpoint-12000/optimizer.pt
model-00003-of-00064.safetensors
/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py:1739
#3 0x00007f3a1c2d3e4f in pthread_cond_wait@@GLIBC_2.3.2 () from /lib64/libpthread.so.0
at::native::(anonymous namespace)::copy_kernel(at::TensorIterator&)
_ZN4c10d16ProcessGroupNCCL8WorkNCCL4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE
SeqNum=1234, OpType=ALLREDUCE, NumelIn=4194304, Timeout(ms)=600000
EPOCH=3 STEP=12000 SEED=1337 LR=1e-4
CUDA_VISIBLE_DEVICES=0,1,2,3
NCCL_IB_HCA=mlx5_0,mlx5_1
TORCHELASTIC_RUN_ID=none
SLURM_JOB_ID=812345
git describe: v1.2.3-45-g4f1c2d3
image: ghcr.io/org/img@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
x-request-id: 8f2b1c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d
request_id=req_011CSHoEeqs5C35K2UUqR7Fy
trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7
Xid 79, pid=812, GPU has fallen off the bus
NVRM: Xid (PCI:0000:3b:00): 31, pid=812, name=python, Ch 00000008
inode 1234567 dev 259:3 mnt_id 29
Cpus_allowed_list: 0-31
flags: 0x1
text: the password must be at least 8 characters
forgot your password? click here
please set the HF_TOKEN environment variable
You are not authenticated. Run `wandb login` to log in
wandb: Currently logged in as: ⟪user·1⟫
git@github.com: Permission denied (publickey).
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 comment
-----BEGIN CERTIFICATE-----
oauth: disabled, sso: enabled
secret sharing with 3 shares
attention_mask position_ids past_key_values
Key: value pairs follow
token: '<pad>'
token_type_ids: [0, 0, 0, 1]
"token_count": 81920, "prompt_tokens": 12, "completion_tokens": 34
pass@1: 0.4312 pass@10: 0.7012
wandb: Run data is saved locally in /data/wandb/run-20260301_100000-3kq8x1z2
data: {"loss": 1.234567890123, "step": 12345}
credential helper: store
HUGGING_FACE_HUB_TOKEN is not set
Access token expired, refreshing
api_key: null
api_key=None, base_url=None
model_name_or_path=meta-llama/Llama-3.1-8B-Instruct
sk_learn==1.2 sk-learn
pytorch_lightning.utilities.seed: Global seed set to 42
kernel: [12345.678901] python[812]: segfault at 0 ip 00007f3a1c2d3e4f sp 00007ffd1a2b3c4d error 4
wchan: futex_wait_queue_me
Thread 0x00007f3a1c2d3e4f (most recent call first):
AssertionError: token 50257 out of range
vocab: {"password": 1234, "secret": 4321}
- mul 3.14159 secretary keyboardist
passthrough=true tokenizers==0.20.3 keyring==25.5.0 secretstorage==3.3.3 authlib==1.3.2 python-jose==3.3.0 passlib==1.7.4
kv_cache_dtype=fp8 prefix_caching_hash_algo=sha256
block hash: 7e240de74fb1ed08fa08d38063f6a6a91462a815
Namespace(tokenizer='llama', token_dropping=False, sort_key='len', n=3)
""".splitlines()
LOOK_ALIKES_OF_LINES = [
    ("secretes:\n  n: 3"),
    ("| key | value |\n|---|---|\n| lr | 1e-4 |\n| run_id | 3kq8x1z2ab |"),
    ("apiVersion: v1\nkind: ConfigMap\ndata:\n  run: 3kq8x1z2ab4c5d6e\n  lr: 1e-4"),
    ("apiVersion: v1\nkind: Pod\nmetadata:\n  uid: 123e4567-e89b-12d3-a456-426614174000\n  name: t"),
    ('variable "region" {\n  type    = string\n  default = "eu-west-1a-0b9c8d7e"\n}', 'eu-west-1a-0b9c8d7e'),
    ("set -e\nset +x\nset HF_HOME /data/hf"),
    ("os.environ.get('NCCL_DEBUG', 'INFO0123456789')"),
    ("os.getenv('RUN_NAME', 'run-3kq8x1z2ab4c')"),
    ("step\u200b 3 loss\u00ad 1.2"),
    ("\x1b[32mINFO\x1b[0m step 3 \x1b[1mloss\x1b[0m 1.2"),
    ("step 1\r\nstep 2\r\n"),
    ("step,loss,tokens\n1,2.5,4096\n2,2.4,8192"),
    ("key,value\nlr,0.0001\nrun,abc3kq8x1z2"),
]
PERSONAL = [
    ("home: mac","/Users/jdoe7/code/t.py","jdoe7",["code/t.py"]),
    ("home: windows","C:\\Users\\jdoe8\\code\\t.py","jdoe8",["t.py"]),
    ("home: wsl","/mnt/c/Users/jdoe9/code","jdoe9",["code"]),
    ("home: export","/export/home/jdoe10/x","jdoe10"),
    ("home: nfs","/nfs/home/jdoe11/x","jdoe11"),
    ("home: gpfs","/gpfs/users/jdoe12/run","jdoe12"),
    ("home: scratch","/scratch/jdoe13/run\nUSER=jdoe13","jdoe13"),
    ("home: lustre","/lustre/home/jdoe14/run","jdoe14"),
    ("home: tilde","~jdoe15/run.sh failed","jdoe15"),
    ("env: logname","LOGNAME=jdoe16\nSHLVL=1","jdoe16",["SHLVL=1"]),
    ("env: slurm","SLURM_JOB_USER=jdoe17","jdoe17"),
    ("env: sudo","SUDO_USER=jdoe18","jdoe18"),
    ("env: mail","MAIL=/var/mail/jdoe19","jdoe19"),
    ("email: angle","Author: Jane Roe <jane.roe@corp.example>",["jane.roe","Jane Roe"]),
    ("email: git","GIT_AUTHOR_EMAIL=jroe2@corp.example","jroe2"),
    ("email: plus","jroe3+x@corp.example wrote","jroe3"),
    ("email: json",'{"email": "jroe4@corp.example", "n": 3}',"jroe4",['"n": 3']),
    ("email: quoted","user='jroe5@corp.example'","jroe5"),
    ("ip: v4","accepted from 192.168.77.14 port 41212","192.168.77.14",["41212"]),
    ("ip: v4 url","http://10.11.12.13:8080/x","10.11.12.13",[":8080/x"]),
    ("ip: ray","(Worker pid=812, ip=10.20.30.41) step 3","10.20.30.41",["step 3"]),
    ("ip: slurm dashed","ip-10-21-31-41.ec2.internal:812:900 [0] NCCL INFO x","ip-10-21-31-41",["[0] NCCL INFO x"]),
    ("ip: v6 full","connect to 2001:0db8:85a3:0000:0000:8a2e:0370:7334 failed","2001:0db8:85a3:0000:0000:8a2e:0370:7334",["failed"]),
    ("ip: v6 bracket","[fd00:1:2::3]:29500","fd00:1:2::3",[":29500"]),
    ("ip: v6 linklocal","fe80::1c2d:3e4f:5a6b:7c8d%eth0","fe80::1c2d:3e4f:5a6b:7c8d",["eth0"]),
    ("mac","HWaddr 8A:D4:52:0A:FE:28","8A:D4:52:0A:FE:28",["HWaddr"]),
    ("mac: dash","Physical Address: 8A-D4-52-0A-FE-29","8A-D4-52-0A-FE-29"),
    ("mac: cisco","8ad4.520a.fe30 dynamic","8ad4.520a.fe30",["dynamic"]),
    ("host: master","MASTER_ADDR=gpu-node-17.cluster.corp\nMASTER_PORT=29500","gpu-node-17.cluster.corp",["29500"]),
    ("host: slurm","SLURMD_NODENAME=gpu-node-18","gpu-node-18"),
    ("host: nodelist","SLURM_JOB_NODELIST=gpunode[18-20]","gpunode",),
    ("host: prompt","jdoe30@gpubox-30:~$ python t.py",["jdoe30","gpubox-30"],["python t.py"]),
    ("host: uname","Linux gpubox-31 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux","gpubox-31",["5.15.0-91-generic"]),
    ("host: syslog","Mar  1 10:00:00 gpubox-32 kernel: NVRM: Xid 79","gpubox-32",["NVRM: Xid 79"]),
    ("host: rank0 addr","init_method=tcp://gpubox-33:29500","gpubox-33",[":29500"]),
    ("host: c10d","[c10d] The server socket on [gpubox-34]:29500 is not reachable","gpubox-34",["29500"]),
    ("host: c10d2","The client socket has timed out after 60000ms while trying to connect to (gpubox-35, 29500).","gpubox-35",["29500"]),
    ("host: torchrun","torchrun --rdzv-endpoint=gpubox-36:29500 --nnodes 2","gpubox-36",["--nnodes 2"]),
    ("host: torchrun master","torchrun --master_addr gpubox-37 --master_port 29500","gpubox-37",["29500"]),
    ("host: hostname cmd","$ hostname\ngpubox-38\n$ ls","gpubox-38"),
    ("host: ssh","ssh jdoe39@gpubox-39 nvidia-smi",["jdoe39","gpubox-39"],["nvidia-smi"]),
    ("host: scp","scp a.pt jdoe40@gpubox-40:/data/",["jdoe40","gpubox-40"],["/data/"]),
    ("host: json",'{"hostname": "gpubox-41", "rank": 3}',"gpubox-41",['"rank": 3']),
    ("host: pod","HOSTNAME=trainer-0-abcde\nRANK=0","trainer-0-abcde",["RANK=0"]),
    ("user: ps","USER       PID %CPU COMMAND\njdoe42     812 99.0 python t.py","jdoe42",["python t.py"]),
    ("user: ls","-rw-r--r-- 1 jdoe43 ml 12 Mar  1 10:00 a.pt","jdoe43",["a.pt"]),
    ("user: id","uid=1001(jdoe44) gid=1001(jdoe44) groups=1001(jdoe44)","jdoe44",["1001"]),
    ("user: squeue","JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n812 gpu t jdoe45 R 1:00 1 gpunode45",["jdoe45","gpunode45"],["812 gpu"]),
    ("user: sshd","Accepted publickey for jdoe46 from 10.1.2.46 port 22 ssh2",["jdoe46","10.1.2.46"],["port 22"]),
    ("user: cron","(jdoe47) CMD (python t.py)","jdoe47",["python t.py"]),
    ("user: wandb","wandb: Currently logged in as: jdoe48 (team). Use `wandb login --relogin`","jdoe48",["--relogin"]),
    ("user: getpwuid","getpass.getuser() -> 'jdoe49'\nUSER=jdoe49","jdoe49"),
    ("user: passwd","jdoe50:x:1000:1000:Jane Roe,,,:/home/jdoe50:/bin/bash",["jdoe50","Jane Roe"]),
    ("user: docker -u", "chown jdoe51:ml /data/x\nLOGNAME=jdoe51","jdoe51"),
    ("user: gpu procs","|  0  jdoe52  812  C  python  10MiB |\nUSER=jdoe52","jdoe52"),
]
BETWEEN = "\n\n-- of another file --\n\n"
WINDOW = 16
"""Characters of a secret that may not be left; of a short one, not even half of it."""


def is_left(secret: str, hidden: str) -> bool:
    for word in secret.split() if "\n" in secret else [secret]:
        size = max(8, min(WINDOW, len(word) * 45 // 100))
        if any(word[at : at + size] in hidden for at in range(max(1, len(word) - size + 1))):
            return True
    return False


def together() -> dict[str, str]:
    hidden = redact_text(BETWEEN.join(text for text, *_ in SECRETS.values())).split(BETWEEN)
    return dict(zip(SECRETS, hidden))


@pytest.fixture(scope="module")
def in_one_text() -> dict[str, str]:
    return together()


@pytest.mark.parametrize("what", SECRETS)
def test_no_secret_is_left_and_the_rest_stays(what, in_one_text):
    text, secret, stays, gone = SECRETS[what]
    for hidden in (redact_text(text), in_one_text[what]):
        assert not is_left(secret, hidden)
        assert not [one for one in gone if one in hidden]
        assert [one for one in stays if one not in hidden] == []


@pytest.mark.parametrize("line", LOOK_ALIKES)
def test_what_only_looks_like_a_secret_stays(line):
    assert redact_text(line) == line


@pytest.mark.parametrize("case", LOOK_ALIKES_OF_LINES, ids=range(len(LOOK_ALIKES_OF_LINES)))
def test_what_only_looks_like_a_secret_in_several_lines_stays(case):
    text, *stays = case if isinstance(case, tuple) else (case,)
    assert [one for one in stays or [text] if one not in redact_text(text)] == []


@pytest.mark.parametrize("case", PERSONAL, ids=[kind for kind, *_ in PERSONAL])
def test_no_name_or_address_is_left_and_the_rest_stays(case):
    _, text, names, *stays = case
    hidden = redact_text(text)
    assert [name for name in ([names] if isinstance(names, str) else names) if name in hidden] == []
    assert [one for one in (stays[0] if stays else ()) if one not in hidden] == []


def test_redacting_twice_changes_nothing():
    for text, *_ in SECRETS.values():
        hidden = redact_text(text)
        assert redact_text(hidden) == hidden
