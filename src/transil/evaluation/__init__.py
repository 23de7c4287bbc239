"""How good scores are, as they are and corrected: metrics, gains, and how sure both are."""

from transil.evaluation.bootstrap import Bootstrap
from transil.evaluation.evaluate import evaluate
from transil.evaluation.gains import Gain, gains
from transil.evaluation.metrics import Metrics, StateMetrics, forward_transfer

__all__ = [
    "Bootstrap",
    "Gain",
    "Metrics",
    "StateMetrics",
    "evaluate",
    "forward_transfer",
    "gains",
]
