"""Containers: docker inspect, docker run, kubectl get pod -o yaml. And ldd and nvcc, which say what is in them.

`docker inspect` and pods are read line by line, since tickets show parts of them.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from flatline.bundle.facts import Cgroup, EnvVar, Library, Mount, Process, Scheduler, process_id

from .environment import variable
from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .json_text import json_span
from .spans import span

NOBODY = process_id(NO_PID, HOST)
SHM = "/dev/shm"
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
          "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}  # fmt: skip
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([kmgtKMGT]?i?)[bB]?$")


def size_of(text: str) -> int | None:
    """``16g``, ``64Gi``, ``500M``: the way Docker, Kubernetes and batch systems write sizes."""
    found = _SIZE.match(text.strip().strip("'\""))
    return int(float(found[1]) * _UNITS[found[2].lower()]) if found else None


@dataclass
class _Container:
    """What was read of one."""

    line: int
    name: str | None = None
    pid: int = NO_PID
    argv: list[str] = field(default_factory=list)
    exit_code: int | None = None
    running: bool | None = None
    killed: Line | None = None
    paused: Line | None = None
    memory: tuple[int, int] | None = None
    """Bytes, and the line that says so."""
    shm: tuple[int, int] | None = None
    host_ipc: bool = False
    """It has the /dev/shm of the host."""
    env: list[EnvVar] = field(default_factory=list)
    job: str | None = None
    node: str | None = None
    namespace: str | None = None

    def rows(self, container: str) -> list[Any]:
        """Its facts. Whose memory is limited is the container's first process."""
        identity = process_id(self.pid, HOST)
        status = None if self.running or self.exit_code is None else _status(self.exit_code)
        rows: list[Any] = [
            Process(
                identity, HOST, self.pid, argv=tuple(self.argv) or None, exit_status=status, container=container,
                state="X" if status is not None else "unknown", line=self.line,
            )
        ]  # fmt: skip
        if self.memory or self.killed:
            limit, line = self.memory or (None, self.killed.number if self.killed else self.line)
            kills = 1 if self.killed else None
            rows.append(Cgroup(identity, self.name or "unknown", memory_max=limit, memory_oom_kills=kills, line=line))
        if self.paused:
            said = self.paused.bare.rstrip(",")
            rows.append(Scheduler("other", self.name, "paused", said, source="tool", line=self.paused.number))
        if self.shm and not self.host_ipc:
            rows.append(Mount(SHM, "tmpfs", size=self.shm[0], line=self.shm[1]))
        return [*rows, *(replace(row, process=identity) for row in self.env)]


def _status(code: int) -> int:
    """A shell's code above 128 is a signal."""
    return 128 - code if 128 < code < 193 else code


# --- docker inspect ---

_INSPECT = re.compile(r'[\[{]$|\{"Id": ?"|\[\{"Id": ?"|"(?:HostConfig|State|Env)": ?[\[{]$')
_KEY = re.compile(r'"(?P<key>[\w./-]{1,80})": ?(?P<value>.*?),?$')
_STRING = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)",?$')


def parse_inspect(lines: Lines, start: int) -> Parsed | None:
    """One container or several, whole or from a part that only they have."""
    near = [line.bare for line in lines[start : start + 12]]
    of_container = any(
        re.match(r'"(?:OOMKilled|ShmSize|IpcMode|RestartCount|CgroupParent)":|"Path": "', text) for text in near
    )
    if not (of_container or (any('"Id": "' in text for text in near[:4]) and '"Created"' in " ".join(near))):
        return None
    found = json_span(lines, start)
    texts = [(line.number, line) for line in found.lines]
    if len(texts) == 1:
        texts = _indented(texts[0][1])
    containers = _inspected(texts)
    if not containers:
        return None
    rows = [row for one in containers for row in one.rows("docker")]
    return Parsed(found.end, tuple(rows), about=f"{len(containers)} containers")


def _indented(line: Line) -> list[tuple[int, Line]]:
    """JSON on one line, as if it had been printed for people."""
    try:
        text = json.dumps(json.loads(line.text), indent=1)
    except (ValueError, RecursionError):
        return [(line.number, line)]
    return [(line.number, replace(line, text=one)) for one in text.split("\n")]


def _inspected(texts: list[tuple[int, Line]]) -> list[_Container]:
    containers: list[_Container] = []
    inside = ""
    for number, line in texts:
        bare = line.bare
        key = _KEY.match(bare)
        if key and (key["key"] == "Id" or not containers):
            containers.append(_Container(number))
        if key:
            inside = key["key"] if key["value"] in ("[", "{") else inside if key["value"] else ""
            _told(containers[-1], line, key["key"], key["value"].strip('"'))
        elif (text := _STRING.match(bare)) and containers:
            _listed(containers[-1], line, inside, text["text"])
        elif bare.startswith("]"):
            inside = ""
    return containers


