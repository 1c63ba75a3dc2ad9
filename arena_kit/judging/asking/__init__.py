"""Requests sent to a judge, in batches or live, within a budget."""
