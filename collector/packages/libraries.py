"""The shared libraries in a process that matter: which file, which version, whose, and which of them are there twice.

Two OpenMP runtimes in one process can wait for each other for ever; two cuDNN, NCCL or libstdc++ mix their versions.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import Library, process_id

from ..linux.descriptors import DELETED
from .distributions import Distribution
from .reader import Reader
from .starts import MappedFile

_FAMILIES = (
    ("OpenMP", r"lib(gomp|iomp5|omp)"),
    ("cuDNN", r"libcudnn\w*"),
    ("NCCL", r"lib(nccl|rccl)"),
    ("libstdc++", r"libstdc\+\+"),
    ("CUDA driver", r"lib(cuda|nvidia-ml|nvidia-ptxjitcompiler)"),
    ("CUDA runtime", r"lib(cudart|cublas(Lt)?|cufft|curand|cusolver|cusparse(Lt)?|nvrtc|nvJitLink|cupti|nvshmem_host)"),
    ("ROCm", r"lib(amdhip64|hsa-runtime64|hipblas|rocblas|MIOpen)"),
    ("PyTorch", r"lib(torch|torch_\w+|c10|c10_cuda|c10_hip)"),
    ("TensorFlow", r"libtensorflow_(framework|cc)"),
    ("MPI", r"lib(mpi|mpi_cxx|mpich|open-pal|open-rte)"),
    ("network", r"lib(ibverbs|rdmacm|ucp|ucs|uct|fabric|nccl-net\w*|nccl_net\w*|gloo)"),
    ("BLAS", r"lib(mkl_\w+|openblas\w*|scipy_openblas\w*|blas|blis)"),
    ("allocator", r"lib(jemalloc|tcmalloc\w*|mimalloc)"),
    ("C library", r"(lib(c|m|pthread|rt)|ld-linux[-\w]*|ld-musl[-\w]*|libc\.musl[-\w]*)"),
    ("other", r"lib(ssl|crypto|z|hdf5|protobuf|grpc|sqlite3|lzma|fuse3?|jvm)"),
)  # fmt: skip
_ONE_EACH = frozenset({"OpenMP", "cuDNN", "NCCL", "libstdc++", "CUDA driver", "CUDA runtime", "ROCm", "PyTorch", "MPI"})
"""Families of which a process should have one. BLAS is not among them: numpy and scipy bring one each, on purpose."""
_WHOLE_FAMILY = frozenset({"OpenMP", "NCCL"})
"""Here any two are one too many; elsewhere two files of one name are."""
_NAME = re.compile(r"^(?P<stem>.+?)(?:-(?P<hash>[0-9a-f]{8}))?(?:-(?P<dashed>\d[\d.]*))?\.so(?:\.(?P<number>[\w.]+))?$")
_RECORD = 4 * 1024**2
_GLIBC = re.compile(rb"GNU C Library [^\n]{0,80}? version (\d+\.\d+)")
_LIBC = 4 * 1024**2


@dataclass(frozen=True)
class Shared:
    """One file that matters, told by its name."""

    file: MappedFile
    path: str
    stem: str
    """``libcudnn_ops``, without version and the mark that auditwheel puts into a name."""
    family: str
    number: str
    """What follows ``.so.``: ``6.0.30``; or what precedes it: ``libc-2.31.so``."""

    @property
    def soname(self) -> str:
        """As the name tells it: file name up to the first number."""
        name = posixpath.basename(self.path)
        number = name.partition(".so.")[2].split(".")[0]
        return f"{name.partition('.so')[0]}.so" + (f".{number}" if number else "")


def of_interest(mapped: Iterable[MappedFile]) -> list[Shared]:
    """Each file once, in the order of the maps."""
    found = (_shared(one) for one in mapped if ".so" in one.path)
    return list({(one.file.device, one.file.inode): one for one in found if one}.values())


def _shared(file: MappedFile) -> Shared | None:
    path = file.path[: -len(DELETED)] if file.path.endswith(DELETED) else file.path
    match = _NAME.match(posixpath.basename(path))
    if not match:
        return None
    family = next((name for name, pattern in _FAMILIES if re.fullmatch(pattern, match["stem"])), None)
    number = match["number"] or match["dashed"] or ""
    return Shared(file, path, match["stem"], family, number) if family else None


def rows(pid: int, found: Sequence[Shared], owners: Mapping[str, Owner], versions: Mapping[str, str]) -> list[Library]:
    """The rows of one process; `owners` and `versions` by path."""
    return [
        Library(
            process_id(pid),
            one.path,
            package=owners[one.path].name if one.path in owners else None,
            soname=one.soname,
            version=versions.get(one.path) or _version(one, owners.get(one.path)),
            family=one.family,
            deleted=one.file.path.endswith(DELETED),
            duplicate_of=tuple(other.path for other in found if _is_second(one, other)),
        )
        for one in found
    ]


def _version(one: Shared, owner: Owner | None) -> str | None:
    """The name's when it says more than the number of its interface, else its own package's: torch brings libgomp,
    but its version is not that of libgomp."""
    if "." in one.number:
        return one.number
    return owner.version if owner and owner.speaks_for(one) else None


def _is_second(one: Shared, other: Shared) -> bool:
    if one.file == other.file or one.family != other.family or one.family not in _ONE_EACH:
        return False
    return one.family in _WHOLE_FAMILY or one.stem == other.stem


# --- whose they are, and the C library's version ---


@dataclass(frozen=True)
class Owner:
    """The package that a library came with."""

    name: str
    version: str | None
    is_conda: bool = False
    """Conda's packages hold one library each, or those of one project."""

    def speaks_for(self, library: Shared) -> bool:
        """Whether the package's version is the library's."""
        if self.name in ("torch", "tensorflow"):
            return library.family in ("PyTorch", "TensorFlow")
        return self.is_conda or bool(re.match(r"(nvidia|intel|mkl|rocm)\b", self.name))


