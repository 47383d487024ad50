import pickle

import pytest

from omniloader import errors

BUILT_INS = {
    "SchemaError": ValueError,
    "ConfigError": ValueError,
    "MissingConfigError": FileNotFoundError,
    "SampleError": ValueError,
    "SourceError": OSError,
    "MissingFileError": FileNotFoundError,
    "MissingGroupError": KeyError,
    "PlanError": ValueError,
    "StateError": ValueError,
    "StatsError": ValueError,
    "EngineError": RuntimeError,
}


@pytest.mark.parametrize(("name", "built_in"), BUILT_INS.items())
def test_each_error_is_a_built_in_and_survives_pickling(
    name: str, built_in: type[Exception]
) -> None:
    error = getattr(errors, name)("source 'a': 'x' must be …")
    assert isinstance(error, built_in)
    assert isinstance(error, errors.OmniError)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own error
    assert type(again) is type(error)
    assert str(again) == "source 'a': 'x' must be …"
    assert str(type(error)()) == ""


def test_every_error_class_is_in_the_table() -> None:
    classes = {
        name
        for name, item in vars(errors).items()
        if isinstance(item, type) and issubclass(item, errors.OmniError) and name != "OmniError"
    }
    assert classes == set(BUILT_INS)
