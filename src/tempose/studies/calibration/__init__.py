"""Simulation-based calibration: graphs with known truth, drawn from the model itself, show whether draws can be trusted."""

from tempose.studies.calibration.harness import calibrate
from tempose.studies.calibration.result import Calibration
from tempose.studies.calibration.settings import CONTROLS, SETTINGS, Setting

__all__ = ["CONTROLS", "SETTINGS", "Calibration", "Setting", "calibrate"]
