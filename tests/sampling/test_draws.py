"""Draws survive anything and come back to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose import describe
from tempose.analysis.summary import relative_summary, summarise
from tempose.errors import DrawsError, FileError
from tempose.sampling import Auto
from tempose.sampling.draws import room_for

SCRIPT = """
import sys, tempose
from tempose.sampling import Geodesic
graph = tempose.simulate(60, shape="sphere", completeness=1.0, seed=2).graph
tempose.solve(graph, directory=sys.argv[1], draws=int(sys.argv[2]), sampler=Geodesic(thin=400), chains=2, seed=11)
"""


def chain_bytes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / "draws").glob("*.f64"))}


def run(directory: Path, draws: int, **kwargs: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(directory), str(draws)], **kwargs)  # type: ignore[call-overload]


def test_killed_and_resumed_is_byte_identical(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole, 120).wait() == 0
    for _ in range(3):  # killed three times, at arbitrary instants
        process = run(broken, 120)
        energy = broken / "draws" / "chain-00.energy.f64"
        before = energy.stat().st_size if energy.exists() else 0
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if energy.exists() and energy.stat().st_size > before:
                break
            time.sleep(0.005)
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert run(broken, 120).wait() == 0
    assert chain_bytes(broken) == chain_bytes(whole)
    assert sum(len(b) for b in chain_bytes(whole).values()) == 120 * (60 * 7 + 3) * 8


def test_torn_tail_is_cut_and_redrawn(tmp_path: Path) -> None:
    graph = tempose.simulate(10, seed=1).graph
    options = {"chains": 1, "seed": 3, "sampler": Auto(thin=5)}
    tempose.solve(graph, directory=tmp_path / "a", draws=30, **options)
    tempose.solve(graph, directory=tmp_path / "b", draws=20, **options)
    for name in ("chain-00.f64", "chain-00.energy.f64"):
        with open(tmp_path / "b" / "draws" / name, "ab") as handle:
            handle.write(b"half a record, written as the power went")
    more = tempose.solve(graph, directory=tmp_path / "b", draws=30, **options)
    assert chain_bytes(tmp_path / "a") == chain_bytes(tmp_path / "b")
    assert more.draws is not None and more.draws.n_draws == 30


def test_threads_do_not_change_the_draws(tmp_path: Path) -> None:
    for threads in ("1", "2"):
        env = {**os.environ, "NUMBA_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        assert run(tmp_path / threads, 20, env=env).wait() == 0
    assert chain_bytes(tmp_path / "1") == chain_bytes(tmp_path / "2")


def test_another_run_is_not_mixed_in(tmp_path: Path) -> None:
    graph = tempose.simulate(10, seed=1).graph
    tempose.solve(graph, directory=tmp_path, draws=8, sampler=Auto(thin=2))
    with pytest.raises(DrawsError, match="holds draws of another run"):
        tempose.solve(graph, directory=tmp_path, draws=8, sampler=Auto(thin=2), seed=5)


def test_stopping_keeps_what_was_drawn_and_goes_on(tmp_path: Path) -> None:
    graph = tempose.simulate(10, seed=1).graph
    stop = threading.Event()
    seen = []

    def hook(watch) -> None:  # type: ignore[no-untyped-def]
        if watch.phase == "sample":
            seen.append(watch)
            if len(seen) == 7:
                stop.set()

    part = tempose.solve(graph, directory=tmp_path / "a", draws=40, sampler=Auto(thin=3), stop=stop, hook=hook)
    assert part.status == "interrupted"
    assert part.draws is not None and 7 <= part.draws.n_draws < 40
    rest = tempose.solve(graph, directory=tmp_path / "a", draws=40, sampler=Auto(thin=3))
    assert rest.status == "solved"
    tempose.solve(graph, directory=tmp_path / "b", draws=40, sampler=Auto(thin=3))
    assert chain_bytes(tmp_path / "a") == chain_bytes(tmp_path / "b")


def test_same_seed_same_draws_other_seed_others() -> None:
    graph = tempose.simulate(10, seed=1).graph
    a, b, c = (tempose.solve(graph, draws=8, sampler=Auto(thin=2), seed=s).draws for s in (1, 1, 2))
    assert a is not None and b is not None and c is not None
    np.testing.assert_array_equal(a.arrays[0], b.arrays[0])
    assert not np.array_equal(a.arrays[0], c.arrays[0])
    assert not np.array_equal(a.arrays[0], a.arrays[1])  # chains differ


def test_summaries_against_the_gaussian_approximation() -> None:
    """At low noise the posterior is Gaussian: draws and Hessian must agree, in every gauge, within Monte Carlo error."""
    made = tempose.simulate(12, seed=4, sigma_rot_deg=0.5, sigma_trans=0.01)
    for gauge in ("anchor", "centroid", "node:5"):
        solution = tempose.solve(made.graph, draws=4000, gauge=gauge, seed=1)
        assert solution.draws is not None and solution.laplace is not None and solution.nodes is not None
        exact = solution.laplace.marginals(solution.gauge)
        spread = np.sqrt(np.einsum("naa->na", exact))
        scale = spread[:, :, None] * spread[:, None, :]
        error = np.abs(solution.nodes.covariance - exact)
        free = scale > 1e-18
        # correlated draws: a generous six standard errors of a correlation from a thousand independent ones
        assert np.max(error[free] / scale[free]) < 6.0 / np.sqrt(1000.0)
        assert np.max(np.abs(solution.nodes.covariance[~free]), initial=0.0) < 1e-18
        relative = solution.relative(3, 8)
        expected = solution.laplace.relative(3, 8).covariance
        d = np.sqrt(np.diag(expected))
        assert np.max(np.abs(relative.covariance - expected) / np.outer(d, d)) < 6.0 / np.sqrt(1000.0)


def test_summary_is_blind_to_quaternion_signs_and_gauge_drift(tmp_path: Path) -> None:
    from dataclasses import replace

    from tempose.geometry import Similarity
    from tempose.geometry import quaternion as quat

    made = tempose.simulate(8, seed=4)
    solution = tempose.solve(made.graph, draws=20, chains=1, sampler=Auto(thin=5))
    draws = solution.draws
    assert draws is not None
    rng = np.random.default_rng(0)
    wild = []
    for wxyz, position in draws:
        motion = Similarity(quat.random_uniform(rng), 10.0 * rng.standard_normal(3))
        moved = motion.apply(wxyz * rng.choice([-1.0, 1.0], (8, 1)), position)
        wild.append(np.concatenate(moved, axis=1))
    drifting = replace(draws, arrays=(np.array(wild),))
    a = summarise(draws, solution.estimate, solution.gauge)
    b = summarise(drifting, solution.estimate, solution.gauge)
    np.testing.assert_allclose(a.covariance, b.covariance, atol=1e-12)
    ra, rb = (relative_summary(d, solution.estimate, 1, 6).covariance for d in (draws, drifting))
    np.testing.assert_allclose(ra, rb, atol=1e-12)


def test_saved_solutions_reload(tmp_path: Path) -> None:
    from tempose.model.bingham import Bingham

    made = tempose.simulate(9, seed=4)
    prior = tempose.Priors(Bingham.from_mode([1.0, 0, 0, 0], 3.0), 0.0, 0.5)
    solution = tempose.solve(made.graph, draws=16, sampler=Auto(thin=3), priors=prior)
    solution.save(tmp_path / "out")
    again = tempose.Solution.load(tmp_path / "out")
    np.testing.assert_array_equal(again.estimate.wxyz, solution.estimate.wxyz)
    assert again.potential == solution.potential
    assert again.options == solution.options
    assert again.draws is not None and solution.draws is not None
    np.testing.assert_array_equal(again.draws.arrays[0], solution.draws.arrays[0])
    assert again.nodes is not None and solution.nodes is not None
    np.testing.assert_allclose(again.nodes.covariance, solution.nodes.covariance, atol=1e-15)
    assert again.laplace is not None and solution.laplace is not None
    np.testing.assert_allclose(
        again.laplace.marginals(again.gauge), solution.laplace.marginals(solution.gauge), rtol=1e-6, atol=1e-15
    )
    with pytest.raises(DrawsError, match=r"no result\.json"):
        tempose.Solution.load(tmp_path)


def test_a_result_whose_nodes_have_numbers_as_text_comes_back(tmp_path: Path) -> None:
    graph = tempose.simulate(6, seed=1).graph
    names = ("1", "2", "03", "-4", "5.jpg", "'x")
    tempose.solve(replace(graph, node_ids=names, initial=None), draws=20, directory=tmp_path).save(tmp_path)
    again = tempose.Solution.load(tmp_path)
    assert again.estimate.ids == again.graph.node_ids == names


def test_as_many_draws_as_asked_for(tmp_path: Path) -> None:
    """Chains that cannot be equally long: the first have one more, and more draws go on from them, to the same bytes."""
    graph = tempose.simulate(6, seed=1).graph
    how = {"chains": 4, "seed": 3, "sampler": Auto(thin=1)}
    lengths = {}
    for draws in (2, 50, 53):
        made = tempose.solve(graph, directory=tmp_path / str(draws), draws=draws, **how).draws
        assert made is not None and made.n_draws == draws
        lengths[draws] = [len(chain) for chain in made.arrays]
    assert lengths == {2: [1, 1], 50: [13, 13, 12, 12], 53: [14, 13, 13, 13]}
    tempose.solve(graph, directory=tmp_path / "2", draws=53, **how)
    assert chain_bytes(tmp_path / "2") == chain_bytes(tmp_path / "53")


def test_a_disk_without_room_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    graph = tempose.simulate(6, seed=1).graph
    with pytest.raises(
        FileError, match=r"^1000000000000000 draws of 6 nodes need 360 PB in .*are free; ask for fewer \(--draws\)"
    ):
        tempose.solve(graph, directory=tmp_path / "a", draws=10**15)
    assert room_for(tmp_path / "draws", 6, 1000) == 1000 * (6 * 7 + 3) * 8
    assert describe.room_for_draws(10**8, 36 * 10**9) == ["100000000 draws will take 36 GB on disk"]
    assert describe.room_for_draws(1000, 360_000) == []
