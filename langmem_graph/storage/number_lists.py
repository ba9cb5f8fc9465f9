"""Queries for any number of values, in the form that each engine answers fastest."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from langmem_graph.ids_and_times import is_unicode

T = TypeVar("T")
_AT_ONCE = 5_000  # SQLite allows 32,766 variables in one statement


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


def portions(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in order, in portions that fit into one statement."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def rows_where_in(
    connection: Connection, query: Any, column: Any, values: Iterable[Any]
) -> Iterator[Row[Any]]:
    """The query's rows whose column is one of any number of values.

    Texts that are no valid Unicode cannot be stored, so they are left out. A statement
    without values of its own, or with the option `kept`, is made once for all numbers.
    """
    distinct = list(dict.fromkeys(values))
    if distinct and isinstance(column.type, sa.Integer):
        if query.whereclause is None or query.get_execution_options().get("kept"):
            asked = _having_numbers(query, column)
            return iter(connection.execute(asked, {NUMBERS: distinct}).all())
        return iter(connection.execute(query.where(one_of(column, distinct))).all())
    usable = [
        value for value in distinct if not isinstance(value, str) or is_unicode(value)
    ]
    found = (
        connection.execute(query.where(column.in_(some))) for some in portions(usable)
    )
    return chain.from_iterable(rows.all() for rows in found)


@lru_cache(maxsize=64)
def _having_numbers(query: sa.Select[Any], column: Any) -> sa.Select[Any]:
    """One statement for all numbers: to build it each time takes as long as to
    run it.
    """
    return query.where(one_of_given(column))
