"""What a calibration found: tests, coverage, a verdict in words, and the files it is written to."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import write_atomically
from tempose._typing import Array
from tempose.studies.calibration.fitting import QUANTITIES, FitRow
from tempose.studies.calibration.settings import Setting
from tempose.studies.calibration.uniformity import RankTest, coverage_test, holm, rank_tests
from tempose.studies.coverage import LEVELS, Coverage, coverage

SIGNIFICANT = 0.01  # of the corrected p-value
FEWEST_GRAPHS = 20  # of a setting, for anything to be said
REGIONS = {"node": "nodes", "pair": "pairs", "node, Gaussian": "nodes_laplace", "pair, Gaussian": "pairs_laplace"}
"""Regions whose coverage is reported, and the field of :class:`~tempose.studies.calibration.fitting.FitRow` with their ranks."""


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
        return np.array([row.ranks[quantity] for row in self.of(setting)])

    @cached_property
    def tests(self) -> tuple[RankTest, ...]:
        """All tests of all quantities of all settings, corrected for their number."""
        found: list[RankTest] = []
        for setting in self.settings:
            if len(self.of(setting.name)) >= FEWEST_GRAPHS:
                for quantity in QUANTITIES:
                    found += rank_tests(setting.name, quantity, self.ranks(setting.name, quantity))
                for region in ("node", "pair"):
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
        return dict(Counter(row.status for row in self.rows if not row.ranks))

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
        if self.failures:
            cause, count = max(self.failures.items(), key=lambda item: item[1])
            return f"NOT calibrated: {sum(self.failures.values())} of {len(self.rows)} graphs have no draws ({count}: {cause})"
        worst = self.worst()
        if worst is None:
            return f"cannot tell: a setting needs at least {FEWEST_GRAPHS} graphs"
        if worst.corrected > SIGNIFICANT:
            return (
                f"calibrated: {len(self.rows)} graphs, {len(self.tests)} tests, least corrected p = {worst.corrected:.2g} "
                f"({worst.quantity}, {worst.setting}, {worst.kind})"
            )
        bad = [test for test in self.tests if test.corrected <= SIGNIFICANT]
        where = sorted({test.setting for test in bad})
        return (
            f"NOT calibrated: {len(bad)} of {len(self.tests)} tests fail, in {', '.join(where)}; the worst is "
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
                region: {
                    f"{level:g}": _plain(self.coverage(setting.name, region, level)) for level in LEVELS
                }
                for region in REGIONS
            },
        }  # fmt: skip

    def table(self) -> str:
        """One line per setting: sampler, least corrected p-value, coverage in percent."""
        head = [
            "setting",
            "graphs",
            "sampler",
            "least p",
            *(f"{r} {lv:.0%}" for r in REGIONS for lv in LEVELS if _shown(r, lv)),
        ]
        lines = [head, *(self._line(setting) for setting in self.settings)]
        width = [max(len(line[k]) for line in lines) for k in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(w) if k in (0, 2) else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, width, strict=True)))
            for line in lines
        )  # fmt: skip

    def _line(self, setting: Setting) -> list[str]:
        rows, worst = self.of(setting.name), self.worst(setting.name)
        samplers = Counter(row.sampler for row in rows).most_common()
        cells = [
            setting.name, str(len(rows)), " ".join(name if len(samplers) == 1 else f"{name}:{k}" for name, k in samplers),
            "–" if worst is None else f"{worst.corrected:.2g}",
        ]  # fmt: skip
        for region in REGIONS:
            cells += [str(self.coverage(setting.name, region, level)) for level in LEVELS if _shown(region, level)]
        return cells

    def save(self, directory: str | Path) -> list[Path]:
        """Write ``table.json`` and ``table.csv``; :func:`tempose.studies.calibration.figure.draw_calibration` draws."""
        home = Path(directory)
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["setting", "graphs", "region", "level", "coverage", "standard_error", "least_corrected_p"])
        for setting in self.settings:
            worst = self.worst(setting.name)
            for region in REGIONS:
                for level in LEVELS:
                    c = self.coverage(setting.name, region, level)
                    p = "" if worst is None else f"{worst.corrected:.6g}"
                    writer.writerow(
                        [setting.name, len(self.of(setting.name)), region, level, f"{c.share:.6g}", f"{c.error:.6g}", p]
                    )
        written = [home / "table.json", home / "table.csv"]
        write_atomically(written[0], (json.dumps(self.facts(), indent=2) + "\n").encode())
        write_atomically(written[1], out.getvalue().encode())
        return written


def _shown(region: str, level: float) -> bool:
    """What the terminal has room for: of the Gaussian regions only the largest."""
    return "Gaussian" not in region or level == LEVELS[-1]


def _plain(c: Coverage) -> dict[str, float | None]:
    good = np.isfinite(c.share)
    return {"share": c.share if good else None, "standard_error": c.error if good else None}
