"""One self-contained HTML page that shows a mix before it costs GPU hours."""

from omniloader.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
