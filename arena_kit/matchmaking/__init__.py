"""Matchmaking: who meets whom next, how well all are covered, and what may be claimed of it."""
