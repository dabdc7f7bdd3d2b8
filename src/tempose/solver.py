"""From a graph to its posterior: a list of stages over one run."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tempose import describe, paper
from tempose._support import streams
from tempose._support.bars import shown
from tempose._support.compiling import await_ahead
from tempose._support.files import at_work_in
from tempose._support.options import teaching
from tempose._support.progress import DRAWING, Progress, ProgressHook
from tempose._typing import Array
from tempose.analysis.analysis import Analysis
from tempose.analysis.modes import gaussian_odds, search
from tempose.analysis.shared_errors import shared_errors
from tempose.analysis.trust import Doubt, doubts_from, errors_told_shared
from tempose.dynamics.chain import Dynamics
from tempose.dynamics.descent import Hook, Watch, optimise
from tempose.dynamics.options import Langevin
from tempose.dynamics.schemes import Scheme
from tempose.errors import ArgumentError, GraphError
from tempose.io.files import read_graph
from tempose.io.options import ReadOptions
from tempose.io.result_directory import StoredResult, read_unfinished
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.model.robust import RobustLikelihood
from tempose.optimum.certificate import Certificate
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.options import Optimiser, TgMcmc
from tempose.optimum.proof import certify, solve_to_certificate
from tempose.optimum.starts import start_poses
from tempose.options import SolveOptions
from tempose.outliers.agreement import agreement_without_order
from tempose.outliers.correlation import chain_correlation
from tempose.outliers.estimate import kept_problem, odometry_hints, own_probabilities, solve_robust
from tempose.outliers.loose_parts import ACCEPTED, LoosePart, loose_parts
from tempose.outliers.noise import Parameters, RobustOptions
from tempose.outliers.options import Robust
from tempose.outliers.solutions import Weighing, is_by_place, is_undecided
from tempose.sampling.choice import Choice, Problem, choose
from tempose.sampling.draws import (
    Draws,
    explanation_directory,
    in_turn,
    read_draws,
    recorded_sampler,
    refuse_other_run,
    room_for,
)
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.options import Geodesic, SamplerOptions
from tempose.sampling.tuning import MOST_THINNING, Tuning, minibatch_motion, tune
from tempose.solution import Solution, Status

_PILOTS, _PILOT_DRAWS, _PILOT_STEP = (
    3,
    60,
    10,
)  # short chains, one after the other, and after how many draws one is followed down
_DEEPER = 0.01  # of U: less is not worth another chain
_FOLLOWED = 400  # nodes of robust solves whose lowest draws are followed down, to see whether the estimate is the lowest minimum


@teaching
def solve(
    graph: PoseGraph | str | Path,
    options: SolveOptions | None = None,
    *,
    noise: str | None = None,
    edge_errors: str | None = None,
    scale: str | None = None,
    robust: Robust | bool | None = None,
    start: str | None = None,
    starts: int | None = None,
    optimiser: Optimiser | str | None = None,
    certify: bool | None = None,
    draws: int | None = None,
    chains: int | None = None,
    beta: float | None = None,
    sampler: SamplerOptions | str | None = None,
    gauge: str | None = None,
    seed: int | None = None,
    priors: Priors | None = None,
    directory: str | Path | None = None,
    hook: Hook | None = None,
    progress: ProgressHook | bool | None = None,
    stop: threading.Event | None = None,
    analyse: bool = True,
    on_optimum: Callable[[Solution], bool | None] | None = None,
    executor: Executor | None = None,
) -> Solution:
    """Best poses of a graph and draws from their posterior.

    Parameters
    ----------
    graph
        The measurements, or a file of them.
    options
        All options at once (:class:`~tempose.options.SolveOptions`, which explains each); single ones can be given by
        keyword, for instance ``solve(graph, draws=1000, seed=3)``, and win.
    priors
        Priors on the absolute poses; flat by default. They become edges between the nodes and the world, and are part of the
        result's graph.
    directory
        Where the result is kept as it grows. A run that was killed or interrupted is continued from there, to the same
        draws. Without a directory draws live in a temporary one that goes away with the result.
    hook
        Called with a :class:`tempose.dynamics.Watch` every few steps: energy, poses, step.
    progress
        ``True`` for bars on the terminal or in the notebook, or what is to be called with a :class:`tempose.Progress`.
    stop
        Set it (from another thread, or a signal handler) to end the run early and keep what there is.
    analyse
        Whether to compute at once what the result can be asked; else each answer waits until it is asked for.
    on_optimum
        Called before any draws are made with what is known then, seconds after the start: the estimate, its proof, and the error
        bars of the Gaussian approximation. If it returns ``False`` no draws are made.
    executor
        Where the chains run instead of on threads of this process: any pool of the standard library, or the workers of a cluster.
        The draws are the same, byte for byte; a chain whose worker is lost goes on elsewhere.

    Returns
    -------
    Solution
        Estimate, draws, and what they say; ``status`` says how it ended.
    """
    options = (options or SolveOptions()).changed(
        noise=noise, edge_errors=edge_errors, scale=scale, robust=robust, start=start, starts=starts, optimiser=optimiser,
        certify=certify, draws=draws,
        chains=chains, beta=beta, sampler=sampler, gauge=gauge, seed=seed,
    )  # fmt: skip
    if isinstance(graph, str | Path):
        graph = read_graph(graph, ReadOptions(noise="auto" if options.noise == "auto" else "given"))
    elif not isinstance(graph, PoseGraph):
        raise ArgumentError(f"solve takes a PoseGraph, or the path of a file, not {type(graph).__name__}")
    if priors is not None:
        graph = priors.added_to(graph)
    with nullcontext() if directory is None else at_work_in(directory), shown(progress) as told:
        run = Run(graph, options, directory, hook, told, stop or threading.Event(), on_optimum, executor)
        for stage in STAGES if analyse else STAGES[:-1]:
            stage(run)
        run.is_done = run.goes_on
        return run.solution()


@dataclass(frozen=True)
class Optimum:
    """Where the optimisation ended; what a resumed run reads back."""

    poses: Poses
    trace: Array
    status: str
    certificate: Certificate | None
    parameters: Parameters | None = None  # of the noise, if it was estimated or robust
    others: tuple[Poses, ...] = ()  # minima found from other starts
    notices: tuple[str, ...] = ()  # of a robust solve: what competes with it, and what it does not identify
    likelihood: RobustLikelihood | None = None  # of a robust solve
    weighing: Weighing | None = None  # explanations, if the ids are an order in time
    doubts: tuple[tuple[Doubt, float], ...] = ()  # with how many or how much of each
    variance_factor: float = 1.0  # by which the stated variances were multiplied, as ``scale`` asks


@dataclass(frozen=True, eq=False)
class Target:
    """A posterior to draw from: U, its minimum, the Gaussian approximation there, and the share of the draws it gets."""

    posterior: Posterior
    poses: Poses
    laplace: Laplace | None
    tuning: Tuning
    probability: float
    modes: tuple[Poses, ...] = ()


class Run:
    """One solve on its way: what was asked, and what the stages have found so far."""

    def __init__(
        self, graph: PoseGraph, options: SolveOptions, directory: str | Path | None, hook: Hook | None,
        progress: ProgressHook, stop: threading.Event, on_optimum: Callable[[Solution], bool | None] | None = None,
        executor: Executor | None = None,
    ) -> None:  # fmt: skip
        self.began = time.perf_counter()
        self.executor = executor
        self.on_optimum = on_optimum
        self.options, self.hook, self.progress, self.stop = options, hook, progress, stop
        self.temporary = None if directory is not None else tempfile.TemporaryDirectory(prefix="tempose-")
        self.home = Path(directory if self.temporary is None else self.temporary.name)  # type: ignore[arg-type]
        self.stated = Posterior(graph)  # with the noise that was stated
        self.notices: list[str] = list(graph.notices)
        self.optimum: Optimum | None = None
        self.draws: Draws | None = None
        self.analysis: Analysis | None = None
        self.is_done = False
        self.goes_on = True  # whether draws are to be made
        self.is_whole = False  # whether the optimum is one to go on from, not cut short

    def report(self, phase: str, done: float = 0, total: float = 1) -> None:
        """Say how far it is."""
        self.progress(Progress(phase, done, total))

    @contextmanager
    def at_work(self, phase: str) -> Iterator[None]:
        """Within, progress has a stage of this name, which ends."""
        self.report(phase, 0, 1)
        yield
        self.report(phase, 1, 1)

    @property
    def found(self) -> Optimum:
        """The optimum."""
        assert self.optimum is not None, "the stage that optimises comes first"
        return self.optimum

    @cached_property
    def gauge(self) -> Gauge:
        """What absolute uncertainties refer to."""
        return Gauge.parse(self.stated.graph, self.options.gauge)

    @cached_property
    def fingerprint(self) -> str:
        """Of the problem as it was stated."""
        return fingerprint(self.stated, self.options)

    @cached_property
    def posterior(self) -> Posterior:
        """U, with the noise that was estimated in place of the stated one."""
        return with_parameters(self.stated, self.found)

    @cached_property
    def stated_curvature(self) -> Curvature:
        """The Hessian of U with the noise that was stated."""
        return Curvature(self.stated)

    @cached_property
    def curvature(self) -> Curvature:
        """The Hessian of U."""
        return self.stated_curvature if self.posterior is self.stated else Curvature(self.posterior)

    @cached_property
    def _tuned(self) -> tuple[Tuning, Laplace | None]:
        how = dynamics_options(self.options)
        found = tune(self.curvature, self.found.poses, identity_mass=how.mass == "identity")
        laplace = None
        if found.laplace is not None:
            laplace = Laplace(self.curvature, self.found.poses, self.options.beta, found.laplace)
        return replace(found, laplace=None), laplace  # who holds a factor twice cannot give it up

    @property
    def tuning(self) -> Tuning:
        """Time scales at the optimum."""
        return self._tuned[0]

    @property
    def laplace(self) -> Laplace | None:
        """The Gaussian approximation at the optimum; ``None`` if the Hessian is not positive definite there."""
        return self._tuned[1]

    @cached_property
    def targets(self) -> list[Target]:
        """What draws are of: the posterior of every explanation that is reported, the estimate's first."""
        weighing = self.found.weighing
        modes = () if is_undecided(weighing) else self.found.others  # else draws of one would go to another
        own = Target(self.posterior, self.found.poses, self.laplace, self.tuning, 1.0, modes)
        if weighing is None or len(weighing.explanations) < 2:
            return [own]
        known = sum(one.probability for one in weighing.explanations)
        found = [replace(own, probability=weighing.explanations[0].probability / known)]
        assert self.posterior.likelihood is not None  # only robust solves have explanations
        for one in weighing.explanations[1:]:
            posterior = Posterior(self.posterior.graph, replace(self.posterior.likelihood, prior=one.prior))
            curvature = Curvature(posterior)
            tuning = tune(curvature, one.poses, identity_mass=dynamics_options(self.options).mass == "identity")
            around = (
                None if tuning.laplace is None else Laplace(curvature, one.poses, self.options.beta, tuning.laplace)
            )
            found.append(Target(posterior, one.poses, around, tuning, one.probability / known))
        return found

    def solution(self) -> Solution:
        """What has been found so far, as a result."""
        optimum, posterior, options = self.found, self.posterior, self.options
        return Solution(
            graph=posterior.graph, options=options, status=self._status(),
            estimate=optimum.poses, potential=posterior.potential(optimum.poses), draws=self.draws, gauge=self.gauge,
            trace=optimum.trace, certificate=optimum.certificate, notices=tuple(self.notices),
            seconds=time.perf_counter() - self.began, version=metadata.version("tempose"),
            analysis=self.analysis or self.make_analysis(), optimiser_status=optimum.status,
            tuning={"fastest_frequency": self.tuning.fastest, "slowest_frequency": self.tuning.slowest},
            optimum_notices=optimum.notices, likelihood=posterior.likelihood, parameters=optimum.parameters,
            others=optimum.others, weighing=optimum.weighing, doubts=optimum.doubts,
            scaled_by=optimum.variance_factor,
            fingerprint=self.fingerprint if self.is_whole else "",
            draws_fingerprint=fingerprint(posterior, options), temporary=self.temporary,
        )  # fmt: skip

    def make_analysis(self) -> Analysis:
        """The answers that the estimate and the draws will give."""
        options, posterior = self.options, self.posterior
        draws = None if self.draws is None else self.draws.of_explanation(0)
        if self.analysis is not None:
            return self.analysis.with_draws(draws)
        return Analysis(
            posterior, self.found.poses, self.gauge, options.beta, draws,
            self.found.parameters, options.noise == "auto", (self.laplace,), self.found.weighing,
            self._shares_errors(posterior), self.found.variance_factor, options.may_repeat,
        )  # fmt: skip

    def _shares_errors(self, posterior: Posterior) -> bool:
        told = errors_told_shared(self.found.weighing, self.found.doubts)
        return self.options.shares_errors(is_by_place(self.found.weighing), posterior.is_precise_only, told)

    def _status(self) -> Status:
        if self.stop.is_set():
            return Status.INTERRUPTED
        if self.found.status in (Status.STALLED, Status.DIVERGED):
            return Status(self.found.status)
        return Status.SOLVED if self.is_done else Status.OPTIMISED


