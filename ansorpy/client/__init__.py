"""The client of the service, and kernels by their digest.

>>> from ansorpy import Client
>>> job = Client("http://127.0.0.1:8720").submit(text=..., trials=64)
>>> kernel = ansorpy.load("sha256:...")

`connection` speaks HTTP, `model` has the values of replies, `service` is the client, `model_calls`
its calls about models, `load` makes a digest callable.
"""

from ansorpy.client.connection import ServiceError
from ansorpy.client.load import KernelCache, load
from ansorpy.client.model import Event, Job, JobLine, TaskState
from ansorpy.client.model_calls import Model, ModelLine, Simplification
from ansorpy.client.service import Client

__all__ = [
    "Client",
    "Event",
    "Job",
    "JobLine",
    "KernelCache",
    "Model",
    "ModelLine",
    "ServiceError",
    "Simplification",
    "TaskState",
    "load",
]
