"""How much is tried: a small part by `make test`, all by `make fuzz`."""

from __future__ import annotations

import os

ALL = os.environ.get("TRANSIL_FUZZ") == "all"
EACH_FILE = 16 if ALL else 1  # cases of every file that a command reads
EACH_OPTION = 12 if ALL else 1  # values of every option
EXAMPLES = 100 if ALL else 3  # of each generator
PARTS = 40 if ALL else 8  # tests that the cases of one kind are divided into
STEP = 1 if ALL else 2  # of these cases one in so many is tried