# ---------------------------------------------------------------------- the stages


def check(run: Run) -> None:
    """Refuse what cannot be solved; say what is unusual."""
    graph = run.stated.graph
    if graph.n_nodes == 0 or graph.n_edges == 0:
        raise GraphError(f"the graph has {graph.n_nodes} nodes and {graph.n_edges} edges: there is nothing to solve")
    if run.options.noise == "paper":
        graph = paper.with_paper_noise(graph)
        run.notices.append(describe.paper_noise(graph))
        run.stated = replace(run.stated, graph=graph)
    run.notices += describe.of_graph(graph)
    room_for(run.home / "draws", graph.n_nodes, run.options.draws)  # refuses a disk without it
    run.gauge  # noqa: B018  (a gauge that does not fit is found now, not after a long run)


def find_optimum(run: Run) -> None:
    """The optimum, computed, or taken from an earlier run of the same solve in the same directory."""
    run.optimum = _resumed(run)
    run.is_whole = run.optimum is not None
    if run.optimum is None:
        estimated = run.options.robust is not None or run.options.noise == "auto"
        run.optimum = _optimise_with_noise(run) if estimated else _optimise(run)
        if run.options.starts > 1:
            run.optimum = _look_elsewhere(run)
        if run.options.scale != "never":
            run.optimum = _scaled(run)
        run.is_whole = not run.stop.is_set()
        if run.is_whole and run.temporary is None:
            refuse_other_run(run.home / "draws", {"fingerprint": fingerprint(run.posterior, run.options)})
            run.solution().save(run.home, bare=True)
    run.notices += [*run.found.notices, *describe.optimiser_trouble(run.found.status)]


