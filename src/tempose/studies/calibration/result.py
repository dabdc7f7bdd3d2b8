"""What a calibration found: tests, coverage, a verdict in words, and the files it is written to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._support.tables import text_table
from tempose._typing import Array
from tempose.studies.calibration.fitting import QUANTITIES, FitRow
from tempose.studies.calibration.settings import Setting
from tempose.studies.calibration.uniformity import RankTest, coverage_test, holm, rank_tests
from tempose.studies.coverage import LEVELS, Coverage, coverage
from tempose.studies.runner import write_table
from tempose.studies.store import Row

SIGNIFICANT = 0.01  # of the corrected p-value
FEWEST_GRAPHS = 20  # of a setting, for anything to be said
REGIONS = {"node": "nodes", "pair": "pairs", "node, Gaussian": "nodes_laplace", "pair, Gaussian": "pairs_laplace"}
"""Regions whose coverage is reported, and the field of :class:`~tempose.studies.calibration.fitting.FitRow` with their ranks."""
DRAWN = ("node", "pair")
"""Those of the draws; the others are the Gaussian approximation's."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """The outcome of :func:`tempose.studies.calibration.calibrate`.

    Attributes
    ----------
    settings
        What was simulated.
    rows
        One per graph.
    options
        How it was fitted: what the sampler was told.
    seed
        Of all graphs.
    """

    settings: tuple[Setting, ...]
    rows: tuple[FitRow, ...]
    options: dict[str, Any]
    seed: int

    def of(self, setting: str) -> list[FitRow]:
        """The rows of a setting that have ranks."""
        return [row for row in self.rows if row.setting == setting and row.ranks]

    def ranks(self, setting: str, quantity: str) -> Array:
        """Ranks (N,) of a quantity, as shares in [0, 1]."""
        return np.array([row.ranks[quantity] for row in self.of(setting) if quantity in row.ranks])

    def quantities(self, setting: str) -> list[str]:
        """What was ranked in a setting."""
        ranked = {name for row in self.of(setting) for name in row.ranks}
        return [name for name in QUANTITIES if name in ranked]

    @cached_property
    def tests(self) -> tuple[RankTest, ...]:
        """All tests of all quantities of all settings, corrected for their number."""
        found: list[RankTest] = []
        for setting in self.settings:
            if len(self.of(setting.name)) >= FEWEST_GRAPHS:
                for quantity in self.quantities(setting.name):
                    found += rank_tests(setting.name, quantity, self.ranks(setting.name, quantity))
                for region in DRAWN:
                    covered = [self.coverage(setting.name, region, level) for level in LEVELS]
                    found += [coverage_test(c, setting.name, f"{region} distance") for c in covered]
        corrected = holm([test.p_value for test in found]).tolist()
        return tuple(replace(test, corrected=p) for test, p in zip(found, corrected, strict=True))

    def worst(self, setting: str | None = None) -> RankTest | None:
        """The test with the least p-value, of a setting or of all."""
        tests = [test for test in self.tests if setting in (None, test.setting)]
        return min(tests, key=lambda test: test.p_value) if tests else None

    def coverage(self, setting: str, region: str, level: float) -> Coverage:
        """Share of truths inside regions of probability ``level``; ``region`` is one of :data:`REGIONS`."""
        ranks = [[u for u in getattr(row, REGIONS[region]) if u is not None] for row in self.of(setting)]
        return coverage(ranks, level)

    @property
    def failures(self) -> dict[str, int]:
        """Graphs that have no ranks, by what went wrong."""
        return dict(Counter(row.message for row in self.rows if not row.ranks))

    @property
    def correlated(self) -> int:
        """Graphs ranked among draws that were still correlated."""
        return sum(row.status == "correlated" for row in self.rows)

    @property
    def calibrated(self) -> bool | None:
        """The verdict; ``None`` if there are too few graphs."""
        if self.failures:
            return False
        worst = self.worst()
        return None if worst is None else worst.corrected > SIGNIFICANT

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return f"{self.finding}: {self.reason}"

    @property
    def finding(self) -> str:
        """The verdict in two words."""
        return "cannot tell" if self.calibrated is None else "calibrated" if self.calibrated else "NOT calibrated"

    @property
    def reason(self) -> str:
        """Why that is the verdict."""
        if self.failures:
            cause, count = max(self.failures.items(), key=lambda item: item[1])
            return f"{sum(self.failures.values())} of {len(self.rows)} graphs have no draws ({count}: {cause})"
        worst = self.worst()
        if worst is None:
            return f"a setting needs at least {FEWEST_GRAPHS} graphs"
        if worst.corrected > SIGNIFICANT:
            return (
                f"{len(self.rows)} graphs, {len(self.tests)} tests, least corrected p = {worst.corrected:.2g} "
                f"({worst.quantity}, {worst.setting}, {worst.kind})"
            )
        bad = [test for test in self.tests if test.corrected <= SIGNIFICANT]
        where = sorted({test.setting for test in bad})
        return (
            f"{len(bad)} of {len(self.tests)} tests fail, in {', '.join(where)}; the worst is "
            f"{worst.quantity} in {worst.setting} (corrected p = {worst.corrected:.1e}): {worst.finding}"
        )

    # ------------------------------------------------------------------ tables and files

    def facts(self) -> dict[str, Any]:
        """The content of ``table.json``."""
        return {
            "verdict": self.verdict,
            "calibrated": self.calibrated,
            "graphs": len(self.rows),
            "seed": self.seed,
            "options": self.options,
            "failures": self.failures,
            "settings": [self._setting_facts(setting) for setting in self.settings],
            "tests": [test.facts() for test in self.tests],
        }

    def _setting_facts(self, setting: Setting) -> dict[str, Any]:
        rows, worst = self.of(setting.name), self.worst(setting.name)
        return {
            **setting.facts(),
            "graphs": len(rows),
            "samplers": dict(Counter(row.sampler for row in rows)),
            "correlated": sum(row.status == "correlated" for row in rows),
            "seconds_per_graph": float(np.mean([row.seconds for row in rows])) if rows else None,
            "least_corrected_p": None if worst is None else worst.corrected,
            "coverage": {
                region: {f"{level:g}": self._level_facts(setting.name, region, level) for level in LEVELS}
                for region in REGIONS
            },
        }

    def _level_facts(self, setting: str, region: str, level: float) -> dict[str, float]:
        covered = self.coverage(setting, region, level)
        return {"share": covered.share, "standard_error": covered.error}

    def table(self) -> str:
        """One line per setting: sampler, least corrected p-value, coverage in percent."""
        return text_table(self.cells(), left=(0, 2))

    def cells(self) -> list[list[str]]:
        """The cells of :meth:`table`, the heads first."""
        head = [
            "setting",
            "graphs",
            "sampler",
            "least p",
            *(f"{r} {lv:.0%}" for r in REGIONS for lv in LEVELS if _shown(r, lv)),
        ]
        return [head, *(self._line(setting) for setting in self.settings)]

    def _line(self, setting: Setting) -> list[str]:
        rows, worst = self.of(setting.name), self.worst(setting.name)
        samplers = Counter(row.sampler for row in rows).most_common()
        cells = [
            setting.name,
            str(len(rows)),
            " ".join(name if len(samplers) == 1 else f"{name}:{k}" for name, k in samplers),
            "–" if worst is None else f"{worst.corrected:.2g}",
        ]
        for region in REGIONS:
            cells += [str(self.coverage(setting.name, region, level)) for level in LEVELS if _shown(region, level)]
        return cells

    def shares(self) -> list[Row]:
        """The rows of ``table.csv``: every region of every setting."""
        return [
            self._share(setting.name, region, level)
            for setting in self.settings
            for region in REGIONS
            for level in LEVELS
        ]

    def _share(self, setting: str, region: str, level: float) -> Row:
        covered, worst = self.coverage(setting, region, level), self.worst(setting)
        return {
            "setting": setting,
            "graphs": len(self.of(setting)),
            "region": region,
            "level": level,
            "coverage": covered.share,
            "standard_error": covered.error,
            "least_corrected_p": None if worst is None else worst.corrected,
        }

    def save(self, directory: str | Path) -> list[Path]:
        """Write ``table.json`` and ``table.csv``; :func:`tempose.studies.calibration.figure.draw_calibration` draws."""
        return write_table(Path(directory), self.facts(), [plain(row) for row in self.shares()])


def _shown(region: str, level: float) -> bool:
    """What the terminal has room for: of the Gaussian regions only the largest."""
    return region in DRAWN or level == LEVELS[-1]
