"""Judges: the outside world behind one small protocol."""
