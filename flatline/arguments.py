"""The parser of every command: what it says of an argument steers no terminal, whoever chose the argument."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from flatline.errors import EXIT_USAGE
from flatline.visible import visible


class Parser(argparse.ArgumentParser):
    """As argparse has it, subparsers included, but a mistake is told with what is in the argument spelled out."""

    def error(self, message: str) -> NoReturn:
        """Exits with 2, as argparse does."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: error: {visible(message)}\n")
