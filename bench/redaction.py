"""What redaction costs: ordinary logs, made-up bad ones, and the memory of the filter.

    python bench/redaction.py [--mb 200] [--only log|hostile|memory]

Prints MB/s of processor time for logs as they are met, how the time grows when a hostile text doubles (2 is linear),
and the largest memory of `flatline redact -` on a long input. Other work on the machine makes all of it slower.
"""

from __future__ import annotations

import argparse
import random
import resource
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from flatline.redaction import Redactor

LINES = 9000
STEP = (
    "2026-03-01 10:{m:02}:{s:02},{ms:03} INFO trainer.py:{a} step {n} loss {x:.4f} grad_norm {y:.3f} lr {z:.3e} "
    "tokens/s {b} tokens_seen {t} mem {c:.1f}GiB"
)
BAR = "Epoch {e}:  {p}%|████████  | {k}/1000 [{m:02}:{s:02}<00:09, {y:.2f}it/s, loss={x:.3f}]\r"
OTHERS = (
    "[rank{r}]:[W{a} 10:00:01.{b} ProcessGroupNCCL.cpp:{a}] Work WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn={t}, "
    "Timeout(ms)=600000) ran for {b} ms",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line {a}, in _call_impl',
    "saved /mnt/data/ckpt/run-{r}/step_{n}/model-{r:05}-of-00064.safetensors sha256 {h:064x}",
    "max_tokens=4096 pad_token_id=0 eos_token=</s> cache_key={g:x} tokenizer=llama author=team",
    "WARNING: gradient overflow, skipping step {n}, loss scale {t}",
    "GPU {r} temp {a}C util {p}% mem {b}MiB / 81559MiB power {a}W",
)
NCCL = (
    "node-{d}:{a}:{b} [{r}] NCCL INFO Channel {r:02}/0 : {r}[{r}] -> {e}[{e}] via P2P/CUMEM/read",
    "node-{d}:{a}:{b} [{r}] NCCL INFO comm 0x{q:x} rank {r} nranks 64 cudaDev {r} busId {r}b000 - Init COMPLETE",
)


def fill(rng: random.Random, template: str, n: int) -> str:
    rank, node = rng.randrange(8), rng.randrange(32)
    return template.format(
        n=n, m=n // 60 % 60, s=n % 60, ms=rng.randrange(1000), a=rng.randrange(999), b=rng.randrange(9999),
        x=rng.random() * 3, y=rng.random(), z=rng.random() * 1e-4, t=n * 4096, c=rng.random() * 80,
        e=n // 1000, p=n % 100, k=n % 1000,
        r=rank, d=node, h=rng.getrandbits(256), g=rng.getrandbits(64), q=0x55D0C0A8B6E0 + 0x3A1B40 * (8 * node + rank),
    )  # fmt: skip


def training_log(rng: random.Random, n: int) -> str:
    """Steps, now and then a bar, a warning, a checkpoint."""
    at = rng.random()
    return fill(rng, STEP if at < 0.85 else BAR if at < 0.95 else rng.choice(OTHERS), n)


def nccl_log(rng: random.Random, n: int) -> str:
    """NCCL_DEBUG=INFO: a host in every line."""
    return fill(rng, rng.choice(NCCL), n)


def with_secrets(rng: random.Random, n: int) -> str:
    """A secret in every five hundredth line."""
    if rng.random() < 0.002:
        return f"connecting with api_key={rng.getrandbits(128):032x} as RANK={n}"
    return training_log(rng, n)


LOGS: dict[str, Callable[[random.Random, int], str]] = {
    "training log": training_log,
    "training log with secrets": with_secrets,
    "NCCL's log, a host in each line": nccl_log,
}


def pieces(make: Callable[[random.Random, int], str], megabytes: float) -> Iterator[str]:
    done, at = 0, 0
    while done < megabytes * 1e6:
        rng = random.Random(at)
        text = "".join(make(rng, at * LINES + n) + "\n" for n in range(LINES))
        done, at = done + len(text), at + 1
        yield text


def logs(megabytes: float) -> None:
    for name, make in LOGS.items():
        redactor, seconds, size = Redactor(), 0.0, 0
        for piece in pieces(make, megabytes):
            begin = time.process_time()
            redactor.text(piece)
            seconds += time.process_time() - begin
            size += len(piece)
        print(f"{name:34} {size / seconds / 1e6:6.1f} MB/s", flush=True)


