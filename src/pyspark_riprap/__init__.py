"""PySpark finds the format `riprap` by this package's name."""

from riprap.spark.source import StreamSource as DefaultSource

__all__ = ["DefaultSource"]
