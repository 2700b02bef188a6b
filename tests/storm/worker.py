"""A worker like `ansorpy worker`, with the tuner process of the storm."""

from functools import partial

from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.main import work
from ansorpy.server.worker.stop_flag import StopFlag
from ansorpy.server.worker.tuner_process import TunerProcess

work(ServiceSettings(), StopFlag(), partial(TunerProcess, module="tests.storm.tuner"))
