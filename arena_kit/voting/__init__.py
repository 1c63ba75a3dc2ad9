"""People's votes: the store, the live arena on it, and what leaves it as battles."""
