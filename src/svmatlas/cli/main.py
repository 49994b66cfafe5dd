"""The command line: ``svmatlas`` or ``python -m svmatlas``.

Results go to standard output, progress and errors to standard error; ``--json`` prints one object for programs. Errors are
one line. Arguments are read (parser.py) before anything heavy is imported (commands.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from svmatlas.cli.parser import make_parser

OK, BAD_INPUT, INTERRUPTED = 0, 2, 130
"""Exit codes: done; wrong use or data; Ctrl-C. That of an answer that is no is in commands.py."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        from argcomplete import autocomplete

        autocomplete(parser)
    arguments = parser.parse_args(argv)
    try:
        from svmatlas.cli.commands import COMMANDS

        code = COMMANDS[arguments.command](arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, as in "| head"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return BAD_INPUT
    except (ValueError, ImportError, MemoryError) as error:
        _complain(" ".join(str(error).split()) or type(error).__name__)
        return BAD_INPUT


def _complain(message: str) -> None:
    print(f"svmatlas: {message}", file=sys.stderr)
