"""The command line: parse, call the library, print. Nothing is computed here.

Exit codes: 0 done, 1 could not (one line says why), 2 wrong usage.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``tempose``; the entry point of the console script."""
    from tempose.cli.parser import build_parser
    from tempose.errors import OptionError, TemposeError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # letters that the terminal does not have are no reason to stop
    words = sys.argv[1:] if argv is None else argv
    command = next((word for word in words if not word.startswith("-")), "")
    arguments = build_parser(command).parse_args(words)
    arguments.words = list(words)
    arguments.flags = getattr(arguments, "flags", ())
    from tempose._support.memory import OUT_OF_MEMORY, is_lack_of_memory, too_little
    from tempose.cli import console

    console.notice(arguments, *getattr(arguments, "hints", ()))
    little = too_little()
    if little is not None:
        return _fail(little, 1)
    console.announce_compiling(arguments)
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()  # what cannot be written is found here, not after the end
        return code
    except OptionError as error:
        from tempose.cli.commands import with_flags

        return _fail(with_flags(str(error), arguments.flags), 2)
    except TemposeError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (tempose … | head): nothing to complain about
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", 1)
    except (MemoryError, ImportError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        return _fail(OUT_OF_MEMORY, 1)
    except OSError as error:
        if is_lack_of_memory(error):
            return _fail(OUT_OF_MEMORY, 1)
        from tempose._support.files import cannot_write, is_full, reason

        where = error.filename or "standard output"
        return _fail(str(cannot_write(where, error, 0)) if is_full(error) else f"{where}: {reason(error)}", 1)


def _fail(message: str, code: int) -> int:
    from tempose.errors import printable

    print(printable(f"tempose: {message}"), file=sys.stderr)
    return code
