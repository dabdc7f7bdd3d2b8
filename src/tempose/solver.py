"""From a graph to its posterior: start, optimise, sample, and what comes of it."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tempose import paper
from tempose._support import streams
from tempose._support.files import write_atomically
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array
from tempose.analysis.modes import gaussian_odds, search
from tempose.dynamics.chain import Dynamics
from tempose.dynamics.descent import Descent, Hook, optimise
from tempose.dynamics.schemes import Scheme
from tempose.errors import GraphError
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior, Priors
from tempose.optimum.certificate import Certificate
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify, solve_to_certificate
from tempose.optimum.starts import start_poses
from tempose.options import SolveOptions
from tempose.outliers.estimate import kept_problem, odometry_hints, own_probabilities, solve_robust
from tempose.outliers.loose_parts import in_words, loose_parts
from tempose.outliers.noise import Parameters, RobustOptions
from tempose.outliers.verdicts import KEPT
from tempose.sampling.choice import Choice, Problem, choose
from tempose.sampling.draws import Draws, recorded_sampler
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.tuning import MOST_THINNING, Tuning, tune
from tempose.solution import Solution, certificate_facts, certificate_from_facts


def solve(
    graph: PoseGraph,
    options: SolveOptions | None = None,
    *,
    priors: Priors | None = None,
    directory: str | Path | None = None,
    hook: Hook | None = None,
    progress: ProgressHook | None = None,
    stop: threading.Event | None = None,
    **changes: Any,
) -> Solution:
    """Best poses of a graph and draws from their posterior.

    Parameters
    ----------
    graph
        The measurements.
    options
        All options at once; single ones can be given by keyword, for instance ``solve(graph, draws=1000, seed=3)``.
    priors
        Priors on the absolute poses; flat by default.
    directory
        Where the draws go. A run that was killed or interrupted is continued from there, to the same draws. Without a
        directory they live in a temporary one that goes away with the result.
    hook
        Called with a :class:`~tempose.dynamics.descent.Watch` every few steps: energy, poses, step.
    progress
        Called with a :class:`Progress`.
    stop
        Set it (from another thread, or a signal handler) to end the run early and keep what there is.

    Returns
    -------
    Solution
        Estimate, draws, summaries; ``status`` says how it ended.
    """
    began = time.perf_counter()
    options = options or SolveOptions()
    if changes:
        options = replace(options, **changes)
    stop = stop or threading.Event()
    report = progress or silent
    graph, notices = _prepare(graph, options)
    gauge = Gauge.parse(graph, options.gauge)
    home, temporary = _directory(directory)

    report(Progress("optimising", 0, 1))
    estimate = _estimate(Posterior(graph, priors or Priors()), options, home, hook, report, stop, notices)
    posterior = estimate.curvature.posterior
    laplace = _laplace(estimate, options, notices)
    if options.starts > 1:
        notices.append(_said_of_starts(laplace, estimate.optimum.others, options.starts))
    draws = None
    if options.draws and not stop.is_set():
        draws = _sample(estimate, laplace, options, home, hook, report, stop, notices)
    status = _status(estimate, stop)
    solution = Solution(
        graph=posterior.graph,
        priors=posterior.priors,
        likelihood=posterior.likelihood,
        parameters=estimate.optimum.parameters,
        options=options,
        status=status,
        estimate=estimate.poses,
        objective=estimate.potential,
        draws=draws,
        gauge=gauge,
        trace=estimate.optimum.trace,
        certificate=estimate.optimum.certificate,
        notices=tuple(notices),
        seconds=time.perf_counter() - began,
        version=metadata.version("tempose"),
        tuning=estimate.tuning_facts,
        temporary=temporary,
    )
    if laplace is not None:
        solution.__dict__["laplace"] = laplace  # known already: fill the cached property
    return solution


@dataclass(frozen=True)
class _Optimum:
    """Where the optimisation ended; what a resumed run reads back."""

    poses: Poses
    trace: Array
    status: str
    certificate: Certificate | None
    parameters: Parameters | None = None  # of the noise, if it was estimated or robust
    others: tuple[Poses, ...] = ()  # minima found from other starts
    notices: tuple[str, ...] = ()  # of a robust solve: what competes with it, and what it does not identify

    def posterior(self, stated: Posterior, options: SolveOptions) -> Posterior:
        """U with these parameters in place of the stated ones."""
        p = self.parameters
        if p is None:
            return stated
        graph = p.graph(stated.graph) if options.noise == "auto" else stated.graph
        own = own_probabilities(stated.graph, options.trust_odometry)
        return Posterior(graph, stated.priors, p.likelihood(stated.graph, own) if options.robust else None)


@dataclass(frozen=True)
class _Estimate:
    """The optimum and what is known around it."""

    poses: Poses
    potential: float
    optimum: _Optimum
    curvature: Curvature
    tuning: Tuning

    @property
    def tuning_facts(self) -> dict[str, float]:
        t = self.tuning
        return {"fastest_frequency": t.fastest, "slowest_frequency": t.slowest}


def _prepare(graph: PoseGraph, options: SolveOptions) -> tuple[PoseGraph, list[str]]:
    """Refuse what cannot be solved; say what is unusual."""
    if graph.n_nodes == 0 or graph.n_edges == 0:
        raise GraphError(f"the graph has {graph.n_nodes} nodes and {graph.n_edges} edges: there is nothing to solve")
    notices = list(graph.notices)
    if options.preset == "paper":
        lam, sigma2 = (
            np.median(np.clip(graph.mean_concentration, *paper.LAMBDA)),
            math.sqrt(math.prod(paper.SIGMA2)),
        )
        notices.append(
            f"preset paper: every edge gets λ = {lam:g} and σ² = {sigma2:.3g}, the paper's ranges, in place of its own"
        )
        graph = replace(graph, concentration=np.asarray(lam), translation_precision=np.asarray(1.0 / sigma2))
    if graph.n_components > 1:
        sizes = np.sort(np.bincount(graph.component))[::-1]
        listed = ", ".join(map(str, sizes[:5])) + (", …" if len(sizes) > 5 else "")
        notices.append(
            f"the graph has {graph.n_components} components ({listed} nodes): each is solved on its own and has its own "
            "frame; poses in different components cannot be compared"
        )
    if graph.isolated:
        listed = ", ".join(map(str, graph.isolated[:5])) + (", …" if len(graph.isolated) > 5 else "")
        notices.append(
            f"nothing is measured about {len(graph.isolated)} node(s) without edges: {listed}; they stay at the origin"
        )
    if not np.all(graph.has_translation):
        count = int(np.sum(~graph.has_translation))
        notices.append(f"{count} of {graph.n_edges} edges carry a rotation only")
    return graph, notices


def _directory(directory: str | Path | None) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    if directory is not None:
        return Path(directory), None
    temporary = tempfile.TemporaryDirectory(prefix="tempose-")
    return Path(temporary.name), temporary


def _estimate(
    posterior: Posterior, options: SolveOptions, home: Path, hook: Hook | None, report: ProgressHook,
    stop: threading.Event, notices: list[str],
) -> _Estimate:  # fmt: skip
    """The optimum, computed, or taken from an earlier run of the same solve in the same directory."""
    stated, curvature = posterior, Curvature(posterior)
    optimum = _read_checkpoint(home, stated, options)
    if optimum is None:
        if options.robust or options.noise == "auto":
            optimum = _optimise_with_noise(stated, options, report)
        else:
            optimum = _optimise(stated, curvature, options, hook, report, stop)
        if options.starts > 1:
            changed = Curvature(optimum.posterior(stated, options))
            optimum = _look_elsewhere(changed, optimum, options, report, stop)
        if not stop.is_set():
            _write_checkpoint(home, stated, options, optimum)
    if optimum.parameters is not None:
        posterior = optimum.posterior(stated, options)
        curvature = Curvature(posterior)
    notices += optimum.notices
    if optimum.status in ("stalled", "diverged"):
        notices.append(f"the optimiser {optimum.status}: the estimate may be far from the best; try another start")
    elif optimum.status == "step limit":
        notices.append(
            "the optimiser had not converged when its steps were used up; allow more, or use optimiser newton"
        )
    tuning = tune(curvature, optimum.poses, identity_mass=options.mass == "identity")
    return _Estimate(optimum.poses, posterior.potential(optimum.poses), optimum, curvature, tuning)


def _optimise(
    posterior: Posterior, curvature: Curvature, options: SolveOptions, hook: Hook | None, report: ProgressHook,
    stop: threading.Event,
) -> _Optimum:  # fmt: skip
    poses = start_poses(posterior.graph, options.start, streams.generator(options.seed, "start"))
    trace = np.array([[0.0, posterior.potential(poses)]])
    status = "start"
    if options.optimiser != "newton":
        descent = _descend(posterior, curvature, poses, options, hook, report, stop)
        poses, trace, status = descent.poses, descent.trace, descent.status
    if stop.is_set():
        return _Optimum(poses, trace, status, None)
    if options.optimiser == "tg-mcmc":
        return _Optimum(poses, trace, status, certify(posterior, poses) if options.certify else None)
    report(Progress("proving" if options.certify else "optimising", 0, 1))
    if options.certify:
        solved = solve_to_certificate(posterior, poses, curvature=curvature)
        minimum, certificate = solved.minimum, solved.certificate
    else:
        minimum, certificate = minimise(curvature, poses), None
    taken = [s.potential for s in minimum.steps if s.accepted] + [minimum.potential]
    steps = trace[-1, 0] + np.arange(len(taken))
    trace = np.concatenate([trace, np.stack([steps, taken], axis=1)[1:]])
    return _Optimum(minimum.poses, trace, minimum.status, certificate)


def _optimise_with_noise(stated: Posterior, options: SolveOptions, report: ProgressHook) -> _Optimum:
    """Poses, noise levels and verdicts on the edges together; proofs are about the problem of the kept edges."""
    own = own_probabilities(stated.graph, options.trust_odometry)
    known = RobustOptions(
        options.noise,
        options.inlier_probability if options.robust else 1.0,
        {"auto": None, "gaussian": math.inf}[options.tail] if isinstance(options.tail, str) else options.tail,
    )
    if not options.robust:
        own, known = np.full(len(own), np.nan), replace(known, tail=math.inf)
    rng = streams.generator(options.seed, "start")
    hints = odometry_hints(stated.graph, own, options.trust_odometry)
    found = solve_robust(stated.graph, known, own, rng, priors=stated.priors, start=options.start, hints=hints)
    fitted = found.fit
    notices: list[str] = []
    if options.robust:
        notices += found.sentences()
        notices += in_words(fitted.graph, loose_parts(fitted.graph, fitted.inlier_probability))
    if fitted.status == "collapsed":
        notices.append("the estimated noise went to zero: too few edges check each other; give the noise instead")
    posterior = fitted.posterior if options.robust else Posterior(fitted.graph, stated.priors)
    trace = np.array([[0.0, posterior.potential(fitted.poses)]])
    status = "converged" if fitted.status == "converged" else "step limit"
    optimum = _Optimum(fitted.poses, trace, status, None, fitted.parameters, notices=tuple(notices))
    if not options.certify:
        return optimum
    report(Progress("proving", 0, 1))
    if options.robust:
        return replace(optimum, certificate=_certificate(posterior, fitted.poses))
    solved = solve_to_certificate(posterior, fitted.poses)
    return replace(optimum, poses=solved.minimum.poses, certificate=solved.certificate)


def _certificate(posterior: Posterior, poses: Poses) -> Certificate:
    """A proof about the posterior, or about the problem of the kept edges if it is robust."""
    if posterior.likelihood is None:
        return certify(posterior, poses)
    certificate = certify(kept_problem(posterior, poses), poses)
    return replace(certificate, explanation=f"{KEPT}: {certificate.explanation}")


def _look_elsewhere(
    curvature: Curvature, optimum: _Optimum, options: SolveOptions, report: ProgressHook, stop: threading.Event
) -> _Optimum:
    """Other minima of U, from random starts; the deepest of all becomes the estimate."""

    def on_start(k: int) -> bool:
        report(Progress("other starts", k, options.starts - 1))
        return not stop.is_set()

    rng = streams.generator(options.seed, "start", 1 << 32)
    found = search(curvature, options.beta, optimum.poses, options.starts - 1, rng, on_start)
    if found and found[0] is not optimum.poses:
        certificate = _certificate(curvature.posterior, found[0]) if options.certify else None
        optimum = replace(optimum, poses=found[0], status="converged", certificate=certificate)
    return replace(optimum, others=tuple(found[1:]))


def _descend(
    posterior: Posterior, curvature: Curvature, start: Poses, options: SolveOptions, hook: Hook | None,
    report: ProgressHook, stop: threading.Event,
) -> Descent:  # fmt: skip
    """TG-MCMC at β → ∞: the paper's friction and step range in its preset, else momentum suited to the graph."""
    tuning = tune(curvature, start, identity_mass=options.mass == "identity")
    if options.preset == "paper":
        scheme, friction = Scheme("boa", "paper"), options.friction or 1000.0
        step = options.step or paper_step(tuning.fastest, friction)
    else:
        scheme, step = Scheme("boa"), 0.7 * tuning.step
        friction = 0.05 / step
    schedule = (*options.anneal, (math.inf, options.optimise_steps))
    total = sum(steps for _, steps in schedule)

    def on_block(watch: Any) -> None:
        report(Progress("optimising", watch.step, total))
        if hook is not None:
            hook(watch)

    return optimise(
        posterior, start, scheme=scheme, step=step, friction=friction, key=streams.key(options.seed, "optimise"),
        schedule=schedule, coordinates=options.coordinates, inverse_mass=tuning.inverse_mass, batch=options.batch,
        tolerance=options.tolerance, on_block=on_block, should_stop=stop.is_set,
    )  # fmt: skip


