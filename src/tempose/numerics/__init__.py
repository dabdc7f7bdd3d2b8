"""Compiled hot loops: plain arrays in, plain arrays out, no validation.

This room lies below the model: kernels are functions of plain arrays and know no graph, no poses and no posterior; the
model leans on them. :mod:`tempose.numerics.layout` says how the arrays must look.

Every kernel has a readable twin: the potential in :mod:`tempose.model.posterior`, the steps of the sampler in
``tests/helpers/twins.py``. All sums run in an order fixed by the graph alone, so results are the same to the last bit
whatever the number of threads.
"""

import os

# Threads that spin while they wait make a busy machine a hundred times slower; read when the first of them starts.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
