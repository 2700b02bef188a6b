"""The contract of cost models; a subclass makes a model and gives the width of its features."""

import numpy as np

from ansorpy.cost.model import Batch, CostModel, Sample
from ansorpy.features import NAMES


class CostModelContract:
    """Runs on the untaught and on the taught model."""

    features = len(NAMES)

    def make(self) -> CostModel:
        raise NotImplementedError

    def batches(self) -> list[Batch]:
        rng = np.random.default_rng(7)
        return [
            (rng.random((n, stores, self.features), np.float32) * 20).astype(np.float32)
            for n, stores in ((5, 1), (40, 3), (1, 7))
        ]

    def samples(self) -> list[Sample]:
        batch = self.batches()[1]
        costs = np.linspace(1e-6, 2e-3, len(batch))
        costs[::7] = np.inf
        return [Sample("a", batch[:30], costs[:30]), Sample("b", batch[30:], costs[30:])]

    def models(self) -> tuple[CostModel, CostModel]:
        taught = self.make()
        taught.update(self.samples())
        return self.make(), taught

    def test_one_finite_score_per_candidate(self) -> None:
        for model in self.models():
            batches = self.batches()
            scores = model.predict(batches)
            assert [s.shape for s in scores] == [(len(b),) for b in batches]
            assert all(np.isfinite(s).all() for s in scores)
            assert all(s.dtype == np.float64 for s in scores)

    def test_strange_features_still_get_finite_scores(self) -> None:
        for model in self.models():
            for value in (0.0, 200.0, -200.0):
                batch = np.full((3, 2, self.features), value, np.float32)
                (scores,) = model.predict([batch])
                assert np.isfinite(scores).all()

    def test_empty_batches_and_no_batches(self) -> None:
        for model in self.models():
            assert model.predict([]) == []
            none = np.zeros((0, 3, self.features), np.float32)
            (scores,) = model.predict([none])
            assert scores.shape == (0,)
            mixed = model.predict([none, self.batches()[0], none])
            assert [len(s) for s in mixed] == [0, 5, 0]

    def test_the_same_start_gives_the_same_scores(self) -> None:
        for one, two in zip(self.models(), self.models(), strict=True):
            for a, b in zip(one.predict(self.batches()), two.predict(self.batches()), strict=True):
                np.testing.assert_array_equal(a, b)

    def test_only_failures_and_empty_samples_teach_nothing_wrong(self) -> None:
        model = self.make()
        batch = self.batches()[1]
        model.update([Sample("a", batch, np.full(len(batch), np.inf))])
        model.update([Sample("a", batch[:0], np.zeros(0))])
        model.update([])
        assert all(np.isfinite(s).all() for s in model.predict(self.batches()))
