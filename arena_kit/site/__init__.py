"""A static site from run records: boards, models, and every battle to read."""
