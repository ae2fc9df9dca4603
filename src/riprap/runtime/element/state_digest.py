"""The digest of an element's state at one key, by which replicas are compared.

Replicas get the same rows in different messages, so their states are comparable only at a key. Until all inputs have
reached the requested key, messages and source batches are split at it: first the items up to it, with the key as
watermark, then the rest. When all inputs are there, the operators have processed exactly the items at or below it.
"""

from collections.abc import Iterable
from dataclasses import replace

import xxhash

from riprap.engine.engine import Engine
from riprap.graph.order_keys import KeyShape, OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channel import ALL, Delivered, Skip
from riprap.runtime.element.arrivals import keys_of_message
from riprap.runtime.messages import Message, MessageKind


class StateDigest:
    """`entries`: the operators of the element that channels and sources feed."""

    def __init__(self, engine: Engine, members: Iterable[str], entries: Iterable[str]) -> None:
        self._engine, self._members, self._entries = engine, tuple(members), tuple(dict.fromkeys(entries))
        self.key: OrderKey | None = None  # that was requested

    def ask(self, key: OrderKey) -> bool:
        """Request the digest at this key; False if some input is already past it."""
        self.key = key if all(self._engine.reached(name) < key for name in self._entries) else None
        return self.key is not None

    def parts(self, message: Message, reached: OrderKey, shape: KeyShape) -> tuple[Message, ...]:
        """A message of a channel whose watermark is `reached`, split at the key."""
        key, watermark = self.key, message.watermark
        if key is None or reached >= key:
            return (message,)
        below, items = Skip(Delivered(key, ALL)).of(keys_of_message(message, shape)), message.items
        if below == items:
            if watermark is None or watermark <= key:
                return (message,)
            rest = Message(
                MessageKind.WATERMARK, message.epoch, message.number + items, watermark=watermark, born=message.born
            )
            return (replace(message, watermark=key), rest) if items else (_watermark(message, key), message)
        if not below or message.batch is None:
            return (_watermark(message, key), message)
        return (
            replace(message, batch=message.batch.slice(0, below), watermark=key),
            replace(message, number=message.number + below, batch=message.batch.slice(below)),
        )

    def below(self, source: str, keys: Keys) -> int | None:
        """How many of the next rows of a source are at or below the key; None: all, or the source is beyond it."""
        if self.key is None or self._engine.reached(source) >= self.key:
            return None
        below = Skip(Delivered(self.key, ALL)).of(keys)
        return below if below < len(keys.ts) else None

    def take(self) -> tuple[OrderKey, int] | None:
        """The key and the digest, once, when all inputs have reached the key."""
        key, engine = self.key, self._engine
        if key is None or not all(engine.reached(name) >= key for name in self._entries):
            return None
        self.key = None
        digest = xxhash.xxh3_64()
        for name in self._members:
            state = engine.operators[name].digest()
            digest.update(name.encode() + state.keys.tobytes() + state.digests.tobytes())
        return key, digest.intdigest()


def _watermark(message: Message, key: OrderKey) -> Message:
    return Message(MessageKind.WATERMARK, message.epoch, message.number, watermark=key)
