"""Between the contract's generated types and this package's, inside a component.

Imported by the entry point that ``whet plugin build`` generates, and by nothing else: it needs the
bindings of ``wit_world``, which exist only there. The entry point runs once at build time; each call
starts from the memory that it left.
"""

import importlib
import json
import traceback
from typing import Any, Callable

from componentize_py_types import Err
from wit_world.imports import types as wit

from . import host
from .advantage import Advantage, Batch
from .errors import InvalidInput, PluginError, Unavailable
from .filter import Filter, Row, ScoredGroup
from .message import Message, Part, ToolCall
from .plugin import Plugin, configured, schema_of
from .reward import Grade, IsolatedReward, Reward
from .sample import Group, Sample

_ROLES = {
    wit.Role.SYSTEM: "system",
    wit.Role.USER: "user",
    wit.Role.ASSISTANT: "assistant",
    wit.Role.TOOL: "tool",
}
_ROLES_BACK = {name: role for role, name in _ROLES.items()}
_FINISH = {f: f.name.lower().replace("_", "-") for f in wit.FinishReason}
_PARTS = {
    wit.Part_Image: "image",
    wit.Part_Audio: "audio",
    wit.Part_Video: "video",
}

#: The plugin of this instance, once it is configured.
_plugin: Any = None


def exports(plugin: type[Plugin], name: str, version: str, summary: str) -> dict[str, type]:
    """The classes that the world's interfaces are looked up by, for a plugin class."""
    descriptor = {"name": name, "version": version, "summary": summary}
    made = {"Meta": _meta(plugin, descriptor)}
    if issubclass(plugin, Reward):
        made["Reward"] = _reward()
        if issubclass(plugin, IsolatedReward):
            made["Isolated"] = _isolated()
    elif issubclass(plugin, Filter):
        made["Filter"] = _filter()
    elif issubclass(plugin, Advantage):
        made["Advantage"] = _advantage()
    else:
        raise TypeError(f"{plugin.__name__} is no Reward, Filter or Advantage")
    host.backend = _Host()
    return made


def _meta(plugin: type[Plugin], descriptor: dict[str, str]) -> type:
    from wit_world.exports import meta

    described = meta.Descriptor(
        config_schema=json.dumps(schema_of(plugin)),
        components=list(getattr(plugin, "components", ())),
        determinism=meta.Determinism[getattr(plugin, "determinism", "pure").upper()],
        group_wise=getattr(plugin, "group_wise", False),
        **descriptor,
    )

    class Meta:
        def describe(self) -> Any:
            return described

        def configure(self, config: str) -> None:
            global _plugin
            try:
                _plugin = configured(plugin, json.loads(config))
            except ValueError as error:
                raise Err(str(error)) from None

    return Meta


def _guarded(call: Callable[[], Any]) -> Any:
    """What a call returns; what it raises becomes the contract's error."""
    try:
        if _plugin is None:
            raise PluginError("`configure` was not called")
        return call()
    except InvalidInput as error:
        raise Err(wit.PluginError_InvalidInput(str(error))) from None
    except Unavailable as error:
        raise Err(wit.PluginError_Unavailable(str(error))) from None
    except PluginError as error:
        raise Err(wit.PluginError_Internal(str(error))) from None
    except Exception as error:
        host.log(traceback.format_exc(), "error")
        raise Err(wit.PluginError_Internal(f"{type(error).__name__}: {error}")) from None


def _reward() -> type:
    from wit_world.exports import reward

    def outcome(made: Any) -> Any:
        if isinstance(made, Grade):
            spans = [reward.Span(s.start, s.end, float(s.value)) for s in made.spans]
            return reward.Outcome_Scored(reward.Grade(_components(made), spans, made.note))
        return reward.Outcome_Unscorable(made.reason)

    class RewardExport:
        def score(self, group: Any) -> list[Any]:
            return _guarded(lambda: [outcome(o) for o in _plugin.score(_group(group))])

    return RewardExport


def _isolated() -> type:
    from wit_world.exports import isolated

    class Isolated:
        def ended(self, end: Any) -> Any:
            grade = _plugin.ended(end.name.lower())
            return grade and isolated.FinalGrade(_components(grade), grade.note or "")

    return Isolated


def _filter() -> type:
    from wit_world.exports import filter as wit_filter

    def verdicts(made: list[Any]) -> list[Any]:
        return [wit_filter.Verdict(v.keep, v.reason, v.keep_if_short) for v in made]

    def row(r: Any) -> Row:
        prompt = [_message(m) for m in r.prompt]
        return Row(r.id, prompt, r.label, Group.parse_metadata(r.metadata), r.prompt_tokens)

    class FilterExport:
        def keep_rows(self, rows: list[Any]) -> list[Any]:
            return _guarded(lambda: verdicts(_plugin.keep_rows([row(r) for r in rows])))

        def keep_groups(self, groups: list[Any]) -> list[Any]:
            return _guarded(
                lambda: verdicts(
                    _plugin.keep_groups([ScoredGroup(_group(g.group), g.rewards) for g in groups])
                )
            )

    return FilterExport


