"""Chat messages, with media that stay on the host until they are read."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]


class Media(Protocol):
    """An image, a sound or a video. A plugin pays only for the bytes that it reads."""

    def mime(self) -> str:
        """As in ``image/png``."""

    def size(self) -> int:
        """Bytes of the encoded file."""

    def read(self, offset: int, length: int) -> bytes:
        """At most ``length`` bytes from ``offset``; fewer, or none, at the end."""


@dataclass
class Part:
    """A piece of a message: a text, or media of a kind."""

    kind: Literal["text", "image", "audio", "video"]
    text: str = ""
    media: Media | None = None


@dataclass
class ToolCall:
    """A call that the model made; ``arguments`` is a JSON object, as text."""

    id: str
    name: str
    arguments: str


@dataclass
class Message:
    """One message of a conversation."""

    role: Role
    content: list[Part] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_call_id: str | None = None

    @classmethod
    def of(cls, role: Role, text: str) -> "Message":
        """A message of one text."""
        return cls(role, [Part("text", text)])

    @property
    def text(self) -> str:
        """Its texts, one after another."""
        return "".join(part.text for part in self.content)
