"""`python -m ansorpy.server.worker CORE ...`: what a supervisor starts."""

import sys

from ansorpy.server.worker.main import embedded

embedded([int(core) for core in sys.argv[1:]])
