"""A worker, as `ansorpy worker`, with the driver of the storm."""

from functools import partial

from server.settings import Settings
from server.worker.main import work
from server.worker.process import DriverProcess
from server.worker.stop import Stop

work(Settings(), Stop(), partial(DriverProcess, module="tests.storm.driver"))
