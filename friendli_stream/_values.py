"""Frozen values whose texts and lists are joined when somebody reads them.

A field made by `lazy` holds what it is (a str, the JSON of a list as bytes, None, a tuple) or a Promise. Reading keeps
what was got in place of the promise. Equality, repr, pickling and copying go through what was got, so nothing outside
can tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from friendli_stream._fragments import Promise
from friendli_stream.wire import decode, encode, whole

__all__ = ["NO_EXTRA", "Extra", "Lazy", "WithExtra", "extra_field", "freeze", "lazy", "plain", "thaw"]

Extra = dict[str, bytes]  # unknown fields, each as the JSON that came (B3); replaced, never changed
NO_EXTRA: Final[Extra] = {}  # so that one serves all that have none


def plain(value: Any) -> Any:
    """What a field holds: a promise kept, a list as values."""
    if isinstance(value, Promise):
        value = value.get()
    return decode(value) if type(value) is bytes else value


def _frozen(value: Any) -> Any:
    """A field as a caller gives it: strings whole (B1), lists and objects as JSON (B3)."""
    if isinstance(value, str):
        return whole(value)
    return encode(value) if isinstance(value, (list, dict)) else value


def freeze(fields: Mapping[str, Any]) -> Extra:
    """Unknown fields as a caller gives them."""
    return {whole(key): value if type(value) is bytes else encode(value) for key, value in fields.items()}


def thaw(fields: Extra) -> dict[str, Any]:
    """The unknown fields, fresh."""
    return {key: decode(value) for key, value in fields.items()}


def lazy(default: Any = attrs.NOTHING, **options: Any) -> Any:
    """A field that may hold a promise."""
    return attrs.field(default=default, converter=_frozen, eq=plain, hash=False, **options)


def extra_field() -> Any:
    """The field of unknown fields: a mapping is copied in, JSON by JSON."""
    return attrs.field(factory=dict, converter=freeze, eq=thaw, hash=False, alias="extra")


def _built(cls: Callable[..., Any], values: dict[str, Any]) -> Any:
    return cls(**values)


class Lazy:
    """Reading, showing and pickling of values with `lazy` fields."""

    __slots__ = ()

    def __repr__(self) -> str:
        """As they are built by hand: by the public names, what is pending read."""
        fields: Any = attrs.fields(type(self))  # type: ignore[arg-type]
        shown = (f"{field.alias}={getattr(self, field.alias)!r}" for field in fields if field.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _read(self, name: str) -> Any:
        """What the field holds; a promise is kept once."""
        value = getattr(self, name)
        if isinstance(value, Promise):
            value = value.get()
            object.__setattr__(self, name, value)
        return value

    def _list(self, name: str) -> Any:
        """The values of a list, fresh, or None."""
        value = self._read(name)
        return decode(value) if value is not None else None

    def __reduce__(self) -> tuple[Any, ...]:
        values: dict[str, Any] = {}
        for field in attrs.fields(type(self)):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            values[field.alias] = value.get() if isinstance(value, Promise) else value
        return _built, (type(self), values)


class WithExtra(Lazy):
    """A value with unknown fields."""

    __slots__ = ()
    _extra: Extra

    @property
    def extra(self) -> dict[str, Any]:
        """The fields without a name here, fresh."""
        return thaw(self._extra)
