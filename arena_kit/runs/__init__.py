"""Runs: tournament file, parameters, record, what notebooks call, and papermill."""
