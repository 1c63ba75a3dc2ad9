"""Bradley–Terry: fit, ties, clusters, intervals."""
