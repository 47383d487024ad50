"""One file describes a run: declare (``model``), parse (``load``), assemble (``build``)."""

from omniloader.collate import COLLATES
from omniloader.config.omni import OmniConfig
from omniloader.sampling.strategies import STRATEGIES
from omniloader.utils.seeding import seed_everything

__all__ = ["COLLATES", "STRATEGIES", "OmniConfig", "seed_everything"]
