"""Notebooks run by papermill."""
