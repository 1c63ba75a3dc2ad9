"""Readers of files in other tools' formats, a module per family of formats."""
