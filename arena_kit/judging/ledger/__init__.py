"""The ledger: every request and answer, paid once."""
