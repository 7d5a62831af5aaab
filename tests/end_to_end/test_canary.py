"""A fake secret in every channel that a bundle has: none is left in the bundle, its spool, a salvaged bundle, the reports
or on the terminal, neither as it is nor in base64 or as URLs spell it."""

from __future__ import annotations

import base64
import json
import os
import pprint
import random
import shutil
import signal
import string
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
from end_to_end_support import flatline
from programs import wait_until

from flatline.recorder import environment

CHANNELS = (  # one more: a word here, and a place in JOB or `planted` that holds SECRET[word]; the twin tells if it arrives
    "environment", "argv", "parent-argv", "stdout", "stderr-json", "log-file", "file-name", "cwd", "pip-url",
    "local", "source", "kernel-log", "gpu-tool", "label", "include-command", "include-file", "open-file", "bare-in-log", "traceback",
    "flight-recorder", "recorder",
)  # fmt: skip

PASTED = (
    "pasted-log", "pasted-ticket", "pasted-environment", "pasted-ps", "pasted-recorder-json", "pasted-recorder-text",
    "pasted-file-name",
)  # fmt: skip


def canary(channel: str) -> str:
    rng = random.Random(channel)
    body = "".join(rng.choices(string.ascii_letters + string.digits, k=34))
    return (
        f"hf_{body}"
        if channel in ("file-name", "cwd", "label", "open-file", "pasted-file-name")
        else f"{body[:20]}+{body[20:27]}9z"
    )


SECRET = {channel: canary(channel) for channel in (*CHANNELS, *PASTED)}

JOB = f"""
import flatline, json, os, sys, time
def train(step):
    api_key = "{SECRET["local"]}"
    opened = open("state-{SECRET["open-file"]}.bin", "wb")
    open("ready", "w").close()
    time.sleep(600); client_secret = "{SECRET["source"]}"
print("password={SECRET["stdout"]}", flush=True)
print("using", os.environ["JOB_API_KEY"], "now", flush=True)
print(json.dumps({{"level": "info", "auth_token": "{SECRET["stderr-json"]}"}}), file=sys.stderr, flush=True)
try:
    raise ValueError("login failed: db_password={SECRET["traceback"]}")
except ValueError:
    import traceback; traceback.print_exc()
with flatline.phase("log in, password={SECRET["recorder"]}"):
    train(1)
"""


def recorder(secret: str) -> dict[str, object]:
    """A dump of the flight recorder, whose frames hold a line of the job's code."""
    entry = {
        "frames": [{"name": f"train(api_key='{secret}')", "filename": "/v/train.py", "line": 7}], "record_id": 3,
        "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 3, "op_id": 3,
        "profiling_name": "nccl:all_reduce", "input_sizes": [[64]], "state": "scheduled", "timeout_ms": 600000,
    }  # fmt: skip
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0]"}},
        "entries": [entry],
    }


def tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    path.chmod(0o755)


