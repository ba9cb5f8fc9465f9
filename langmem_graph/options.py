"""The base of settings and of other options: a wrong value is an error of ours."""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from langmem_graph.errors import InvalidInputError, explain


class Options(BaseModel):
    """Base of what an application sets; the errors show the class's example, if it has one."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    example: ClassVar[str] = ""

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                shown = f". As in {self.example}" if self.example else ""
                raise InvalidInputError(f"{type(self).__name__}: {explain(error)}{shown}") from None
