"""Hostile and broken input for every command: see SECURITY.md for what is promised."""
