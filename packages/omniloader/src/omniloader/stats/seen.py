"""Which keys a pass has met, so that an absent one is named and not taken for empty."""

from __future__ import annotations

from omniloader.errors import StatsError
from omniloader.stats.stream import Block


class Seen:
    """Counts samples and remembers names; mergeable and picklable."""

    def __init__(self) -> None:
        self.samples = 0
        self.keys: set[str] = set()
        self.names: tuple[str, ...] = ()

    def add(self, block: Block) -> None:
        """Take in n samples."""
        self.samples += block.size
        self.names = self.names or block.names
        self.keys.update(block.columns)

    def merge(self, other: Seen) -> None:
        """Take in what another one has seen."""
        self.samples += other.samples
        self.names = self.names or other.names
        self.keys |= other.keys

    def check(self, key: str) -> None:
        """Refuse a key that no sample had.

        Raises:
            StatsError: Naming the key and what the samples hold.
        """
        if not self.samples:
            raise StatsError(f"'{key}' needs at least one sample to be counted, got none")
        if key not in self.keys:
            raise StatsError(
                f"'{key}' is in none of the {self.samples} samples; they hold: "
                f"{', '.join(map(str, self.names)) or 'nothing'}"
            )
