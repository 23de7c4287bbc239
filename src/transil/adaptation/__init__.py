"""Adaptation to unlabelled scores under stated class frequencies, and advice on it."""

from transil.adaptation.advice import Advice, advise
from transil.adaptation.corrector import Corrector
from transil.adaptation.ledger import Ledger
from transil.adaptation.matching import Matched, match
from transil.adaptation.newest import NewestShare, newest_share
from transil.adaptation.priors import PRIORS, Prior, Situation, register_prior

__all__ = [
    "PRIORS",
    "Advice",
    "Corrector",
    "Ledger",
    "Matched",
    "NewestShare",
    "Prior",
    "Situation",
    "advise",
    "match",
    "newest_share",
    "register_prior",
]
