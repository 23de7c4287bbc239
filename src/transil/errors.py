"""The one exception for bad input, and the warnings of the package."""

from __future__ import annotations


class TransilError(ValueError):
    """Bad input, told in one line: what is wrong, where, and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


def missing(what: str, *packages: str) -> TransilError:
    """The error where packages that are not installed are needed: 'figures need', 'matplotlib'.

    They are named themselves, not an extra: pip would ask an index for a package of our name.
    """
    return TransilError(f"{what} {' and '.join(packages)}; run: pip install {' '.join(packages)}")


def reason(error: BaseException | None) -> str:
    """The first line of another library's message, for one of our own; its end says what is wrong."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    line = " ".join(lines[0].split())
    return line if len(line) <= 200 else f"{line[:100]} ... {line[-95:]}"


class ConvergenceWarning(UserWarning):
    """A solver that promises the optimum stopped before it reached it."""


class ScoreScaleWarning(UserWarning):
    """Scores are on another scale than those a bank was fitted on."""


class CorrectionWarning(UserWarning):
    """A bank over-corrects: it hardly leaves anything to the newest group."""


class ScheduleWarning(UserWarning):
    """A schedule is far from those that a bank was fitted on, or a bank knows no method."""


class DataWarning(UserWarning):
    """Something about a data set that a user should know: images left out, or in two splits."""


class LeakError(TransilError):
    """Images were asked for that the protocol forbids in this state."""


class AdaptationWarning(UserWarning):
    """A correction was left out, or nothing was remembered: the result is more cautious than asked."""
