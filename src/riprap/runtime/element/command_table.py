"""The commands of a protocol that one part of an element carries out, by type.

Those that change what is accepted, and may call the engine, are the element's own.
"""

from collections.abc import Callable
from typing import Any

from riprap.protocols import events as seam
from riprap.runtime.element.cuts import Cuts
from riprap.runtime.element.element_outputs import Outputs
from riprap.runtime.element.withheld import Withheld
from riprap.runtime.host import Host

CarryOut = dict[type, Callable[[Any], None]]


def commands_to_parts(host: Host, outputs: Outputs, cuts: Cuts, withheld: Withheld) -> CarryOut:
    channels = outputs.channels
    return {
        seam.TakeCheckpoint: cuts.capture,
        seam.Close: cuts.close,
        seam.Abandon: cuts.abandon,
        seam.Publish: withheld.publish,
        seam.Halt: lambda c: outputs.halt(c.halted),
        seam.SendMarker: lambda c: channels[c.channel].send_marker(c.marker, ahead=c.ahead),
        seam.Stamp: lambda c: channels[c.channel].stamp(c.header),
        seam.Resend: lambda c: channels[c.channel].resend(c.first),
        seam.Activate: lambda c: channels[c.channel].activate(c.term, plain=c.plain),
        seam.Deactivate: lambda c: channels[c.channel].deactivate(),
        seam.Release: lambda c: channels[c.channel].release(c.delivered, c.by_all),
        seam.Acknowledge: lambda c: host.acknowledge(c.channel, c.below),
        seam.Forget: lambda c: host.release(c.channel, c.position),
        seam.SendToDirector: lambda c: host.send_to_director(c.message),
    }
