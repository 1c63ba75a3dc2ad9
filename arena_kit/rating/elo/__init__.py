"""Elo averaged over shuffled orders."""
