"""The crash matrix: a judging process is killed everywhere, and nothing is paid twice.

Each scenario judges a small tournament on a fresh ledger; killed at a durable step or at a seeded
moment while the service misbehaves, the process is started again until it finishes. Then the
service's bill and the ledger's file, two independent witnesses, say what happened.
"""
