"""Searching a long log for the patterns of all rules: beside ripgrep with the same patterns, plain and from a zip.

    python bench/scan.py [--mb 1024] [--engine re2]

A training log is made, with rare lines of trouble in it. It is searched for all patterns, of which a dozen are in
nearly every line (steps, losses: the rules ask whether the job got on); for those that are not; and, as
`flatline analyze` does it, for those alone that a rule looks for in all of a log: a third is looked for in its last
lines only. ripgrep gets the same patterns and the flags that suit it best (no Unicode, a large automaton), prints
nothing but a count, and reads the plain file, or what `unzip -p` writes. The ratios are those of the clock and, in
brackets, of the seconds of CPU, which others that are at work on the machine change less. Fails when flatline is slower
than `--least` times ripgrep by both.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.patterns import Compiled, compile_pattern
from flatline.analyzer.scan import by_hyperscan, by_re2
from flatline.analyzer.scan.interface import Text
from flatline.analyzer.scan.member import member_text
from flatline.analyzer.scan.scanner import Scanner
from pasted import BLOCK, NEEDLE, block

from flatline.bundle.container import pack_directory, pack_member
from flatline.bundle.format import BUNDLE_JSON, FORMAT, FORMAT_VERSION
from flatline.bundle.reader import open_bundle

MEMBER = "logs/train.log"
READ = 1024**2
FLAGS = ["--no-unicode", "--dfa-size-limit", "1G", "--regex-size-limit", "1G", "--no-config", "-c"]
NAMED = re.compile(r"\(\?P<\w+>")
"""Two patterns may name a group alike; to ripgrep they are one pattern."""
Patterns = list[tuple[str, Compiled]]
Result = TypeVar("Result")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=256)
    parser.add_argument("--least", type=float, default=0.8)
    parser.add_argument("--engine", choices=["hyperscan", "re2", "find"], default="hyperscan")
    args = parser.parse_args()
    if shutil.which("rg") is None or shutil.which("unzip") is None:
        print("skipped: it needs ripgrep and unzip (apt-get install ripgrep unzip)")
        return 0
    use(args.engine)
    book = load_rulebook()
    texts = dict.fromkeys(text for rule in book.rules for text in rule.model.patterns.values())
    every = [(text, compile_pattern(text, trusted=True)) for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder) / "train.log", Path(folder) / "train.flatline.zip"
        sample = make(plain, packed, args.mb * 1024**2)
        lines = sample.decode("utf-8", "replace").split("\n")
        rare = [one for one in every if sum(one[1].search(line) is not None for line in lines) < len(lines) / 100]
        slow = [measure(name, these, plain, packed) < args.least for name, these in
                (("all patterns", every), ("rare patterns", rare), ("wanted everywhere", book.patterns()))]  # fmt: skip
    return int(any(slow))


def use(engine: str) -> None:
    """Leave out what is better than this."""
    if engine != "hyperscan":
        by_hyperscan.hyperscan = None
    if engine == "find":
        by_re2.re2 = None


def make(plain: Path, packed: Path, size: int) -> bytes:
    """The log as a file and as the member of a bundle; a part of it is returned."""
    text = block()
    steps = b"".join(line for line in text.splitlines(keepends=True) if b"step" in line)
    steps += steps[: BLOCK - len(steps)]
    with plain.open("wb") as file:
        while file.tell() < size:
            file.write(NEEDLE + text if file.tell() == 0 else steps)
    data = plain.read_bytes()
    head = f'{{"format": "{FORMAT}", "format_version": "{FORMAT_VERSION}"}}'.encode()
    first, begin = pack_member(BUNDLE_JSON, head, offset=0, stamp=(0x21, 0))
    second, rest = pack_member(MEMBER, data, offset=len(begin), stamp=(0x21, 0), level=zlib.Z_BEST_SPEED)
    with packed.open("wb") as file:
        file.write(begin)
        file.write(rest)
        file.write(pack_directory([first, second], file.tell()))
    return steps[: 1024**2]


def measure(name: str, patterns: Patterns, plain: Path, packed: Path) -> float:
    """The smaller of the two ratios."""
    size = plain.stat().st_size
    words = [flag for text, _ in patterns for flag in ("-e", as_bytes(NAMED.sub("(", text)))]
    mine, lines = timed(lambda: scan(patterns, Text(pieces(plain), size)))
    theirs, _ = timed(lambda: subprocess.run(["rg", *FLAGS, *words, str(plain)], stdout=subprocess.PIPE, check=True))
    with open_bundle(packed) as reader:
        mine_packed, same = timed(lambda: scan(patterns, member_text(reader, MEMBER)))
    theirs_packed, _ = timed(lambda: from_zip(packed, ["rg", *FLAGS, *words]))
    mb = size / 1e6
    print(f"{mb:,.0f} MB, {len(patterns)} {name}, {lines} hits (200 of one at most), in the zip: {same}")
    print(f"  plain  flatline {mb / mine.clock:6.0f} MB/s   rg {mb / theirs.clock:6.0f} MB/s   ratio {theirs.to(mine)}")
    print(f"  zipped flatline {mb / mine_packed.clock:6.0f} MB/s   unzip | rg {mb / theirs_packed.clock:6.0f} MB/s   "
          f"ratio {theirs_packed.to(mine_packed)}   to rg on the file {theirs.to(mine_packed)}",
          flush=True)  # fmt: skip
    ratios = (max(theirs.clock / mine.clock, theirs.cpu / mine.cpu),
              max(theirs_packed.clock / mine_packed.clock, theirs_packed.cpu / mine_packed.cpu))  # fmt: skip
    return min(ratios) if lines == same else 0.0


def as_bytes(pattern: str) -> str:
    """As ripgrep without Unicode takes letters that are not ASCII: as their bytes; in a class they are left out."""
    parts = re.findall(r"\[\^?\]?(?:\\.|[^]\\])*\]|\\.|[^\\]", pattern)
    out = [part.encode("ascii", "ignore").decode() if part.startswith("[") else part for part in parts]
    return re.sub(r"[^\x00-\x7f]", lambda at: "".join(rf"\x{byte:02x}" for byte in at[0].encode()), "".join(out))


def scan(patterns: Patterns, text: Text) -> int:
    """Everything, the building of the automata as well."""
    for engine in (by_hyperscan, by_re2):
        engine._built.cache_clear()
    search = Scanner(patterns, most=200, tail_lines=50)
    return len(search.scan(text).first)


def pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(READ):
            yield piece


def from_zip(path: Path, command: Sequence[str]) -> None:
    with subprocess.Popen(["unzip", "-p", str(path), MEMBER], stdout=subprocess.PIPE) as unzip:
        subprocess.run(command, stdin=unzip.stdout, stdout=subprocess.PIPE, check=True)


@dataclass(frozen=True)
class Took:
    """Seconds of the clock, and of CPU with those of children."""

    clock: float
    cpu: float

    def to(self, mine: Took) -> str:
        return f"{self.clock / mine.clock:.2f} ({self.cpu / mine.cpu:.2f})"


def timed(work: Callable[[], Result]) -> tuple[Took, Result]:
    begun, before = time.perf_counter(), sum(os.times()[:4])
    result = work()
    return Took(time.perf_counter() - begun, sum(os.times()[:4]) - before), result


if __name__ == "__main__":
    sys.exit(main())
