"""Whole experiments: train references and targets, fit, transfer, and study what came out."""
