"""What a mix holds, and whether the data is what its schemas declare."""

from omniloader.introspection.describe import describe, validate
from omniloader.introspection.forecast import Forecast, forecast
from omniloader.introspection.report import Finding, KeyFacts, Report, SourceFacts

__all__ = [
    "Finding",
    "Forecast",
    "KeyFacts",
    "Report",
    "SourceFacts",
    "describe",
    "forecast",
    "validate",
]