def _told(one: _Container, line: Line, key: str, value: str) -> None:
    if key == "Pid" and value.isdecimal():
        one.pid = int(value)
    elif key == "ExitCode" and re.fullmatch(r"-?\d{1,4}", value):
        one.exit_code = int(value)
    elif key in ("Running", "Status") and value in ("true", "running"):
        one.running = True
    elif (key, value) in (("Paused", "true"), ("Status", "paused")):
        one.paused = line
    elif key == "IpcMode":
        one.host_ipc = value == "host"
    elif key == "OOMKilled" and value == "true":
        one.killed = line
    elif key == "ShmSize" and value.isdecimal() and int(value):
        one.shm = (int(value), line.number)
    elif key == "Memory" and value.isdecimal() and int(value):
        one.memory = (int(value), line.number)
    elif key == "Path" and not one.argv:
        one.argv = [value]
    elif key == "Name" and value.startswith("/"):
        one.name = value[1:]


def _listed(one: _Container, line: Line, inside: str, text: str) -> None:
    if inside == "Args":
        one.argv.append(text)
    elif inside == "Env":
        name, equals, value = text.partition("=")
        one.env.append(variable(line, name, value if equals else None))


# --- docker run ---

_RUN = re.compile(r"(?:[$#] ?)?(?:sudo )?(?:docker|podman|nvidia-docker|nerdctl)(?: container)? (?:run|create) .*")
_WITH_VALUE = frozenset(
    {
        "-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--shm-size", "--gpus", "--ipc",
        "-m", "--memory", "--cpus", "-w", "--workdir", "-u", "--user", "--network", "--net", "-p",
        "--publish", "--entrypoint", "--hostname", "-h", "--ulimit", "--device", "--runtime",
        "--memory-swap", "--cpuset-cpus", "--pid", "--cap-add", "--security-opt", "--restart", "--label",
        "-l", "--add-host", "--group-add", "--tmpfs", "--log-driver", "--log-opt", "--platform",
        "--cgroupns", "--init-path", "--pids-limit",
    }
)  # fmt: skip


def parse_run(lines: Lines, start: int) -> Parsed | None:
    """The command line, also over several lines that end in a backslash."""
    end = start
    while end < len(lines) - 1 and end - start < 200 and lines[end].bare.endswith("\\"):
        end += 1
    text = " ".join(line.bare.rstrip("\\").strip() for line in lines[start : end + 1])
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    one = _Container(lines[start].number)
    at = next((i for i, word in enumerate(words) if word in ("run", "create")), len(words))
    _options(one, words[at + 1 :], lines[start])
    return Parsed(end + 1, tuple(one.rows("docker")), about="a container's command line")


