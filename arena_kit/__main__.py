"""`python -m arena_kit` is the command line."""

from arena_kit.cli.main import main

main()
