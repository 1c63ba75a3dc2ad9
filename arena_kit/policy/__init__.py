"""What the ranking validity policy says: constants, rules, coverage, feasibility, ratings."""
