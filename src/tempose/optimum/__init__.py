"""The optimum: starting points, Newton's method, the certificate, the Gaussian approximation."""

from tempose.optimum.options import Newton, TgMcmc

__all__ = ["Newton", "TgMcmc"]
