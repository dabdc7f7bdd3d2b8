"""What draws and optima say: summaries, diagnostics, modes, checks of edges, errors to a truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.analysis.accuracy import PoseErrors as PoseErrors
    from tempose.analysis.accuracy import graph_consistency as graph_consistency
    from tempose.analysis.accuracy import pose_errors as pose_errors
    from tempose.analysis.analysis import Analysis as Analysis
    from tempose.analysis.components import VarianceComponents as VarianceComponents
    from tempose.analysis.components import edge_kinds as edge_kinds
    from tempose.analysis.components import variance_components as variance_components
    from tempose.analysis.condensing import Condensed as Condensed
    from tempose.analysis.condensing import condense as condense
    from tempose.analysis.correlation import ChainCorrelation as ChainCorrelation
    from tempose.analysis.correlation import chain_correlation as chain_correlation
    from tempose.analysis.diagnostics import Diagnostics as Diagnostics
    from tempose.analysis.diagnostics import Level as Level
    from tempose.analysis.diagnostics import Trouble as Trouble
    from tempose.analysis.diagnostics import diagnose as diagnose
    from tempose.analysis.edge_checks import EdgeChecks as EdgeChecks
    from tempose.analysis.edge_checks import RelativePredictive as RelativePredictive
    from tempose.analysis.edge_checks import check_edges as check_edges
    from tempose.analysis.edge_checks import leave_one_out as leave_one_out
    from tempose.analysis.edge_checks import predict_relative as predict_relative
    from tempose.analysis.ellipses import Ellipses as Ellipses
    from tempose.analysis.ellipses import error_ellipses as error_ellipses
    from tempose.analysis.epochs import Changes as Changes
    from tempose.analysis.epochs import changes as changes
    from tempose.analysis.export import to_arviz as to_arviz
    from tempose.analysis.export import to_netcdf as to_netcdf
    from tempose.analysis.modes import Mode as Mode
    from tempose.analysis.modes import Modes as Modes
    from tempose.analysis.modes import find_modes as find_modes
    from tempose.analysis.planning import Plan as Plan
    from tempose.analysis.planning import plan as plan
    from tempose.analysis.reliability import GlobalTest as GlobalTest
    from tempose.analysis.reliability import Reliability as Reliability
    from tempose.analysis.summary import NodeSummary as NodeSummary
    from tempose.analysis.summary import relative_summary as relative_summary
    from tempose.analysis.summary import summarise as summarise

_WHERE = {
    "Trouble": "diagnostics",
    "Level": "diagnostics",
    "Analysis": "analysis",
    "VarianceComponents": "components",
    "edge_kinds": "components",
    "variance_components": "components",
    "Condensed": "condensing",
    "condense": "condensing",
    "ChainCorrelation": "correlation",
    "chain_correlation": "correlation",
    "PoseErrors": "accuracy",
    "graph_consistency": "accuracy",
    "pose_errors": "accuracy",
    "Diagnostics": "diagnostics",
    "diagnose": "diagnostics",
    "EdgeChecks": "edge_checks",
    "Ellipses": "ellipses",
    "Changes": "epochs",
    "Plan": "planning",
    "changes": "epochs",
    "plan": "planning",
    "GlobalTest": "reliability",
    "Reliability": "reliability",
    "error_ellipses": "ellipses",
    "RelativePredictive": "edge_checks",
    "check_edges": "edge_checks",
    "leave_one_out": "edge_checks",
    "predict_relative": "edge_checks",
    "to_arviz": "export",
    "to_netcdf": "export",
    "Mode": "modes",
    "Modes": "modes",
    "find_modes": "modes",
    "NodeSummary": "summary",
    "relative_summary": "summary",
    "summarise": "summary",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