def paper_step(fastest: float, friction: float) -> float:
    """The longest stable step of BOA within the paper's range: ``h²ω² < 2(1 + e^(−ch))``, with half to spare."""
    low, high = paper.STEP
    for step in np.geomspace(high, low, 50):
        if (step * fastest) ** 2 < 1.0 + math.exp(-friction * step):
            return float(step)
    return low


def _laplace(estimate: _Estimate, options: SolveOptions, notices: list[str]) -> Laplace | None:
    if estimate.tuning.laplace is None:
        notices.append("the Hessian at the estimate is not positive definite: there is no Gaussian approximation there")
        return None
    return Laplace(estimate.curvature, estimate.poses, options.beta, estimate.tuning.laplace)


def _said_of_starts(laplace: Laplace | None, others: tuple[Poses, ...], starts: int) -> str:
    if laplace is None or not others:
        return f"{starts} starts led to no other minimum of U worth mentioning"
    odds = gaussian_odds([laplace, *(Laplace(laplace.curvature, one, laplace.beta) for one in others)])
    shares = " / ".join(f"{share:.1%}" for share in odds[:5]) + (" / …" if len(odds) > 5 else "")
    return f"{starts} starts led to {len(odds)} modes; by their Gaussian approximations {shares}, the estimate's first"


