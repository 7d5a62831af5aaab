"""A request that nobody answers, by every library that jobs ask with: the chain names the peer and the library's call."""

from __future__ import annotations

import re
from concurrent.futures import Future
from importlib.util import find_spec

import pytest
from end_to_end_support import Outcome, cause_of, outcomes
from programs import FIXTURES

CALLS = {
    "requests": "in requests.get",
    "urllib3": "in urllib3.request",
    "httpx": "in httpx.get",
    "aiohttp": "waits in its event loop",  # a coroutine that waits is on no stack
    "fsspec": "the event loop of its thread fsspecIO, which does its input and output, in fsspec.",
    "grpc": "in grpc",
    "huggingface_hub": "in huggingface_hub.hf_hub_download",
}
"""Library -> what the chain says of it."""
NEEDS = {"fsspec": ("fsspec", "aiohttp")}
AT_ONCE, WINDOW_S = 3, 1.0


def is_here(library: str) -> bool:
    return all(find_spec(name) is not None for name in NEEDS.get(library, (library,)))


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, Future[Outcome]]:
    programs = {name: (FIXTURES / "stuck" / "asks_by_library.py", {"LIBRARY": name}) for name in CALLS if is_here(name)}
    return outcomes(programs, tmp_path_factory.mktemp("libraries"), window=WINDOW_S, at_once=AT_ONCE)


@pytest.mark.parametrize("library", CALLS)
def test_the_chain_names_the_peer_and_the_call(library: str, found) -> None:
    if library not in found:
        pytest.skip(f"needs {' and '.join(NEEDS.get(library, (library,)))}")
    report = found[library].result().report
    chain = report["chains"][report["chain"]]
    assert re.search(r"127\.0\.0\.1\]?:\d+", chain["text"]), chain["text"]
    assert CALLS[library] in chain["text"]
    assert (report["verdict"]["state"], cause_of(report)) == ("waiting", "network-no-response"), chain["text"]
