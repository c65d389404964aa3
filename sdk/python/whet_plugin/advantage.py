"""Turn rewards into advantages."""

from abc import abstractmethod
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar

from .plugin import Plugin


@dataclass
class Batch:
    """A batch as columns. Per-token columns are the samples' response tokens one after another."""

    #: One per sample; NaN where a sample has no score.
    rewards: list[float]
    #: Index of the prompt group of each sample.
    groups: list[int]
    sample_ids: list[str] = field(default_factory=list)
    #: Named reward components, each one value per sample.
    components: dict[str, list[float]] = field(default_factory=dict)
    #: Response tokens of each sample.
    lengths: list[int] = field(default_factory=list)
    #: Per token: 1 where it is trained on.
    mask: bytes = b""
    #: Per token, under the policy that sampled, the policy before the update and the reference;
    #: empty where the run has none.
    rollout_logprobs: list[float] = field(default_factory=list)
    old_logprobs: list[float] = field(default_factory=list)
    reference_logprobs: list[float] = field(default_factory=list)
    #: Per token, the critic's; empty without a critic.
    values: list[float] = field(default_factory=list)
    #: Per token, the weight version that sampled it.
    versions: list[int] = field(default_factory=list)
    #: Per token, the index of its turn.
    turns: list[int] = field(default_factory=list)

    def tokens(self) -> list[slice]:
        """Where each sample's tokens are in the per-token columns."""
        ends = list(accumulate(self.lengths))
        return [slice(end - length, end) for end, length in zip(ends, self.lengths)]


class Advantage(Plugin):
    """Estimates advantages. Results must be finite."""

    #: What ``estimate`` returns: a value per response token instead of one per sample.
    per_token: ClassVar[bool] = False

    @abstractmethod
    def estimate(self, batch: Batch) -> list[float]:
        """One advantage per sample, or, where ``per_token`` says so, one per token."""