def kernel_of_our_own(folder: Path, log: str) -> Path:
    """A library for LD_PRELOAD whose klogctl(3) says that `log`, a C literal, is all there is in the kernel's log."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    code = f"""
        #include <string.h>
        static const char text[] = "{log}";
        int klogctl(int type, char *into, int size) {{
            int length = sizeof text - 1;
            if (type == 10) return 4096;
            if (type != 3) return -1;
            if (length > size) length = size;
            memcpy(into, text, length);
            return length;
        }}"""
    library = folder / "libkernel.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=code.encode(), check=True)
    return library


@pytest.fixture
def planted(start, tmp_path: Path) -> tuple[int, list[object], dict[str, str]]:
    """A job with all of them; its pid, the options of collect, the environment of collect."""
    cwd = tmp_path / f"run-{SECRET['cwd']}"
    cwd.mkdir()
    (cwd / "job.py").write_text(JOB)
    info = tmp_path / "site" / "canary-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: canary\nVersion: 1.0\n")
    (info / "direct_url.json").write_text(
        json.dumps({"url": f"https://bob:{quote(SECRET['pip-url'])}@pypi.example.org/c.whl"})
    )
    tools = tmp_path / "tools"
    tools.mkdir()
    tool(tools, "nvidia-smi", f"| 0 N/A N/A 1 C python t.py --api-key={SECRET['gpu-tool']} 10MiB |")
    kernel = kernel_of_our_own(tmp_path, f'<6>[1.0] audit: a2=\\"token={SECRET["kernel-log"]}\\"\\n')
    tool(tools, "site-tool", f"secret_key: {SECRET['include-command']}")
    (tmp_path / "site.log").write_text(f"export AWS_SECRET_ACCESS_KEY={SECRET['include-file']}\n")
    (tmp_path / "recorder.json").write_text(json.dumps(recorder(SECRET["flight-recorder"])))
    plan = {
        "commands": [{"name": "tool", "argv": [str(tools / "site-tool")]}],
        "files": [
            {"name": "log", "path": str(tmp_path / "site.log")},
            {"name": "recorder", "path": str(tmp_path / "recorder.json")},
        ],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    extra = tmp_path / f"extra-{SECRET['file-name']}.log"
    extra.write_text(
        f"OPENAI_API_KEY: '{SECRET['log-file']}'\nretry {SECRET['bare-in-log']}\n"
        + "x\n" * 9
        + f"access_token={SECRET['bare-in-log']}\n"
    )
    env = {**os.environ, "JOB_API_KEY": SECRET["environment"], "PYTHONPATH": str(tmp_path / "site")}
    env = environment({**env, "TMPDIR": str(tmp_path), "FLATLINE_RECORDER_DIR": ""})
    line = f'"$0" job.py --hub-token "$1"; : --password {SECRET["parent-argv"]}'
    with open(cwd / "train.log", "w") as log:
        parent = start(["sh", "-c", line, sys.executable, SECRET["argv"]], cwd=cwd, stdout=log, stderr=log, env=env)
    wait_until((cwd / "ready").exists, what="the job is under way")
    options = [
        "--locals",
        "--log",
        extra,
        "--label",
        f"x-{SECRET['label']}",
        "--case",
        SECRET["label"],
        "--include",
        tmp_path / "plan.json",
    ]
    return parent.pid, options, {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LD_PRELOAD": str(kernel)}


def forms(value: str) -> set[bytes]:
    """The value as it may stand anywhere: as it is, in a URL, in JSON, in base64 at each of its three alignments."""
    raw = value.encode()
    cores = {
        base64.b64encode(b"\0" * shift + raw)[-(-shift * 4 // 3) + (shift > 0) :].rstrip(b"=")[:-1]
        for shift in range(3)
    }
    found = {raw, quote(value, safe="").encode(), quote(quote(value, safe="")).encode(), raw[:20], *cores}
    return {form for one in found for form in (one, one.replace(b"+", b"-").replace(b"/", b"_")) if len(form) >= 12}


def leaks(texts: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """(channel, text) wherever a secret is left."""
    return [
        (channel, name)
        for channel, value in SECRET.items()
        for name, text in texts.items()
        if any(form in text for form in forms(value))
    ]


def arrived(texts: Mapping[str, bytes], channels: Sequence[str]) -> list[str]:
    """The channels whose secret is in what was taken unredacted: from the others nothing would be left anyway."""
    found = {channel for channel, _ in leaks(texts)}
    return [channel for channel in channels if channel in found]


def contents(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return {**members, "names": "\n".join(members).encode()}


def reports(bundle: Path) -> dict[str, bytes]:
    done = {kind: flatline("analyze", bundle, "--format", kind) for kind in ("text", "json", "md", "html")}
    done["show"] = flatline("show", bundle)
    done["check"] = flatline("redact", "--check", bundle)
    return {name: (one.out + one.err).encode() for name, one in done.items()}


def test_no_canary_is_left_anywhere(planted, tmp_path: Path) -> None:
    pid, options, env = planted
    out = tmp_path / "out"
    out.mkdir()
    done = flatline("collect", "--pid", pid, "-o", f"{out}/", "--window", 1, *options, env=env)
    assert done.code in (0, 3), done.err
    (bundle,) = out.iterdir()
    found = contents(bundle)
    assert leaks({**found, "terminal": (done.out + done.err).encode(), "file name": bundle.name.encode()}) == []
    assert leaks(reports(bundle)) == []
    twin = tmp_path / "twin.flatline.zip"
    shown = flatline("collect", "--pid", pid, "-o", twin, "--window", 1, "--unredacted", *options, env=env)
    assert shown.code in (0, 3), shown.err
    assert "UNREDACTED" in shown.err
    (twin,) = tmp_path.glob("twin*.zip")
    assert arrived(contents(twin), CHANNELS) == list(CHANNELS)
    marks = json.loads(found["redaction.json"])["replacements"]
    assert sum(marks.values()) >= len(CHANNELS)
    everything = b"".join(found.values()).decode()
    for text in (
        "--hub-token",
        "--password",
        "api_key",
        "client_secret",
        "auth_token",
        "OPENAI_API_KEY",
        "secret_key",
        "AWS_SECRET_ACCESS_KEY",
    ):
        assert text in everything
    assert flatline("redact", "--check", bundle).code == 0


def test_no_canary_known_by_name_is_left_when_collect_is_killed(planted, tmp_path: Path) -> None:
    """The spool may hold what is learnt later; `flatline redact` finishes it."""
    pid, options, env = planted
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "flatline", "collect", "--pid", pid, "-o", f"{out}/", "--window", 6, *options]
    collect = subprocess.Popen(list(map(str, command)), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: list(out.glob("*.flatline.zip")), what="the first pass is published", seconds=60)
    collect.send_signal(signal.SIGKILL)
    collect.wait(20)
    (spool,) = out.glob("*.part")
    saved = out / "saved.first-pass-only.flatline.zip"
    assert flatline("salvage", spool, "-o", saved).code == 0
    assert leaks(contents(saved)) == []
    final = out / "final.flatline.zip"
    assert flatline("redact", saved, "-o", final).code == 0
    assert leaks({**contents(final), **reports(final)}) == []
    assert flatline("redact", "--check", final).code == 0


def test_no_canary_is_left_of_what_was_pasted(tmp_path: Path) -> None:
    ticket = tmp_path / "ticket"
    ticket.mkdir()
    texts = {
        "train.log": f"step 1\nexport WANDB_API_KEY={SECRET['pasted-log']}\nstep 2\n",
        "ticket.md": "It hangs. I start it with\n\n```\n"
        f"$ python train.py --hub-token {SECRET['pasted-ticket']} --steps 9\n```\n",
        "env.txt": f"LANG=C\nDB_PASSWORD={SECRET['pasted-environment']}\nRANK=0\n",
        "ps.txt": f"USER PID %CPU COMMAND\nroot 812 99.0 python t.py --password {SECRET['pasted-ps']}\n",
        "trace_0.json": json.dumps(recorder(SECRET["pasted-recorder-json"])),
        "trace_1.txt": pprint.pformat(recorder(SECRET["pasted-recorder-text"])),
        f"run-{SECRET['pasted-file-name']}.log": "step 1\n",
    }
    for name, text in texts.items():
        (ticket / name).write_text(text)
    bundle = tmp_path / "pasted.flatline.zip"
    done = flatline("bundle", ticket, "-o", bundle)
    assert done.code == 0, done.err
    found = contents(bundle)
    assert leaks({**found, "terminal": (done.out + done.err).encode()}) == []
    assert leaks(reports(bundle)) == []
    everything = b"".join(found.values()).decode()
    for before in ("WANDB_API_KEY=", "--hub-token ", "DB_PASSWORD=", "--password "):
        assert f"{before}⟪" in everything
    assert everything.count("api_key='⟪") + everything.count("api_key=\\'⟪") == 2
    assert "run-⟪" in found["names"].decode() + everything
    assert flatline("redact", "--check", bundle).code == 0


@pytest.mark.parametrize("channel", SECRET)
def test_the_search_finds_every_form(channel: str) -> None:
    raw = SECRET[channel].encode()
    texts = [
        raw,
        quote(SECRET[channel], safe="").encode(),
        *(base64.b64encode(b"abc"[:n] + raw + b"!") for n in range(3)),
    ]
    assert all(leaks({"x": b"- " + text + b" -"}) for text in texts)
