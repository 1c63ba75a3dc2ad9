"""Votes and verdicts together."""
