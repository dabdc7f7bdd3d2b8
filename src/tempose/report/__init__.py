"""What people look at: the self-contained HTML page and the static figure of a posterior."""

from __future__ import annotations

from tempose.report.page import ReportData, Trace, render_page, write_page
from tempose.report.plots import plot_graph, save_picture
from tempose.report.widgets import Fact, Histogram

__all__ = [
    "Fact",
    "Histogram",
    "ReportData",
    "Trace",
    "plot_graph",
    "render_page",
    "save_picture",
    "write_page",
]
