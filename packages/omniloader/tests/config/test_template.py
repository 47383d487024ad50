import itertools
import json
import re
import textwrap

import pytest
import yaml

from omniloader.config import OmniConfig
from omniloader.config.families import (
    ADAPTER,
    COLLATE,
    STATS_OPTIONS,
    STRATEGY,
    TRANSFORM,
    bucketing_model,
    subsample_model,
)
from omniloader.config.json_schema import json_schema
from omniloader.config.model import ConfigFields, SpecFields
from omniloader.config.options import keys_of
from omniloader.templates import config_schema_path, config_template_path

TEXT = config_template_path().read_text(encoding="utf-8")


def commented_blocks():
    """What the lines of options say once their "#" is taken away, block by block."""
    for is_option, lines in itertools.groupby(
        TEXT.splitlines(),
        key=lambda line: (
            re.match(r"#[^ #\n]|#  ?[ \w-]", line) is not None
            and not re.match(r"# \w|#   omni", line)
        ),
    ):
        if is_option:
            yield yaml.safe_load(textwrap.dedent("\n".join(line[1:] for line in lines)))


BLOCKS = list(commented_blocks())
ENTRIES = [entry for block in BLOCKS if isinstance(block, list) for entry in block]


def block_with(key, value=None):
    found = [
        block
        for block in BLOCKS
        if isinstance(block, dict) and key in block and value in (None, block[key])
    ]
    assert len(found) == 1
    return found[0]


def check_options(given, model, *, but=()):
    """All keys are there, and values are the defaults wherever a default exists."""
    assert set(given) | set(but) == set(keys_of(model))
    for field in model.model_fields.values():
        if not field.is_required() and field.alias in given and field.alias not in but:
            default = field.get_default(call_default_factory=True)
            assert given[field.alias] == getattr(default, "value", default), field.alias


def test_the_template_is_the_default_config():
    assert OmniConfig.from_file(config_template_path()) == OmniConfig()


def test_the_template_names_every_field():
    assert set(yaml.safe_load(TEXT)) == set(ConfigFields.model_fields)


@pytest.mark.parametrize("family", [STRATEGY, COLLATE], ids=lambda family: family.label)
def test_every_choice_stands_there_with_its_defaults(family):
    for name in family.registry:
        block = block_with(family.label, name)
        given = block[f"{family.label}_kwargs"]
        check_options(given, family.model(name))
        OmniConfig(**block)


@pytest.mark.parametrize("name", TRANSFORM.registry)
def test_every_transform_stands_there_with_its_defaults(name):
    entry = next(entry for entry in ENTRIES if entry.get("name") == name)
    stats = {f"{option}{suffix}" for option in STATS_OPTIONS for suffix in ("", "_path")}
    model = TRANSFORM.model(name)
    check_options(entry, model, but={"name"} | stats & set(keys_of(model)))
    OmniConfig(transforms=[entry])


@pytest.mark.parametrize("option", STATS_OPTIONS)
def test_figures_are_shown_inline_and_by_path(option):
    assert any(option in entry for entry in ENTRIES)
    assert any(f"{option}_path" in entry for entry in ENTRIES)


@pytest.mark.parametrize("name", ADAPTER.registry)
def test_every_adapter_stands_there_with_its_defaults(name):
    entry = next(entry for entry in ENTRIES if entry.get("adapter") == name)
    own = {"adapter", "name", "schema", "features", "targets", "eval"}
    check_options(entry, ADAPTER.model(name), but=own)
    OmniConfig(datasets=[entry])


def test_every_key_of_a_spec_stands_there():
    entry = next(entry for entry in ENTRIES if entry.get("adapter") == "hdf5")
    assert set(entry["schema"]["features"][0]) == set(SpecFields.model_fields)


def test_subsample_and_bucketing_stand_there_with_their_defaults():
    check_options(block_with("subsample")["subsample"], subsample_model())
    check_options(block_with("bucketing")["bucketing"], bucketing_model())


def test_the_shipped_schema_is_that_of_the_model():
    shipped = json.loads(config_schema_path().read_text(encoding="utf-8"))
    assert shipped == json_schema()


def test_every_reference_of_the_schema_leads_somewhere():
    schema = json_schema()
    references = set(re.findall(r"#/\$defs/(\w+)", json.dumps(schema)))
    assert references == set(schema["$defs"])


def test_the_schema_knows_every_field_and_lets_user_keys_in():
    schema = json_schema()
    assert set(schema["properties"]) == set(ConfigFields.model_fields)
    assert schema["properties"]["batch_size"]["minimum"] == 1
    assert schema["patternProperties"] == {"^x-": {}}
    assert schema["additionalProperties"] is False
