"""What follows from the facts before any rule is asked: liveness, waits, chains, verdict. `derive` is the way in."""

from .derivation import Derived, derive

__all__ = ["Derived", "derive"]