def _options(one: _Container, words: list[str], line: Line) -> None:
    """Options to the image; what follows it is the program."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if not equals and name in _WITH_VALUE and at + 1 < len(words):
            at += 1
            value = words[at]
        _option(one, name, value, line)
        at += 1
    one.argv = words[at + 1 :]


def _option(one: _Container, name: str, value: str, line: Line) -> None:
    if name in ("-e", "--env"):
        key, equals, told = value.partition("=")
        one.env.append(variable(line, key, told if equals else None))
    elif name == "--gpus":
        one.env.append(variable(line, "NVIDIA_VISIBLE_DEVICES", value.replace("device=", "").strip("\"'")))
    elif name == "--shm-size" and (size := size_of(value)):
        one.shm = (size, line.number)
    elif name in ("-m", "--memory") and (size := size_of(value)):
        one.memory = (size, line.number)
    elif name == "--ipc":
        one.host_ipc = value == "host"
    elif name == "--name":
        one.name = value


# --- kubectl get pod -o yaml ---

_POD = re.compile(r"kind: Pod$|apiVersion: v1$|containerStatuses:$|- env:$|env:$")
_PAIR = re.compile(r"(?:- )?(?P<key>[\w./-]{1,100}):(?: (?P<value>.*))?$")


def parse_pod(lines: Lines, start: int) -> Parsed | None:
    """A pod or a part of one: environment, limits, state, where it runs."""
    near = [line.bare for line in lines[start : start + 30]]
    if not any(re.match(r"kind: Pod$|containerStatuses:$|- name: [A-Z_][A-Z0-9_]+$", text) for text in near):
        return None
    found = span(lines, start, lambda text: _PAIR.match(text) or text.startswith(("- ", "#")) or text in ("|", ">"))
    one = _Container(lines[start].number)
    context: list[tuple[int, str]] = []
    named: Line | None = None
    for line in found.lines:
        pair = _PAIR.match(line.bare)
        if pair is None:
            continue
        indent = len(line.text) - len(line.text.lstrip()) + 2 * line.bare.startswith("- ")
        while context and context[-1][0] >= indent:
            context.pop()
        key, value = pair["key"], (pair["value"] or "").strip().strip("'\"")
        path = [name for _, name in context]
        if key == "name" and path[-1:] == ["env"]:
            named = line
            one.env.append(variable(line, value, None))
        elif key == "value" and named and one.env:
            one.env[-1] = replace(one.env[-1], value=value)
        else:
            _of_pod(one, line, path, key, value)
        if not value:
            context.append((indent, key))
    rows = one.rows("kubernetes")
    if one.job or one.node:
        rows.append(Scheduler("kubernetes", job=one.job, node=one.node, queue=one.namespace, process=NOBODY,
                              source="tool", line=one.line))  # fmt: skip
    return Parsed(found.end, tuple(rows), about=f"a pod, {len(one.env)} variables")


def _of_pod(one: _Container, line: Line, path: list[str], key: str, value: str) -> None:
    if key == "memory" and path[-1:] == ["limits"] and (size := size_of(value)):
        one.memory = (size, line.number)
    elif key == "sizeLimit" and "emptyDir" in path and (size := size_of(value)):
        one.shm = (size, line.number)
    elif key == "reason" and value == "OOMKilled":
        one.killed = line
    elif key == "exitCode" and value.isdecimal() and len(value) < 5:
        one.exit_code, one.running = int(value), False
    elif key == "nodeName":
        one.node = value
    elif path[-1:] == ["metadata"] and key in ("name", "namespace"):
        one.job, one.namespace = (value, one.namespace) if key == "name" else (one.job, value)


# --- ldd, nvcc ---

_LDD = re.compile(
    r"(?:\S{1,200}\.so[\w.]* => (?:\S{1,400} \(0x[0-9a-f]+\)|not found)|linux-vdso\.so\.1 \(0x[0-9a-f]+\))$"
)
_LDD_OWN = re.compile(
    rf"{_LDD.pattern}|/\S{{1,300}}(?::$| \(0x[0-9a-f]+\)$)|statically linked|not a dynamic executable"
)
_LINKED = re.compile(r"(?P<soname>\S{1,200}\.so[\w.]*) => (?:(?P<path>/\S{1,400}) \(0x|not found)")


def parse_ldd(lines: Lines, start: int) -> Parsed | None:
    """Libraries that were found, and those that were not: of these the path is what was looked for."""
    found = span(lines, start, _LDD_OWN.match)
    rows = []
    for line in found.lines:
        if told := _LINKED.match(line.bare):
            path = told["path"] or f"{told['soname']} (not found)"
            rows.append(Library(NOBODY, path, soname=told["soname"], line=line.number))
    missing = sum(row.path.endswith("(not found)") for row in rows)
    return Parsed(found.end, tuple(rows), about=f"{len(rows)} libraries, {missing} not found")


_NVCC = re.compile(r"nvcc: NVIDIA \(R\) Cuda compiler driver|Cuda compilation tools, release \d")
_NVCC_OWN = re.compile(
    r"nvcc: NVIDIA|Copyright \(c\) .{4,20}NVIDIA Corporation|Built on |Cuda compilation tools, release|Build cuda_"
)
_RELEASE = re.compile(r"Cuda compilation tools, release (\d{1,3}\.\d{1,3})(?:, V(\d[\d.]{1,20}))?")


def parse_nvcc(lines: Lines, start: int) -> Parsed | None:
    """`nvcc --version`: the CUDA that extensions are built with."""
    found = span(lines, start, _NVCC_OWN.match)
    release = next(((line, told) for line in found.lines if (told := _RELEASE.match(line.bare))), None)
    if release is None:
        return Parsed(found.end, about="nvcc")
    line, told = release
    row = Library(NOBODY, "nvcc", version=told[2] or told[1], family="CUDA toolkit", line=line.number)
    return Parsed(found.end, (row,), about=f"nvcc {row.version}")


PARSERS = (
    Parser("docker-inspect", _INSPECT, parse_inspect),
    Parser("docker-run", _RUN, parse_run, is_log=True),
    Parser("kubernetes-pod", _POD, parse_pod),
    Parser("ldd", _LDD, parse_ldd),
    Parser("nvcc", _NVCC, parse_nvcc),
)
