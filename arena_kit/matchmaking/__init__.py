"""Who meets whom next: lanes, scheduler, arena and simulation; the rng is an argument."""
