"""Answers become verdicts, verdicts become battles."""
