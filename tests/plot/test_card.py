"""The card of a notebook, and heights of labels."""

from itertools import pairwise
from xml.etree import ElementTree

from ansorpy.plot.card import Card, as_html, history_svg
from ansorpy.plot.curve import curve_of
from ansorpy.plot.labels import apart
from tests.plot.samples import subject, without_times


def test_a_card_is_well_formed_and_escapes_every_text() -> None:
    text = "<b>&\"'"
    curve = curve_of(subject().trials)
    drawing = history_svg(curve, 1e-6, {text: 1.5e-6, "slow": 1.0})
    html = as_html([Card(text, text, "amber", {text: text}, drawing)], [text], [text])
    root = ElementTree.fromstring(html.replace("<br>", "<br/>"))
    assert [one.text for one in root.iter("td")] == [text]
    assert [one.text for one in root.iter("code")] == [text]
    labels = [one.text for one in root.iter("text")]
    assert labels == ["this kernel 1 us", f"{text} 1.5 us"]  # "slow" is above the drawing
    assert not any("<b>" in part for part in html.split("&lt;b&gt;"))


def test_a_card_names_no_colour_for_its_text() -> None:
    html = as_html([Card("t", "v", "green", {"a": "b"})], ["n"], [])
    assert "color:inherit" in html
    assert "background:none" in html
    assert "#000" not in html


def test_without_times_there_is_no_drawing() -> None:
    assert history_svg(curve_of(without_times(subject()).trials), None, {}) == ""


def test_the_best_time_never_rises() -> None:
    best_s = curve_of(subject().trials).best_s
    assert list(best_s) == sorted(best_s, reverse=True)


def test_labels_keep_their_order_and_a_gap() -> None:
    found = apart({"a": 0.98, "b": 0.99, "c": 0.5, "d": 0.52}, 0.05)
    assert sorted(found, key=found.__getitem__) == ["c", "d", "a", "b"]
    heights = sorted(found.values())
    assert all(high - low >= 0.0499 for low, high in pairwise(heights))
    assert max(found.values()) <= 1.0
