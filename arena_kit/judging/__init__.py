"""Judging: pairs are rendered, judged in both orders, parsed and settled into battles."""
