"""The size of a message in bytes, to bound queues.

A dictionary does not count: the messages of a channel share it.
"""

from riprap.runtime.messages import Message

# The cost of a message apart from its columns, so that a flood of watermarks is bounded, too.
OVERHEAD_BYTES = 256


def weight_of(message: Message) -> int:
    return OVERHEAD_BYTES + (0 if message.batch is None else message.batch.nbytes)
