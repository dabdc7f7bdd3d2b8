"""Compiled hot loops: plain arrays in, plain arrays out, no validation.

Every kernel has a readable twin: the potential in :mod:`tempose.posterior`, the steps of the sampler in
``tests/twins.py``. All sums run in an order fixed by the graph alone, so results are the same to the last bit
whatever the number of threads.
"""
