"""`python -m ansorpy.server.worker CORE ...`: the embedded worker, started by a supervisor."""

import sys

from ansorpy.server.worker.main import embedded

embedded([int(core) for core in sys.argv[1:]])