def approximate(run: Run) -> None:
    """The Gaussian approximation, and the odds of other minima by it."""
    if run.laplace is None:
        rows = run.curvature.loose_nodes(run.found.poses)
        run.notices.append(describe.loose(run.posterior.graph, rows, run.curvature.is_tied))
    run.notices += describe.undetermined(run.posterior.graph, run.curvature.undetermined(run.found.poses))
    if run.options.starts > 1:
        undecided = is_undecided(run.found.weighing)
        run.notices.append(describe.starts(run.options.starts, None if undecided else _odds(run), undecided=undecided))


def tell(run: Run) -> None:
    """What is known before any draws are made, to whoever wants to know."""
    if run.on_optimum is None or not run.options.draws or run.stop.is_set():
        return
    run.analysis = run.make_analysis()
    run.goes_on = run.on_optimum(run.solution()) is not False


def draw(run: Run) -> None:
    """Draws from the posterior: of every explanation that is reported, as many as it is probable."""
    options = run.options
    if not options.draws or not run.goes_on or run.stop.is_set():
        return
    await_ahead(lambda: run.report("compiling"), lambda: run.report("compiling", 1))
    targets = run.targets
    shares = [one.probability for one in targets]
    turns = [in_turn(shares, count) for count in options.chain_draws]
    before, made = 0, None
    for k, one in enumerate(targets):
        counts = tuple(int(np.sum(turn == k)) for turn in turns)
        if run.stop.is_set() or not any(counts):
            continue
        home = explanation_directory(run.home / "draws", k)
        mark = fingerprint(one.posterior, options)
        with run.at_work("choosing a sampler"):
            choice = _choose(run, one, recorded_sampler(home, mark))
        unset = choice.sampler.name == "geodesic" and options.sampler.thin is None
        if k == 0 and unset and choice.sampler.settings()["thin"] == MOST_THINNING:
            run.notices.append(describe.slow_mixing(MOST_THINNING))
        description: dict[str, object] = {"fingerprint": mark, "reason": choice.reason.facts()}
        if k == 0 and len(targets) > 1:
            description["explanations"] = shares
        made = sample(
            one.posterior, choice.sampler,
            SamplingPlan(options.beta, options.chains, counts, options.seed, k * options.chains),
            home, description=description, progress=_beyond(run.progress, before, options.draws),
            hook=run.hook, stop=run.stop, executor=run.executor,
        )  # fmt: skip
        before += sum(counts)
    run.draws = made if len(targets) == 1 and made is not None else read_draws(run.home / "draws")
    run.notices += describe.lower_draws(_lower_by(run, run.draws.of_explanation(0)))


