"""A mount that can stop answering, for every test of the collector."""

from __future__ import annotations

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here


@pytest.fixture
def mount():
    """A FUSE mount that answers until `mount.stall()`; all that hang in it are freed at the end."""
    reason = why_not_here()
    if reason:
        pytest.skip(reason)
    with stalling_mount() as running:
        yield running
