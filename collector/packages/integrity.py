"""Whether the packages that matter are whole: what their RECORD lists against what is there. Sizes only, no hashes.

An installation that ran out of disk, was interrupted, or was made over a running job leaves files missing or short;
imports of them then fail in one rank and not in another. Source: "Recording installed projects" (RECORD) of the
Python Packaging User Guide.
"""

from __future__ import annotations

import csv
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from .distributions import Distribution, normalised
from .reader import Reader

MOST_ENTRIES = 20_000
"""Of one package; torch has some 14,000."""
MOST_NAMED = 10
_RECORD = 4 * 1024**2
_MATTERS = re.compile(
    r"(torch|torchvision|torchaudio|torchdata|numpy|scipy|pandas|pyarrow|triton|pytorch-triton.*|nvidia-.*|cupy.*|"
    r"transformers|tokenizers|safetensors|datasets|accelerate|deepspeed|peft|trl|flash-attn.*|flashinfer.*|xformers|"
    r"transformer-engine.*|apex|megatron.*|vllm|sglang|ray|lightning|pytorch-lightning|horovod|jax|jaxlib|jax-.*|"
    r"tensorflow.*|tensorboard|keras|flax|bitsandbytes|mpi4py|protobuf|grpcio|wandb|mlflow|fairscale|opencv-.*|pillow)"
)


def matters(name: str) -> bool:
    """Whether a training job stands or falls with it."""
    return bool(_MATTERS.fullmatch(normalised(name)))


def checked(reader: Reader, found: Distribution) -> Distribution:
    """The distribution with what is wrong with its files among its `faults`."""
    text = reader.text(f"{found.metadata}/RECORD", _RECORD)  # its last line may be cut
    if text is None:
        return found
    faults = list(_wrong_files(reader, found.folder, _entries(text.rpartition("\n")[0])))
    more = len(faults) - MOST_NAMED
    named = faults[:MOST_NAMED] + ([f"and {more} more files"] if more > 0 else [])
    return replace(found, faults=(*found.faults, *named))


def _entries(text: str) -> Iterator[tuple[str, int | None]]:
    """(path, size) of what must be there as it was. Not compiled code, which comes and goes; not what installers
    write anew (the record itself, scripts outside the folder, whose first line they change)."""
    for number, row in enumerate(csv.reader(text.splitlines())):
        if number >= MOST_ENTRIES:
            return
        path = row[0] if len(row) == 3 else ""
        outside = path.startswith(("/", "..")) or "\0" in path
        if path and not outside and not path.endswith(".pyc") and ".dist-info/" not in path:
            yield path, int(row[2]) if row[2].isdecimal() else None


def _wrong_files(reader: Reader, folder: str, entries: Iterable[tuple[str, int | None]]) -> Iterator[str]:
    """What is not there as recorded, libraries first."""
    by_folder: dict[str, list[tuple[str, int | None]]] = {}
    for path, size in entries:
        by_folder.setdefault(posixpath.dirname(path), []).append((path, size))
    wrong: list[str] = []
    for below, listed in by_folder.items():
        sizes = reader.sizes(posixpath.join(folder, below))
        if sizes is not None:
            wrong += [fault for path, size in listed for fault in _fault(reader, folder, path, size, sizes)]
    yield from sorted(wrong, key=lambda fault: ".so" not in fault)


def _fault(reader: Reader, folder: str, path: str, size: int | None, sizes: dict[str, int | None]) -> Iterator[str]:
    name = posixpath.basename(path)
    there = sizes.get(name)
    if name in sizes and there is None:  # a link, as uv makes them
        there = reader.size(posixpath.join(folder, path))
        if there is None and reader.has_time():
            yield f"{path}: a link that leads nowhere"
    elif name not in sizes:
        yield f"{path}: missing"
    if there is not None and size is not None and there != size:
        yield f"{path}: {there} bytes instead of {size}"


def leftover_of(path: str, installed: Sequence[Distribution]) -> Distribution | None:
    """Whose a folder like ``~orch`` or ``~orch-2.3.0.dist-info`` is: pip replaces the first letters."""
    stem = re.split(r"-\d|\.dist-info|\.libs", posixpath.basename(path))[0].lstrip("~-")
    key = normalised(stem)
    return next((one for one in installed if key and one.key.endswith(key) and len(one.key) - len(key) <= 3), None)