def _lower_by(run: Run, draws: Draws) -> float:
    """How far below U of the estimate the minimum lies that the lowest draw of some chain leads to; of robust solves, else 0.

    Heavy tails have many minima, and chains may find one that the search has not.
    """
    if run.posterior.likelihood is None or run.posterior.graph.n_nodes > _FOLLOWED or run.options.beta != 1.0:
        return 0.0
    least = run.posterior.potential(run.found.poses)
    lowest = least
    for array, energy in zip(draws.arrays, draws.energies, strict=True):
        if len(energy) and np.isfinite(energy).all():
            row = np.asarray(array[int(np.argmin(energy))])
            lowest = min(lowest, minimise(run.curvature, Poses(draws.ids, row[:, :4], row[:, 4:])).potential)
    return least - lowest


def _beyond(progress: ProgressHook, before: int, total: int) -> ProgressHook:
    """Progress of one part of the draws as progress of all."""

    def told(part: Progress) -> None:
        progress(Progress(part.phase, before + part.done, total) if part.phase == DRAWING else part)

    return told


def look_back(run: Run) -> None:
    """What the estimate and the draws say."""
    run.analysis = run.make_analysis()
    run.analysis.complete(run.progress)


STAGES: tuple[Callable[[Run], None], ...] = (check, find_optimum, approximate, tell, draw, look_back)


