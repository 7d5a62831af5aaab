"""`flatline collect`: from a stuck job to one zip."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from flatline.bundle.format import LedgerEntry
from flatline.errors import EXIT_NO_STACK, EXIT_OK, FlatlineError, TargetGoneError
from flatline.visible import visible

from .. import plan
from ..collection import Collected, Collection, Options
from ..job.choice import choose_job
from ..job.targets import JobTree
from ..probes.interface import Target
from ..probes.site import SiteProbe
from ..progress import progress_for
from . import arguments

MESSAGE_WIDTH = 200


def main(argv: Sequence[str]) -> int:
    """Run the command; the exit code is documented in its help."""
    args = arguments.parse(argv)
    options = arguments.options(args, argv)
    tell = Teller(quiet=args.quiet)
    progress = progress_for(sys.stderr, quiet=args.quiet or args.dry_run)
    collection = Collection(options, on_wait=progress.update)
    try:
        with progress, collection.supervisor:
            collection.wish()
            collection.include()
            job = find_job(collection, options, tell)
            for note in job.notes:
                tell.line(note)
            if args.dry_run:
                return dry_run(options, job.targets, collection.site)
            collected = collection.gather(job)
            collection.supervisor.conclude()
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        interrupted = collection.supervisor.interrupted
        return 128 + interrupted if interrupted else error.exit_code
    except KeyboardInterrupt:  # a second SIGINT: whoever sends it wants to go now, and the spool can be salvaged
        tell.line("Interrupted twice; what was gathered is in the .part file: flatline salvage FILE.part")
        return 130
    tell.summary(collected)
    return exit_code(collected, collection.supervisor.interrupted)


def find_job(collection: Collection, options: Options, tell: Teller) -> JobTree:
    """The job's processes; none when it is gone and --log, --cwd or --core say what it left."""
    try:
        if options.pids or options.names:
            return collection.find(options.pids)
        if options.cwd or options.cores:
            return JobTree(())
        return collection.find(choose_job(collection, tell.line))
    except TargetGoneError as error:
        if not options.names_remains:
            raise
        return JobTree((), notes=(f"{error.what}: only what the job left is taken",))


def exit_code(collected: Collected, interrupted: int | None) -> int:
    """See the table in the help."""
    if interrupted:
        return 128 + interrupted
    found = collected.stacks if collected.has_targets else collected.remains
    return EXIT_OK if found else EXIT_NO_STACK


class Teller:
    """What the person reads: progress and gaps on stderr, the path of the bundle on stdout."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def line(self, text: str) -> None:
        """One line, unless quiet. A closed stderr is no reason to lose a bundle."""
        if self.quiet:
            return
        try:
            print(visible(text), file=sys.stderr, flush=True)
        except OSError:
            self.quiet = True

    def summary(self, collected: Collected) -> None:
        """The path, the size, what could not be had and the line that would get it, what was hidden."""
        for text in missing(collected.entries):
            self.line(text)
        if collected.has_targets and not collected.stacks:
            self.line("No stack of the job could be taken: exit code 3.")
        if collected.ended_by != "finished":
            self.line(f"Ended early by: {collected.ended_by}. What had been gathered is in the bundle.")
        for bundle in collected.saved:
            self.line(f"A collect that was killed had left {bundle.name}; it is a bundle now.")
        if collected.replaced:
            self.line(f"Replaced {collected.replaced}.")
        if collected.moved:
            self.line(f"{collected.moved}; the bundle was put elsewhere.")
        if collected.unmapped:
            self.line(f"--keep-map was not written: {collected.unmapped}")
        self.line(hidden_text(collected.hidden))
        self.line(f"{size_text(collected.size)}; next: flatline analyze {collected.bundle}")
        try:
            print(visible(str(collected.bundle)) if sys.stdout.isatty() else collected.bundle, flush=True)
        except OSError:  # the reader went away; the bundle is there all the same
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1)


def missing(entries: Sequence[LedgerEntry]) -> Iterator[str]:
    """What could not be had, and under it each line that would get something, once, with what it would get."""
    gaps = [entry for entry in entries if entry.status not in ("ok", "skipped") and entry.message]
    if gaps:
        yield "Could not be had:"
    for entry in gaps:
        yield f"  {entry.probe}: {entry.status}. {shortened(entry.message)}"
    for hint in dict.fromkeys(entry.hint for entry in gaps if entry.hint):
        yield f"To get {', '.join(entry.probe for entry in gaps if entry.hint == hint)}: {hint}"


def shortened(message: str) -> str:
    """The whole of it stands in the ledger."""
    return message if len(message) <= MESSAGE_WIDTH else message[: MESSAGE_WIDTH - 1] + "…"


def hidden_text(hidden: dict[str, int] | None) -> str:
    """``Hidden: 3 x hf-token``."""
    if hidden is None:
        return "Hidden: nothing. The bundle is UNREDACTED: do not attach it to a public ticket."
    if not hidden:
        return "Hidden: nothing that looks like a secret was found."
    return "Hidden: " + ", ".join(f"{number} x {kind}" for kind, number in sorted(hidden.items()))


def size_text(size: int) -> str:
    """``412 KiB``."""
    return f"{size / 1024:,.0f} KiB" if size < 1024**2 else f"{size / 1024**2:.1f} MiB"


def dry_run(options: Options, targets: Sequence[Target], site: Sequence[SiteProbe] = ()) -> int:
    """Say what would be asked, of whom, and for how long at most."""
    print("Processes that would be looked at:")
    for target in targets:
        print(f"  {target.pid:>8} {target.relation:10} {target.role:18} {visible(target.name)}")
    print(f"\nProbes, in this order (window {options.window_s:g} s, everything within {options.deadline_s:g} s):")
    for probe in plan.probes(has_targets=bool(targets)):
        limit = min(options.deadline_s, probe.limit_s + (options.window_s if probe.spans_window else 0))
        help_text = (type(probe).__doc__ or "").strip().splitlines()[0]
        print(f"  {probe.name:14} at most {limit:4.1f} s  {help_text}")
        print(f"  {'':14} tables: {', '.join(probe.tables)}")
        for path in probe.reads:
            print(f"  {'':14} reads: {path}")
        for run in probe.runs:
            print(f"  {'':14} runs:  {run.line}  (at most {run.limit_s:g} s: {run.when})")
    for probe in site:
        print(f"  {probe.name:14} at most {probe.limit_s:4.1f} s  {probe.entry.asks}")
    print("\nNothing was collected.")
    return EXIT_OK
