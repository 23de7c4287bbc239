"""Adaptation to unlabelled scores under stated class frequencies: priors, shifts, ledger, Corrector."""

from transil.adaptation.corrector import Corrector
from transil.adaptation.ledger import Ledger
from transil.adaptation.matching import Matched, match
from transil.adaptation.priors import PRIORS, Prior, Situation, register_prior

__all__ = [
    "PRIORS",
    "Corrector",
    "Ledger",
    "Matched",
    "Prior",
    "Situation",
    "match",
    "register_prior",
]
