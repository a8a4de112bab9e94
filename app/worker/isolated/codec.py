"""Serialize values as lines of JSON between two processes of this program.

Dataclasses, enums and errors are written as their name and fields, and only registered types are read. Unlike a
pickle, a line cannot run code.
"""

from __future__ import annotations

import json
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from app.core.errors import AppError

_PLAIN = (str, int, float, type(None))
_PATH, _BYTES, _TUPLE, _LIST, _MAPPING = "/", "b", "()", "[]", "{}"


class Codec:
    """Write and read values of registered types.

    Args:
        *roots: Types, or unions of them; the types of their fields and all errors of `app.core.errors` are registered
            too. Any other error arrives as a plain `AppError`.
    """

    def __init__(self, *roots: Any) -> None:
        self._by_name: dict[str, type] = {}
        self._fields: dict[type, tuple[str, ...]] = {}
        for root in (*roots, AppError):
            self._learn(root)

    def encode(self, value: Any) -> bytes:
        """Return a value as one line.

        Raises:
            TypeError: A type in it is not registered.
        """
        return json.dumps(self._pack(value), separators=(",", ":")).encode() + b"\n"

    def decode(self, line: bytes) -> Any:
        """Return the value of one line.

        Raises:
            ValueError: The line is broken, or a type in it is not registered.
        """
        try:
            return self._unpack(json.loads(line))
        except (TypeError, KeyError, IndexError, RecursionError) as error:
            raise ValueError(f"a line is no value: {error}") from error

    def _pack(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, AppError) and kind not in self._fields:
            # The other side waits for an error.
            return self._pack(AppError(value.message, value.hint))
        if kind in self._fields:
            if isinstance(value, Enum):
                return [kind.__name__, value.value]
            if isinstance(value, AppError):
                return [kind.__name__, self._pack(vars(value))]
            return [kind.__name__, *(self._pack(getattr(value, name)) for name in self._fields[kind])]
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Path):
            return [_PATH, str(value)]
        if isinstance(value, bytes):
            return [_BYTES, value.hex()]
        if isinstance(value, dict):
            return [_MAPPING, *([self._pack(key), self._pack(one)] for key, one in value.items())]
        if isinstance(value, tuple | list):
            return [_TUPLE if isinstance(value, tuple) else _LIST, *map(self._pack, value)]
        raise TypeError(f"a {kind.__name__} cannot go to another process")

    def _unpack(self, raw: Any) -> Any:
        if not isinstance(raw, list):
            return raw
        tag, *rest = raw
        if tag == _PATH:
            return Path(rest[0])
        if tag == _BYTES:
            return bytes.fromhex(rest[0])
        if tag == _MAPPING:
            return {self._unpack(key): self._unpack(value) for key, value in rest}
        values = [self._unpack(value) for value in rest]
        if tag == _TUPLE:
            return tuple(values)
        if tag == _LIST:
            return values
        kind = self._by_name.get(tag)
        if kind is None:
            raise ValueError(f"{tag!r} is no type that may come from another process")
        if issubclass(kind, AppError):
            (attributes,) = values
            error = kind.__new__(kind, attributes["message"])
            vars(error).update(attributes)
            return error
        return kind(*values)

    def _learn(self, kind: Any) -> None:
        for part in typing.get_args(kind):
            self._learn(part)
        if not isinstance(kind, type) or kind in self._fields:
            return
        if is_dataclass(kind):
            self._add(kind, tuple(field.name for field in fields(kind)))
            for declared in typing.get_type_hints(kind).values():
                self._learn(declared)
        elif issubclass(kind, Enum):
            self._add(kind)
        elif issubclass(kind, AppError):
            self._add(kind)
            for below in kind.__subclasses__():
                # Other subclasses depend on imports, which differ between the two processes.
                if below.__module__ == AppError.__module__:
                    self._learn(below)

    def _add(self, kind: type, names: tuple[str, ...] = ()) -> None:
        known = self._by_name.setdefault(kind.__name__, kind)
        if known is not kind:
            raise TypeError(f"{known.__module__} and {kind.__module__} both have a {kind.__name__}")
        self._fields[kind] = names
