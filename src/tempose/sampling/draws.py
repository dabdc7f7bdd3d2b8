"""Draws on disk: appended as they are made, safe against being killed at any instant, read back memory-mapped.

A directory holds one ``draws.json`` (what the run is), and per chain

* ``chain-00.f64``: the draws, 7 float64 per node (world_from_node ``wxyz``, then position), nothing else;
* ``chain-00.energy.f64``: U of each draw;
* ``chain-00.cost.f64``: mean acceptance on the way to each draw, and gradients evaluated on the way;
* ``chain-00.state.npz``: the last checkpoint, replaced atomically *after* the draws it counts are on disk.

What lies beyond the checkpoint is cut off on resume and drawn again, to the same bits, because the random numbers of a
step are a function of the seed and the step's number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from tempose._support.files import write_atomically
from tempose._typing import Array, NodeId
from tempose.errors import DrawsError
from tempose.sampling.sampler import Draw, Reason

FORMAT = 1
_BYTES = 8


def _numbers_per_draw(n_nodes: int) -> dict[str, int]:
    """Files of a chain and how many numbers each holds per draw."""
    return {".f64": 7 * n_nodes, ".energy.f64": 1, ".cost.f64": 2}


class DrawWriter:
    """Appends the draws of one chain."""

    def __init__(self, directory: Path, chain: int, n_nodes: int) -> None:
        self.n_nodes = n_nodes
        self.chain = chain
        stem = directory / f"chain-{chain:02d}"
        # path, and numbers per draw
        self._files = [(stem.with_suffix(kind), size) for kind, size in _numbers_per_draw(n_nodes).items()]
        self._state_path = stem.with_suffix(".state.npz")
        self.n_draws = 0
        self._open: list[IO[bytes]] = []

    def open(self) -> dict[str, Array] | None:
        """Open for appending; return the arrays of the state to continue from, or ``None`` for a new chain."""
        state = None
        if self._state_path.exists():
            try:
                with np.load(self._state_path) as saved:
                    self.n_draws = int(saved["n_draws"])
                    state = {name[6:]: saved[name] for name in saved.files if name.startswith("state_")}
            except (OSError, ValueError, KeyError) as error:
                raise DrawsError(
                    f"{self._state_path}: not a checkpoint of tempose ({error}); remove the directory to start anew"
                ) from None
        for path, size in self._files:
            with open(path, "ab") as handle:
                wanted = self.n_draws * size * _BYTES
                if handle.tell() < wanted:
                    raise DrawsError(f"{path}: shorter than its checkpoint says; remove the directory to start anew")
                handle.truncate(wanted)
        self._open = [open(path, "ab") for path, _ in self._files]  # noqa: SIM115
        return state

    def append(self, draw: Draw) -> None:
        """Add one draw."""
        rows = (np.concatenate([draw.wxyz, draw.position], axis=1), draw.potential, (draw.acceptance, draw.gradients))
        for handle, row in zip(self._open, rows, strict=True):
            handle.write(np.asarray(row, dtype="<f8").tobytes())
        self.n_draws += 1

    def checkpoint(self, state: dict[str, Array]) -> None:
        """Make all draws so far durable, then the state that follows them."""
        import io

        for handle in self._open:
            handle.flush()
            os.fsync(handle.fileno())
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {f"state_{name}": array for name, array in state.items()}
        np.savez(buffer, n_draws=self.n_draws, **arrays)
        write_atomically(self._state_path, buffer.getvalue())

    def close(self) -> None:
        """Close the files."""
        for handle in self._open:
            handle.close()


@dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws of all chains, memory-mapped.

    Attributes
    ----------
    ids
        Node names, in the order of the arrays.
    beta
        Inverse temperature the draws come from.
    arrays
        Per chain a read-only array (draws, n, 7): world_from_node ``wxyz`` and position. Chains may differ in length
        if a run was stopped.
    energies
        Per chain U of each draw (draws,).
    costs
        Per chain (draws, 2): mean acceptance on the way to each draw, and gradients of U evaluated on the way.
    sampler, reason, settings
        The sampler, why it was chosen, and the numbers it was run with.
    """

    ids: tuple[NodeId, ...]
    beta: float
    arrays: tuple[Array, ...]
    energies: tuple[Array, ...]
    directory: Path | None = None
    costs: tuple[Array, ...] = ()
    sampler: str = ""
    reason: Reason = Reason()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def acceptance(self) -> float:
        """Mean probability of acceptance (NaN without draws)."""
        return float(np.mean(np.concatenate(self.costs)[:, 0])) if self.n_draws and self.costs else float("nan")

    @property
    def gradients_per_draw(self) -> float:
        """Mean number of gradients from draw to draw (NaN without draws)."""
        return float(np.mean(np.concatenate(self.costs)[:, 1])) if self.n_draws and self.costs else float("nan")

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.arrays)

    @property
    def n_draws(self) -> int:
        """Number of draws in all chains together."""
        return sum(len(a) for a in self.arrays)

    @property
    def mean_potential(self) -> float:
        """Average of U over all draws (NaN without draws)."""
        return float(np.mean(np.concatenate(self.energies))) if self.n_draws else float("nan")

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """Each draw as world_from_node quaternions (n, 4) and positions (n, 3), one at a time."""
        for array in self.arrays:
            for row in array:
                yield np.asarray(row[:, :4]), np.asarray(row[:, 4:])