def _advantage() -> type:
    from wit_world.exports import advantage

    def estimate(batch: Any) -> Any:
        columns = {name: getattr(batch, name) for name in Batch.__dataclass_fields__}
        columns["components"] = dict(batch.components)
        made = [float(value) for value in _plugin.estimate(Batch(**columns))]
        if _plugin.per_token:
            return advantage.Advantages_PerToken(made)
        return advantage.Advantages_PerSample(made)

    class AdvantageExport:
        def estimate(self, batch: Any) -> Any:
            return _guarded(lambda: estimate(batch))

    return AdvantageExport


def _components(grade: Grade) -> list[Any]:
    return [wit.Component(name, float(value)) for name, value in grade.components.items()]


def _group(group: Any) -> Group:
    return Group(
        group.id,
        [_message(m) for m in group.prompt],
        group.label,
        Group.parse_metadata(group.metadata),
        [_sample(s) for s in group.samples],
    )


def _sample(s: Any) -> Sample:
    return Sample(
        id=s.id,
        response=s.response,
        completion=[_message(m) for m in s.completion],
        finish=_FINISH[s.finish],  # type: ignore[arg-type]
        prompt_tokens=s.prompt_tokens,
        response_tokens=s.response_tokens,
        turns=s.turns,
        environment_rewards={c.name: c.value for c in s.environment_rewards},
    )


def _message(m: Any) -> Message:
    calls = [ToolCall(c.id, c.name, c.arguments) for c in m.tool_calls]
    return Message(_ROLES[m.role], [_part(p) for p in m.content], calls, m.tool_call_id)  # type: ignore[arg-type]


def _part(part: Any) -> Part:
    if isinstance(part, wit.Part_Text):
        return Part("text", part.value)
    return Part(_PARTS[type(part)], media=part.value)  # type: ignore[arg-type]


def _message_back(message: Message) -> Any:
    content = [wit.Part_Text(part.text) for part in message.content if part.kind == "text"]
    calls = [wit.ToolCall(c.id, c.name, c.arguments) for c in message.tool_calls]
    return wit.Message(_ROLES_BACK[message.role], content, calls, message.tool_call_id)


def _imported(name: str) -> Any:
    """An interface that the component imports, or none where the project does not ask for it."""
    try:
        return importlib.import_module(f"wit_world.imports.{name}")
    except ImportError:
        return None


class _Host(host.Backend):
    def __init__(self) -> None:
        names = ["log", "random", "store", "judge", "http"]
        self._log, self._random, self._store, self._judge, self._http = map(_imported, names)

    def _of(self, interface: Any, name: str) -> Any:
        if interface is None:
            raise Unavailable(f'say capabilities = ["{name}"] under [tool.whet] in pyproject.toml')
        return interface

    def log(self, level: host.Level, message: str) -> None:
        self._log.log(self._log.Level[level.upper()], message)

    def random_u64(self) -> int:
        return self._of(self._random, "random").next_u64()

    def store_get(self, key: str) -> bytes | None:
        return self._of(self._store, "store").get(key)

    def store_set(self, key: str, value: bytes) -> None:
        try:
            self._of(self._store, "store").set(key, value)
        except Err as error:
            raise Unavailable(f"the store keeps nothing more: {error.value.name}") from None

    def judge(
        self, messages: list[Message], max_tokens: int, temperature: float, route: str | None
    ) -> host.JudgeReply:
        judge = self._of(self._judge, "judge")
        told = [_message_back(m) for m in messages]
        try:
            reply = judge.chat(judge.Request(told, max_tokens, temperature, route))
        except Err as error:
            raise Unavailable(f"judge: {_words(error.value)}") from None
        return host.JudgeReply(reply.text, reply.input_tokens, reply.output_tokens)

    def fetch(
        self, method: str, url: str, headers: list[tuple[str, str]], body: bytes
    ) -> host.HttpResponse:
        http = self._of(self._http, "http")
        try:
            answer = http.fetch(http.Request(method, url, headers, body))
        except Err as error:
            raise Unavailable(f"http: {_words(error.value)}") from None
        return host.HttpResponse(answer.status, answer.headers, answer.body)


def _words(error: Any) -> str:
    kind = type(error).__name__.rsplit("_", 1)[-1]
    value = getattr(error, "value", "")
    return f"{kind}: {value}" if value else kind