# ---------------------------------------------------------------------- optimising


def _optimise(run: Run) -> Optimum:
    options, posterior, curvature = run.options, run.stated, run.stated_curvature
    with run.at_work("looking for a start"):
        poses = start_poses(posterior.graph, options.start, streams.generator(options.seed, "start"))
    trace = np.array([[0.0, posterior.potential(poses)]])
    status, how = "start", options.optimiser
    if isinstance(how, TgMcmc):
        with run.at_work("optimising"):
            poses, trace, status = _descend(run, how, curvature, poses)
    if run.stop.is_set():
        return Optimum(poses, trace, status, None)
    if isinstance(how, TgMcmc) and not how.then_newton:
        return Optimum(poses, trace, status, certify(posterior, poses) if options.certify else None)
    with run.at_work("optimising and proving" if options.certify else "optimising"):
        if options.certify:
            solved = solve_to_certificate(posterior, poses, curvature=curvature)
            minimum, certificate = solved.minimum, solved.certificate
        else:
            minimum, certificate = minimise(curvature, poses), None
    taken = [s.potential for s in minimum.steps if s.accepted] + [minimum.potential]
    steps = trace[-1, 0] + np.arange(len(taken))
    trace = np.concatenate([trace, np.stack([steps, taken], axis=1)[1:]])
    return Optimum(minimum.poses, trace, minimum.status, certificate)


