"""The waist: the battle, the log of many battles, and reading and writing it."""
