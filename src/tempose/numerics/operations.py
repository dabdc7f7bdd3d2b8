"""Codes of the sampler's operations, shared by the kernels and those who compile schemes (no numba needed)."""

DRIFT = 0.0  # (DRIFT, δ, –, –)
VELOCITY = 1.0  # (VELOCITY, decay, kick, noise)
