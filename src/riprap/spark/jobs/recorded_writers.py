"""Writers that write nothing: they record what a query would do, and hand out queries that have ended at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from riprap.spark.jobs.user_lines import UserLine, users_place


@dataclass
class WriteRequest:
    """What the user asked a writer for."""

    frame: Any
    format: str = ""
    target: str | None = None
    table: bool = False  # whether the target is a table
    name: str = ""
    mode: str = "append"
    trigger: str = ""
    options: dict[str, str] = field(default_factory=dict)
    body: Any = None  # of foreachBatch or foreach
    place: UserLine = field(default_factory=lambda: UserLine("", 0))


Record = Callable[[WriteRequest], "EndedQuery"]


class EndedQuery:
    """In place of `StreamingQuery`: a query that ended before it did anything."""

    def __init__(self, name: str, await_: Callable[[], object]) -> None:
        self.name = name
        self.id = self.runId = "00000000-0000-0000-0000-000000000000"
        self.isActive = False
        self.status: Mapping[str, Any] = {
            "message": "Stopped", "isDataAvailable": False, "isTriggerActive": False
        }  # fmt: skip
        self.recentProgress: list[Any] = []
        self.lastProgress = None
        self._await = await_

    def awaitTermination(self, timeout: float | None = None) -> bool:
        if timeout is None:
            self._await()
        return True

    def processAllAvailable(self) -> None: ...

    def stop(self) -> None: ...

    def explain(self, extended: bool = False) -> None: ...

    def exception(self) -> None:
        return None


class _Writer:
    def __init__(self, frame: Any, record: Record, **fixed: Any) -> None:
        self._request = WriteRequest(frame, **fixed)
        self._record = record

    def format(self, source: str) -> Any:
        self._request.format = source
        return self

    def option(self, key: str, value: Any) -> Any:
        if value is not None:
            self._request.options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self.option(key, value)
        return self

    def _arranged(self, *_: Any, **__: Any) -> Any:
        """How files and tables are laid out does not matter to a query."""
        return self

    partitionBy = clusterBy = _arranged

    def _done(self, target: str | None = None, *, format: str | None = None, table: bool = False) -> EndedQuery:
        if format is not None:
            self._request.format = format
        if target is not None or self._request.target is None:
            self._request.target = target if target is not None else self._request.options.get("path")
        self._request.table = table
        self._request.place = users_place()
        return self._record(self._request)


class RecordedStreamWriter(_Writer):
    """In place of `DataStreamWriter`."""

    def outputMode(self, outputMode: str) -> Any:
        self._request.mode = outputMode.lower()
        return self

    def queryName(self, queryName: str) -> Any:
        self._request.name = queryName
        return self

    def trigger(self, *, processingTime: str | None = None, **others: Any) -> Any:
        words = [f"processingTime {processingTime}"] if processingTime else []
        words += [name if value is True else f"{name} {value}" for name, value in others.items() if value]
        self._request.trigger = " ".join(words)
        return self

    def foreachBatch(self, func: Any) -> Any:
        self._request.format, self._request.body = "foreachBatch", func
        return self

    def foreach(self, f: Any) -> Any:
        self._request.format, self._request.body = "foreach", f
        return self

    def _asked(self, mode: str | None, name: str | None, options: Mapping[str, Any]) -> None:
        self.options(**options)
        if mode is not None:
            self.outputMode(mode)
        if name is not None:
            self.queryName(name)

    def start(
        self, path: str | None = None, format: str | None = None, outputMode: str | None = None,
        partitionBy: Any = None, queryName: str | None = None, **options: Any,
    ) -> EndedQuery:  # fmt: skip
        self._asked(outputMode, queryName, options)
        return self._done(path, format=format)

    def toTable(
        self, tableName: str, format: str | None = None, outputMode: str | None = None, partitionBy: Any = None,
        queryName: str | None = None, **options: Any,
    ) -> EndedQuery:  # fmt: skip
        self._asked(outputMode, queryName, options)
        return self._done(tableName, format=format, table=True)


class RecordedBatchWriter(_Writer):
    """In place of `DataFrameWriter` and `DataFrameWriterV2`."""

    def __init__(self, frame: Any, record: Record, table: str | None = None) -> None:
        super().__init__(frame, record, trigger="batch", target=table)

    bucketBy = sortBy = partitionedBy = tableProperty = _Writer._arranged

    def mode(self, saveMode: str | None) -> Any:
        return self

    def using(self, provider: str) -> Any:
        return self.format(provider)

    def save(self, path: str | None = None, format: str | None = None, mode: Any = None, **options: Any) -> None:
        self.options(**options)._done(path, format=format)

    def saveAsTable(self, name: str, format: str | None = None, *_: Any, **options: Any) -> None:
        self.options(**options)._done(name, format=format, table=True)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        self._done(tableName, table=True)

    def jdbc(self, url: str, table: str, mode: str | None = None, properties: Any = None) -> None:
        self._done(table, format="jdbc")

    def json(self, path: str, *_: Any, **__: Any) -> None:
        self._done(path, format="json")

    def parquet(self, path: str, *_: Any, **__: Any) -> None:
        self._done(path, format="parquet")

    def text(self, path: str, *_: Any, **__: Any) -> None:
        self._done(path, format="text")

    def csv(self, path: str, *_: Any, **__: Any) -> None:
        self._done(path, format="csv")

    def orc(self, path: str, *_: Any, **__: Any) -> None:
        self._done(path, format="orc")

    def xml(self, path: str, *_: Any, **__: Any) -> None:
        self._done(path, format="xml")

    def _table(self, *_: Any) -> None:
        self._done(table=True)

    create = replace = createOrReplace = append = overwrite = overwritePartitions = _table
