"""Score rollouts. A failure is never a number."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Mapping, Union

from .plugin import Plugin
from .sample import Group


@dataclass
class Span:
    """A value for the bytes ``start:end`` of ``sample.response.encode()`` (process rewards)."""

    start: int
    end: int
    value: float


@dataclass
class Grade:
    """A score: named, finite values, each declared in ``Reward.components``."""

    components: dict[str, float]
    #: What was extracted, or why the sample fell short: for people who read trajectories.
    note: str | None = None
    spans: list[Span] = field(default_factory=list)


@dataclass
class Unscorable:
    """There is no right score (why): never the same as 0."""

    reason: str


class Outcome:
    """What a reward says about one sample: a :class:`Grade` or :class:`Unscorable`."""

    @staticmethod
    def scored(value: float, note: str | None = None) -> Grade:
        """A score under the name ``reward``."""
        return Grade({"reward": float(value)}, note)

    @staticmethod
    def correct(correct: bool, note: str | None = None) -> Grade:
        """1 or 0 under the name ``reward``."""
        return Outcome.scored(1.0 if correct else 0.0, note)

    @staticmethod
    def components(values: Mapping[str, float], note: str | None = None) -> Grade:
        """Named values; the recipe says how they combine."""
        return Grade({name: float(value) for name, value in values.items()}, note)

    @staticmethod
    def unscorable(reason: str) -> Unscorable:
        """There is no right score."""
        return Unscorable(reason)


AnyOutcome = Union[Grade, Unscorable]


class Reward(Plugin):
    """Scores the rollouts of one prompt."""

    #: Names of the components that ``score`` may return.
    components: ClassVar[tuple[str, ...]] = ("reward",)
    #: ``pure``: of the input alone. ``seeded``: also of :func:`host.random_u64`. ``recorded``: also
    #: of a judge or of HTTP.
    determinism: ClassVar[Literal["pure", "seeded", "recorded"]] = "pure"
    #: A sample's score depends on the other samples of its group. Where it does not, the host may
    #: score samples one by one after the call for their group has failed.
    group_wise: ClassVar[bool] = False

    @abstractmethod
    def score(self, group: Group) -> list[AnyOutcome]:
        """One outcome per sample, in order."""


class IsolatedReward(Reward):
    """A reward that runs what the model wrote.

    The host gives it each sample in an instance of its own, so that the code of one sample cannot
    reach the score of another, and asks it what a sample is worth whose call was ended.
    """

    def ended(self, end: Literal["time", "memory", "stack", "trap"]) -> Grade | None:
        """The grade of a sample that used up its call; ``None`` makes it a failure."""
        return None
