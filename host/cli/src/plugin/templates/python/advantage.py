"""An estimator: the reward less the mean of its group, times `scale`."""

import math

from whet_plugin import Advantage, Batch
from whet_plugin.plugin import option


class Centred(Advantage):
    # The keys that a recipe may write under `config`.
    scale: float = option(1.0, "factor of every advantage")

    def estimate(self, batch: Batch):
        rewards, groups = batch.rewards, batch.groups

        def mean(group: int) -> float:
            scores = [r for r, g in zip(rewards, groups) if g == group and math.isfinite(r)]
            return sum(scores) / max(len(scores), 1)

        means = {group: mean(group) for group in set(groups)}
        # A sample without a score teaches nothing.
        return [
            self.scale * (r - means[g]) if math.isfinite(r) else 0.0 for r, g in zip(rewards, groups)
        ]
