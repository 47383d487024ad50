"""The union of what several sources declare."""

from __future__ import annotations

from collections.abc import Sequence

from omniloader.errors import SchemaError
from omniloader.schema.dataset import DatasetSchema
from omniloader.schema.tensor import TensorSpec


class UnifiedSchema:
    """The union of several sources' schemas, in order of first appearance.

    Sources that share a name must agree on role, trailing shape, ``time_dim``, dtype and
    placeholder; what differs otherwise would be padding learnt as data.

    Args:
        schemas: One schema a source.
        names: Names of the sources for messages; default ``dataset_<i>``.

    Raises:
        SchemaError: If two sources disagree, naming both and both specs.
    """

    def __init__(
        self, schemas: Sequence[DatasetSchema], names: Sequence[str] | None = None
    ) -> None:
        labels = list(names) if names is not None else [f"dataset_{i}" for i in range(len(schemas))]
        merged: dict[str, tuple[TensorSpec, str, str]] = {}
        for label, schema in zip(labels, schemas, strict=True):
            for role, specs in (("feature", schema.features), ("target", schema.targets)):
                for spec in specs:
                    first = merged.setdefault(spec.name, (spec, role, label))
                    _check_agreement(first, (spec, role, label))
        self.features = [spec for spec, role, _ in merged.values() if role == "feature"]
        self.targets = [spec for spec, role, _ in merged.values() if role == "target"]
        self._by_name = {spec.name: spec for spec in self.specs}

    @property
    def specs(self) -> list[TensorSpec]:
        """Features, then targets."""
        return [*self.features, *self.targets]

    @property
    def feature_keys(self) -> list[str]:
        """Names of the features, in order."""
        return [spec.name for spec in self.features]

    @property
    def target_keys(self) -> list[str]:
        """Names of the targets, in order."""
        return [spec.name for spec in self.targets]

    @property
    def keys(self) -> set[str]:
        """Names of all values."""
        return set(self._by_name)

    def spec(self, name: str) -> TensorSpec:
        """The spec of a name.

        Raises:
            KeyError: If no source declares it; the text lists what is declared.
        """
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(self._by_name) or "nothing"
            raise KeyError(f"'{name}' is not in the union schema; declared: {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnifiedSchema):
            return NotImplemented
        return self.features == other.features and self.targets == other.targets

    def __hash__(self) -> int:
        return hash((tuple(self.features), tuple(self.targets)))

    def __repr__(self) -> str:
        return f"UnifiedSchema(features={self.feature_keys}, targets={self.target_keys})"


# What one tensor of a batch needs to have in common. `nonfinite` and `sentinel` are habits of a
# source, applied to its own samples, and may differ.
_AGREE = ("trailing_shape", "time_dim", "dtype", "placeholder")


def _check_agreement(
    first: tuple[TensorSpec, str, str], second: tuple[TensorSpec, str, str]
) -> None:
    """Refuse two declarations of one name that would stack into one tensor wrongly."""
    (spec_a, role_a, label_a), (spec_b, role_b, label_b) = first, second
    differing = [attr for attr in _AGREE if not _same(getattr(spec_a, attr), getattr(spec_b, attr))]
    if role_a != role_b:
        differing.insert(0, "role")
    if differing:
        raise SchemaError(
            f"'{spec_a.name}': sources '{label_a}' and '{label_b}' disagree on "
            f"{', '.join(differing)}: '{label_a}' declares a {role_a}, {spec_a.describe()}; "
            f"'{label_b}' declares a {role_b}, {spec_b.describe()}; "
            "make them equal, or give one of the values another name"
        )


def _same(left: object, right: object) -> bool:
    """Equality under which nan equals nan (a nan placeholder agrees with itself)."""
    return left == right or (left != left and right != right)