def write_description(directory: Path, description: dict[str, Any]) -> None:
    """Write or check ``draws.json``: a directory belongs to one run, and only that run may continue it."""
    text = json.dumps({"format": FORMAT, **description}, indent=1, sort_keys=True)
    refuse_other_run(directory, json.loads(text), whole=True)
    write_atomically(directory / "draws.json", text.encode())


def refuse_other_run(directory: Path, description: dict[str, Any], *, whole: bool = False) -> None:
    """Refuse a directory whose draws are not those of a description, or of what is known of it unless that is ``whole``."""
    path = directory / "draws.json"
    if not path.exists():
        return
    try:
        old = json.loads(path.read_text())
    except ValueError:
        raise DrawsError(f"{path}: not a description of draws; remove the directory to start anew") from None
    compared = {*old, *description} if whole else description
    different = sorted(k for k in compared if old.get(k) != description.get(k) and k != "draws_per_chain")
    if different:
        said = ", ".join("graph or options" if k == "fingerprint" else k for k in different)
        raise DrawsError(
            f"{directory} holds draws of another run (different: {said}); use another directory, or --overwrite this one"
        )


def recorded_sampler(directory: Path, fingerprint: str) -> dict[str, Any] | None:
    """The sampler and settings of a run that is to be continued, or ``None`` if there is none with this fingerprint."""
    try:
        description = json.loads((directory / "draws.json").read_text())
    except (OSError, ValueError):
        return None  # for write_description to judge
    known = isinstance(description, dict) and description.get("fingerprint") == fingerprint and "reason" in description
    return description if known else None


def read_draws(directory: str | Path) -> Draws:
    """Open a directory of draws; only what is checkpointed or complete is read."""
    directory = Path(directory)
    path = directory / "draws.json"
    try:
        description = json.loads(path.read_text())
    except FileNotFoundError:
        raise DrawsError(f"{directory}: no draws here (there is no draws.json)") from None
    except (OSError, ValueError) as error:
        raise DrawsError(f"{path}: cannot be read ({error})") from None
    if description.get("format") != FORMAT:
        raise DrawsError(f"{path}: format {description.get('format')} is not known to this version")
    n = len(description["ids"])
    arrays, energies, costs = [], [], []
    for chain in range(description["chains"]):
        energy_path = directory / f"chain-{chain:02d}.energy.f64"
        draws_path = directory / f"chain-{chain:02d}.f64"
        if not energy_path.exists() or not draws_path.exists():
            continue
        count = min(energy_path.stat().st_size // _BYTES, draws_path.stat().st_size // (_BYTES * 7 * max(n, 1)))
        energies.append(np.fromfile(energy_path, dtype="<f8", count=count))
        cost_path = directory / f"chain-{chain:02d}.cost.f64"
        cost = np.fromfile(cost_path, dtype="<f8", count=2 * count) if cost_path.exists() else np.empty(0)
        costs.append(np.concatenate([cost, np.full(2 * count - len(cost), np.nan)]).reshape(count, 2))
        shape = (count, n, 7)
        arrays.append(np.memmap(draws_path, dtype="<f8", mode="r", shape=shape) if count and n else np.empty(shape))
    ids = tuple(description["ids"])
    shared = ("format", "ids", "beta", "chains", "draws_per_chain", "seed", "sampler", "fingerprint", "reason")
    settings = {k: v for k, v in description.items() if k not in shared}
    return Draws(
        ids, float(description["beta"]), tuple(arrays), tuple(energies), directory, tuple(costs),
        str(description.get("sampler", "geodesic")), _reason(description), settings,
    )  # fmt: skip


def _reason(description: dict[str, Any]) -> Reason:
    return Reason.from_facts(description["reason"]) if isinstance(description.get("reason"), dict) else Reason()
