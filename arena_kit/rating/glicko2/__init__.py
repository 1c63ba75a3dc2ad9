"""Glicko-2."""
