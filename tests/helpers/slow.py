"""How large the slow tests are: so that ``.ci/slow`` takes less than an hour on two cores, or as large as they can be."""

from __future__ import annotations

import os


def slow_size(within_the_hour: int, full: int) -> int:
    """The first, or the second where ``TEMPOSE_SLOW=full`` is set (``.ci/slow --full``)."""
    return full if os.environ.get("TEMPOSE_SLOW") == "full" else within_the_hour
