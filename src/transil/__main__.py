"""`python -m transil` is the command `transil`."""

import sys

from transil.cli import main

if __name__ == "__main__":  # worker processes import this module again
    sys.exit(main())
