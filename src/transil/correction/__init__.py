"""Corrections on arrays: layers (Eq. 1 and 2), fitters, transfer and banks. No training code."""

from transil.correction.adam import Adam, Authors, Paper
from transil.correction.affine import correct_groups
from transil.correction.bank import Bank
from transil.correction.checks import BankCheck, check_bank
from transil.correction.design import Design
from transil.correction.facts import Facts, Moments
from transil.correction.fitting import fit, fit_any_schedule, fit_state
from transil.correction.layers import AdBiC, AdBiCCentred, BiC, BiCAll, BiCPast, Correction
from transil.correction.newton import Newton
from transil.correction.objective import Penalty
from transil.correction.parameters import Pairs, Parameters
from transil.correction.references import Reference, Transfer
from transil.correction.registry import (
    get_correction,
    get_solver,
    register_correction,
    register_solver,
)
from transil.correction.rules import register_transfer
from transil.correction.scales import measured_scales
from transil.correction.shipped import ShippedBank, load_bank, shipped_banks
from transil.correction.solvers import Fit, FitRecord, Solver
from transil.correction.transfers import merge, transfer

__all__ = [
    "AdBiC",
    "AdBiCCentred",
    "Adam",
    "Authors",
    "Bank",
    "BankCheck",
    "BiC",
    "BiCAll",
    "BiCPast",
    "Correction",
    "Design",
    "Facts",
    "Fit",
    "FitRecord",
    "Moments",
    "Newton",
    "Pairs",
    "Paper",
    "Parameters",
    "Penalty",
    "Reference",
    "ShippedBank",
    "Solver",
    "Transfer",
    "check_bank",
    "correct_groups",
    "fit",
    "fit_any_schedule",
    "fit_state",
    "get_correction",
    "get_solver",
    "load_bank",
    "measured_scales",
    "merge",
    "register_correction",
    "register_solver",
    "register_transfer",
    "shipped_banks",
    "transfer",
]
