"""The optimum: starting points, Newton's method, the certificate, the Gaussian approximation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.optimum.certificate import Certificate as Certificate
    from tempose.optimum.certificate import Proof as Proof
    from tempose.optimum.laplace import Laplace as Laplace
    from tempose.optimum.options import Newton as Newton
    from tempose.optimum.options import TgMcmc as TgMcmc

_WHERE = {
    "Certificate": "certificate",
    "Laplace": "laplace",
    "Newton": "options",
    "Proof": "certificate",
    "TgMcmc": "options",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
