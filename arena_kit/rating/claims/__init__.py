"""Which orders are decided, how fragile, what more would decide."""
