"""For tests, demos and benchmarks: generated scores with the bias of an incremental classifier."""

from transil.testing.synthetic import biased_scores

__all__ = ["biased_scores"]
