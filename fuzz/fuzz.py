"""Feeds hostile bytes to the readers: none may crash, take over 5 s of CPU time for an input, or over 1 GB.

    python fuzz/fuzz.py [NAME…] [--runs 1000] [--seed 1]      mutations of good inputs and of the corpus, everywhere
    python fuzz/fuzz.py NAME --guided SECONDS                  guided by coverage: needs atheris (pip install atheris)

What broke is written to fuzz/found/; a copy in fuzz/corpus/NAME/ is run first from then on. NAME: see harnesses.py.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parent
CORPUS, FOUND = HERE / "corpus", HERE / "found"
MOST_CPU_S = 5.0
MOST_MEMORY = 1 << 30
MOST_BYTES = 1 << 20
"""Larger inputs are the tests' business, which know what they grow."""
PIECES = (
    b"\0", b"\n", b"\r", b"\t", b"\x1b[2J", b"\xff\xfe", b"\xc3(", "⟪x·1⟫".encode(), b"{", b"}", b"[", b"]", b'"',
    b"\\", b"NaN", b"null", b"-1", b"1e999", b"9" * 40, b"0x", b"../",
    b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06",
    b"\xff" * 4,
    b"<script>", b"&#0;", b"%s", b"!!python/object:os.system", b"&a [*a]", b"Traceback (most recent call last):\n",
)  # fmt: skip


class TooSlow(BaseException):
    """An input took more than `MOST_CPU_S` of CPU time: the clock would count what a busy host does beside it."""


def mutated(rng: random.Random, pool: Sequence[bytes]) -> bytes:
    """One of the pool, changed in one to eight places."""
    data = bytearray(rng.choice(pool)[:MOST_BYTES])
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 4, 40, 400)))
        kind = rng.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:end]
        elif kind == 2:
            data[at:at] = data[at:end] * rng.choice((1, 2, 10, 200))
        elif kind == 3:
            data[at:at] = rng.choice(PIECES) * rng.choice((1, 1, 1, 3, 500))
        elif kind == 4:
            data[at:end] = rng.choice(PIECES)
        elif kind == 5:
            other = rng.choice(pool)
            begin = rng.randrange(len(other) + 1)
            data[at:end] = other[begin : begin + rng.choice((20, 400, 4000))]
        else:
            del data[at:]
    return bytes(data[:MOST_BYTES])


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """An input's CPU time is up: TooSlow, wherever it is."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def feed(name: str, data: bytes) -> str:
    """What went wrong, with where; empty when nothing did."""
    import harnesses

    from flatline.errors import FlatlineError

    try:
        with bounded():
            harnesses.HARNESSES[name](data)
    except FlatlineError:
        pass
    except TooSlow:
        return f"took more than {MOST_CPU_S:g} s of CPU time\n{traceback.format_exc(limit=-6)}"
    except Exception:  # noqa: BLE001 - any other is what is looked for
        return traceback.format_exc(limit=-6)
    return ""


def run(name: str, runs: int, seed: int) -> int:
    """The corpus, then mutations of it and of the project's own texts; how many inputs broke something."""
    import harnesses

    rng = random.Random(f"{seed} {name}")
    known = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
    pool = [*known, *harnesses.seeds(name)]
    began, broken = time.monotonic(), set()
    for number in range(len(known) + runs):
        data = known[number] if number < len(known) else mutated(rng, pool)
        said = feed(name, data)
        if said and said not in broken:
            broken.add(said)
            print(f"{name}: {keep(name, data)}\n{said}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if peak > MOST_MEMORY:
        broken.add("memory")
    seconds = time.monotonic() - began
    cost = f"{len(known) + runs} inputs in {seconds:.0f} s, {peak >> 20} MiB at most"
    print(f"{name}: {cost}, {len(broken)} broke something")
    return len(broken)


def keep(name: str, data: bytes) -> Path:
    """Write down what broke something."""
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path


def guided(name: str, seconds: int, seed: int) -> None:
    """libFuzzer's loop, which exits by itself: with 77 when an input broke something; it lies in fuzz/found/ then."""
    import atheris

    with atheris.instrument_imports(include=["flatline"]):
        import harnesses

    grown = Path(os.environ.get("FUZZ_CORPUS", HERE / "grown")) / name
    grown.mkdir(parents=True, exist_ok=True)
    FOUND.mkdir(exist_ok=True)
    for data in harnesses.seeds(name):
        (grown / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data[:MOST_BYTES])

    def one(data: bytes) -> None:
        said = feed(name, data)
        if said:
            print(said, file=sys.stderr, flush=True)
            raise RuntimeError(name)

    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={MOST_BYTES}", "-timeout=120"]
    more = [f"-rss_limit_mb={MOST_MEMORY >> 20}", f"-artifact_prefix={FOUND}/{name}-", "-print_final_stats=1"]
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    atheris.Setup([sys.argv[0], *options, *more, str(grown), str(CORPUS / name)], one)
    atheris.Fuzz()


def main() -> int:
    """The exit code is 1 when anything broke."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=int, default=1000, help="mutations of each (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guided", type=int, metavar="SECONDS", help="with atheris, one NAME")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if args.guided:
        guided(args.names[0], args.guided, args.seed)
    import harnesses

    try:
        return int(any([run(name, args.runs, args.seed) for name in args.names or sorted(harnesses.HARNESSES)]))
    finally:
        harnesses.clean_up()


if __name__ == "__main__":
    sys.exit(main())
