"""What the parsers of stacks share: whose code a frame is, and the place in ``function (file:line)``."""

from __future__ import annotations

import re
import sys

_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python", "\\lib\\", "\\site-packages\\")
_STANDARD_LIBRARY = re.compile(r"(?:^|[/\\])lib(?:64|32)?[/\\](?:python|pypy)\d[\d.]*t?[/\\]|python\d+\.zip")
_PACKAGES = frozenset(
    [
        "absl",
        "accelerate",
        "aiobotocore",
        "aiohttp",
        "albumentations",
        "anthropic",
        "apex",
        "asyncio",
        "av",
        "bitsandbytes",
        "boto3",
        "botocore",
        "celery",
        "certifi",
        "clearml",
        "click",
        "cloudpickle",
        "colossalai",
        "comet_ml",
        "cupy",
        "cv2",
        "dask",
        "datasets",
        "debugpy",
        "decord",
        "deepspeed",
        "detectron2",
        "dgl",
        "diffusers",
        "dill",
        "distributed",
        "evaluate",
        "fastapi",
        "fasteners",
        "filelock",
        "fire",
        "flash_attn",
        "flashinfer",
        "flax",
        "fsspec",
        "gcsfs",
        "google",
        "gradio",
        "grpc",
        "h5py",
        "horovod",
        "httpcore",
        "httpx",
        "huggingface_hub",
        "hydra",
        "ignite",
        "imageio",
        "ipykernel",
        "IPython",
        "jax",
        "jaxlib",
        "joblib",
        "jupyter_client",
        "keras",
        "kornia",
        "librosa",
        "lightgbm",
        "lightning",
        "lightning_fabric",
        "lightning_utilities",
        "lmdb",
        "loguru",
        "matplotlib",
        "megatron",
        "mindspore",
        "mlflow",
        "mmcv",
        "mmengine",
        "monai",
        "mpi4py",
        "multiprocess",
        "neptune",
        "nibabel",
        "numba",
        "numpy",
        "nvidia",
        "omegaconf",
        "onnxruntime",
        "openai",
        "optax",
        "optuna",
        "orbax",
        "orjson",
        "paddle",
        "pandas",
        "paramiko",
        "pathos",
        "peft",
        "PIL",
        "pip",
        "pkg_resources",
        "polars",
        "portalocker",
        "psutil",
        "psycopg2",
        "pyarrow",
        "pydantic",
        "pydevd",
        "pymongo",
        "pytorch_lightning",
        "ray",
        "redis",
        "requests",
        "rich",
        "s3fs",
        "s3transfer",
        "safetensors",
        "scipy",
        "sentence_transformers",
        "sentencepiece",
        "setuptools",
        "sglang",
        "skimage",
        "sklearn",
        "smart_open",
        "soundfile",
        "spacy",
        "sqlalchemy",
        "starlette",
        "streamlit",
        "swanlab",
        "tensorboard",
        "tensorboardX",
        "tensorflow",
        "tensorstore",
        "timm",
        "tokenizers",
        "torch",
        "torch_geometric",
        "torch_xla",
        "torchaudio",
        "torchdata",
        "torchmetrics",
        "torchrun",
        "torchvision",
        "tornado",
        "tqdm",
        "traitlets",
        "transformers",
        "triton",
        "trl",
        "typer",
        "unsloth",
        "urllib3",
        "uvicorn",
        "uvloop",
        "vllm",
        "wandb",
        "webdataset",
        "xformers",
        "xgboost",
        "yaml",
        "zarr",
        "zmq",
    ]
)
"""Import names of packages that training jobs install: py-spy prints their paths without site-packages."""
_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d{1,9})")
_LIBRARY_FILE = re.compile(r"\.so(?:\.\d+)*$|\.dylib$|\.dll$|^python[\d.]*$|^\[vdso\]$")

_C_SOURCE = re.compile(r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|rs|S|inl|c\.h)$")


def is_user_file(file: str | None) -> bool:
    """Whether a path as a dump prints it, whole or without its search path entry, is the job's own code."""
    if not file or (file.startswith("<") and not file.startswith(("<string>", "<stdin>", "<ipython-input"))):
        return False
    if any(part in file for part in _INSTALLED) or _STANDARD_LIBRARY.search(file):
        return False
    first = re.split(r"[/\\]", file, maxsplit=1)[0]
    module = first.removesuffix(".py")
    if module == file or ("/" not in file and "\\" not in file):
        return module not in sys.stdlib_module_names
    return first not in _PACKAGES and first not in sys.stdlib_module_names


def place_of(text: str) -> tuple[str, int | None]:
    """``train.py:12`` -> (``train.py``, 12); without a line: (text, None)."""
    found = _PLACE.fullmatch(text)
    return (found["file"], int(found["line"])) if found else (text, None)


def is_library(file: str) -> bool:
    """Whether the file is mapped code: the frame is a native one."""
    return bool(_LIBRARY_FILE.search(file))


def is_c_source(file: str) -> bool:
    """Whether a frame at this file is native code of which the dump knows the source: ``socketmodule.c``."""
    return bool(_C_SOURCE.search(file))
