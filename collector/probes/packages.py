"""What the job's Pythons see installed, whether it is whole, and which shared libraries are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flatline.bundle.facts import Package, process_id

from ..confine import ConfineFailed, run_as_target, standpoint
from ..linux import access
from ..linux.mounts import by_id, mount_of
from ..linux.procfs import ProcFS, Unread, printable
from ..packages.distributions import Distribution
from ..packages.reader import Whereabouts
from ..packages.starts import Start, read_starts
from ..packages.survey import Cut, Environment, Libraries, Survey
from .interface import Artefact, Doing, Facts, Gap, Item, Target, View

MOST_STANDPOINTS = 4
MOST_ENVIRONMENTS = 8
_STARTS_S = 0.8
_RESERVE_S = 0.4
_SURVEY_S = 2.0
"""Of one child; the reader inside stops a little earlier, so that a slow file system still gives what it gave."""
_PATIENCE = 0.8
_TRIES = 2
"""A second child goes around what did not answer the first."""


class Packages:
    """What each Python of the job sees installed, what of it is broken, and the shared libraries that are loaded."""

    name = "packages"
    tables = ("packages", "libraries")
    limit_s = 4.0
    spans_window = False
    reads = (
        "/proc/PID/{auxv,cmdline,cwd,exe,maps,mem,root,stat}",
        "/proc/locks",
        "as the job's user: pyvenv.cfg, *.pth, *.dist-info, *.egg-info and conda-meta on its sys.path",
        "as the job's user: the names and sizes of files of packages that matter, the libraries it has mapped",
    )
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        targets = [one for one in view.targets if one.is_python and one.relation != "ancestor" and not one.is_guarded]
        targets = [one for one in targets if one.pid not in view.own_pids]
        if not targets:
            yield Gap("absent", "no process of the job is Python: there are no packages to list", tables=self.tables)
            return
        yield Doing("how the job's Pythons were started")
        starts, unread = read_starts(proc, targets, view.env_names, _STARTS_S)
        found = _Found()
        groups = _by_standpoint(proc, targets, starts)
        for target, group in groups[:MOST_STANDPOINTS]:
            yield Doing(f"packages of pid {target.pid}")
            found.gaps += _survey(proc, view, target, group, found)
        yield from _items(found)
        yield from _unread_gaps(targets, unread)
        yield from found.gaps
        left_out = sum(len(group) for _, group in groups[MOST_STANDPOINTS:])
        if left_out:
            message = f"{left_out} processes that see files otherwise (user, root or folder) were left out"
            yield Gap("partial", message, tables=self.tables)


@dataclass
class _Found:
    environments: dict[tuple[int, ...], Environment] = field(default_factory=dict)
    libraries: dict[tuple[int, ...], Libraries] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)


def _by_standpoint(
    proc: ProcFS, targets: Sequence[Target], starts: Sequence[Start]
) -> list[tuple[Target, list[Start]]]:
    """Those that one child can read for: one user, one root, one working directory."""
    by_pid = {target.pid: target for target in targets}
    groups: dict[object, list[Start]] = {}
    for start in starts:
        groups.setdefault(standpoint(by_pid[start.pid], proc.root) or start.pid, []).append(start)
    return [(by_pid[group[0].pid], group) for group in groups.values()]


def _survey(proc: ProcFS, view: View, target: Target, starts: Sequence[Start], found: _Found) -> Iterator[Gap]:
    """Read for one group, and once more around a file system that does not answer."""
    avoid: list[str] = []
    for _ in range(_TRIES):
        limit = min(_SURVEY_S, (view.left_s() - _RESERVE_S) * _PATIENCE)
        if limit <= 0.1:
            yield _gap("partial", target, f"no time was left for the packages of pid {target.pid}")
            return
        place = Whereabouts()
        survey = Survey(starts, target.uid, place, limit * _PATIENCE, avoid)
        failed = None
        for one in run_as_target(target, survey, proc=proc.root, limit_s=limit):
            if isinstance(one, Environment):
                found.environments[one.pids] = one
            elif isinstance(one, Libraries):
                found.libraries[one.pids] = one
            elif isinstance(one, Cut):
                yield _gap("partial", target, f"cut short: {', '.join(one.what)}")
            else:
                failed = one
        if failed is None:
            return
        yield _failure_gap(target, failed, place.path())
        if failed.reason != "timeout" or not place.path():
            return
        avoid.append(_silent(proc, target, place.path()))


def _silent(proc: ProcFS, target: Target, path: str) -> str:
    """What to go around: the whole mount if somebody else answers for it, else the folder."""
    mount = mount_of(path, list(by_id(proc, target.pid).values()))
    return mount.path if mount is not None and not mount.is_local else path


# --- telling ---


def _items(found: _Found) -> Iterator[Item]:
    environments = list(found.environments.values())
    packages = [row for one in environments[:MOST_ENVIRONMENTS] for row in _rows(one)]
    rows = [row for one in found.libraries.values() for row in one.rows]
    tables = {"packages": packages if environments else None, "libraries": rows if found.libraries else None}
    if environments:
        yield Facts("facts/packages.json", {name: given for name, given in tables.items() if given is not None})
    for number, one in enumerate(environments[:MOST_ENVIRONMENTS], 1):
        yield Artefact(f"raw/pip-freeze-{number}.txt", "".join(f"{printable(line)}\n" for line in _freeze(one)))
        if one.conda:
            lines = (f"{each.name}={each.version}={each.build}\n" for each in one.conda)
            yield Artefact(f"raw/conda-list-{number}.txt", "".join(lines))
    if len(environments) > MOST_ENVIRONMENTS:
        message = f"{len(environments) - MOST_ENVIRONMENTS} more environments were left out"
        yield Gap("partial", message, tables=("packages",))


def _rows(one: Environment) -> Iterator[Package]:
    process = process_id(one.pids[0])
    for dist in one.installed.effective:
        yield Package(process, dist.name, dist.version, dist.metadata, _direct_url(dist), dist.faults)
    for path in one.installed.leftovers:
        fault = "left by an uninstall that was interrupted"
        yield Package(process, path.rpartition("/")[2], path=path, broken=(fault,))
    known = {dist.key for dist in one.installed.effective}
    for package in one.conda:
        if package.name not in known:
            yield Package(process, package.name, package.version, package.path)


def _direct_url(dist: Distribution) -> str | None:
    return (f"-e {dist.url}" if dist.is_editable else dist.url) or None


def _freeze(one: Environment) -> Iterator[str]:
    """As ``pip freeze`` would print it, the rest as comments."""
    more = f" and {len(one.pids) - 8} more" if len(one.pids) > 8 else ""
    yield f"# as seen by pid {', '.join(map(str, one.pids[:8]))}{more}, without asking its Python"
    yield f"# {one.executable} ({one.version or 'version unknown'}), prefix {one.prefix or 'unknown'}"
    yield from (f"# path: {folder}" for folder in one.folders)
    yield from (f"# note: {note}" for note in one.notes)
    yield from (f"# not run: {line}" for line in one.code_lines)
    for dist in one.installed.effective:
        yield dist.frozen
        yield from (f"#   {module} from {place}" for module, place in dist.mapped_to)
        yield from (f"#   broken: {fault}" for fault in dist.faults)
    yield from (f"# left by an interrupted uninstall: {path}" for path in one.installed.leftovers)
    yield from (f"# hidden by the first of its name: {dist.frozen} ({dist.folder})" for dist in one.installed.shadowed)


def _gap(status: str, target: Target, message: str, hint: str = "") -> Gap:
    return Gap(status, message, hint, process_id(target.pid), Packages.tables)  # type: ignore[arg-type]


def _failure_gap(target: Target, failed: ConfineFailed, path: str) -> Gap:
    where = f" at {path}" if path and failed.reason == "timeout" else ""
    left = f"; pid {failed.left_running} is left waiting there" if failed.left_running else ""
    hint = access.hint_when_denied({target.uid}) if failed.reason == "denied" else ""
    message = f"the packages of pid {target.pid} could not all be read as its user: {failed.message}{where}{left}"
    return _gap(failed.reason, target, message, hint)


def _unread_gaps(targets: Sequence[Target], unread: dict[int, Unread]) -> Iterator[Gap]:
    """One gap for each reason."""
    for reason in ("denied", "error", "absent"):
        lost = [target for target in targets if target.pid in unread and unread[target.pid].reason == reason]
        if not lost:
            continue
        pids = ", ".join(str(target.pid) for target in lost[:8]) + (" …" if len(lost) > 8 else "")
        hint = access.hint_when_denied({target.uid for target in lost}) if reason == "denied" else ""
        status = "denied" if reason == "denied" else "partial"
        why = unread[lost[0].pid].detail
        message = f"how {len(lost)} processes were started could not be read: {why} (pid {pids})"
        yield _gap(status, lost[0], message, hint)