def _descend(run: Run, how: TgMcmc, curvature: Curvature, start: Poses) -> tuple[Poses, Array, str]:
    """TG-MCMC at β → ∞: with the step and friction asked for, else with momentum suited to the graph."""
    tuning = tune(curvature, start, identity_mass=how.mass == "identity")
    step = how.step
    if step is None:
        step = 0.7 * tuning.step if how.step_range is None else _longest_step(how, tuning)
    friction = 0.05 / step if how.friction is None else how.friction
    schedule = (*how.anneal, (math.inf, how.steps))
    total = sum(steps for _, steps in schedule)

    def on_block(watch: Watch) -> None:
        run.report("optimising", watch.step, total)
        if run.hook is not None:
            run.hook(watch)

    found = optimise(
        curvature.posterior, start, scheme=Scheme(how.scheme, how.scheme_noise, how.letters), step=step,
        friction=friction, key=streams.key(run.options.seed, "optimise"), schedule=schedule,
        coordinates=how.coordinates, inverse_mass=tuning.inverse_mass, batch=how.batch, tolerance=how.tolerance,
        on_block=on_block, should_stop=run.stop.is_set,
    )  # fmt: skip
    return found.poses, found.trace, found.status


def _optimise_with_noise(run: Run) -> Optimum:
    """Poses, noise levels and verdicts on the edges together; proofs are about the problem of the kept edges."""
    options, stated, robust = run.options, run.stated, run.options.robust
    trust = None if robust is None else robust.trust_odometry
    between = None if robust is None else robust.trusted_range
    own = own_probabilities(stated.graph, trust, between)
    if robust is None:
        own, known = np.full(len(own), np.nan), RobustOptions(options.noise, 1.0, math.inf)
    else:
        tail = {"auto": None, "gaussian": math.inf}[robust.tail] if isinstance(robust.tail, str) else robust.tail
        known = RobustOptions(options.noise, robust.inlier_probability, tail)
    rng = streams.generator(options.seed, "start")
    hints = own if between is not None else odometry_hints(stated.graph, own, trust)
    with run.at_work("estimating the noise" if robust is None else "looking for wrong edges"):
        found = solve_robust(
            stated.graph, known, own, rng, start=options.start, hints=hints,
            by_cluster=robust is None or robust.repeats == "cluster",
        )  # fmt: skip
    fitted = found.fit
    notices: list[str] = []
    doubts: list[tuple[Doubt, float]] = []
    if robust is not None:
        parts = loose_parts(fitted.graph, fitted.inlier_probability)
        notices += describe.competing(found)
        notices += describe.loose_parts(fitted.graph, parts)
        doubts += [(Doubt.COMPETING, len(found.competitors))] if found.competitors else []
        doubts += [(Doubt.OTHER_PLACES, len(found.alternatives))] if found.alternatives else []
        doubts += _doubts_about(parts, None if is_by_place(found.weighing) else fitted.likelihood.prior)
        notices += describe.precise_only(fitted.likelihood)
        doubts += [(Doubt.ROUGH, math.nan)] if fitted.likelihood.is_precise_only else []
    if options.noise == "auto":
        notices += describe.kept_noise(fitted.parameters)
    posterior = fitted.posterior if robust is not None else Posterior(fitted.graph)
    if options.noise == "auto":
        held = describe.widened_noise(fitted.parameters)
        if not held:
            check = chain_correlation(posterior, fitted.poses, streams.generator(options.seed, "check"))
            held = describe.correlated_errors(check)
            if held and check is not None:
                doubts.append((Doubt.CORRELATED, check.worst[2]))
        notices += held
        if not options.shares_errors(is_by_place(found.weighing), posterior.is_precise_only, told=False):
            met = shared_errors(posterior, fitted.poses, streams.generator(options.seed, "check", 1))
            given = fitted.graph, fitted.poses, fitted.inlier_probability, fitted.likelihood.prior
            agreed = agreement_without_order(*given) if options.may_repeat else None
            if (met is not None and met.is_shared) or (agreed is not None and agreed.agreeing > 0.0):
                doubts.append((Doubt.SHARED, math.nan))
            told = errors_told_shared(found.weighing, doubts)
            notices += describe.shared_errors(met, options.shares_errors(False, False, told))
    trace = np.array([[0.0, posterior.potential(fitted.poses)]])
    status = "converged" if fitted.status == "converged" else "step limit"
    optimum = Optimum(
        fitted.poses, trace, status, None, fitted.parameters, notices=tuple(notices),
        likelihood=None if robust is None else fitted.likelihood, weighing=found.weighing, doubts=tuple(doubts),
    )  # fmt: skip
    if not options.certify:
        return optimum
    with run.at_work("proving"):
        if robust is not None:
            return replace(optimum, certificate=_certificate(posterior, fitted.poses))
        solved = solve_to_certificate(posterior, fitted.poses)
    return replace(optimum, poses=solved.minimum.poses, certificate=solved.certificate)


