"""Simulation-based calibration: graphs with known truth, drawn from the model itself, show whether draws can be trusted."""

from tempose.calibration.harness import calibrate
from tempose.calibration.result import Calibration
from tempose.calibration.settings import SETTINGS, Setting

__all__ = ["SETTINGS", "Calibration", "Setting", "calibrate"]
