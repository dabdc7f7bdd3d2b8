"""What a robust solve finds: the chosen fit, other explanations with their probabilities, and how they weigh its verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tempose._typing import AnyArray, Array, Index, NodeId
from tempose.model.poses import Poses
from tempose.outliers.competing import Alternative
from tempose.outliers.em import RobustFit

_NAMED = ("moved", "given_up", "or_instead")  # nodes and edges that an explanation names


@dataclass(frozen=True, eq=False)
class Explanation:
    """One way to read the measurements, in which wrong edges that repeat each other count once.

    Attributes
    ----------
    probability
        That it is the true one, among all that were found.
    poses
        The best poses if it is.
    prior
        Prior inlier probability (m,) of each edge, if it is.
    moved
        Rows of the nodes that lie elsewhere than in the most probable explanation, relative to most of the others.
    given_up
        Links between consecutive ids that it calls wrong.
    or_instead
        Links near these of which one may be the wrong one instead: if so, the nodes between lie elsewhere. Its probability counts
        all of these cases; its poses are of the most probable.
    """

    probability: float
    poses: Poses
    prior: Array
    moved: Index
    given_up: Index
    or_instead: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Weighing:
    """Explanations, the reported one first, and what they mean for the verdicts on edges.

    An edge that is right with probability p, if the first explanation is true, is right with ``share · p + rest``: ``share`` (m,)
    is the probability of the first explanation, less where it may be that nothing places a part, and ``rest`` (m,) the probability
    that another one is true and the edge right.

    ``loose`` (n,) is set where explanations differ in how single edges join parts (:mod:`tempose.outliers.joins`): the number of
    the part that each node is in, −1 for those that no contested edge holds.
    ``of_solutions`` is set where explanations are solutions between which nothing decides (:mod:`tempose.outliers.undecided`).
    Else edges have counted by place.
    """

    explanations: tuple[Explanation, ...]
    share: Array
    rest: Array
    loose: Index | None = None
    of_solutions: bool = False

    def verdict(self, inlier_probability: Array) -> Array:
        """Probability (m,) that each edge is right, from that given the first explanation."""
        return np.asarray(np.clip(self.share * inlier_probability + self.rest, 0.0, 1.0))

    def arrays(self) -> dict[str, AnyArray]:
        """Plain arrays, for files."""
        n, m = len(self.explanations[0].poses), len(self.share)
        named = {name: np.zeros((len(self.explanations), n if name == "moved" else m), dtype=bool) for name in _NAMED}
        for k, one in enumerate(self.explanations):
            for name, marked in named.items():
                marked[k, getattr(one, name)] = True
        stacked = {
            name: np.stack([np.asarray(getattr(one.poses, name)) for one in self.explanations])
            for name in ("wxyz", "position")
        }
        return {
            "probability": np.array([one.probability for one in self.explanations]),
            **stacked,
            "prior": np.stack([one.prior for one in self.explanations]),
            **named, "share": self.share, "rest": self.rest,
            **({} if self.loose is None else {"loose": self.loose}), "of_solutions": np.array(self.of_solutions),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, ids: tuple[NodeId, ...], saved: Mapping[str, Any]) -> Weighing:
        """The inverse of :meth:`arrays`."""
        explanations = tuple(
            Explanation(
                float(saved["probability"][k]),
                Poses(ids, saved["wxyz"][k], saved["position"][k]),
                saved["prior"][k],
                **{name: np.flatnonzero(saved[name][k]) for name in _NAMED},
            )
            for k in range(len(saved["probability"]))
        )
        return cls(
            explanations, saved["share"], saved["rest"], saved.get("loose"), bool(saved.get("of_solutions", False))
        )


@dataclass(frozen=True, eq=False)
class Competitor:
    """Another solution that explains the measurements nearly as well.

    Attributes
    ----------
    fit
        The solution.
    log_odds
        Of the chosen solution against this one, by the model's evidence; it takes wrong edges for independent of each other,
        so that large odds are overstated where they are not.
    moved
        Rows of the nodes that lie elsewhere, relative to most of the others.
    kept, kept_by_chosen
        Edges that each of the two accepts.
    """

    fit: RobustFit
    log_odds: float
    moved: Index
    kept: int
    kept_by_chosen: int


@dataclass(frozen=True, eq=False)
class RobustSolution:
    """The chosen fit; those that compete with it, the likeliest first; and what else distrusted edges agree on.

    ``weighing`` are explanations, with their probabilities, if there are any.
    """

    fit: RobustFit
    competitors: tuple[Competitor, ...]
    alternatives: tuple[Alternative, ...] = ()
    weighing: Weighing | None = None


def is_by_place(weighing: Weighing | None) -> bool:
    """Whether loop closures that say the same have counted once."""
    return weighing is not None and weighing.loose is None and not weighing.of_solutions


def is_undecided(weighing: Weighing | None) -> bool:
    """Whether explanations are solutions between which odds do not decide."""
    return weighing is not None and weighing.of_solutions
