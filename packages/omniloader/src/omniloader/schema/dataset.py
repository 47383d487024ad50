"""What one source declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from omniloader.errors import SchemaError
from omniloader.schema.tensor import TensorSpec


@dataclass(frozen=True)
class DatasetSchema:
    """What one source provides; a value's role is the list it stands in.

    Args:
        features: Specs of the model's inputs.
        targets: Specs of the labels.

    Raises:
        SchemaError: If a name stands twice.
    """

    features: Sequence[TensorSpec] = field(default_factory=tuple)
    targets: Sequence[TensorSpec] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Freeze the lists and refuse doubled names."""
        for role in ("features", "targets"):
            if isinstance(getattr(self, role), TensorSpec):
                raise SchemaError(
                    f"schema: {role} must be a list of TensorSpec, got one alone; put it in a list"
                )
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "targets", tuple(self.targets))
        seen: set[str] = set()
        for spec in self.specs:
            if not isinstance(spec, TensorSpec):
                raise SchemaError(f"schema: every entry must be a TensorSpec, got {spec!r}")
            if spec.name in seen:
                raise SchemaError(
                    f"schema: '{spec.name}' is declared twice; "
                    "a value is a feature or a target, once"
                )
            seen.add(spec.name)

    @property
    def specs(self) -> list[TensorSpec]:
        """Features, then targets."""
        return [*self.features, *self.targets]

    @property
    def keys(self) -> set[str]:
        """Names of all declared values."""
        return {spec.name for spec in self.specs}
