"""Readers of other tools' logs of answers, one module per tool: they hold no battles."""
