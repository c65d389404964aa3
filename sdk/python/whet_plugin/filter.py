"""Decide which rows enter the data and which groups enter a batch."""

from dataclasses import dataclass
from typing import Any

from .message import Message
from .plugin import Plugin
from .sample import Group


@dataclass
class Row:
    """A row of data before any rollout."""

    id: str
    prompt: list[Message]
    label: str | None
    metadata: dict[str, Any]
    prompt_tokens: int


@dataclass
class ScoredGroup:
    """A group with the rewards that it got; ``None`` where a sample has no score."""

    group: Group
    rewards: list[float | None]


@dataclass
class Verdict:
    """Whether to keep a row or a group."""

    keep: bool
    #: Short and stable: it becomes a metric's name.
    reason: str = "kept"
    #: For a group: use it anyway when too few groups pass.
    keep_if_short: bool = False

    @classmethod
    def kept(cls) -> "Verdict":
        """Keep it."""
        return cls(True, "kept", True)

    @classmethod
    def dropped(cls, reason: str) -> "Verdict":
        """Drop it."""
        return cls(False, reason)

    @classmethod
    def spared(cls, reason: str) -> "Verdict":
        """Drop it, unless too few groups pass."""
        return cls(False, reason, True)


class Filter(Plugin):
    """Decides what is trained on. Both methods keep everything unless they are written."""

    def keep_rows(self, rows: list[Row]) -> list[Verdict]:
        """One verdict per row, in order."""
        return [Verdict.kept() for _ in rows]

    def keep_groups(self, groups: list[ScoredGroup]) -> list[Verdict]:
        """One verdict per group, in order."""
        return [Verdict.kept() for _ in groups]
