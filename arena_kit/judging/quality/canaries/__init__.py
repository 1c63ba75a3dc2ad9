"""Canaries: pairs whose right verdict is known, and attacks on them."""
