"""Evidence: experiments and calibration on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.studies.calibration import SETTINGS as SETTINGS
    from tempose.studies.calibration import Calibration as Calibration
    from tempose.studies.calibration import Setting as Setting
    from tempose.studies.calibration import calibrate as calibrate
    from tempose.studies.experiment import Experiment as Experiment
    from tempose.studies.registry import EXPERIMENTS as EXPERIMENTS

_WHERE = {
    "SETTINGS": "calibration",
    "Calibration": "calibration",
    "Setting": "calibration",
    "calibrate": "calibration",
    "Experiment": "experiment",
    "EXPERIMENTS": "registry",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
