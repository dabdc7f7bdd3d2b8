"""The study of Manhattan worlds at the size of manhattanOlson3500."""

from __future__ import annotations

from tempose.studies.experiments import manhattan

EXPERIMENT = manhattan.experiment(3500)
