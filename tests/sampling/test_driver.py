"""The driver: which random numbers belong to which draw, and what happens with files that are damaged."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tempose._support import streams
from tempose.errors import DrawsError
from tempose.model.posterior import Posterior
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.sampler import Draw
from tempose.simulation import simulate

SEED, CHAINS, WARMUP = 7, 2, 3


@dataclass
class Spy:
    """A sampler that draws nothing and writes down the generators it is given."""

    nodes: int
    warmup: int = WARMUP
    name: str = "spy"
    starts: list[object] = field(default_factory=list)
    seen: list[object] = field(default_factory=list)

    def settings(self) -> dict[str, object]:
        return {"warmup": self.warmup}

    def start(self, rng: np.random.Generator) -> SpyChain:
        self.starts.append(rng.bit_generator.state["state"])
        return SpyChain(self)

    def resume(self, arrays: dict[str, np.ndarray]) -> SpyChain:
        return SpyChain(self)


@dataclass
class SpyChain:
    spy: Spy

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def advance(self, rng: np.random.Generator) -> Draw:
        self.spy.seen.append(rng.bit_generator.state["state"])
        return Draw(np.tile([1.0, 0, 0, 0], (self.spy.nodes, 1)), np.zeros((self.spy.nodes, 3)), 0.0, 1.0, 1)


@pytest.fixture
def posterior() -> Posterior:
    return Posterior(simulate(5, seed=1).graph)


def stream_of(chain: int, number: int) -> object:
    return streams.of_draw(SEED, chain, number).bit_generator.state["state"]


def test_every_draw_has_its_own_random_numbers_warm_up_included(posterior: Posterior, tmp_path: Path) -> None:
    """Draw k of a chain, counted from its very first, has the stream of that number, whether the run was resumed or not."""
    spy = Spy(5)
    for draws in (4, 6):  # the second goes on
        sample(posterior, spy, SamplingPlan(1.0, CHAINS, draws, SEED), tmp_path)
    expected = [stream_of(chain, k) for chain in range(CHAINS) for k in range(WARMUP + 6)]
    assert sorted(map(repr, spy.seen)) == sorted(map(repr, expected))
    assert len({repr(one) for one in (*spy.seen, *spy.starts)}) == CHAINS * (WARMUP + 6) + CHAINS


@dataclass
class KeepsToItsThread(Spy):
    """One whose chains keep to one thread each, and that writes down which."""

    threads: set[int] = field(default_factory=set)

    def advance(self, chains: Sequence[SpyChain], rngs: Sequence[np.random.Generator]) -> list[Draw]:
        self.threads.add(threading.get_ident())
        self.together.wait(10.0)  # until the other has a thread, too
        return [chain.advance(rng) for chain, rng in zip(chains, rngs, strict=True)]

    def __post_init__(self) -> None:
        self.together = threading.Barrier(CHAINS)


def test_chains_on_large_graphs(posterior: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread each, if they keep to it; else one after the other, as each gradient takes all cores."""
    monkeypatch.setattr("tempose.model.posterior.PARALLEL_FROM_EDGES", 1)
    large = Posterior(posterior.graph)
    assert large.runs_parallel
    keeps, shares = KeepsToItsThread(5), Spy(5)
    sample(large, keeps, SamplingPlan(1.0, CHAINS, 4, SEED), tmp_path / "keeps", threads=CHAINS)
    assert len(keeps.threads) == CHAINS
    sample(large, shares, SamplingPlan(1.0, CHAINS, 4, SEED), tmp_path / "shares", threads=CHAINS)
    assert shares.seen == [stream_of(chain, k) for chain in range(CHAINS) for k in range(WARMUP + 4)]


def test_streams_differ_by_seed_purpose_and_index() -> None:
    made = [
        streams.generator(seed, purpose, index) for seed in (0, 1) for purpose in streams.PURPOSES for index in (0, 1)
    ]
    made += [streams.of_draw(0, chain, number) for chain in (1, 2) for number in (0, 1, 2**32 - 1)]
    assert len({int(one.integers(2**63)) for one in made}) == len(made)


@pytest.mark.parametrize("kind", [".f64", ".energy.f64", ".cost.f64"])
def test_files_shorter_than_their_checkpoint_are_refused(posterior: Posterior, tmp_path: Path, kind: str) -> None:
    """A file that lost its end would get new draws in the place of old ones."""
    sample(posterior, Spy(5), SamplingPlan(1.0, 1, 4, SEED), tmp_path)
    file = tmp_path / f"chain-00{kind}"
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])
    with pytest.raises(DrawsError, match=r"chain-00.*: is shorter than its checkpoint says; draw anew"):
        sample(posterior, Spy(5), SamplingPlan(1.0, 1, 6, SEED), tmp_path)
    file.write_bytes(whole)
    assert sample(posterior, Spy(5), SamplingPlan(1.0, 1, 6, SEED), tmp_path).n_draws == 6
