"""`python -m ansorpy`: the `ansorpy` command."""

import atexit
import os
import sys

from ansorpy.server.commands.loading import INTERRUPTED, begin_loading


def main() -> None:
    """Run the command line."""
    begin_loading()
    from ansorpy.server.cli import app

    try:
        app()
    except SystemExit as ended:
        if ended.code != INTERRUPTED:
            raise
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # not by the signal: see `loading`


if __name__ == "__main__":
    main()
