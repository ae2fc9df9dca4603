"""How many bytes a message holds, for bounding what waits.

A dictionary counts nothing: the messages of a channel share it.
"""

from riprap.runtime.messages import Message

# What a message costs beside its columns, so that a flood of progress is bounded too.
OVERHEAD_BYTES = 256


def weight_of(message: Message) -> int:
    return OVERHEAD_BYTES + (0 if message.batch is None else message.batch.nbytes)
