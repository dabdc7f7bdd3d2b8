"""Sparse direct linear algebra on matrices of small dense blocks."""

from .block_cholesky import Factor, NotPositiveDefiniteError, Symbolic, analyze

__all__ = ["Factor", "NotPositiveDefiniteError", "Symbolic", "analyze"]
