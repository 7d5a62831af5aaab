"""Bundles written for one test."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundle_bytes import HEAD, closing

from flatline.bundle.format import BUNDLE_JSON
from flatline.bundle.writer import BundleWriter


@pytest.fixture
def write(tmp_path):
    """Write a bundle of bundle.json and the members given; returns its path."""

    def begin(members: dict[str, bytes] | None = None, name: str = "job.flatline.zip", head: bytes = HEAD) -> Path:
        writer = BundleWriter(tmp_path / name)
        writer.add(BUNDLE_JSON, head)
        for path, data in (members or {}).items():
            writer.add(path, data)
        bundle = writer.publish(closing)
        writer.finish()
        return bundle

    return begin
