"""Prometheus metrics: counted requests, and gauges of jobs and workers from the database."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LABELS = ("method", "route", "status")

# Gauges from the database: (name, help text, name of the label, {value of the label: count}).
Facts = Callable[[], Iterable[tuple[str, str, str, Mapping[str, float]]]]


class DatabaseCollector(Collector):
    """Collector that queries the database at every scrape."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def collect(self) -> Iterable[Metric]:
        """Yield one gauge family per row of `facts`."""
        for name, text, label, values in self.facts():
            gauge = GaugeMetricFamily(name, text, labels=[label])
            for key, value in values.items():
                gauge.add_metric([key], value)
            yield gauge

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registration makes no query."""
        return ()


@dataclass(frozen=True)
class Metrics:
    """The metrics of one application, in a registry of its own."""

    registry: CollectorRegistry
    requests: Counter
    duration_s: Histogram
    refused: Counter
    streams: Gauge
    connections: Gauge
    connections_closed: Counter

    @staticmethod
    def of(facts: Facts) -> "Metrics":
        """Return new metrics; `facts` reads the gauges of the database."""
        registry = CollectorRegistry()
        registry.register(DatabaseCollector(facts))
        about = Gauge("ansorpy_info", "The version.", ["version"], registry=registry)
        about.labels(version("ansorpy")).set(1)
        return Metrics(
            registry,
            Counter("ansorpy_requests", "Requests answered.", LABELS, registry=registry),
            Histogram(
                "ansorpy_request_seconds",
                "Time until the answer began.",
                ("route",),
                buckets=BUCKETS_S,
                registry=registry,
            ),
            Counter("ansorpy_refused", "Problems, by their code.", ("code",), registry=registry),
            Gauge("ansorpy_event_streams", "Event streams that are open.", registry=registry),
            Gauge("ansorpy_connections", "Connections that are open.", registry=registry),
            Counter(
                "ansorpy_connections_closed",
                "Connections that the service closed, by the reason: late, head, unread, room.",
                ("why",),
                registry=registry,
            ),
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request and its duration."""
        self.requests.labels(method, route, str(status)).inc()
        self.duration_s.labels(route).observe(seconds)

    def count_closed(self, why: str) -> None:
        """Count one connection that was closed because of a limit."""
        self.connections_closed.labels(why).inc()

    def text(self) -> bytes:
        """Return the metrics in the exposition format of Prometheus."""
        found: bytes = generate_latest(self.registry)
        return found
