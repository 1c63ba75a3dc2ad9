"""Presentation: tables, pictures and the self-contained report."""