def _sample(
    estimate: _Estimate, laplace: Laplace | None, options: SolveOptions, home: Path, hook: Hook | None,
    report: ProgressHook, stop: threading.Event, notices: list[str],
) -> Draws:  # fmt: skip
    posterior = estimate.curvature.posterior
    fingerprint = _fingerprint(posterior, options)
    choice = _choose(estimate, laplace, options, recorded_sampler(home / "draws", fingerprint))
    thin = choice.sampler.settings()["thin"]
    if choice.sampler.name == "geodesic" and options.thin is None and thin == MOST_THINNING:
        notices.append(
            f"this posterior mixes slowly: draws are {MOST_THINNING} steps apart and still not independent, "
            "so their σ may be too small; set --thin, or trust relative over absolute uncertainties"
        )
    plan = SamplingPlan(options.beta, options.chains, options.draws_per_chain, options.seed)
    total = options.chains * options.draws_per_chain
    lock, done = threading.Lock(), 0

    def on_draw(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            report(Progress("sampling", done, total))

    return sample(
        posterior, choice.sampler, plan, home / "draws", on_draw=on_draw, hook=hook, stop=stop,
        description={"fingerprint": fingerprint, "reason": choice.reason},
    )  # fmt: skip


def _choose(
    estimate: _Estimate, laplace: Laplace | None, options: SolveOptions, recorded: dict[str, Any] | None
) -> Choice:
    tuning = estimate.tuning
    friction = options.friction if options.friction is not None else tuning.friction
    step = options.step or (paper_step(tuning.fastest, friction) if options.preset == "paper" else tuning.step)
    dynamics = Dynamics(options.splitting, step, friction, options.beta, options.coordinates, options.batch)
    problem = Problem(
        estimate.curvature.posterior, estimate.poses, laplace, tuning, dynamics, options.thin, options.warmup,
        spread=options.preset != "paper", seed=options.seed, modes=estimate.optimum.others,
    )  # fmt: skip
    if options.sampler == "auto" and options.geodesic_options and recorded is None:
        return Choice(problem.geodesic(), f"it has the option {options.geodesic_options[0]}")
    return choose(options.sampler, problem, recorded)


def _status(estimate: _Estimate, stop: threading.Event) -> str:
    if stop.is_set():
        return "interrupted"
    return "solved" if estimate.optimum.status in ("converged", "step limit", "start") else estimate.optimum.status


# ---------------------------------------------------------------------- resuming


def _fingerprint(posterior: Posterior, options: SolveOptions) -> str:
    """What a continued run must share with the one it continues: the graph, the priors, and all options but ``draws``."""
    digest = hashlib.sha256()
    table, prior = posterior.edge_table, posterior.prior_table
    for array in (table.start, table.source, table.edge, prior.bingham, prior.mean, prior.precision):
        digest.update(np.ascontiguousarray(array).tobytes())
    facts = {k: v for k, v in options.as_dict().items() if k not in ("draws", "gauge")}
    digest.update(json.dumps([list(posterior.graph.node_ids), facts], sort_keys=True).encode())
    return digest.hexdigest()[:16]


def _write_checkpoint(home: Path, posterior: Posterior, options: SolveOptions, optimum: _Optimum) -> None:
    import io

    home.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez(
        buffer, fingerprint=_fingerprint(posterior, options), wxyz=optimum.poses.wxyz,
        position=optimum.poses.position, trace=optimum.trace, status=optimum.status,
        others_wxyz=np.array([one.wxyz for one in optimum.others]).reshape(-1, *optimum.poses.wxyz.shape),
        others_position=np.array([one.position for one in optimum.others]).reshape(-1, *optimum.poses.position.shape),
        certificate=json.dumps(certificate_facts(optimum.certificate)),
        parameters=json.dumps(None if optimum.parameters is None else asdict(optimum.parameters)),
        notices=json.dumps(optimum.notices),
    )  # fmt: skip
    write_atomically(home / "estimate.npz", buffer.getvalue())


def _read_checkpoint(home: Path, posterior: Posterior, options: SolveOptions) -> _Optimum | None:
    """The optimum of an earlier run of the same solve; one of another solve is computed anew."""
    path = home / "estimate.npz"
    if not path.exists():
        return None
    try:
        with np.load(path) as saved:
            if str(saved["fingerprint"]) != _fingerprint(posterior, options):
                return None
            poses = Poses(posterior.graph.node_ids, saved["wxyz"], saved["position"])
            certificate = certificate_from_facts(json.loads(str(saved["certificate"])))
            parameters = json.loads(str(saved["parameters"]))
            others = zip(saved["others_wxyz"], saved["others_position"], strict=True)
            return _Optimum(
                poses, saved["trace"], str(saved["status"]), certificate,
                None if parameters is None else Parameters(**parameters),
                tuple(Poses(poses.ids, *one) for one in others),
                tuple(json.loads(str(saved["notices"]))),
            )  # fmt: skip
    except (OSError, ValueError, KeyError):
        return None
