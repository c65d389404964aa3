"""What all plugins share: their configuration.

A plugin's options are the fields of its class, as in a dataclass::

    @dataclass
    class Short(Reward):
        limit: int = option(100, "characters that are free", minimum=1)

The host checks a recipe's ``config`` against the schema that these fields make, before a run.
"""

import types
import typing
from abc import ABC
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Literal


@dataclass
class Plugin(ABC):
    """A plugin of any kind."""

    #: JSON Schema of the configuration, where the one that the fields make will not do.
    config_schema: ClassVar[dict[str, Any] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(cls)


def option(default: Any = MISSING, description: str = "", **schema: Any) -> Any:
    """A field with a description and further JSON Schema keywords (``minimum``, ``enum``, …)."""
    extra = {"description": description, **schema} if description else schema
    if isinstance(default, (list, dict, set)):
        return field(default_factory=lambda: type(default)(default), metadata={"schema": extra})
    return field(default=default, metadata={"schema": extra})


def schema_of(plugin: type[Plugin]) -> dict[str, Any]:
    """JSON Schema of a plugin's configuration."""
    if plugin.config_schema is not None:
        return plugin.config_schema
    hints = typing.get_type_hints(plugin)
    options = fields(plugin)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {f.name: _property(f, hints[f.name]) for f in options},
        "additionalProperties": False,
    }
    required = [f.name for f in options if f.default is MISSING and f.default_factory is MISSING]
    if required:
        schema["required"] = required
    return schema


def configured(plugin: type[Plugin], config: dict[str, Any]) -> Plugin:
    """The plugin that a recipe's configuration makes. Raises ``ValueError`` for people to read."""
    try:
        return plugin(**config)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _property(option: "Field[Any]", hint: Any) -> dict[str, Any]:
    schema = _schema(hint)
    if option.default is not MISSING:
        schema["default"] = option.default
    elif option.default_factory is not MISSING:
        schema["default"] = option.default_factory()
    return schema | dict(option.metadata.get("schema", {}))


def _schema(hint: Any) -> dict[str, Any]:
    simple = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object"}
    if hint in simple:
        return {"type": simple[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        return {"type": "object"}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(a) for a in arguments]}
    if hint is type(None):
        return {"type": "null"}
    raise TypeError(f"an option of type {hint} needs a config_schema of its own")
