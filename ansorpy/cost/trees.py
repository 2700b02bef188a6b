"""Evaluate an ensemble of small decision trees on many rows, column by column, in NumPy.

LightGBM walks every tree for every row. Here every split is one comparison of a whole column: if
it fails, the leaves of its left subtree are crossed out, one bit each; the leftmost leaf that
remains gives the value. With at most 8 leaves the state of a tree is one byte per row.

Source: Lucchese et al., QuickScorer, SIGIR 2015.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

LEAVES: Final = 8  # leaves per tree at most: one bit of a byte for each
# The leftmost leaf that remains, by set of crossed-out leaves; LEAVES if no leaf remains.
_LEFTMOST: Final = np.array([(~crossed & (crossed + 1)).bit_length() - 1 for crossed in range(256)])
_CHUNK: Final = 32768  # rows per pass: fewer pay for the calls, more do not fit the cache

Bytes = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Split:
    column: int  # position in `Trees.columns`
    threshold: np.float32
    left: int  # bits of the leaves that `value > threshold` rules out


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """An ensemble of trees; leaves[t][crossed out] is the value of the remaining leftmost leaf."""

    columns: npt.NDArray[np.intp]  # features that occur in a split
    splits: tuple[tuple[_Split, ...], ...]
    leaves: FloatArray  # (trees, 256)

    @staticmethod
    def of(dump: Mapping[str, Any]) -> "Trees":
        """Convert the dictionary that `lightgbm.Booster.dump_model` returns.

        Raises:
            ValueError: a tree has more than 8 leaves, or a split that is not `value <= number`.
        """
        roots = [tree["tree_structure"] for tree in dump["tree_info"]]
        used = sorted({node["split_feature"] for root in roots for node in _inner(root)})
        place = {feature: i for i, feature in enumerate(used)}
        tables, splits = [], []
        for root in roots:
            values = _values(root)
            if len(values) > LEAVES:
                raise ValueError(f"a tree of {len(values)} leaves, at most {LEAVES}")
            tables.append(_table(values))
            splits.append(tuple(_splits(root, 0, place)))
        leaves = np.array(tables) if tables else np.zeros((0, 256))
        return Trees(np.array(used, np.intp), tuple(splits), leaves)

    def predict(self, rows: npt.NDArray[np.float32]) -> FloatArray:
        """Return the sum over the trees for rows of shape (n, F), equal to LightGBM's sum."""
        answer = np.zeros(len(rows))
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            self._add(np.ascontiguousarray(chunk[:, self.columns].T), answer[start:][:_CHUNK])
        return answer

    def _add(self, columns: npt.NDArray[np.float32], answer: FloatArray) -> None:
        n = columns.shape[1]
        above, crossed = np.empty(n, np.bool_), np.empty(n, np.uint8)
        flags, value = above.view(np.uint8), np.empty(n)
        bits = np.empty(n, np.uint8)
        for splits, table in zip(self.splits, self.leaves, strict=True):
            crossed.fill(0)
            for split in splits:
                np.greater(columns[split.column], split.threshold, out=above)
                np.multiply(flags, np.uint8(split.left), out=bits)
                np.bitwise_or(crossed, bits, out=crossed)
            np.take(table, crossed, out=value, mode="clip")
            np.add(answer, value, out=answer)


def _inner(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "split_feature" in node:
        yield node
        yield from _inner(node["left_child"])
        yield from _inner(node["right_child"])


def _values(node: Mapping[str, Any]) -> list[float]:
    """Return the leaf values, left to right."""
    if "split_feature" not in node:
        return [float(node["leaf_value"])]
    return _values(node["left_child"]) + _values(node["right_child"])


def _splits(node: Mapping[str, Any], first: int, place: Mapping[int, int]) -> Iterator[_Split]:
    """Yield the splits of a subtree whose leftmost leaf has number `first`."""
    if "split_feature" not in node:
        return
    if node["decision_type"] != "<=":
        raise ValueError(f"a split by {node['decision_type']!r}, only '<=' is known")
    count = len(_values(node["left_child"]))
    left = ((1 << count) - 1) << first
    yield _Split(place[node["split_feature"]], _float32_below(node["threshold"]), left)
    yield from _splits(node["left_child"], first, place)
    yield from _splits(node["right_child"], first + count, place)


def _float32_below(threshold: float) -> np.float32:
    """Return the largest float32 up to `threshold`; it splits float32 values in the same way."""
    near = np.float32(threshold)
    return near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf))


def _table(values: Sequence[float]) -> FloatArray:
    """Return the value of the leftmost remaining leaf, by set of crossed-out leaves."""
    padded = np.zeros(LEAVES + 1)
    padded[: len(values)] = values
    answer: FloatArray = padded[_LEFTMOST]
    return answer
