"""The command line: parse, call the library, print. Nothing is computed here.

Exit codes: 0 done, 1 could not (one line says why), 2 wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tempose``; the entry point of the console script."""
    from tempose.cli.parser import build_parser
    from tempose.errors import OptionError, TemposeError

    words = sys.argv[1:] if argv is None else argv
    command = next((word for word in words if not word.startswith("-")), "")
    arguments = build_parser(command).parse_args(words)
    arguments.words = list(words)
    from tempose.cli import console

    console.notice(arguments, *getattr(arguments, "hints", ()))
    try:
        return int(arguments.run(arguments))
    except OptionError as error:
        return _fail(str(error), 2)
    except TemposeError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (tempose … | head): nothing to complain about
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", 1)
    except MemoryError:
        return _fail(
            "out of memory: the graph, or the number of draws kept in memory, is too large for this machine", 1
        )


def _fail(message: str, code: int) -> int:
    print(f"tempose: {message}", file=sys.stderr)
    return code
