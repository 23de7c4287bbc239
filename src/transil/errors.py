"""The one exception for bad input, and the warnings of the package."""

from __future__ import annotations


class TransilError(ValueError):
    """Bad input, told in one line: what is wrong, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class ConvergenceWarning(UserWarning):
    """A solver that promises the optimum stopped before it reached it."""


class ScoreScaleWarning(UserWarning):
    """Scores are on another scale than those a bank was fitted on."""
