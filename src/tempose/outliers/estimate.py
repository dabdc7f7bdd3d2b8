"""From a graph with wrong edges to its robust posterior, and the problem of the edges that it keeps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tempose._typing import Array, Mask
from tempose.errors import NotApplicable
from tempose.model.graph import PoseGraph
from tempose.model.order import known_order, steps_apart
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import outlier_spread
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import lowered
from tempose.optimum.prediction import predictions
from tempose.optimum.starts import start_poses
from tempose.outliers.beliefs import current_beliefs
from tempose.outliers.chained import moved_nodes, solve_explained
from tempose.outliers.competing import alternatives
from tempose.outliers.correlation import chain_correlation, weighted
from tempose.outliers.em import RobustFit, fit, originals
from tempose.outliers.explanations import Candidates, ExplanationSearch
from tempose.outliers.joins import likeliest_joins, rejoined
from tempose.outliers.loose_parts import ACCEPTED, spread
from tempose.outliers.noise import RobustOptions
from tempose.outliers.reading import Candidate
from tempose.outliers.repeats import Repeats, counted_once, in_doubt
from tempose.outliers.search.basin import find_basins
from tempose.outliers.search.ears import grow_by_ears
from tempose.outliers.search.growing import Grown, extent, grow_from_chain
from tempose.outliers.search.skeleton import Skeleton, skeleton
from tempose.outliers.sequence import Sequence
from tempose.outliers.solutions import Competitor, RobustSolution, Weighing
from tempose.outliers.undecided import accepts, odds_decide, undecided

MOST_STEPS = 5  # ids apart that odometry speaks for
_USUAL_TRUST = 0.99  # in odometry, as the option has it by default
_HOLDS = 1e-12  # weight of an edge below which it holds nothing together
_MUCH_LESS = 7.0  # nats: a thousand to one
_DRAWING = 10  # steps of Newton's method, to edges that are drawn in
_MOST_FITS = 6  # basins that are fitted with all parameters
_SOFT = (8.0, 4.0)  # ν of heavy tails that soften a Gaussian core
_MOST_UNTRUSTING = 2  # and of those found without trusting any edge
_LARGE = 5000  # edges: beyond, only the best basin is
_LINKS_BEFOREHAND = (9.0, 1.0)  # right and wrong links that were seen before: Beta prior of their share
_LINK_ROUNDS = 3  # of fits, between which that share is estimated
_SAME_SHARE = 0.7  # change of the logarithm of the share of wrong links: their verdicts hardly depend on less
# chosen on: 3DMatch, all five scenes, and simulated graphs of the experiment robust
_MUCH_WIDER = 3.0  # times σ of rotations: another idea of the noise, not another explanation
# chosen on: 3DMatch, all five scenes, and simulated graphs of the experiment robust
_NEARLY_AS_GOOD = 0.05  # share of the accepted edges by which a competing solution may fall short


def own_probabilities(
    graph: PoseGraph, trust_odometry: float | None = None, between: tuple[int, int] | None = None
) -> Array:
    """Prior inlier probabilities (m,) of the edges that have one of their own, NaN for the others.

    The graph's ``inlier_prior`` comes first; then ``trust_odometry``, for edges between poses of consecutive numbers
    (:mod:`tempose.model.order`), of those from ``between[0]`` to ``between[1]`` if that is given.
    """
    own = np.full(graph.n_edges, np.nan)
    if trust_odometry is not None:
        order = known_order(graph)
        consecutive = steps_apart(graph) == 1
        if between is not None:
            inside = (order.label >= between[0]) & (order.label <= between[1])
            consecutive &= inside[graph.edge_i] & inside[graph.edge_j]
        if not np.any(consecutive):
            raise NotApplicable("there is no odometry to trust: no edge joins consecutive ids")
        own[consecutive] = trust_odometry
    if graph.inlier_prior is not None:
        own = np.where(np.isnan(graph.inlier_prior), own, graph.inlier_prior)
    return own


def odometry_hints(graph: PoseGraph, own: Array, trust_odometry: float | None = None) -> Array:
    """The same for the search of basins: edges that skip one to four ids count p² … p⁵.

    Where a step of the odometry was not measured, they stand in for it. They are hints only: the model does not know them.
    """
    if trust_odometry is None:
        return own
    steps = steps_apart(graph)
    return np.where(
        np.isnan(own) & (steps > 0) & (steps <= MOST_STEPS), trust_odometry ** np.minimum(steps, MOST_STEPS), own
    )


def solve_robust(
    graph: PoseGraph, options: RobustOptions, own: Array, rng: np.random.Generator, *,
    start: str = "chordal", hints: Array | None = None, by_cluster: bool = True,
) -> RobustSolution:  # fmt: skip
    """Poses and parameters: from the poses of the file if these are asked for, else from every basin that is found.

    If ids are an order in time, wrong edges that repeat each other count once, and explanations have probabilities
    (:mod:`tempose.outliers.explanations`). Else, and in graphs too large for that, the prior trust in edges decides between
    basins, if there is any; then the evidence. In large graphs whose ids are an order in time, loop closures that say the same
    count once there, too.

    Parameters
    ----------
    own
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    hints
        The same for the search alone (:func:`odometry_hints`).
    by_cluster
        Whether edges that repeat each other may count once; else all wrong edges are taken for independent.
    """
    searched = start != "given" and bool(np.any(graph.has_rotation & ~graph.is_absolute))
    searched = searched and not (options.inlier_probability == 1.0 and np.all(np.isnan(own)))  # else no edge is wrong
    if searched:
        bones = skeleton(graph).once(originals(graph))
        sequence = Sequence.of(bones.graph)
        if sequence is not None:
            beliefs = current_beliefs().expecting(options.inlier_probability)
            search = ExplanationSearch(sequence, own[bones.edges], rng, beliefs)
            if not (by_cluster and search.is_feasible):
                return _solve_long(graph, bones, search, options, own, rng, hints, by_cluster)
            options = replace(options, outlier_sigma=options.outlier_sigma or extent(sequence.chain_poses))
            usual, hints = _usual_trust(graph, bones, search, own, hints)
            candidates = explain(search, bones, hints, grow_from_chain(sequence, usual[bones.edges]))
            return solve_explained(graph, bones, search, candidates, options, own)
    starts = _starts(graph, own, rng, start, hints, searched)
    fits = [fit(graph, poses, options, own_probability=own) for poses in starts]
    found = _solution(_most_evident(_trusting(fits, own)), fits)
    if not (searched and by_cluster and (found.competitors or found.alternatives)) or odds_decide(found):
        return found
    return undecided(found, own, options)


def _solve_long(
    graph: PoseGraph, bones: Skeleton, search: ExplanationSearch, options: RobustOptions, own: Array,
    rng: np.random.Generator, hints: Array | None, by_cluster: bool,
) -> RobustSolution:  # fmt: skip
    """Of a graph whose ids are an order in time and that is too large to search all explanations: one fit for every start."""
    sequence, links, repeats = search.sequence, np.zeros(graph.n_edges, dtype=bool), Repeats.none(graph.n_edges)
    links[bones.edges] = sequence.is_link
    grown, wide = grow_from_chain(sequence, own[bones.edges]), extent(sequence.chain_poses)
    eared = grow_by_ears(sequence.graph, sequence.is_link, wide, rng.spawn(1)[0], own[bones.edges])
    likeliest = search.survey([grown.poses], grown.factor)
    if by_cluster:
        repeats = Repeats.of(search.clusters, bones.edges)
    stated_spread = options.outlier_sigma or outlier_spread(bones.graph)
    options = replace(options, outlier_sigma=options.outlier_sigma or wide)

    def fitted(poses: Poses, options: RobustOptions) -> RobustFit:
        return counted_once(_fit(graph, poses, options, own, links), repeats)

    def believable(among: list[RobustFit]) -> list[RobustFit]:
        """Those that believe what was trusted and that do not make many mistakes of few, the one of most evidence first."""
        among = _trusting(among, own)
        among = _of_few_mistakes(among, search, bones, repeats) if by_cluster else among
        return sorted(among, key=lambda found: -found.log_evidence)

    first = [bones.completed(poses) for poses in (grown.poses, *(one.poses for one in eared), likeliest.poses)]
    least = _least_scales(sequence, likeliest, rng.spawn(1)[0]) if options.noise == "auto" else (0.0, 0.0)
    if max(least) > 0.0 and _is_whole(
        likeliest, believable([fitted(poses, options) for poses in first])[0], search, bones
    ):
        options = replace(options, least_scales=least)
    fits = [fitted(poses, options) for poses in (*first, *_starts(graph, own, rng, "chordal", hints, True))]
    near = replace(options, outlier_sigma=stated_spread)
    # whoever calls many edges wrong looks improbable where wrong translations may be long: the likeliest is always asked again
    again = [*believable(fits)[:_MOST_UNTRUSTING], fits[len(first) - 1]]
    fits += [fitted(found.poses, near) for found in dict.fromkeys(again)]
    options = replace(options, outlier_sigma=believable(fits)[0].parameters.outlier_sigma)
    fits.append(fitted(rejoined(believable(fits)[0], bones), options))
    fits += [fitted(poses, options) for poses in _softened(graph, believable(fits)[0], options, own, links)]
    fits += [counted_once(found, repeats) for found in _drawn_in(graph, believable(fits)[0], options, own, links)]
    chosen, weighing = believable(fits)[0], None
    if by_cluster and bones.is_all:  # fixes and landmarks hold parts, too
        chosen, weighing = likeliest_joins(chosen, bones, lambda poses: fitted(poses, options))
    return _solution(chosen, fits, weighing)


def _solution(chosen: RobustFit, fits: list[RobustFit], weighing: Weighing | None = None) -> RobustSolution:
    """The chosen fit, and what else the measurements may say."""
    competitors = _competitors(chosen, fits)
    agreed = alternatives(chosen.graph, chosen.poses, chosen.inlier_probability)
    new = [one for one in agreed if not any(accepts(rival.fit, one.edges) for rival in competitors)]
    return RobustSolution(chosen, competitors, tuple(new), weighing)


def _most_evident(fits: list[RobustFit]) -> RobustFit:
    return max(fits, key=lambda found: found.log_evidence)


def explain(search: ExplanationSearch, bones: Skeleton, hints: Array | None, grown: Grown) -> Candidates:
    """Explanations of a graph whose ids are an order in time, from what grows from the chain and the basins of a search."""
    basins = find_basins(bones.graph, own_probability=None if hints is None else hints[bones.edges]).basins
    return search.run([grown.poses, *(basin.poses for basin in basins[:_MOST_FITS])], grown.factor)


def _usual_trust(
    graph: PoseGraph, bones: Skeleton, search: ExplanationSearch, own: Array, hints: Array | None
) -> tuple[Array, Array | None]:
    """Prior inlier probabilities (m,) and hints to begin a search with: links that are trusted alike are trusted as usual.

    So where a search begins does not depend on how much they are trusted.
    """
    alike = np.flatnonzero(bones.edges)[search.trusted_alike]
    if not len(alike):
        return own, hints
    usual = own.copy()
    usual[alike] = _USUAL_TRUST
    spread_on = hints is not None and not np.array_equal(hints, own, equal_nan=True)
    return usual, odometry_hints(graph, usual, _USUAL_TRUST) if spread_on else usual


def _is_whole(likeliest: Candidate, found: RobustFit, search: ExplanationSearch, bones: Skeleton) -> bool:
    """Whether an explanation that gives up no link is at least as probable as a fit that may give some up."""
    kept = found.inlier_probability[bones.edges] > ACCEPTED
    return len(likeliest.given_up) == 0 and search.log_score_of(likeliest.fits) >= search.log_score_of(kept)


def _least_scales(sequence: Sequence, likeliest: Candidate, rng: np.random.Generator) -> tuple[float, float]:
    """Factors of the stated noise of rotations and translations with which correlated errors add up to what they do; 0 if none are.

    They are told from the whole chain and all loop closures that agree with it in the likeliest explanation: a fit that takes
    errors for independent explains drift by links given up, and noise that is too small. An explanation that gives links up says
    nothing of the kind: what a chain with wrong links misses by is no drift.
    """
    if len(likeliest.given_up) or not np.any(likeliest.fits & ~sequence.chain & ~sequence.is_link):
        return 0.0, 0.0
    kept = sequence.graph.with_edges(likeliest.fits | sequence.is_link)
    found = fit(kept, likeliest.poses, RobustOptions("auto", 1.0, math.inf))
    check = chain_correlation(Posterior(found.graph), found.poses, rng)
    if check is None or max(check.widening) == 1.0:
        return 0.0, 0.0
    wider, p = check.widening, found.parameters
    return p.rotation_scale * wider[0], p.translation_scale * wider[1]


def _fit(graph: PoseGraph, start: Poses, options: RobustOptions, own: Array, links: Mask) -> RobustFit:
    """A fit in which links (m,) that nobody says how to trust have a share of right ones of their own.

    It is the mean of its Beta distribution, given those that the fit keeps; first as if it kept all.
    """
    free = links & np.isnan(own)
    if options.inlier_probability is not None or not np.any(free):
        return fit(graph, start, options, own_probability=own)
    (a, b), count = _LINKS_BEFOREHAND, int(free.sum())
    share, found, poses, first = (count + a) / (count + a + b), None, start, None
    for _ in range(_LINK_ROUNDS):
        found = fit(graph, poses, options, own_probability=np.where(free, share, own), first=first)
        lost = float(np.sum(1.0 - found.inlier_probability[free]))
        before, share = share, (count - lost + a) / (count + a + b)
        if abs(math.log((1.0 - share) / (1.0 - before))) < _SAME_SHARE:
            break
        poses, first = found.poses, found.parameters
    assert found is not None
    return found


def _softened(graph: PoseGraph, chosen: RobustFit, options: RobustOptions, own: Array, links: Mask) -> list[Poses]:
    """Poses of the best fit, settled with heavy tails: an edge that is a little too far off for a Gaussian core still pulls there.

    Where the core is Gaussian, a long way can stay in a minimum of U at which edges of its kept part are drawn aside.
    """
    if chosen.parameters.tail <= max(_SOFT) or graph.n_edges > _LARGE:
        return []
    return [_fit(graph, chosen.poses, replace(options, tail=tail), own, links).poses for tail in _SOFT]


def _drawn_in(graph: PoseGraph, chosen: RobustFit, options: RobustOptions, own: Array, links: Mask) -> list[RobustFit]:
    """The same fit drawn to edges that it rejects although they are right by what the others predict, if there are any.

    An edge that a part of the graph has settled without is far off there, as nothing but its neighbours holds the part: a minimum
    of U that Newton's method does not leave. The noise is that of the fit: estimated anew it would come out too small at first,
    and lose the edge again.
    """
    posterior, poses = chosen.posterior, chosen.poses
    curvature, energy = Curvature(posterior), chosen.energies
    try:
        factor = curvature.factor(poses.wxyz, poses.position, exact=False)
    except NotPositiveDefiniteError:
        return []
    sigma = Laplace(curvature, poses, 1.0, factor, exact=False).edge_covariances()
    found = predictions(chosen.graph, poses, sigma, chosen.likelihood.weight(energy))
    right = chosen.likelihood.predicted_probability(*found.distance, found.log_spread) > ACCEPTED
    kept = chosen.inlier_probability > ACCEPTED
    if not np.any(right & ~kept & (found.distance[1] > 0)):
        return []
    near = chosen.graph.with_edges(kept | (right & (found.distance[1] > 0)))
    poses = lowered(Curvature(Posterior(near)), poses, max_steps=_DRAWING)
    known = np.where(links & np.isnan(own), chosen.likelihood.prior, own)
    return [fit(graph, poses, options, own_probability=known, first=chosen.parameters)]


def _starts(
    graph: PoseGraph, own: Array, rng: np.random.Generator, start: str, hints: Array | None, searched: bool
) -> list[Poses]:
    """Poses to begin with: the basins of a search with what is trusted, some without, and the chordal relaxation."""
    if start == "given":
        return [start_poses(graph, "given", rng)]
    if not searched:
        return [start_poses(graph, kind, rng) for kind in ("chordal", "tree")]
    basins = find_basins(graph, own_probability=own if hints is None else hints).basins
    if graph.n_edges > _LARGE:
        return [basins[0].poses]
    starts = [basin.poses for basin in basins[:_MOST_FITS]]
    if not np.all(np.isnan(own)):  # what the measurements alone would prefer
        starts += [basin.poses for basin in find_basins(graph).basins[:_MOST_UNTRUSTING]]
    return [*starts, start_poses(graph, "chordal", rng)]


def _trusting(fits: list[RobustFit], own: Array) -> list[RobustFit]:
    """The fits that believe what was trusted beforehand, give or take three of the most trusted edges.

    Wrong edges that agree with each other can outweigh any prior probability of a few right ones, since the model takes them for
    independent; so what is trusted decides between basins, and evidence within.
    """
    trusted = np.nan_to_num(own, nan=0.5) > 0.5
    if not np.any(trusted):
        return fits
    odds = np.clip(own[trusted], 0.5, 0.999)
    log_odds = np.log(odds / (1.0 - odds))
    kept = [float(found.inlier_probability[trusted] @ log_odds) for found in fits]
    enough = max(kept) - 3.0 * float(log_odds.max())
    return [found for found, trust in zip(fits, kept, strict=True) if trust >= enough]


def _of_few_mistakes(
    fits: list[RobustFit], search: ExplanationSearch, bones: Skeleton, repeats: Repeats
) -> list[RobustFit]:
    """The fits that are not out because another one is much more probable if links and clusters are counted, not edges.

    Evidence counts a look-alike that a fit keeps as often as it was seen: enough of it makes any link wrong. That it was one
    mistake is in the score of explanations (:meth:`ExplanationSearch.log_score_of`), which decides where evidence may not be able
    to: if the other fit has as much, should what it rejects repeat itself exactly. A fit that calls nothing wrong because it takes
    all noise for several times larger than the one of most evidence does is no explanation.
    """
    best = _most_evident(fits)
    fits = [one for one in fits if all(a <= _MUCH_WIDER * b for a, b in zip(_scales(one), _scales(best), strict=True))]
    scores = [search.log_score_of(found.inlier_probability[bones.edges] > ACCEPTED) for found in fits]
    at_most = [found.log_evidence + in_doubt(found, repeats) for found in fits]
    rivals = list(zip(scores, at_most, strict=True))

    def is_out(found: RobustFit, score: float) -> bool:
        return any(other > score + _MUCH_LESS and most >= found.log_evidence for other, most in rivals)

    return [found for found, score in zip(fits, scores, strict=True) if not is_out(found, score)]


def _scales(found: RobustFit) -> tuple[float, float]:
    return found.parameters.rotation_scale, found.parameters.translation_scale


def _competitors(chosen: RobustFit, fits: list[RobustFit]) -> tuple[Competitor, ...]:
    """Fits that keep nearly as many edges as the chosen one, but others; of those that are alike, the likeliest.

    A less probable one that keeps edges by taking all noise for several times larger is none, nor is one that keeps no edge that
    the chosen one rejects.
    """
    accepted = chosen.inlier_probability > ACCEPTED
    found: list[Competitor] = []
    seen = [accepted]
    for other in sorted(fits, key=lambda one: -one.log_evidence):
        here = other.inlier_probability > ACCEPTED
        if here.sum() < (1.0 - _NEARLY_AS_GOOD) * accepted.sum():
            continue
        less_probable = other.log_evidence < chosen.log_evidence
        if less_probable and not np.any(here & ~accepted):
            continue
        if less_probable and _spread(other)[0] > _MUCH_WIDER * _spread(chosen)[0]:
            continue
        if any(np.sum(here != before) <= 0.02 * accepted.sum() for before in seen):
            continue
        seen.append(here)
        moved = moved_nodes(chosen.graph, chosen.poses, other.poses, _spread(chosen), landmarks=True)
        if len(moved):
            found.append(
                Competitor(other, chosen.log_evidence - other.log_evidence, moved, int(here.sum()), int(accepted.sum()))
            )
    return tuple(found)


def _spread(found: RobustFit) -> tuple[float, float]:
    return spread(found.graph, found.poses, found.inlier_probability > ACCEPTED)


def kept_problem(posterior: Posterior, poses: Poses) -> Posterior:
    """The ordinary problem of the kept edges: every edge weighted by ρ′, its inlier probability (times its core's weight).

    A stationary point of the robust U is one of this problem, so what can be proven about the ordinary problem can be
    proven about its poses, as long as it is the right edges that were kept.
    """
    if posterior.likelihood is None:
        return posterior
    weight, graph = posterior.likelihood.weight(posterior.energies(poses)), posterior.graph
    holding = weight > _HOLDS
    if (
        graph.with_edges(holding).n_components > graph.n_components
    ):  # parts that nothing holds are problems of their own
        graph, weight = graph.with_edges(holding), weight[holding]
    return Posterior(weighted(graph, weight))
