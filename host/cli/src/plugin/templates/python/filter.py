"""A filter: drops groups in which more rewards are missing than `share` allows."""

from whet_plugin import Filter, ScoredGroup, Verdict
from whet_plugin.plugin import option


class Complete(Filter):
    # The keys that a recipe may write under `config`.
    share: float = option(0.5, "missing rewards that are tolerated", minimum=0, maximum=1)

    def keep_groups(self, groups: list[ScoredGroup]):
        def verdict(group: ScoredGroup):
            missing = sum(reward is None for reward in group.rewards)
            if missing > self.share * len(group.rewards):
                return Verdict.dropped("rewards-missing")
            return Verdict.kept()

        return [verdict(group) for group in groups]
