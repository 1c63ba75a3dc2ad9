"""Seeded chance: a few uniform numbers that depend on names only."""

from __future__ import annotations

from hashlib import sha256


class Dice:
    """Uniform numbers from a hash of `names`; each `roll` gives the next, eight at most."""

    __slots__ = ("_bits", "_left")

    def __init__(self, *names: object) -> None:
        self._bits = sha256("\x00".join(map(str, names)).encode("utf-8", "surrogatepass")).digest()
        self._left = 32

    def roll(self) -> float:
        """The next number in [0, 1)."""
        self._left -= 4
        if self._left < 0:
            raise RuntimeError("these dice are used up")
        return int.from_bytes(self._bits[self._left : self._left + 4]) / 2**32

    def between(self, low: float, high: float) -> int:
        """A whole number from low to high."""
        return int(low + (high - low) * self.roll())
