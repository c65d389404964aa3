"""A reward: 1 when the response contains the label as a word of its own, else 0."""

import re

from whet_plugin import Group, Outcome, Reward
from whet_plugin.plugin import option


class Contains(Reward):
    # The keys that a recipe may write under `config`.
    case_sensitive: bool = option(False, "upper and lower case count")

    def score(self, group: Group):
        if group.label is None:
            return group.all(Outcome.unscorable("the row has no label"))
        label = self.folded(group.label)

        def grade(response: str):
            words = re.findall(r"\w+", self.folded(response))
            return Outcome.correct(label in words, note=f"{len(words)} words")

        return [grade(sample.response) for sample in group.samples]

    def folded(self, text: str) -> str:
        return text if self.case_sensitive else text.lower()
