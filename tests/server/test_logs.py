import json
import logging

import pytest

from ansorpy.server.logs import (
    MAX_MESSAGES,
    MAX_VALUE,
    JsonFormatter,
    LogRateLimit,
    TextFormatter,
    configure,
    fields,
)


def record(message: str = "claimed", **values: object) -> logging.LogRecord:
    log = logging.getLogger("ansorpy.test")
    return log.makeRecord(
        "ansorpy.test", logging.INFO, "f", 1, message, (), None, extra=fields(**values)
    )


def test_a_json_record_is_one_line_for_any_fields() -> None:
    line = JsonFormatter().format(record(job="a\nb", n=2, where=object))
    assert "\n" not in line
    told = json.loads(line)
    assert (told["message"], told["level"], told["from"]) == ("claimed", "info", "ansorpy.test")
    assert (told["job"], told["n"]) == ("a\nb", 2)
    assert told["at"].endswith("Z")


def test_a_text_line_quotes_values_of_clients() -> None:
    assert TextFormatter().format(record(job="a\nb")).endswith('ansorpy.test: claimed job="a\\nb"')


def test_long_fields_are_truncated() -> None:
    assert len(json.loads(JsonFormatter().format(record(x="y" * 10_000)))["x"]) == MAX_VALUE


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_traceback_is_logged(formatter: logging.Formatter) -> None:
    told = record()
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 // 0
    told.exc_info = (caught.type, caught.value, caught.tb)
    assert "ZeroDivisionError" in formatter.format(told)


def test_messages_triggered_by_clients_are_limited_to_ten_a_minute() -> None:
    clock = [0.0]
    sparse = LogRateLimit(most=10, clock=lambda: clock[0])

    def passes(message: str, name: str = "asyncio") -> logging.LogRecord | None:
        told = logging.LogRecord(name, logging.ERROR, "f", 1, message, (), None)
        return told if sparse.filter(told) else None

    accept = "socket.accept() out of system resource\nsocket: <socket %d>"
    assert sum(passes(accept % n) is not None for n in range(1000)) == 10
    assert passes("another message") is not None
    assert all(passes("ours", "ansorpy.test") for _ in range(1000))
    clock[0] = 60.0
    told = passes(accept)
    assert told is not None
    assert TextFormatter().format(told).endswith(" left_out=990")
    for n in range(10_000):
        passes(f"message {n}")
    assert len(sparse._seen) <= MAX_MESSAGES


def test_the_log_of_a_service_is_rate_limited(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure("text")
        for _ in range(1000):
            logging.getLogger("asyncio").error("socket.accept() out of system resource")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert len(capfd.readouterr().err.splitlines()) == 10
