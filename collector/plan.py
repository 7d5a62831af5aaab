"""Which probes run, best evidence first. Adding one is a line here, a file in probes/, a test, a line in the docs."""

from __future__ import annotations

from collections.abc import Callable

from .probes.deep_stacks import DeepStacks
from .probes.descriptors import Descriptors
from .probes.environment import Environment
from .probes.files import Files
from .probes.futexes import Futexes
from .probes.gpu import Gpus
from .probes.history import History
from .probes.host import HostFacts
from .probes.interface import PlannedProbe
from .probes.kernel_log import KernelLog
from .probes.logs import Logs
from .probes.mounts import Mounts
from .probes.packages import Packages
from .probes.processes import Processes
from .probes.quotas import Quotas
from .probes.recorder import Recorder
from .probes.remains import Remains
from .probes.scheduler import SchedulerFacts
from .probes.stacks import Stacks

PROBES: tuple[Callable[[], PlannedProbe], ...] = (
    # What is gone first when the job is killed: where every thread is.
    Processes,
    Stacks,
    # Who waits on whom.
    Descriptors,
    Futexes,
    # Slow where a driver is sick, so it begins early; it waits beside the others and takes no place of theirs.
    Gpus,
    # What was said last, and what the job was given.
    Logs,
    Recorder,
    History,
    Environment,
    Mounts,
    Quotas,
    HostFacts,
    KernelLog,
    SchedulerFacts,
    Packages,
    Files,
    Remains,
    # Stops what it looks at for a moment: waits until all others have had their last look.
    DeepStacks,
)

REMAINS = frozenset({Logs.name, Remains.name})
"""They take what was named on the command line, be there a process or not."""
WITHOUT_A_PROCESS = REMAINS | {HostFacts.name, KernelLog.name}
"""What is worth asking when the job is gone."""

FIRST_PASS = frozenset({Processes.name, Stacks.name})
"""Once these have sent their first round, the bundle is published for the first time, and the others begin."""
AT_ONCE = FIRST_PASS | {Descriptors.name, Gpus.name}
"""What does not wait for the first pass: a moment's work that belongs to it, and a wait that uses no processor."""


def probes(*, has_targets: bool = True) -> list[PlannedProbe]:
    """One of each, in the order they start; of a job that is gone those that need no process."""
    made = [make() for make in PROBES]
    return made if has_targets else [probe for probe in made if probe.name in WITHOUT_A_PROCESS]
