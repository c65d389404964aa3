"""Groups in one line and capabilities that a test answers itself, for native tests."""

from contextlib import contextmanager
from typing import Callable, Iterator

from . import host
from .message import Message
from .plugin import configured
from .sample import Group, Sample

__all__ = ["Recorder", "configured", "group", "using"]


def group(label: str | None, responses: list[str], prompt: str = "?", **metadata: object) -> Group:
    """A group of finished samples, one per response."""
    samples = [
        Sample(
            id=f"g/{i}",
            response=response,
            completion=[Message.of("assistant", response)],
            prompt_tokens=1,
            response_tokens=len(response.split()),
        )
        for i, response in enumerate(responses)
    ]
    return Group("g", [Message.of("user", prompt)], label, dict(metadata), samples)


class Recorder(host.Backend):
    """A host that keeps log lines and values, counts for random numbers, and asks the test."""

    def __init__(
        self,
        judge: Callable[[list[Message]], str] | None = None,
        fetch: Callable[[str, str, bytes], host.HttpResponse] | None = None,
    ) -> None:
        self.lines: list[tuple[str, str]] = []
        self.values: dict[str, bytes] = {}
        self._drawn = 0
        self._judge, self._fetch = judge, fetch

    def log(self, level: host.Level, message: str) -> None:
        self.lines.append((level, message))

    def random_u64(self) -> int:
        self._drawn += 1
        return self._drawn * 0x9E37_79B9_7F4A_7C15 % 2**64

    def store_get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def store_set(self, key: str, value: bytes) -> None:
        if value:
            self.values[key] = value
        else:
            self.values.pop(key, None)

    def judge(
        self, messages: list[Message], max_tokens: int, temperature: float, route: str | None
    ) -> host.JudgeReply:
        if self._judge is None:
            return super().judge(messages, max_tokens, temperature, route)
        return host.JudgeReply(self._judge(messages))

    def fetch(
        self, method: str, url: str, headers: list[tuple[str, str]], body: bytes
    ) -> host.HttpResponse:
        if self._fetch is None:
            return super().fetch(method, url, headers, body)
        return self._fetch(method, url, body)


@contextmanager
def using(backend: host.Backend) -> Iterator[host.Backend]:
    """Lets ``backend`` answer within the block."""
    before, host.backend = host.backend, backend
    try:
        yield backend
    finally:
        host.backend = before
