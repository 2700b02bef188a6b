"""A worker, as `ansorpy worker`, with the driver of the storm."""

from functools import partial

from ansorpy.server.settings import Settings
from ansorpy.server.worker.main import work
from ansorpy.server.worker.process import DriverProcess
from ansorpy.server.worker.stop import Stop

work(Settings(), Stop(), partial(DriverProcess, module="tests.storm.driver"))
