"""The crash matrix: a judging process is killed everywhere, and nothing is paid twice.

Each scenario judges a small tournament in a process of its own, against the emulated
service, on a fresh ledger. The process is killed at a durable step or at a seeded moment
while the service misbehaves, and started again until it finishes. Two witnesses that know
nothing of each other then say what happened: the service's bill and the ledger's file.
"""
