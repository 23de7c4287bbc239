"""Scores of a model, state by state: the store, its recorder, and every kind of file they come in."""

from transil.scores.head import Head
from transil.scores.recorder import ScoreRecorder
from transil.scores.store import ScoreStore, as_store

__all__ = ["Head", "ScoreRecorder", "ScoreStore", "as_store"]
