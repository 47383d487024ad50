"""One self-contained HTML page that shows a mix before it costs GPU hours."""

try:
    import jinja2 as _jinja2
    import matplotlib as mpl
except ImportError as error:
    raise ImportError(
        "omniloader.report draws with matplotlib and jinja2; pip install 'omniloader[report]'"
    ) from error

from omniloader.report.page import render_report, write_report

del _jinja2, mpl

__all__ = ["render_report", "write_report"]
