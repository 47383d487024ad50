"""Files shipped with the package: the annotated config template and the JSON Schema."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def config_template_path() -> Path:
    """The annotated ``config_template.yaml``: every option with its default."""
    return _HERE / "config_template.yaml"


def config_schema_path() -> Path:
    """The JSON Schema of a config, for editors (``# yaml-language-server: $schema=…``)."""
    return _HERE / "config.schema.json"
