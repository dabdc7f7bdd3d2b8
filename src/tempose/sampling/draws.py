"""Draws on disk: appended as they are made, safe against being killed at any instant, read back memory-mapped.

A directory holds one ``draws.json`` (what the run is, with a checksum), and per chain

* ``chain-00.f64``: the draws, 7 float64 per node (world_from_node ``wxyz``, then position), nothing else;
* ``chain-00.energy.f64``: U of each draw;
* ``chain-00.cost.f64``: mean acceptance on the way to each draw, and gradients evaluated on the way;
* ``chain-00.state.npz``: the last checkpoint, replaced atomically *after* the draws it counts are on disk: what the chain goes
  on from, how many draws count, checksums of the three files up to there, and the mark of the run they belong to.

Where a graph can be explained in several ways, these are the draws of the first explanation; ``explanation-2`` is a directory of
the same kind with those of the second, and so on, and ``explanations`` in ``draws.json`` are their probabilities. Read back, they
are one sequence a chain, in which every stretch has each explanation as often as it is probable (:func:`in_turn`).

What lies beyond the checkpoint is not read; it is cut off on resume and drawn again, to the same bits, because the random
numbers of a step are a function of the seed and the step's number.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from tempose._support.files import bytes_text, cannot_write, copy_atomically, make_directory, reason, write_atomically
from tempose._support.parallel import on_threads
from tempose._support.sealed import (
    array_bytes,
    arrays_of,
    checksum,
    file_checksum,
    read_sealed,
    running_checksum,
    sealed_text,
)
from tempose._typing import Array, Index, Mask, NodeId
from tempose.errors import ArgumentError, DrawsError, FileError
from tempose.model.poses import Poses
from tempose.sampling.sampler import Draw, Reason

FORMAT = 2
_BYTES = 8
_MOST_CHAINS = 100_000
_LARGEST_POSITION = 1e100  # its square is a number
_MOST_STEPS = 1_000_000_000
_ANEW = "draw anew with --overwrite, or in another directory"
_ONE_FOR_EACH = {"tempering": ("betas", "steps", "step"), "jumping": ("kicks",)}  # replica, or mode
_PER_RUN = ("draws_per_chain",)  # may differ from one run to the next that goes on from it


def _numbers_per_draw(n_nodes: int) -> dict[str, int]:
    """Files of a chain and how many numbers each holds per draw."""
    return {".f64": 7 * n_nodes, ".energy.f64": 1, ".cost.f64": 2}


def run_mark(description: Mapping[str, Any]) -> str:
    """What tells the draws of one run from those of another: the content of ``draws.json`` but for their number."""
    lasting = {name: value for name, value in description.items() if name not in _PER_RUN}
    return checksum(json.dumps(_plainest(lasting), sort_keys=True).encode())


def _plainest(value: Any) -> Any:
    """The same with 2 in place of 2.0: numbers that are equal are written alike."""
    if isinstance(value, Mapping):
        return {name: _plainest(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plainest(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What ``chain-00.state.npz`` says: draws that count, checksums of their files, and the state after them."""

    n_draws: int
    checksums: tuple[int, ...]
    state: dict[str, Array]


class ChainFiles:
    """Where one chain is, and what of it can be trusted."""

    def __init__(self, directory: Path, chain: int, n_nodes: int, mark: str) -> None:
        self.mark = mark
        stem = directory / f"chain-{chain:02d}"
        # path, and numbers per draw
        self.files = [(stem.with_suffix(kind), size) for kind, size in _numbers_per_draw(n_nodes).items()]
        self.state_path = stem.with_suffix(".state.npz")

    def checkpoint(self) -> Checkpoint | None:
        """The last checkpoint, ``None`` if there is none yet.

        Raises
        ------
        DrawsError
            If it is damaged, of another run, or not what the draws on disk are.
        """
        try:
            data = self.state_path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DrawsError(f"{self.state_path}: cannot be read: {reason(error)}") from None
        saved = arrays_of(data, self.state_path, _ANEW)
        try:
            count, sums, mark = saved["n_draws"], saved["checksums"], str(saved["mark"])
            if count.shape != () or sums.shape != (len(self.files),) or {count.dtype.kind, sums.dtype.kind} - set("iu"):
                raise ValueError("not what a checkpoint holds")
            found = Checkpoint(
                int(count),
                tuple(map(int, sums)),
                {name[6:]: array for name, array in saved.items() if name.startswith("state_")},
            )
        except (KeyError, ValueError):
            raise DrawsError(f"{self.state_path}: is not a checkpoint of this version of tempose; {_ANEW}") from None
        if mark != self.mark:
            raise DrawsError(f"{self.state_path}: belongs to another run than draws.json; {_ANEW}")
        for (path, size), wanted in zip(self.files, found.checksums, strict=True):
            self._check(path, found.n_draws * size * _BYTES, wanted)
        return found

    def _check(self, path: Path, size: int, wanted: int) -> None:
        try:
            there = file_checksum(path, size) if size >= 0 and path.stat().st_size >= size else None
        except OSError as error:
            raise DrawsError(f"{path}: cannot be read: {reason(error)}") from None
        if there is None:
            raise DrawsError(f"{path}: is shorter than its checkpoint says; {_ANEW}")
        if there != wanted:
            raise DrawsError(f"{path}: has changed since it was drawn (its checksum does not fit); {_ANEW}")


