"""``python -m flatline``."""

import sys

try:
    from flatline.cli import main

    code = main()
except KeyboardInterrupt:
    code = 130
sys.exit(code)
