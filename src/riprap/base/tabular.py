"""Results that are tables at heart: the same rows as Arrow, as pandas and as HTML in a notebook."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_SHOWN = 50  # rows in a notebook


class Tabular:
    """A subclass has `rows`; the rest follows."""

    def rows(self) -> Sequence[Mapping[str, Any]]:
        raise NotImplementedError

    def to_arrow(self) -> "pa.Table":
        import pyarrow as pa

        return pa.Table.from_pylist([dict(row) for row in self.rows()])

    def to_pandas(self) -> Any:
        """A pandas DataFrame; needs pandas."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        rows = self.rows()
        head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) + "</tr>"
            for row in rows[:_MOST_SHOWN]
        )
        more = f"<p>{len(rows) - _MOST_SHOWN} more rows</p>" if len(rows) > _MOST_SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
