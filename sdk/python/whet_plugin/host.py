"""What a plugin may ask of the host.

Everything but :func:`log` needs two words: ``capabilities`` in the project's ``pyproject.toml``
(what the component imports) and a grant in the recipe. In native tests these functions are
replaced by ``unittest.mock.patch`` or by those of :mod:`whet_plugin.testing`.
"""

from dataclasses import dataclass
from typing import Literal

from .errors import Unavailable
from .message import Message

Level = Literal["debug", "info", "warn", "error"]


@dataclass
class JudgeReply:
    """What the judge said."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass
class HttpResponse:
    """What a server said."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Backend:
    """Where requests go: to the host within a component, to a test outside."""

    def log(self, level: Level, message: str) -> None:
        print(f"[{level}] {message}")

    def random_u64(self) -> int:
        raise Unavailable("no random numbers here: see whet_plugin.testing")

    def store_get(self, key: str) -> bytes | None:
        raise Unavailable("no store here: see whet_plugin.testing")

    def store_set(self, key: str, value: bytes) -> None:
        raise Unavailable("no store here: see whet_plugin.testing")

    def judge(
        self, messages: list[Message], max_tokens: int, temperature: float, route: str | None
    ) -> JudgeReply:
        raise Unavailable("no judge here: see whet_plugin.testing")

    def fetch(
        self, method: str, url: str, headers: list[tuple[str, str]], body: bytes
    ) -> HttpResponse:
        raise Unavailable("no HTTP here: see whet_plugin.testing")


#: The one in use.
backend: Backend = Backend()


def log(message: str, level: Level = "info") -> None:
    """Writes to the run's log. Never fails; the host truncates and escapes."""
    backend.log(level, message)


def random_u64() -> int:
    """A number that follows from the run's seed and the call: the same on replay."""
    return backend.random_u64()


def store_get(key: str) -> bytes | None:
    """A value that an earlier call of this plugin kept in this run."""
    return backend.store_get(key)


def store_set(key: str, value: bytes) -> None:
    """Keeps a value for the run; an empty one removes the key."""
    backend.store_set(key, value)


def judge(
    messages: list[Message],
    max_tokens: int = 512,
    temperature: float = 0.0,
    route: str | None = None,
) -> JudgeReply:
    """Asks the language model that the recipe names. Raises :class:`Unavailable`."""
    return backend.judge(messages, max_tokens, temperature, route)


def fetch(
    url: str,
    method: str = "GET",
    headers: list[tuple[str, str]] | None = None,
    body: bytes = b"",
) -> HttpResponse:
    """HTTP to a host that the recipe allows. Raises :class:`Unavailable`."""
    return backend.fetch(method, url, headers or [], body)