def _doubts_about(parts: Sequence[LoosePart], prior: Array | None) -> list[tuple[Doubt, float]]:
    """Parts that single edges hold; nodes that none holds, or only one that was probably wrong beforehand (``prior`` (m,))."""
    unheld = [part for part in parts if part.edge < 0 or (prior is not None and prior[part.edge] < ACCEPTED)]
    held = len(parts) - len(unheld)
    found: list[tuple[Doubt, float]] = [(Doubt.LOOSE_PARTS, held)] if held else []
    return found + ([(Doubt.UNHELD, sum(len(part.nodes) for part in unheld))] if unheld else [])


def _certificate(posterior: Posterior, poses: Poses) -> Certificate:
    """A proof about the posterior, or about the problem of the kept edges if it is robust."""
    if posterior.likelihood is None:
        return certify(posterior, poses)
    return replace(certify(kept_problem(posterior, poses), poses), of_kept_edges=True)


def _look_elsewhere(run: Run) -> Optimum:
    """Other minima of U, from random starts; the deepest of all becomes the estimate, unless odds do not decide."""
    options, optimum = run.options, run.found
    curvature = Curvature(with_parameters(run.stated, optimum))
    rng = streams.generator(options.seed, "start", 1 << 32)
    found = search(curvature, options.beta, optimum.poses, options.starts - 1, rng, run.progress, run.stop)
    if is_undecided(optimum.weighing):  # the deepest may be that of another explanation
        return replace(optimum, others=tuple(one for one in found if one is not optimum.poses))
    if found and found[0] is not optimum.poses:
        certificate = _certificate(curvature.posterior, found[0]) if options.certify else None
        optimum = replace(optimum, poses=found[0], status="converged", certificate=certificate)
    return replace(optimum, others=tuple(found[1:]))


def _scaled(run: Run) -> Optimum:
    """The same optimum, with the variance factor that the noise is scaled by: all of U is divided by it, so that nothing moves."""
    test = Analysis(run.stated, run.found.poses, run.gauge, run.options.beta, None).global_test
    wanted = run.options.scale == "always" or test.passed is False
    if not wanted or not (math.isfinite(test.variance_factor) and test.variance_factor > 0.0):
        return run.found
    proof, weight = run.found.certificate, 1.0 / test.variance_factor
    trace = run.found.trace * np.array([1.0, weight])
    proof = None if proof is None else proof.scaled(weight)
    return replace(run.found, variance_factor=test.variance_factor, trace=trace, certificate=proof)


