"""From a graph with wrong edges to its robust posterior: whether a chain is whole."""

from __future__ import annotations

import numpy as np

import tempose
from tempose.outliers.clusters import Clusters
from tempose.outliers.estimate import _is_whole
from tempose.outliers.sequence import Sequence


def test_a_look_alike_that_was_seen_often_does_not_break_a_chain() -> None:
    """Two right loop closures, and four edges that agree on one displaced place: the chain predicts a third of the edges."""
    build = tempose.GraphBuilder(planar=True)

    def add(a: int, b: int, shift: float = 0.0) -> None:
        build.add_edge(a, b, angle=0.0, translation=[b - a + shift, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)

    for k in range(40):
        add(k, k + 1)
    for a, b, shift in ((2, 20, 0.0), (12, 30, 0.0), *((25 + k, 36 + k, 9.0) for k in range(4))):
        add(a, b, shift)
    sequence = Sequence.of(build.build())
    assert sequence is not None
    clusters = Clusters.of(sequence, sequence.chain_poses, 0.02, 0.1)
    assert clusters.count == 3
    everything = np.ones(46, dtype=bool)
    predicted = np.arange(46) < 42
    for given_up, whole in (([], False), ([25], False), ([25, 26], True), ([25, 26, 27], True)):
        kept = everything.copy()
        kept[given_up] = False
        assert _is_whole(clusters, predicted, kept) is whole
    assert _is_whole(clusters, everything, everything)  # nothing is missed
    nothing = np.arange(46) < 40
    assert not _is_whole(clusters, nothing, np.arange(46) != 25)  # three clusters speak for one wrong link