class DrawWriter:
    """Appends the draws of one chain.

    Parameters
    ----------
    directory, chain
        Where, and which.
    n_nodes
        Of each draw.
    mark
        Of the run (:func:`run_mark`).
    wanted
        Draws that there will be in the end, to say how much room they need if the disk is full.
    """

    def __init__(self, directory: Path, chain: int, n_nodes: int, mark: str = "", wanted: int = 0) -> None:
        self.n_nodes, self.chain, self.wanted = n_nodes, chain, wanted
        self._there = ChainFiles(directory, chain, n_nodes, mark)
        self.n_draws = 0
        self._checksums = [0] * len(self._there.files)
        self._open: list[IO[bytes]] = []

    def open(self) -> dict[str, Array] | None:
        """Open for appending; return the arrays of the state to continue from, or ``None`` for a new chain."""
        found = self._there.checkpoint()
        if found is not None:
            self.n_draws, self._checksums = found.n_draws, list(found.checksums)
        try:
            for path, size in self._there.files:
                with open(path, "ab") as handle:
                    handle.truncate(self.n_draws * size * _BYTES)
            self._open = [open(path, "ab") for path, _ in self._there.files]  # noqa: SIM115
        except OSError as error:
            raise self._cannot_write(error) from None
        return None if found is None else found.state

    def append(self, draw: Draw) -> None:
        """Add one draw."""
        rows = (np.concatenate([draw.wxyz, draw.position], axis=1), draw.potential, (draw.acceptance, draw.gradients))
        for k, (handle, row) in enumerate(zip(self._open, rows, strict=True)):
            data = np.asarray(row, dtype="<f8").tobytes()
            try:
                handle.write(data)
            except OSError as error:
                raise self._cannot_write(error) from None
            self._checksums[k] = running_checksum(data, self._checksums[k])
        self.n_draws += 1

    def checkpoint(self, state: dict[str, Array]) -> None:
        """Make all draws so far durable, then the state that follows them."""
        try:
            for handle in self._open:
                handle.flush()
                os.fsync(handle.fileno())
        except OSError as error:
            raise self._cannot_write(error) from None
        arrays: dict[str, Any] = {f"state_{name}": array for name, array in state.items()}
        about = {
            "n_draws": np.array(self.n_draws, dtype=np.int64),
            "checksums": np.array(self._checksums, dtype=np.uint32),
            "mark": np.array(self._there.mark),
        }
        write_atomically(self._there.state_path, array_bytes({**about, **arrays}))

    def close(self) -> None:
        """Close the files. What a full disk does not take is not counted by any checkpoint."""
        for handle in self._open:
            with suppress(OSError):
                handle.close()

    def _cannot_write(self, error: OSError) -> FileError:
        each = sum(size for _, size in self._there.files) * _BYTES
        return cannot_write(self._there.files[0][0], error, max(1, self.wanted - self.n_draws) * each)


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
        The sampler, why it was chosen, and the numbers it was run with; if there are several explanations, of the first.
    fingerprint
        Of the solve that they belong to.
    labels
        Per chain the explanation (draws,) that each draw is of, from 0, if there are several; see :attr:`explanation`.
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
    fingerprint: str = ""
    labels: tuple[Index, ...] = ()

    @property
    def explanation(self) -> tuple[Index, ...]:
        """Per chain the explanation (draws,) that each draw is of: a row of ``solution.explanations``, 0 the reported one."""
        return self.labels or tuple(np.zeros(len(a), dtype=np.int64) for a in self.arrays)

    def of_explanation(self, k: int) -> Draws:
        """The draws of explanation ``k`` alone; chains that have none are left out."""
        if not self.labels:
            return self if k == 0 else self.select([np.zeros(len(a), dtype=bool) for a in self.arrays])
        return self.select([label == k for label in self.labels])

    def select(self, masks: Sequence[Mask]) -> Draws:
        """The draws that are marked, per chain (draws,); chains without any are left out."""
        kept = [c for c, mask in enumerate(masks) if np.any(mask)]

        def part(arrays: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(np.asarray(arrays[c])[masks[c]] for c in kept) if arrays else ()

        return replace(
            self, arrays=part(self.arrays), energies=part(self.energies), costs=part(self.costs),
            labels=part(self.labels), directory=None,
        )  # fmt: skip

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

    def __len__(self) -> int:
        """Number of draws in all chains together."""
        return self.n_draws

    def __getitem__(self, k: int) -> Poses:
        """Draw ``k`` as poses, in the graph's own coordinates, counted through all chains; from the end if negative."""
        if isinstance(k, bool | np.bool_) or not isinstance(k, int | np.integer):
            raise ArgumentError(f"draws are numbered: draws[0] to draws[{self.n_draws - 1}], not draws[{k!r}]")
        if not -self.n_draws <= k < self.n_draws:
            raise ArgumentError(f"there is no draw {k}: there are {self.n_draws}, from 0")
        row = k % self.n_draws
        for array in self.arrays:
            if row < len(array):
                return Poses(self.ids, np.asarray(array[row, :, :4]), np.asarray(array[row, :, 4:]))
            row -= len(array)
        raise AssertionError("the draw is in one of the chains")

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """Each draw as world_from_node quaternions (n, 4) and positions (n, 3), one at a time."""
        for array in self.arrays:
            for row in array:
                yield np.asarray(row[:, :4]), np.asarray(row[:, 4:])


def write_description(directory: Path, description: dict[str, Any]) -> str:
    """Write or check ``draws.json``: a directory belongs to one run, and only that run may continue it; return its mark."""
    about = json.loads(json.dumps({"format": FORMAT, **description}))
    refuse_other_run(directory, about, whole=True)
    write_atomically(directory / "draws.json", sealed_text(about, indent=1).encode())
    return run_mark(about)


def refuse_other_run(directory: Path, description: dict[str, Any], *, whole: bool = False) -> None:
    """Refuse a directory whose draws are not those of a description, or of what is known of it unless that is ``whole``."""
    try:
        old = _read_description(directory)
    except FileNotFoundError:
        return
    compared = {*old, *description} if whole else description
    different = sorted(k for k in compared if old.get(k) != description.get(k) and k not in _PER_RUN)
    if different:
        said = ", ".join("graph, options or version" if k == "fingerprint" else k for k in different)
        raise DrawsError(
            f"{directory} holds draws of another run (different: {said}); use another directory, or --overwrite this one"
        )


def recorded_sampler(directory: Path, fingerprint: str) -> dict[str, Any] | None:
    """The sampler and settings of a run that is to be continued, or ``None`` if there is none with this fingerprint."""
    try:
        description = _read_description(directory)
    except (FileNotFoundError, DrawsError):
        return None  # for write_description to judge
    return description if description.get("fingerprint") == fingerprint and "reason" in description else None


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / "draws.json"
    about = read_sealed(path, "a description of draws", _ANEW)
    if about.get("format") != FORMAT:
        raise DrawsError(f"{path}: format {about.get('format')!r} is not {FORMAT}, which this version reads; {_ANEW}")
    ids, chains, beta = about.get("ids"), about.get("chains"), about.get("beta")
    named = isinstance(ids, list) and all(isinstance(name, int | str) and not isinstance(name, bool) for name in ids)
    counted = isinstance(chains, int) and not isinstance(chains, bool) and 0 <= chains <= _MOST_CHAINS
    heated = isinstance(beta, int | float) and not isinstance(beta, bool) and 0.0 < beta < math.inf
    if not (named and counted and heated and _are_settings(about)):
        raise DrawsError(f"{path}: is not a description of draws; {_ANEW}")
    return about


def room_for(directory: Path, n_nodes: int, count: int) -> int:
    """Bytes that draws will take on disk, less what is there already; a disk without that much room is refused."""
    there = sum(file.stat().st_size for file in directory.rglob("chain-*.f64"))
    needed = max(0, count * sum(_numbers_per_draw(n_nodes).values()) * _BYTES - there)
    home = next((parent for parent in (directory, *directory.resolve().parents) if parent.is_dir()), Path())
    free = shutil.disk_usage(home).free
    if needed > free:
        raise FileError(
            f"{count} draws of {n_nodes} nodes need {bytes_text(needed)} in {directory.parent}, where {bytes_text(free)} are free; "
            "ask for fewer (--draws), or write to another disk (-o)"
        )
    return needed


def in_turn(shares: Sequence[float], count: int) -> Index:
    """Which of several (count,) is whose turn, so that from the first on each has had its share, to within one or so.

    The next is always the one with the largest share for each turn it would then have had, half of one taken off (the divisors of
    Webster and Sainte-Laguë): a longer sequence begins with the shorter one.
    """
    if len(shares) == 1:
        return np.zeros(count, dtype=np.int64)
    share, had = np.asarray(shares, float), np.zeros(len(shares))
    out = np.empty(count, dtype=np.int64)
    for t in range(count):
        out[t] = k = int(np.argmax(share / (had + 0.5)))
        had[k] += 1.0
    return out


def explanation_directory(directory: Path, k: int) -> Path:
    """Where the draws of explanation ``k``, from 0, are."""
    return directory if k == 0 else directory / f"explanation-{k + 1}"


def _are_settings(about: Mapping[str, Any]) -> bool:
    """Whether the numbers that a sampler was run with are numbers of their kind."""
    several = _ONE_FOR_EACH.get(str(about.get("sampler")), ())

    def each(name: str) -> list[Any]:
        value = about.get(name, [])
        return value if isinstance(value, list) and (name in several or name not in about) else [value]

    counts = [*each("kicks"), *each("steps"), *each("thin")]
    whole = all(type(n) is int and 1 <= n <= _MOST_STEPS for n in counts)
    warm = all(type(n) is int and 0 <= n <= _MOST_STEPS for n in each("warmup"))
    sizes = [*each("step"), *each("betas"), *each("turn")]
    return whole and warm and all(type(x) in (int, float) and 0.0 < x < math.inf for x in sizes)


def read_draws(directory: str | Path) -> Draws:
    """Open a directory of draws; only what is checkpointed is read, and only if its checksums fit.

    Draws of several explanations take turns (:func:`in_turn`), as far as they are there: a run that was stopped may have them of
    the first only.
    """
    directory = Path(directory)
    first, shares = _read_one(directory)
    if len(shares) < 2:
        return first
    there = [explanation_directory(directory, k) for k in range(1, len(shares))]
    found = [first, *(_read_one(path)[0] if (path / "draws.json").exists() else None for path in there)]
    parts: dict[str, list[Array]] = {"arrays": [], "energies": [], "costs": []}
    labels = []
    for chain in range(max(one.n_chains for one in found if one is not None)):
        own = [one if one is not None and chain < one.n_chains else None for one in found]
        label, row = _turns(shares, [0 if one is None else len(one.arrays[chain]) for one in own])
        labels.append(label)
        for name, merged in parts.items():
            merged.append(_merged([None if one is None else getattr(one, name)[chain] for one in own], label, row))
    return replace(
        first, arrays=tuple(parts["arrays"]), energies=tuple(parts["energies"]), costs=tuple(parts["costs"]),
        labels=tuple(labels),
    )  # fmt: skip


def _turns(shares: Sequence[float], lengths: Sequence[int]) -> tuple[Index, Index]:
    """Of each draw of a chain: its explanation, and its number among those of that explanation; in turn, while there are any."""
    label: list[int] = []
    left = list(lengths)
    for k in in_turn(shares, sum(lengths)).tolist():
        if k < len(left) and left[k]:
            left[k] -= 1
            label.append(k)
    label += [k for k, rest in enumerate(left) for _ in range(rest)]
    labels = np.array(label, dtype=np.int64)
    row = np.zeros(len(labels), dtype=np.int64)
    for k in range(len(lengths)):
        row[labels == k] = np.arange(int(np.sum(labels == k)))
    return labels, row


def _merged(parts: Sequence[Array | None], label: Index, row: Index) -> Array:
    """Rows of several arrays, in the order of their labels."""
    shape = next(part.shape[1:] for part in parts if part is not None)
    out = np.empty((len(label), *shape))
    for k, part in enumerate(parts):
        if part is not None:
            out[label == k] = part[row[label == k]]
    return out


def _read_one(directory: Path) -> tuple[Draws, tuple[float, ...]]:
    """The draws of one explanation, and the probabilities of all, if there are several."""
    path = directory / "draws.json"
    try:
        about = _read_description(directory)
    except FileNotFoundError:
        raise DrawsError(f"{directory}: no draws here (there is no draws.json)") from None
    n, mark = len(about["ids"]), run_mark(about)
    files = [ChainFiles(directory, chain, n, mark) for chain in range(about["chains"])]
    there = [one for one in files if one.state_path.exists()]
    chains = [found for found in on_threads(_read_chain, there) if found is not None]
    shared = (
        "format", "ids", "beta", "chains", "draws_per_chain", "seed", "sampler", "fingerprint", "reason", "explanations",
    )  # fmt: skip
    settings = {k: v for k, v in about.items() if k not in shared}
    try:
        reason_of_choice = _reason(about)
        shares = tuple(float(p) for p in about.get("explanations", ()))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DrawsError(f"{path}: is not a description of draws; {_ANEW}") from None
    arrays, energies, costs = (tuple(one[k] for one in chains) for k in range(3))
    draws = Draws(
        tuple(about["ids"]), float(about["beta"]), arrays, energies, directory, costs,
        str(about.get("sampler", "geodesic")), reason_of_choice, settings, str(about.get("fingerprint", "")),
    )  # fmt: skip
    return draws, shares


def _read_chain(files: ChainFiles) -> tuple[Array, Array, Array] | None:
    """Draws, energies and costs of a chain up to its checkpoint; ``None`` if there is none yet."""
    found = files.checkpoint()
    if found is None:
        return None
    (draws_path, size), (energy_path, _), (cost_path, _) = files.files
    count, shape = found.n_draws, (found.n_draws, size // 7, 7)
    energies = np.fromfile(energy_path, dtype="<f8", count=count)
    costs = np.fromfile(cost_path, dtype="<f8", count=2 * count).reshape(count, 2)
    draws = np.memmap(draws_path, dtype="<f8", mode="r", shape=shape) if count and size else np.empty(shape)
    if not _are_poses(draws):
        raise DrawsError(f"{draws_path}: does not hold poses; {_ANEW}")
    return draws, energies, costs


def _are_poses(draws: Array) -> bool:
    """Whether numbers (draws, n, 7) are unit quaternions and positions, or not finite, as those of a sampler that diverged."""
    block = max(1, 100_000 // max(draws.shape[1], 1))
    for low in range(0, len(draws), block):
        part = np.asarray(draws[low : low + block])
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(np.einsum("kna,kna->kn", part[..., :4], part[..., :4]) - 1.0) > 1e-3
            far = np.any(np.abs(part[..., 4:]) > _LARGEST_POSITION, axis=-1)
        if np.any((off | far) & np.all(np.isfinite(part), axis=-1)):
            return False
    return True


def _reason(description: dict[str, Any]) -> Reason:
    return Reason.from_facts(description["reason"]) if isinstance(description.get("reason"), dict) else Reason()


def copy_draws(draws: Draws, target: Path) -> None:
    """Copy the files of draws to another directory, which holds no draws or those of the same run.

    Checkpoints go first and come last, so that a copy that is cut off counts no draws that it does not have.
    """
    assert draws.directory is not None, "draws that are not on disk"
    _copy(draws.directory, target)
    for part in sorted(draws.directory.glob("explanation-*")):
        if (part / "draws.json").exists():
            _copy(part, target / part.name)


def _copy(source: Path, target: Path) -> None:
    description = _read_description(source)
    refuse_other_run(make_directory(target), description, whole=True)
    states = sorted(source.glob("chain-*.state.npz"))
    try:
        for old in target.glob("chain-*.state.npz"):
            old.unlink()
        for file in (source / "draws.json", *sorted(source.glob("chain-*.f64")), *states):
            copy_atomically(file, target / file.name)
    except OSError as error:
        raise FileError(f"{target}: the draws cannot be copied there: {reason(error)}") from None


def discard_draws(directory: Path) -> None:
    """Take away the draws of a directory, and the directory itself if it is empty then and no link to another."""
    for part in sorted(directory.glob("explanation-*")):
        if part.is_dir() and not part.is_symlink():
            discard_draws(part)
    (directory / "draws.json").unlink(missing_ok=True)
    for path in directory.glob("chain-*"):
        if path.name.endswith((".f64", ".state.npz")):
            path.unlink(missing_ok=True)
    if directory.is_dir() and not directory.is_symlink() and not any(directory.iterdir()):
        directory.rmdir()
