"""People's votes: the store, the running arena, ballots and the server."""
