"""The study of Manhattan worlds at the size of manhattanOlson3500, with processor times."""

from __future__ import annotations

from tempose.studies.experiments import manhattan

EXPERIMENT = manhattan.experiment(3500, timed=True, beside=2)  # GNC takes longer than all the rest
