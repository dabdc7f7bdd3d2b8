"""Too little memory: said in one line, before libraries hang or die of it where that can be known."""

from __future__ import annotations

import errno
import os

from tempose._support.files import bytes_text
from tempose._support.parallel import cores

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# chosen on: a simulated graph of 300 nodes under 48 limits on memory, on two cores
_LIBRARIES, _EACH_CORE = 700_000_000, 100_000_000  # bytes that NumPy, SciPy and numba map, and threads of BLAS a core
_SAID = (
    "failed to map segment",
    "cannot allocate memory",
    "could not find/load shared object",
    "can't start new thread",
)

OUT_OF_MEMORY = (
    "out of memory: the graph, or the number of draws kept in memory, is too large for this machine; what was drawn is kept, "
    "and the same command goes on from there"
)


def total_memory() -> float:
    """Bytes that the machine has; 0 where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 0.0


def too_little() -> str | None:
    """What to say if this process may have less memory (``ulimit -v``) than its libraries take: then BLAS may wait for ever."""
    if resource is None:
        return None
    allowed, needed = resource.getrlimit(resource.RLIMIT_AS)[0], _LIBRARIES + cores() * _EACH_CORE
    if allowed == resource.RLIM_INFINITY or allowed >= needed:
        return None
    return (
        f"{bytes_text(allowed)} of memory are allowed (ulimit -v), and the libraries alone need {bytes_text(needed)}; allow more, "
        "and the same command goes on"
    )


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error, or what it came from, is that there is no memory; libraries say so in many ways."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or (isinstance(seen, OSError) and seen.errno == errno.ENOMEM):
            return True
        if isinstance(seen, ImportError | OSError | RuntimeError) and any(said in str(seen).lower() for said in _SAID):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
