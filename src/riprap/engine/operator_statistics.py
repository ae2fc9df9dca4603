"""Statistics of each operator of an engine: tuples in and out, and time."""

from dataclasses import dataclass

from riprap.graph.specs import OperatorSpec


@dataclass
class OperatorStatistics:
    """Statistics of one operator. Seconds are wall-clock time in this operator only."""

    tuples_in: list[int]  # per input port
    tuples_out: list[int]  # per output port
    triggered: list[int]  # outputs that tuples of each input port caused; counted only in an engine with `watch`
    seconds: float = 0.0

    @property
    def selectivity(self) -> list[float]:
        """Output tuples per input tuple, for each output port."""
        total = sum(self.tuples_in)
        return [count / total if total else 0.0 for count in self.tuples_out]


def no_statistics(spec: OperatorSpec) -> OperatorStatistics:
    inputs = max(1, spec.inputs)  # a source counts its input
    return OperatorStatistics([0] * inputs, [0] * spec.outputs, [0] * inputs)
