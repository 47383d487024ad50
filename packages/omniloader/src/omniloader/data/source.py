"""A source: one dataset of the mix with its schema and its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from omniloader._types import MapDataset
from omniloader.errors import SchemaError
from omniloader.schema.spec import DatasetSchema


@dataclass(frozen=True)
class Source:
    """One dataset of the mix.

    Args:
        name: Names it in messages, plans and the metadata ``dataset``; unique in a mix.
        dataset: Anything with a length that gives a dict for an index.
        schema: What its samples provide.

    Raises:
        SchemaError: If one of the three is not that.
    """

    name: str
    dataset: MapDataset
    schema: DatasetSchema

    def __post_init__(self) -> None:
        """Check the three parts, naming the source."""
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"source: name must be a non-empty text, got {self.name!r}")
        missing = [m for m in ("__len__", "__getitem__") if not hasattr(self.dataset, m)]
        if missing:
            raise SchemaError(
                f"source '{self.name}': dataset must have a length and items by index, "
                f"{type(self.dataset).__name__} lacks {' and '.join(missing)}; "
                "wrap it in a map-style dataset"
            )
        if not isinstance(self.schema, DatasetSchema):
            raise SchemaError(
                f"source '{self.name}': schema must be a DatasetSchema, "
                f"got {type(self.schema).__name__}"
            )

    def __len__(self) -> int:
        return len(self.dataset)


def make_sources(
    datasets: Sequence[MapDataset],
    schemas: Sequence[DatasetSchema],
    names: Sequence[str | None] | None = None,
) -> tuple[Source, ...]:
    """Zip parallel lists into sources.

    A source without a given name takes its dataset's ``name``, else ``dataset_<i>``.

    Args:
        datasets: The datasets of the mix.
        schemas: One schema a dataset.
        names: One name a dataset, ``None`` for the default.

    Returns:
        One source a dataset, in order.

    Raises:
        SchemaError: If the lists differ in length, or a name stands twice.
    """
    if isinstance(schemas, DatasetSchema):
        raise SchemaError(
            "sources: datasets and schemas must be lists of one length, got one DatasetSchema; "
            "write [dataset], [schema]"
        )
    given: Sequence[str | None] = [None] * len(datasets) if names is None else names
    if isinstance(given, str) or not len(datasets) == len(schemas) == len(given):
        counts = f"{len(datasets)} datasets and {len(schemas)} schemas"
        named = "" if names is None else f", names={names!r}"
        raise SchemaError(
            f"sources: every dataset needs one schema and, if given, one name; got {counts}{named}"
        )
    resolved = [
        default_name(dataset, i) if name is None else name
        for i, (dataset, name) in enumerate(zip(datasets, given, strict=True))
    ]
    doubled = [str(name) for name, count in Counter(resolved).items() if count > 1]
    if doubled:
        raise SchemaError(
            f"sources: names must differ, '{doubled[0]}' stands {Counter(resolved)[doubled[0]]} "
            f"times in {resolved}; give each source its own name"
        )
    return tuple(map(Source, resolved, datasets, schemas))


def default_name(dataset: object, position: int) -> str:
    """The dataset's own ``name``, or ``dataset_<position>``."""
    name = getattr(dataset, "name", None)
    return name if isinstance(name, str) and name else f"dataset_{position}"
