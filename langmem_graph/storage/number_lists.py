"""Conditions on any number of numbers, in the form that each engine answers fastest."""

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class _Numbers(sa.types.TypeDecorator[list[int]]):
    """Any number of numbers as one variable: a JSON list for SQLite, an array for
    PostgreSQL.
    """

    impl = sa.String
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        kind: Any = (
            ARRAY(sa.BigInteger()) if dialect.name == "postgresql" else sa.String()
        )
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: list[int] | None, dialect: sa.Dialect) -> Any:
        return value if dialect.name == "postgresql" else json.dumps(value)


class _OneOf(FunctionElement[bool]):
    inherit_cache = True
    type = sa.Boolean()
    # SQLite's, PostgreSQL's
    forms = "{} IN (SELECT value FROM json_each({}))", "{} = ANY ({})"

    def self_group(self, against: Any = None) -> Any:
        """Itself: SQLAlchemy would write `… = 1` for SQLite, which then reads every
        row.
        """
        return self


class _OneSelected(_OneOf):
    inherit_cache = True
    forms = "{} IN {}", "{} = ANY (ARRAY{})"


@compiles(_OneOf)
def _in_list(element: Any, compiler: Any, **options: Any) -> str:
    parts = (compiler.process(part, **options) for part in element.clauses)
    form: str = element.forms[compiler.dialect.name == "postgresql"]
    return form.format(*parts)


def one_of(column: Any, numbers: Iterable[int] | sa.Select[Any]) -> ColumnElement[bool]:
    """Whether a column is one of any number of numbers, given or selected.

    Given ones are one variable: with one for each, a statement takes longer to prepare
    than to run. PostgreSQL selects once, where it might do it for each row.
    """
    if isinstance(numbers, sa.Select):
        return _OneSelected(column, numbers.scalar_subquery())
    return _OneOf(column, sa.bindparam(None, list(numbers), _Numbers(), unique=True))


NUMBERS = "numbers"


def one_of_given(column: Any) -> ColumnElement[bool]:
    """Whether a column is one of the numbers that are given as `NUMBERS` when it is
    asked.
    """
    return _OneOf(column, sa.bindparam(NUMBERS, type_=_Numbers()))