UNITS = (
    "token=", "token='", 'token="', "password ", "://", "<token>", "api key ", "sk-\x1b[0m", "login(", "set -x token ",
    "pat ", '"api_keys": ["a", ', "<password><![CDATA[", "a@b.c ", "1.2.3.4 ", "host=", "key",
    "-----BEGIN PRIVATE KEY-----\n", "\n ", "eyJ", "AKIA", '{"a":[{"token":', "https://a:b@",
    "kind: Secret\n", "a,api_key,b\n", ">>> hf_token\n", "a\u200b",
)  # fmt: skip
LETTERS = string.ascii_lowercase
RANDOM: dict[str, Callable[[random.Random], str]] = {
    "base64, one line": lambda rng: "".join(rng.choices(string.ascii_letters + string.digits + "+/", k=64)),
    "hex words": lambda rng: f"{rng.getrandbits(64):016x} ",
    "quotes, colons, equal signs": lambda rng: "".join(rng.choices("=:'\" ,{}[]\\", k=64)),
    "a secret in each line": lambda rng: f"api_key={rng.getrandbits(128):032x}\n",
    "an unclosed quote in each line": lambda rng: f"token='{rng.getrandbits(96):x}\n",
    "a user in each line": lambda rng: f"user={''.join(rng.choices(LETTERS, k=8))}\n",
    "a password in each line": lambda rng: f"{''.join(rng.choices(LETTERS, k=3))}_password: {rng.getrandbits(40):x}\n",
    "coloured": lambda rng: f"\x1b[3{rng.randrange(8)}m{rng.randrange(99)}_token=\x1b[0m{rng.getrandbits(64):x}\n",
    "users in URLs": lambda rng: f"https://u:{rng.getrandbits(32):x}@{''.join(rng.choices(LETTERS, k=6))}.corp/ ",
    "lists of hosts": lambda rng: f"{''.join(rng.choices(LETTERS, k=4))}[01-{rng.randrange(10, 99)}] ",
    "addresses": lambda rng: f"{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}.9 ",
}
"""Text of which no two pieces are alike."""


def hostile(size: int = 500_000) -> None:
    """Each beside an ordinary log of the same size, in the same run: how many times as long, and how that grows."""
    ordinary = seconds(next(pieces(training_log, 1))[:size]) / size
    worst = 0.0
    for name, text in hostile_texts(2 * size):
        once, twice = seconds(text[:size]), seconds(text)
        worst = max(worst, twice / once)
        per_byte = twice / len(text)
        print(
            f"{name:34} {per_byte * 1e6:6.2f} s/MB, x {per_byte / ordinary:.0f} an ordinary log's; "
            f"twice the size: x {twice / once:.2f}",
            flush=True,
        )
    print(f"worst growth                       x {worst:.2f}")


def hostile_texts(size: int) -> Iterator[tuple[str, str]]:
    for unit in UNITS:
        yield repr(unit), (unit * (size // len(unit) + 1))[:size]
    for name, make in RANDOM.items():
        rng, made, length = random.Random(name), [], 0
        while length < size:
            made.append(make(rng))
            length += len(made[-1])
        yield name, "".join(made)[:size]


def seconds(text: str) -> float:
    begin = time.process_time()
    Redactor().text(text)
    return time.process_time() - begin


def memory(megabytes: float) -> None:
    command = [sys.executable, "-m", "flatline", "redact", "-"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.stdin
    begin = time.perf_counter()
    for piece in pieces(training_log, megabytes):
        child.stdin.write(piece.encode())
    child.stdin.close()
    child.wait()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN)
    speed = megabytes / (peak.ru_utime + peak.ru_stime)
    print(f"flatline redact - on {megabytes:g} MB: {peak.ru_maxrss / 1024:.0f} MiB at most, {speed:.1f} MB/s of")
    print(f"processor time, {time.perf_counter() - begin:.0f} s in all with the making of the log")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=200)
    parser.add_argument("--only", choices=("log", "hostile", "memory"))
    args = parser.parse_args()
    if args.only in (None, "log"):
        logs(args.mb / 10)
    if args.only in (None, "hostile"):
        hostile()
    if args.only in (None, "memory"):
        memory(args.mb)
    return 0


if __name__ == "__main__":
    sys.exit(main())
