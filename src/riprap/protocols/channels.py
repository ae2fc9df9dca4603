"""The identity of a channel: from one shard of a stream's producer to one shard of its consumer."""

from typing import NamedTuple


class ChannelId(NamedTuple):
    """`stream` is the stream's id in the graph, e.g. `Source→TradeQuote`."""

    stream: str
    source: int = 0  # shard of the producer
    target: int = 0  # shard of the consumer

    def __str__(self) -> str:
        return f"{self.stream}[{self.source}→{self.target}]"