def owners(
    reader: Reader, found: Iterable[Shared], installed: Sequence[Distribution], conda: Callable[[str], Owner | None]
) -> dict[str, Owner]:
    """path -> package, by the records of what is installed in the same folder; those named alike are asked first."""
    owned: dict[str, Owner] = {}
    records: dict[str, bytes] = {}
    for one in found:
        beside = [dist for dist in installed if one.path.startswith(dist.folder + "/")]
        for dist in sorted(beside, key=lambda dist: not _is_alike(dist, one.path)):
            if dist.metadata not in records:
                records[dist.metadata] = b"\n" + (reader.raw(f"{dist.metadata}/RECORD", _RECORD) or b"")
            if b"\n" + posixpath.relpath(one.path, dist.folder).encode() + b"," in records[dist.metadata]:
                owned[one.path] = Owner(dist.name, dist.version)
                break
        else:
            owner = None if beside else conda(one.path)
            owned.update({one.path: owner} if owner else {})
    return owned


def _is_alike(dist: Distribution, path: str) -> bool:
    """``nvidia-cudnn-cu12`` and ``nvidia/cudnn/lib/…``; ``numpy`` and ``numpy.libs/…``."""
    words = set(re.split(r"[-_./]", posixpath.relpath(path, dist.folder).lower()))
    return all(word in words for word in re.sub(r"-cu\d+$", "", dist.key).split("-"))


def c_library_versions(reader: Reader, found: Iterable[Shared]) -> dict[str, str]:
    """The glibc that is mapped says its version in its own text; its file name does not."""
    told: dict[str, str] = {}
    for one in found:
        if one.stem == "libc" and not one.file.path.endswith(DELETED) and "." not in one.number:
            match = _GLIBC.search(reader.raw(one.path, _LIBC) or b"")
            told.update({one.path: match[1].decode()} if match else {})
    return told
