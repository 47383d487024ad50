"""Check a whole document and bring its values to plain form, saying everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from omniloader.config.document import Document, KeyPath
from omniloader.config.families import (
    ADAPTER,
    COLLATE,
    STATS_OPTIONS,
    STRATEGY,
    TRANSFORM,
    Family,
    Model,
    bucketing_model,
    subsample_model,
)
from omniloader.config.model import ConfigFields, is_by_name
from omniloader.config.options import is_user_key, keys_of, plain, with_user_keys, without_user_keys
from omniloader.config.problems import Problems, shown, unknown_name, yaml_hint
from omniloader.data.declare import ROLES, schema_from_dict
from omniloader.errors import ConfigError, SchemaError


def checked(document: Document) -> dict[str, Any]:
    """Check every field of a config.

    Args:
        document: Values as read from a file, or given in Python.

    Returns:
        The values that were given, numbers as numbers and lists as lists; the user's own keys
        (``x-…``) are kept.

    Raises:
        ConfigError: Naming every finding, one line each, with file and line where known.
    """
    problems = Problems(document)
    given = without_user_keys(document.values)
    failed: set[Any] = set()
    try:
        fields = ConfigFields.model_validate(given).model_dump(exclude_unset=True)
    except ValidationError as error:
        problems.add_all(error, (), {(): keys_of(ConfigFields)})
        failed = {detail["loc"][0] for detail in error.errors()}
        fields = {key: value for key, value in given.items() if key not in failed}
    check = _Check(problems, document)
    check.entries(fields)
    check.options(fields)
    if not failed:
        check.agreement(ConfigFields(**fields))
    problems.raise_if_any()
    return {key: fields.get(key, value) for key, value in document.values.items()}


class _Check:
    """Checks the parts whose keys depend on a name; replaces them by their plain form."""

    def __init__(self, problems: Problems, document: Document) -> None:
        self._problems = problems
        self._spellings = document.spellings

    def entries(self, fields: dict[str, Any]) -> None:
        """The lists of mappings: datasets and transforms."""
        for name, family, chooser in (
            ("datasets", ADAPTER, "adapter"),
            ("transforms", TRANSFORM, "name"),
            ("eval_transforms", TRANSFORM, "name"),
        ):
            if fields.get(name):
                fields[name] = [
                    self._entry(family, chooser, entry, (name, i))
                    for i, entry in enumerate(fields[name])
                ]

    def options(self, fields: dict[str, Any]) -> None:
        """Strategy, collate, subsample and bucketing."""
        for name, family in (("strategy", STRATEGY), ("collate", COLLATE)):
            chosen = fields.get(name, ConfigFields.model_fields[name].default)
            options = fields.get(f"{name}_kwargs", {})
            if self._is_known(family, chosen, (name,)) and isinstance(options, dict):
                path = (f"{name}_kwargs",)
                clean = self._mapping(family.model(chosen), options, path)
                if f"{name}_kwargs" in fields:
                    fields[f"{name}_kwargs"] = clean
        if fields.get("subsample") is not None:
            fields["subsample"] = self._subsample(fields["subsample"], ("subsample",))
        if fields.get("bucketing") is not None:
            fields["bucketing"] = self._mapping(
                bucketing_model(), fields["bucketing"], ("bucketing",)
            )

    def _subsample(self, given: Any, path: KeyPath) -> Any:
        """Options for all datasets, a list with those of each, or a mapping by name."""
        if isinstance(given, list):
            return [self._subsample(item, (*path, i)) for i, item in enumerate(given)]
        if isinstance(given, dict) and len(path) == 1 and is_by_name(given):
            return {
                name: item if is_user_key(name) else self._subsample(item, (*path, name))
                for name, item in given.items()
            }
        return given if given is None else self._mapping(subsample_model(), given, path)

    def _entry(self, family: Family, chooser: str, entry: dict[str, Any], path: KeyPath) -> Any:
        if chooser not in entry:
            known = ", ".join(family.registry)
            self._problems.add(path, f"'{chooser}' is required; known: {known}")
            return entry
        if not self._is_known(family, entry[chooser], (*path, chooser)):
            return entry
        clean = self._mapping(family.model(entry[chooser]), entry, path)
        if clean is entry:
            return entry
        if family is TRANSFORM:
            self._stats(entry, path)
        else:
            self._schema(clean, path)
        return clean

    def _is_known(self, family: Family, name: Any, path: KeyPath) -> bool:
        if not isinstance(name, str):
            hint = yaml_hint(name, self._spellings.get(path))
            self._problems.add(path, f"must be text, got {shown(name)}{hint}")
            return False
        if name not in family.registry:
            own = "; your own is made known with register_adapter" if family is ADAPTER else ""
            self._problems.add(path, unknown_name(family.label, name, family.registry) + own)
            return False
        return True

    def _mapping(self, model: Model, raw: Mapping[str, Any], path: KeyPath) -> Any:
        try:
            return with_user_keys(raw, plain(model.model_validate(raw)))
        except ValidationError as error:
            self._problems.add_all(error, path, _known_keys(model))
            return raw

    def _schema(self, entry: Mapping[str, Any], path: KeyPath) -> None:
        """A dataset declares what it provides, once, and possibly."""
        flat = {role: entry[role] for role in ROLES if role in entry}
        if ("schema" in entry) == bool(flat):
            self._problems.add(
                path,
                "needs a schema with features and targets"
                if not flat
                else f"has schema and {' and '.join(flat)} side by side; move all under schema",
            )
            return
        try:
            schema_from_dict(entry.get("schema", flat), "schema")
        except (ConfigError, SchemaError) as error:
            self._problems.add(path, str(error))

    def _stats(self, entry: Mapping[str, Any], path: KeyPath) -> None:
        """Figures come from one place."""
        for option in STATS_OPTIONS:
            if option in entry and f"{option}_path" in entry:
                self._problems.add(
                    path, f"{option} and {option}_path exclude each other; keep one of them"
                )
        takes_stats = "stats" in keys_of(TRANSFORM.model(entry["name"]))
        if takes_stats and "stats" not in entry and "stats_path" not in entry:
            self._problems.add(
                path,
                f"{entry['name']} needs stats or stats_path; make the file with "
                "'omniloader compute-stats CONFIG -o stats.json'",
            )

    def agreement(self, config: ConfigFields) -> None:
        """What one field demands of another."""
        add = self._problems.add
        if config.rank is not None and config.num_replicas is None:
            add(("rank",), "needs num_replicas; leave both out to take them from torch.distributed")
        elif config.rank is not None and config.rank >= (config.num_replicas or 0):
            add(("rank",), f"must be under num_replicas={config.num_replicas}, got {config.rank}")
        if config.bucketing is not None and config.pad_features:
            add(
                ("bucketing",),
                "needs 'pad_features: false' (and 'collate: dynamic'): padded sequences all have "
                "one length",
            )
        base = config.collate_kwargs.get("base", "unified")
        stacks = config.collate == "unified" or (config.collate == "mixup" and base == "unified")
        if stacks and not config.pad_features and config.batch_size > 1:
            add(
                ("pad_features",),
                "false keeps native lengths, which 'unified' cannot stack; set 'collate: dynamic' "
                "(with mixup: 'base: dynamic'), or leave pad_features true",
            )
        if config.bucketing is not None and config.composition != "mixed":
            add(
                ("composition",),
                f"must be 'mixed' with bucketing, which composes batches by length, got "
                f"'{config.composition}'",
            )
        if config.batch_sizes and config.composition != "per_source":
            add(
                ("batch_sizes",),
                f"needs 'composition: per_source', got '{config.composition}'; batches of mixed "
                "sources have one size",
            )
        names = [entry.get("name") for entry in config.datasets]
        for i, name in enumerate(names):
            if name is not None and name in names[:i]:
                add(
                    ("datasets", i, "name"),
                    f"'{name}' is the name of datasets[{names.index(name)}] too; names must differ",
                )
        self._subsample_fits(config)
        for i, entry in enumerate(config.eval_transforms or ()):
            if getattr(TRANSFORM.registry.get(entry.get("name", "")), "train_only", False):
                add(
                    ("eval_transforms", i),
                    f"{entry['name']} works in training only and would never run here; remove it",
                )

    def _subsample_fits(self, config: ConfigFields) -> None:
        """As many entries as datasets, or names that datasets have."""
        items, add = config.subsample, self._problems.add
        names = [entry.get("name") or f"dataset_{i}" for i, entry in enumerate(config.datasets)]
        if isinstance(items, dict) and is_by_name(items) and names:
            for name in without_user_keys(items):
                if name not in names:
                    add(("subsample", name), unknown_name("dataset", name, names))
        if isinstance(items, list) and config.datasets and len(items) != len(config.datasets):
            add(
                ("subsample",),
                f"must have one entry a dataset ({len(config.datasets)}), got {len(items)}; "
                "write null for a dataset without one",
            )


def _known_keys(model: Model) -> dict[KeyPath, Iterable[str]]:
    """The keys of a model and of the models inside it, by path."""
    known: dict[KeyPath, Iterable[str]] = {(): keys_of(model)}
    for name, field in model.model_fields.items():
        for inner in _models_in(field.annotation):
            for path, keys in _known_keys(inner).items():
                known[(field.alias or name, *path)] = keys
    return known


def _models_in(annotation: Any) -> list[Model]:
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        return [annotation]
    return [model for arg in getattr(annotation, "__args__", ()) for model in _models_in(arg)]
