"""The JSON Schema of a config, for editors: made from the same models that check it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic.json_schema import models_json_schema

from omniloader.config.families import (
    ADAPTER,
    COLLATE,
    STRATEGY,
    TRANSFORM,
    Family,
    Model,
    bucketing_model,
    subsample_model,
)
from omniloader.config.model import ConfigFields
from omniloader.config.options import USER_PREFIX

Json = dict[str, Any]


def json_schema() -> Json:
    """The schema of a whole config, with the adapters, transforms, … registered now."""
    named: dict[tuple[str, str], Model] = {
        (family.label, name): family.model(name)
        for family in (ADAPTER, TRANSFORM, STRATEGY, COLLATE)
        for name in family.registry
    }
    named["subsample", ""] = subsample_model()
    named["bucketing", ""] = bucketing_model()
    refs, definitions = models_json_schema([(model, "validation") for model in named.values()])
    ref = {key: refs[model, "validation"] for key, model in named.items()}
    schema = ConfigFields.model_json_schema()
    fields = schema["properties"]
    fields["datasets"]["items"] = _choice(ADAPTER, "adapter", ref)
    fields["transforms"]["items"] = _choice(TRANSFORM, "name", ref)
    fields["eval_transforms"] = {
        "anyOf": [{"type": "array", "items": _choice(TRANSFORM, "name", ref)}, {"type": "null"}],
        "default": None,
    }
    one = ref["subsample", ""]
    nullable = {"anyOf": [one, {"type": "null"}]}
    many = {"type": "array", "items": nullable}
    fields["subsample"] = {"anyOf": [one, many, {"type": "null"}], "default": None}
    fields["bucketing"] = {**_nullable(ref["bucketing", ""]), "default": None}
    for family, field in ((STRATEGY, "strategy"), (COLLATE, "collate")):
        fields[field]["enum"] = list(family.registry)
    schema["allOf"] = _depending(STRATEGY, "strategy", ref) + _depending(COLLATE, "collate", ref)
    schema.pop("$defs", None)
    schema |= {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "omniloader config",
        "description": "One joint data mix: datasets, mixing, transforms, batches.",
        "$defs": definitions.get("$defs", {}),
    }
    finished: Json = _each_object(schema, _finish)
    return finished


def _nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _choice(family: Family, chooser: str, ref: dict[tuple[str, str], Any]) -> Json:
    """A mapping whose ``chooser`` decides about its other keys."""
    return {
        "type": "object",
        "required": [chooser],
        "properties": {chooser: {"enum": list(family.registry)}},
        "allOf": [
            {
                "if": {"properties": {chooser: {"const": name}}, "required": [chooser]},
                "then": ref[family.label, name],
            }
            for name in family.registry
        ],
    }


def _depending(family: Family, field: str, ref: dict[tuple[str, str], Any]) -> list[Json]:
    """The options beside a top-level name."""
    default = ConfigFields.model_fields[field].default
    rules = []
    for name in family.registry:
        when: Json = {"properties": {field: {"const": name}}}
        if name != default:
            when["required"] = [field]
        options = {"properties": {f"{field}_kwargs": ref[family.label, name]}}
        rules.append({"if": when, "then": options})
    return rules


def _each_object(node: Any, change: Callable[[Json], Json]) -> Any:
    if isinstance(node, dict):
        return change({key: _each_object(value, change) for key, value in node.items()})
    if isinstance(node, list):
        return [_each_object(item, change) for item in node]
    return node


def _finish(node: Json) -> Json:
    """Drop pydantic's made-up titles, and let the user's own keys in."""
    title = node.get("title")
    if isinstance(title, str) and title != "omniloader config":
        node = {key: value for key, value in node.items() if key != "title"}
    # Behind a validator pydantic keeps a bound under its own name.
    if isinstance(node.get("ge"), int):
        node = {("minimum" if key == "ge" else key): value for key, value in node.items()}
    if node.get("additionalProperties") is False:
        node["patternProperties"] = {f"^{USER_PREFIX}": {}}
    return node
