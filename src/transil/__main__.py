"""`python -m transil` is the command `transil`."""

import sys

from transil.cli import main

sys.exit(main())
