"""A cluster of machines as an executor: dask.distributed, which is optional."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import cast

from tempose._support.packages import require
from tempose.errors import OptionError

WAIT_SECONDS = 10.0
WAIT_FOR_WORKERS_SECONDS = 30.0
"""Workers that were lost come back by themselves, which takes a busy machine a while."""


@contextmanager
def workers(address: str | None) -> Iterator[Executor | None]:
    """The workers of a scheduler as an executor, for as long as the context lasts; ``None`` without an address.

    Parameters
    ----------
    address
        Of the scheduler, as ``dask scheduler`` prints it: ``tcp://host:8786``. Workers must have the same version of tempose, and
        see the same files where a command reads or writes some. What a worker that dies was computing is computed by another.

    Raises
    ------
    OptionError
        If nobody answers there, or no worker comes.
    MissingPackage
        Without dask.distributed (``pip install 'tempose[cluster]'``).
    """
    if address is None:
        yield None
        return
    distributed = require("distributed", "work on a cluster")
    try:
        client = distributed.Client(address, timeout=WAIT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        hint = "expected the address that dask scheduler prints, tcp://HOST:8786"
        raise OptionError(f"no scheduler answers at {address!r} ({type(error).__name__}); {hint}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=WAIT_FOR_WORKERS_SECONDS)
        except TimeoutError:
            raise OptionError(f"the scheduler at {address} has no workers; start some: dask worker {address}") from None
        with client.get_executor(pure=False) as executor:
            yield cast(Executor, executor)
