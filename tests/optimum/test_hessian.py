"""What the Hessian says about nodes that nothing holds, and about those that only rounding loses."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tempose
from tempose import describe
from tempose.io import read_graph
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature

HEADER = "i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau\n"


def graph(tmp_path: Path, rows: str) -> tempose.PoseGraph:
    (tmp_path / "g.csv").write_text(HEADER + rows)
    return read_graph(tmp_path / "g.csv")


def test_whole_motions_tie_nodes(tmp_path: Path) -> None:
    rows = "a,b,1,0,0,0,1,0,0,50,100\nb,c,1,0,0,0,1,0,0,50,100\nc,d,1,0,0,0,,,,50,\nd,e,1,0,0,0,1,0,0,50,100\n"
    found = Curvature(Posterior(graph(tmp_path, rows)))
    assert found.is_tied.tolist() == [True, True, True, False, False]  # the position of d is anywhere


def test_what_rounding_loses_is_not_called_loose(tmp_path: Path) -> None:
    """Error bars of a long chain grow beyond double precision: every node is measured all the same."""
    rows = "".join(f"{k},{k + 1},1,0,0,0,1e9,0,0,1,1e9\n" for k in range(6))
    one = graph(tmp_path, rows)
    solution = tempose.solve(one, draws=0, certify=False)
    curvature = Curvature(Posterior(one))
    loose = curvature.loose_nodes(solution.estimate)
    assert len(loose) and np.all(curvature.is_tied[loose])
    assert any("grow along 7 nodes beyond what double precision holds" in line for line in solution.notices)
    assert not any("can move without contradicting" in line for line in solution.notices)


def test_what_nothing_holds_is_named(tmp_path: Path) -> None:
    one = graph(tmp_path, "a,b,1,0,0,0,1,0,0,50,100\nb,c,1,0,0,0,1,0,0,50,100\n")
    nobody = np.zeros(3, dtype=bool)
    assert describe.loose(one, np.array([], dtype=np.int64), nobody) == describe.NO_GAUSSIAN
    said = describe.loose(one, np.array([1, 2]), np.array([True, True, False]))
    assert "1 node (c) can move without contradicting any measurement" in said
