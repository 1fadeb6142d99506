"""What a key takes, read from the models' annotations: the words of a complaint's advice."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What may stand somewhere: a type, and the bounds that stand beside it."""

    type: Any
    bounds: tuple[Any, ...] = ()

    @property
    def branches(self) -> tuple[Form, ...]:
        """Return the forms of a union, or the form itself."""
        if get_origin(self.type) in {Union, types.UnionType}:
            return tuple(form_of(part) for part in get_args(self.type))
        return (self,)

    @property
    def model(self) -> type[BaseModel] | None:
        """Return the model of a table with named keys, None for anything else."""
        of_model = isinstance(self.type, type) and issubclass(self.type, BaseModel)
        return self.type if of_model else None

    @property
    def is_list(self) -> bool:
        """Tell whether it is a list."""
        return get_origin(self.type) in {tuple, list}

    @property
    def annotation(self) -> Any:
        """Return it as pydantic reads it."""
        return Annotated[self.type, *self.bounds] if self.bounds else self.type

    def inside(self, part: str | int) -> Form | None:
        """Return what stands under a key or at an index, None when nothing is known of it."""
        if self.model is not None:
            field = self.model.model_fields.get(str(part))
            return form_of(field.annotation, tuple(field.metadata)) if field else None
        arguments = get_args(self.type)
        if get_origin(self.type) is dict and len(arguments) == 2:
            return form_of(arguments[1])
        return form_of(arguments[0]) if self.is_list and arguments else None

    def fits(self, value: object) -> bool:
        """Tell whether a TOML value is of this type, whatever the bounds and whatever is in it."""
        wanted = get_origin(self.type) or self.type
        if self.model is not None or wanted is dict:
            return isinstance(value, Mapping)
        if self.is_list:
            return isinstance(value, (list, tuple))
        if wanted is float:
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        return type(value) is wanted if wanted in {int, str, bool} else wanted is not Literal


def form_of(annotation: Any, bounds: tuple[Any, ...] = ()) -> Form:
    """Return the form of an annotation; that it may be left out (`| None`) is no part of it."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return form_of(inner, (*more, *bounds))
    if get_origin(annotation) in {Union, types.UnionType}:
        parts = [part for part in get_args(annotation) if part is not type(None)]
        if len(parts) == 1:
            return form_of(parts[0], bounds)
        return Form(type=Union[tuple(parts)], bounds=bounds)  # noqa: UP007 - built at run time
    return Form(type=annotation, bounds=bounds)


def described(form: Form) -> str:
    """Return what may be written, as `a whole number of at least 1, or a list of them`."""
    parts = list(_parts(form.branches))
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, or {parts[-1]}"


def keys_of(form: Form) -> list[str]:
    """Return the named keys of a table, or of any branch that is one."""
    models = (branch.model for branch in form.branches)
    return [key for model in models if model is not None for key in model.model_fields]


def _parts(branches: tuple[Form, ...]) -> Iterator[str]:
    before: list[str] = []
    for branch in branches:
        element = branch.inside(0) if branch.is_list else None
        if element is not None and before == [described(element)]:
            yield "a list of them"
        else:
            before.append(_described(branch))
            yield before[-1]


def _described(form: Form) -> str:
    wanted = get_origin(form.type) or form.type
    if wanted is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(form.type))
    if form.model is not None:
        return _table(form.model)
    if form.is_list:
        element = form.inside(0)
        return f"a list, each {described(element)}" if element else "a list"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return names.get(wanted, "a table" if wanted is dict else "a value") + _bounds(form)


def _table(model: type[BaseModel]) -> str:
    needed = [key for key, field in model.model_fields.items() if field.is_required()]
    if needed:
        return "a table { " + ", ".join(f"{key} = ..." for key in needed) + " }"
    few = len(model.model_fields) <= 5
    return f"a table with {' or '.join(model.model_fields)}" if few else "a table"


def _bounds(form: Form) -> str:
    """Return the bounds in words; a whole number above 0 is one of at least 1."""
    words = []
    for bound in form.bounds:
        low, least = getattr(bound, "gt", None), getattr(bound, "ge", None)
        most = getattr(bound, "le", None)
        if low is not None:
            words.append(f"of at least {low + 1}" if form.type is int else f"above {low}")
        if least is not None:
            words.append(f"of at least {least}")
        if most is not None:
            words.append(f"of at most {most}")
    return (" " + " and ".join(words)) if words else ""
