"""Silent corruption of an element on request: a flipped bit in one input tuple, or in a state."""

import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.graph.order_keys import KEY_COLUMNS
from riprap.operators.flipping import corrupt_some, corrupted, corruptible
from riprap.operators.views import Views


class WrongBits:
    def __init__(self, engine: Engine, members: tuple[str, ...]) -> None:
        self._engine, self._members = engine, members
        self._chance: int | None = None  # random number for the next tuple
        self.struck: str | None = None  # the column of the last corruption
        self.pending = False

    def tuple(self, chance: int) -> None:
        """Corrupt one tuple of the next input."""
        self._chance, self.pending = chance, True

    def state(self, operator: str, chance: int) -> str | None:
        """Corrupt a state; returns its column. Without a known operator, the first one that has state."""
        for name in (operator,) if operator in self._members else self._members:
            column = corrupt_some(self._engine.operators[name], chance)
            if column is not None:
                return column
        return None

    def views(self, rows: Views) -> Views:
        return Views.of(self.rows(rows.batch())) if self._chance is not None and rows.rows else rows

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, corrupted if a corruption is pending."""
        if self._chance is None or not batch.num_rows:
            return batch
        names = [name for name in corruptible(batch.schema) if name not in KEY_COLUMNS]
        names += [n for n in batch.schema.names if pa.types.is_dictionary(batch.schema.field(n).type)]
        chance, self._chance, self.pending = self._chance, None, False
        batch, self.struck = corrupted(batch, chance % batch.num_rows, names, chance // batch.num_rows)
        return batch
