"""PySpark finds the data source `riprap` by the name of this package."""

from riprap.spark.source import StreamSource as DefaultSource

__all__ = ["DefaultSource"]
