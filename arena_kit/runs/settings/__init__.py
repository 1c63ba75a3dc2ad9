"""What a run is told: tournament file, parameters, keys, judges."""
