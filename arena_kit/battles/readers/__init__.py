"""Readers of files in other tools' formats, one module per format."""
