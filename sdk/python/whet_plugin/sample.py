"""Finished rollouts as a plugin sees them."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from .message import Message

Finish = Literal["stop", "length", "tool-calls", "max-turns", "aborted", "environment"]
T = TypeVar("T")


@dataclass
class Sample:
    """One finished rollout."""

    #: Stable identity; results are joined on it.
    id: str
    #: Text of the last assistant message, without special tokens.
    response: str
    #: The model's messages and what came back to it, after the prompt.
    completion: list[Message] = field(default_factory=list)
    #: Why generation ended.
    finish: Finish = "stop"
    prompt_tokens: int = 0
    response_tokens: int = 0
    turns: int = 1
    #: Rewards that the environment gave along the way, by name.
    environment_rewards: dict[str, float] = field(default_factory=dict)


@dataclass
class Group:
    """All rollouts of one prompt. A lone sample is a group of one."""

    id: str
    prompt: list[Message]
    #: The reference answer, if the row has one.
    label: str | None
    #: The row's other columns.
    metadata: dict[str, Any]
    samples: list[Sample]

    def all(self, outcome: T) -> list[T]:
        """The same outcome for every sample."""
        return [outcome] * len(self.samples)

    @staticmethod
    def parse_metadata(text: str) -> dict[str, Any]:
        """Metadata as the contract carries it, a JSON object."""
        return json.loads(text) if text else {}