def with_parameters(stated: Posterior, optimum: Optimum) -> Posterior:
    """U with what was estimated in place of what was stated."""
    parameters = optimum.parameters
    if optimum.variance_factor != 1.0:
        return replace(stated, graph=stated.graph.scaled_noise(math.sqrt(optimum.variance_factor)))
    return stated if parameters is None else Posterior(parameters.graph(stated.graph), optimum.likelihood)


def _odds(run: Run) -> Array | None:
    """Of the estimate and the other minima, by their Gaussian approximations."""
    laplace, others = run.laplace, run.found.others
    if laplace is None or not others:
        return None
    return gaussian_odds([laplace, *(Laplace(laplace.curvature, one, laplace.beta) for one in others)])


# ---------------------------------------------------------------------- sampling


def dynamics_options(options: SolveOptions) -> Langevin:
    """How the geodesic samplers move: as the sampler ``geodesic`` was told, else as they do by themselves."""
    return options.sampler if isinstance(options.sampler, Geodesic) else Geodesic()


def _longest_step(how: Langevin, tuning: Tuning) -> float:
    assert how.step_range is not None
    return paper.longest_step(tuning.fastest, tuning.friction if how.friction is None else how.friction, how.step_range)


def _choose(run: Run, target: Target, recorded: dict[str, Any] | None) -> Choice:
    options, tuning, how = run.options, target.tuning, dynamics_options(run.options)
    friction = tuning.friction if how.friction is None else how.friction
    step = how.step
    if step is None:
        step = tuning.step if how.step_range is None else _longest_step(how, tuning)
    if how.batch and how.step is None and how.friction is None and how.step_range is None:
        m = run.posterior.graph.n_edges
        step, friction, thin = minibatch_motion(how.batch, m, tuning.step, tuning.slowest)
        tuning = replace(tuning, thin=thin)
    scheme = Scheme(how.scheme, how.scheme_noise, how.letters)
    problem = Problem(
        target.posterior, target.poses, target.laplace, tuning,
        Dynamics(scheme, step, friction, options.beta, how.coordinates, how.batch),
        options.sampler.thin, options.sampler.warmup,
        spread=not isinstance(how, Geodesic) or how.spread, seed=options.seed, modes=target.modes,
    )  # fmt: skip
    return choose(options.sampler.name, problem, recorded)


# ---------------------------------------------------------------------- resuming


def fingerprint(posterior: Posterior, options: SolveOptions) -> str:
    """What a continued run must share with the one it continues: the graph, all options but ``draws``, and the version."""
    digest = hashlib.sha256()
    table, at = posterior.edge_table, posterior.graph.fixed_at
    fixed = () if at is None else (at.wxyz, at.position)
    for array in (table.start, table.source, table.edge, *fixed):
        digest.update(np.ascontiguousarray(array).tobytes())
    facts = {k: v for k, v in options.as_dict().items() if k not in ("draws", "gauge", "edge_errors")}
    graph = posterior.graph
    names = [list(graph.node_ids), list(graph.fixed), list(graph.landmarks), graph.dimension]
    digest.update(json.dumps([*names, facts, metadata.version("tempose")], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _resumed(run: Run) -> Optimum | None:
    """The optimum of an earlier run of the same solve."""
    stored = read_unfinished(run.home, run.fingerprint)
    if stored is None:
        return None
    try:
        return _stored_optimum(run, stored)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, GraphError):
        return None  # of another version, or not what a solve writes: computed anew


def _stored_optimum(run: Run, stored: StoredResult) -> Optimum:
    facts = stored.facts
    proof = None if facts["certificate"] is None else Certificate.from_facts(facts["certificate"])
    return Optimum(
        stored.estimate.select(run.stated.graph.node_ids), stored.trace, facts["optimiser"]["status"], proof,
        None if facts["parameters"] is None else Parameters.from_facts(facts["parameters"]), stored.others,
        tuple(facts["optimiser"]["notices"]), stored.likelihood,
        Weighing.from_arrays(run.stated.graph.node_ids, stored.explanations) if stored.explanations else None,
        doubts_from(facts["optimiser"]["doubts"]), facts["scaling"]["variance_factor"],
    )  # fmt: skip
