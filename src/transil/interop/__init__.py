"""Scores and banks from other tools: the authors' release, NumPy and torch files."""
