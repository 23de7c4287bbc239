"""transil: class-incremental learning without memory; correct the bias of anyone's scores.

>>> import transil
>>> bank = transil.load_bank("my-bank.json")            # doctest: +SKIP
>>> better = bank.correct(scores, state=7)              # doctest: +SKIP
"""

import transil._interrupt  # first: before what takes its time  # noqa: F401
from transil._version import __version__
from transil.adaptation import Corrector, Ledger
from transil.correction import (
    AdBiC,
    AdBiCCentred,
    Bank,
    BiC,
    BiCAll,
    BiCPast,
    Penalty,
    fit,
    fit_state,
    load_bank,
    transfer,
)
from transil.errors import AdaptationWarning, ConvergenceWarning, ScoreScaleWarning, TransilError
from transil.evaluation.evaluate import evaluate
from transil.evaluation.gains import gains
from transil.evaluation.metrics import Metrics
from transil.schedule import Schedule
from transil.scores.recorder import ScoreRecorder
from transil.scores.store import ScoreStore

__all__ = [
    "AdBiC",
    "AdBiCCentred",
    "AdaptationWarning",
    "Bank",
    "BiC",
    "BiCAll",
    "BiCPast",
    "ConvergenceWarning",
    "Corrector",
    "Ledger",
    "Metrics",
    "Penalty",
    "Schedule",
    "ScoreRecorder",
    "ScoreScaleWarning",
    "ScoreStore",
    "TransilError",
    "__version__",
    "evaluate",
    "fit",
    "fit_state",
    "gains",
    "load_bank",
    "transfer",
]
