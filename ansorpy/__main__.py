"""`python -m ansorpy`: the `ansorpy` command."""

import atexit
import os
import sys

from ansorpy.server.commands.loading import begin_loading


def main() -> None:
    """Run the command line.

    The process ends without the interpreter's own end, which takes up to a second to free memory
    that the system frees at once, and without the signal of an interrupt (see `loading`).
    """
    begin_loading()
    from ansorpy.server.cli import app

    try:
        app()
    except SystemExit as ended:
        code = ended.code
        if not isinstance(code, int | None):
            raise
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    main()
