"""A judged tournament: plan, judge, battles, board."""
