import json
import logging

import pytest

from ansorpy.server.logs import MAX_VALUE, JsonFormatter, TextFormatter, facts


def record(message: str = "claimed", **values: object) -> logging.LogRecord:
    log = logging.getLogger("ansorpy.test")
    return log.makeRecord(
        "ansorpy.test", logging.INFO, "f", 1, message, (), None, extra=facts(**values)
    )


def test_a_json_line_is_one_line_whatever_the_facts_are() -> None:
    line = JsonFormatter().format(record(job="a\nb", n=2, where=object))
    assert "\n" not in line
    told = json.loads(line)
    assert (told["message"], told["level"], told["from"]) == ("claimed", "info", "ansorpy.test")
    assert (told["job"], told["n"]) == ("a\nb", 2)
    assert told["at"].endswith("Z")


def test_a_text_line_quotes_what_came_from_outside() -> None:
    assert TextFormatter().format(record(job="a\nb")).endswith('ansorpy.test: claimed job="a\\nb"')


def test_long_facts_are_cut() -> None:
    assert len(json.loads(JsonFormatter().format(record(x="y" * 10_000)))["x"]) == MAX_VALUE


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_traceback_is_told(formatter: logging.Formatter) -> None:
    told = record()
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 // 0
    told.exc_info = (caught.type, caught.value, caught.tb)
    assert "ZeroDivisionError" in formatter.format(told)
