"""The files below /proc/driver/nvidia, which the kernel module writes. Pure: no I/O."""

from __future__ import annotations

import re

from flatline.bundle.facts import Gpu

from .readings import HOST, bus_id, whole, word

_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


def parse_version(text: str) -> str | None:
    """Of ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 …`` and of the open module's line."""
    found = _VERSION.search(text)
    return found[1] if found else None


def parse_information(text: str) -> Gpu | None:
    """One ``gpus/<bus>/information``."""
    pairs = (line.partition(":") for line in text.splitlines())
    about = {name.strip(): value.strip() for name, colon, value in pairs if colon}
    minor = whole(about.get("Device Minor"))
    if minor is None:
        return None
    return Gpu(
        host=HOST,
        index=minor,
        vendor="nvidia",
        uuid=word(about.get("GPU UUID")),
        name=word(about.get("Model")),
        bus_id=bus_id(about.get("Bus Location")),
        minor=minor,
    )
