"""A deployment as a network of activities, tuple by tuple: the reference for the accelerated simulator.

Every instance waits, processes, sends (figure 5.1 of the published framework), with tainted streams next to the clean
ones (figure 5.4). Each tuple is a token. Places of instance X, with i an input port and j an output port:

    X.waiting            1 while it waits for input
    X.processing{i}      1 while it processes a clean tuple; X.processing_tainted{i} a tainted one
    X.sending{j}         tuples to send; X.sending_tainted{j}
    X.buffer{j}          output buffer; X.buffer_tainted{j}
    X.alive              0 between a crash and the recovery; X.dying a crash about to take effect
    X.unstable{i}        clean tuples until the state of port i is correct
    X.pending{i}         current outages upstream of port i
    X.refill{i}          tuples until an emptied state is full
    X.corrupt            1 if the next processed tuple will be corrupted
    X.to_Y_{j}_{i}       the stream from port j to port i of Y; X.to_Y_{j}_{i}_tainted

Numbers that a study varies (rates, times, selectivities, tuples to stabilise) are parameters, so the network is
compiled once.
"""

from dataclasses import dataclass, field

from riprap.san.formalism import (
    Activity,
    ActivityCase,
    Distribution,
    InputGate,
    Invariant,
    Network,
    OutputGate,
    SanPlace,
    deterministic,
    exponential,
    time_averaged,
)
from riprap.san.samplers import NEVER
from riprap.san.streaming.conservation import one_thing_at_a_time
from riprap.san.streaming.deployment import Deployment, Instance, ModelGroup, ModelLink, Shock
from riprap.san.streaming.failures import Faults
from riprap.san.streaming.rewards import active_place, all_alive, availability, deliveries


def build(deployment: Deployment, faults: Faults) -> Network:
    """The network of `deployment` under `faults`. Rewards: availability (with, without propagation), two per sink."""
    builder = _Builder(deployment, faults)
    for index in range(len(deployment.instances)):
        builder.instance(index)
    for number, group in enumerate(deployment.groups):
        builder.group(number, group)
    builder.hosts()
    if deployment.punctuation:
        builder.punctuation()
    return builder.network()


@dataclass
class _Builder:
    deployment: Deployment
    faults: Faults
    places: list[SanPlace] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)
    parameters: dict[str, float] = field(default_factory=dict)
    counters: list[str] = field(default_factory=list)  # of duplicates

    def network(self) -> Network:
        rewards = [
            time_averaged("availability", availability(self.deployment, self.faults)),
            time_averaged("availability_without_propagation", all_alive(self.deployment, self.faults)),
        ]
        for instance in self.deployment.instances:
            if instance.operator.sink:
                rewards += deliveries(instance, self.faults)
        return Network(
            self.deployment.application.name, tuple(self.places), tuple(self.activities), tuple(rewards),
            tuple(self.invariants), self.parameters,
        )  # fmt: skip

    # Names and small pieces.

    def name(self, instance: int) -> str:
        return self.deployment.instances[instance].name

    def parameter(self, name: str, value: float) -> str:
        self.parameters[name] = float(value)
        return name

    def stream(self, link: ModelLink, tainted: bool) -> str:
        suffix = "_tainted" if tainted else ""
        return f"{self.name(link.source)}.to_{self.name(link.target)}_{link.output}_{link.input}{suffix}"

    def place(self, name: str, tokens: int = 0) -> str:
        self.places.append(SanPlace(name, tokens))
        return name

    def wrong(self, instance: int) -> list[str]:
        """Conditions under any of which the output of `instance` is tainted."""
        operator, name = self.deployment.instances[instance].operator, self.name(instance)
        reasons = [f"{name}.unstable{port} > 0" for port in operator.stateful_ports]
        if self.faults.any_crash:
            reasons += [f"{name}.pending{port} > 0" for port in operator.stateful_ports]
            if self.deployment.taints_refilling(instance):
                reasons += [f"{name}.refill{port} > 0" for port in operator.stateful_ports]
        if self.faults.any_sdc:
            reasons.append(f"{name}.corrupt > 0")
        return reasons

    # One instance.

    def instance(self, index: int) -> None:
        instance, name = self.deployment.instances[index], self.name(index)
        operator = instance.operator
        self.place(f"{name}.waiting", 1)
        for port in range(len(operator.inputs)):
            self.place(f"{name}.processing{port}")
            self.place(f"{name}.processing_tainted{port}")
        for output in range(operator.outputs):
            for kind in ("sending", "sending_tainted", "buffer", "buffer_tainted"):
                self.place(f"{name}.{kind}{output}")
        for port in operator.stateful_ports:
            self.place(f"{name}.unstable{port}")
            if self.faults.any_crash:
                self.place(f"{name}.pending{port}")
                self.place(f"{name}.refill{port}")
        for link in self.deployment.links:
            if link.source == index:
                self.place(self.stream(link, False))
                self.place(self.stream(link, True))
        incoming = [
            self.stream(link, dirty)
            for link in self.deployment.links
            if link.target == index
            for dirty in (False, True)
        ]
        self.invariants += one_thing_at_a_time(name, operator, self.faults, incoming)
        self.outside(index)
        self.take(index)
        for port in range(len(operator.inputs)):
            self.process(index, port, tainted=False)
            self.process(index, port, tainted=True)
        for output in range(operator.outputs):
            for suffix in ("", "_tainted"):
                self.send(index, output, suffix)
                self.transmit(index, output, suffix == "_tainted")
        if self.faults.any_crash:
            self.crashes(index, instance)
        if self.faults.any_sdc:
            self.corruption(index)

    def outside(self, index: int) -> None:
        """External input, and tokens of a timer."""
        operator, name = self.deployment.instances[index].operator, self.name(index)
        feeds: list[tuple[int, str, Distribution]] = []
        if operator.arrivals:
            rate = self.parameter(f"{name}.rate", operator.arrivals.rate)
            feeds.append(
                (0, "arrive", exponential(rate) if operator.arrivals.poisson else deterministic(f"1 / {rate}"))
            )
        if operator.timer:
            port, seconds = operator.timer
            feeds.append((port, "trigger", deterministic(self.parameter(f"{name}.period", seconds))))
        for port, verb, delay in feeds:
            queue = self.place(f"{name}.{verb}_queue")
            room, deliver = f"{queue} < {operator.queue}", f"{queue} += 1"
            if self.faults.any_crash:
                room, deliver = f"{name}.alive == 0 or {room}", f"if {name}.alive == 1: {deliver}"
            self.activities.append(
                Activity(
                    f"{name}.{verb}",
                    delay,
                    gates=(InputGate(room),),
                    cases=(ActivityCase(gates=(OutputGate(deliver),)),),
                )
            )
            self.taking(f"{name}.take_{verb}", queue, name, f"{name}.processing{port}")

    def taking(self, activity: str, queue: str, name: str, processing: str) -> None:
        self.activities.append(
            Activity(activity, None, {queue: 1, f"{name}.waiting": 1}, cases=(ActivityCase(outputs={processing: 1}),))
        )

    def take(self, index: int) -> None:
        """From waiting to processing when a stream has a tuple; duplicates of replicas are dropped."""
        name = self.name(index)
        for link in self.deployment.links:
            if link.target != index:
                continue
            for suffix in ("", "_tainted"):
                queue = self.stream(link, bool(suffix))
                processing = f"{name}.processing{suffix}{link.input}"
                activity = f"{name}.take_{self.name(link.source)}_{link.output}_{link.input}{suffix}"
                others = [
                    replace_source
                    for replace_source in self.deployment.links
                    if replace_source != link
                    and replace_source.source in self.deployment.peers(link.source)
                    and (replace_source.output, replace_source.target, replace_source.input)
                    == (link.output, link.target, link.input)
                ]
                if not others:
                    self.taking(activity, queue, name, processing)
                    continue
                own_count, other = self.counter(link, suffix), self.counter(others[0], suffix)
                count = f"{own_count} += 1\nif {own_count} > {other}: {processing} = 1\nelse: {name}.waiting = 1"
                inputs = {queue: 1, f"{name}.waiting": 1}
                self.activities.append(
                    Activity(activity, None, inputs, cases=(ActivityCase(gates=(OutputGate(count),)),))
                )

    def counter(self, link: ModelLink, suffix: str) -> str:
        name = f"{self.name(link.target)}.seen_{self.name(link.source)}_{link.output}_{link.input}{suffix}"
        if name not in self.counters:
            self.counters.append(self.place(name))
        return name

    def process(self, index: int, number: int, tainted: bool) -> None:
        """Processes for some time, then emits at random: clean or tainted, like the tuple and the state."""
        operator, name = self.deployment.instances[index].operator, self.name(index)
        port = operator.inputs[number]
        suffix = "_tainted" if tainted else ""
        wrong = "" if tainted else " or ".join(self.wrong(index))
        after = self.after_processing(index, number, tainted)
        probabilities = []
        cases = []
        for which, (clean, dirty) in enumerate(zip(port.emissions, port.tainted, strict=True)):
            if clean.probability == dirty.probability == 0.0:
                continue
            chance = self.parameter(f"{name}.p{number}_{which}", clean.probability)
            chance_tainted = self.parameter(f"{name}.t{number}_{which}", dirty.probability)
            refilling = [f"{name}.refill{each} > 0" for each in operator.stateful_ports if self.faults.any_crash]
            if refilling:
                share = self.parameter("refill_selectivity", self.deployment.refill_selectivity)
                if self.deployment.taints_refilling(index):  # then no clean output occurs while refilling
                    chance_tainted = f"({chance_tainted} * {share} if {' or '.join(refilling)} else {chance_tainted})"
                elif not tainted:
                    chance = f"({chance} * {share} if {' or '.join(refilling)} else {chance})"
            probability = (
                chance_tainted if tainted else f"({chance_tainted} if {wrong} else {chance})" if wrong else chance
            )
            probabilities.append(probability)
            cases.append((probability, self.emit(name, clean.tuples, tainted, wrong)))
        certain = (
            len(cases) == 1
            and all(sum(each.probability for each in kind) == 1.0 for kind in (port.emissions, port.tainted))
            and not (operator.stateful_ports and self.faults.any_crash)
        )
        if certain:
            built = [ActivityCase(1.0, gates=(OutputGate("\n".join(filter(None, (cases[0][1], after)))),))]
        else:
            nothing = f"1 - ({' + '.join(probabilities)})" if probabilities else 1.0
            waiting = OutputGate("\n".join(filter(None, (f"{name}.waiting = 1", after))))
            built = [
                ActivityCase(chance, gates=(OutputGate("\n".join(filter(None, (program, after)))),))
                for chance, program in cases
            ]
            built.append(ActivityCase(nothing, gates=(waiting,)))
        delay = deterministic(self.parameter(f"{name}.seconds{number}", port.seconds))
        processing = f"{name}.processing{suffix}{number}"
        self.activities.append(Activity(f"{name}.process{suffix}{number}", delay, {processing: 1}, cases=tuple(built)))

    def emit(self, name: str, tuples: tuple[int, ...], tainted: bool, wrong: str) -> str:
        def to(place: str) -> str:
            return "; ".join(f"{name}.{place}{output} += {count}" for output, count in enumerate(tuples) if count)

        if tainted:
            return to("sending_tainted")
        return f"if {wrong}: {to('sending_tainted')}\nelse: {to('sending')}" if wrong else to("sending")

    def after_processing(self, index: int, number: int, tainted: bool) -> str:
        """Effect of a processed tuple on the state, after its output is drawn."""
        operator, name = self.deployment.instances[index].operator, self.name(index)
        lines = []
        if self.faults.any_sdc and not tainted:
            lines.append(f"{name}.corrupt = 0")
        if operator.inputs[number].stateful:
            unstable = f"{name}.unstable{number}"
            if tainted:
                stabilisation = self.parameter(f"{name}.taint{number}", operator.inputs[number].taint_stabilisation)
                lines.append(f"{unstable} = max({unstable}, {stabilisation})")
            else:
                lines.append(f"if {unstable} > 0: {unstable} -= 1")
                if self.faults.any_crash:
                    lines.append(f"if {name}.refill{number} > 0: {name}.refill{number} -= 1")
        return "\n".join(lines)

    def send(self, index: int, output: int, suffix: str) -> None:
        """From sending to the output buffer when it has room; when all is sent, waits for input again."""
        operator, name = self.deployment.instances[index].operator, self.name(index)
        room = f"{name}.buffer{output} + {name}.buffer_tainted{output} < {operator.buffer}"
        sending = f"{name}.sending{suffix}{output}"
        most = max((each.tuples[output] for port in operator.inputs for each in port.emissions), default=0)
        outputs = {f"{name}.buffer{suffix}{output}": 1}
        if operator.outputs == 1 and most <= 1:
            case = ActivityCase(outputs={**outputs, f"{name}.waiting": 1})
        else:
            left = " + ".join(
                f"{name}.sending{kind}{each}" for each in range(operator.outputs) for kind in ("", "_tainted")
            )
            case = ActivityCase(outputs=outputs, gates=(OutputGate(f"if {left} == 0: {name}.waiting = 1"),))
        self.activities.append(
            Activity(f"{name}.send{suffix}{output}", None, {sending: 1}, (InputGate(room),), cases=(case,))
        )

    def transmit(self, index: int, output: int, tainted: bool) -> None:
        """From the output buffer to every stream of the port: live targets exert back pressure, dead ones lose."""
        name, suffix = self.name(index), "_tainted" if tainted else ""
        rooms, deliveries = [], []
        for link in self.deployment.links:
            if (link.source, link.output) != (index, output):
                continue
            queue = self.stream(link, tainted)
            both = f"{self.stream(link, False)} + {self.stream(link, True)}"
            capacity = self.deployment.instances[link.target].operator.queue
            open_, conditions = f"{both} < {capacity}", []
            if self.faults.any_crash:
                conditions.append(f"{self.name(link.target)}.alive == 1")
            if self.deployment.leaves_group(link):
                group, replica = self.deployment.membership[index]
                conditions.append(f"{active_place(group)} == {replica + 1}")
            closed = " or ".join(condition.replace("==", "!=") for condition in conditions)
            rooms.append(f"({closed} or {open_})" if conditions else open_)
            deliver = f"{queue} += 1"
            deliveries.append(f"if {' and '.join(conditions)}: {deliver}" if conditions else deliver)
        gates = (InputGate(" and ".join(rooms)),) if rooms else ()
        case = ActivityCase(gates=(OutputGate("\n".join(deliveries)),) if deliveries else ())
        self.activities.append(
            Activity(
                f"{name}.transmit{suffix}{output}", None, {f"{name}.buffer{suffix}{output}": 1}, gates, cases=(case,)
            )
        )

    # Faults.

    def crashes(self, index: int, instance: Instance) -> None:
        """Every cause of a crash puts a token into X.dying; the crash itself takes no time."""
        name, operator = self.name(index), instance.operator
        self.place(f"{name}.alive", 1)
        dying = self.place(f"{name}.dying")
        alive = InputGate(f"{name}.alive == 1")
        rate = self.parameter(f"{name}.crash_rate", self.faults.crash_rate_of(operator.name))
        dies = (ActivityCase(outputs={dying: 1}),)
        self.activities.append(Activity(f"{name}.crash", exponential(rate), gates=(alive,), cases=dies))
        if self.faults.forced:
            moment = self.parameter(f"{name}.forced_at", self.faults.forced.get(operator.name, NEVER))
            unforced = self.place(f"{name}.unforced", 1)
            self.activities.append(Activity(f"{name}.forced", deterministic(moment), {unforced: 1}, cases=dies))
        death = (ActivityCase(gates=(OutputGate(self.crash_program(index)),)),)
        self.activities.append(Activity(f"{name}.die", None, {dying: 1}, (alive,), death, priority=-1))
        dead = InputGate(f"{name}.alive == 0")
        self.activities.append(Activity(f"{name}.die_again", None, {dying: 1}, (dead,), priority=-1))
        seconds = self.parameter("recovery", self.deployment.recovery)
        self.activities.append(
            Activity(
                f"{name}.recover",
                deterministic(seconds),
                gates=(InputGate(f"{name}.alive == 0"),),
                cases=(ActivityCase(gates=(OutputGate(self.recovery_program(index, instance)),)),),
            )
        )

    def crash_program(self, index: int) -> str:
        """Everything in the instance and in flight to it is lost; downstream operators start to miss tuples."""
        operator, name = self.deployment.instances[index].operator, self.name(index)
        emptied = [f"{name}.waiting"]
        for port in range(len(operator.inputs)):
            emptied += [f"{name}.processing{port}", f"{name}.processing_tainted{port}"]
        for output in range(operator.outputs):
            emptied += [f"{name}.{kind}{output}" for kind in ("sending", "sending_tainted", "buffer", "buffer_tainted")]
        for port in operator.stateful_ports:
            emptied += [f"{name}.unstable{port}", f"{name}.refill{port}"]
        emptied += [
            self.stream(link, dirty)
            for link in self.deployment.links
            if link.target == index
            for dirty in (False, True)
        ]
        if operator.arrivals:
            emptied.append(f"{name}.arrive_queue")
        if operator.timer:
            emptied.append(f"{name}.trigger_queue")
        if self.faults.any_sdc:
            emptied.append(f"{name}.corrupt")
        lines = [f"{name}.alive = 0", *(f"{place} = 0" for place in emptied)]
        return "\n".join([*lines, *self.last_one(index, self.outage_starts(self.deployment.crash_shocks(index)))])

    def recovery_program(self, index: int, instance: Instance) -> str:
        name = self.name(index)
        lines = []
        for port, restart in enumerate(instance.restarts):
            if instance.operator.inputs[port].stateful:
                tainted = self.parameter(f"{name}.restart_tainted{port}", restart.tainted)
                refill = self.parameter(f"{name}.restart_refill{port}", restart.refill)
                lines += [f"{name}.unstable{port} = {tainted}", f"{name}.refill{port} = {refill}"]
        ends = self.outage_ends(self.deployment.crash_shocks(index), name)
        return "\n".join([*self.last_one(index, [*lines, *ends]), f"{name}.alive = 1", f"{name}.waiting = 1"])

    def last_one(self, index: int, lines: list[str]) -> list[str]:
        """`lines`, conditional on no peer being alive that does the same work."""
        peers = self.deployment.peers(index)
        if not peers or not lines:
            return lines
        dead = " and ".join(f"{self.name(peer)}.alive == 0" for peer in peers)
        return [f"if {dead}:", *(_indented(line) for line in lines)]

    def outage_starts(self, shocks: tuple[Shock, ...]) -> list[str]:
        return [f"{self.name(shock.instance)}.pending{shock.port} += 1" for shock in shocks]

    def outage_ends(self, shocks: tuple[Shock, ...], cause: str) -> list[str]:
        lines = []
        for shock in shocks:
            target = self.name(shock.instance)
            unstable = f"{target}.unstable{shock.port}"
            tuples = self.parameter(f"{cause}.shock_{target}_{shock.port}", shock.tuples)
            lines.append(f"{target}.pending{shock.port} -= 1")
            lines.append(f"if {target}.alive == 1: {unstable} = max({unstable}, {tuples})")
        return lines

    def corruption(self, index: int) -> None:
        operator, name = self.deployment.instances[index].operator, self.name(index)
        self.place(f"{name}.corrupt")
        share = self.faults.state_share if operator.stateful_ports else 0.0
        cases = [ActivityCase(1 - share, gates=(OutputGate(f"{name}.corrupt = 1"),))]
        if operator.stateful_ports:
            lines = []
            for port in operator.stateful_ports:
                tuples = self.parameter(f"{name}.taint{port}", operator.inputs[port].taint_stabilisation)
                lines.append(f"{name}.unstable{port} = max({name}.unstable{port}, {tuples})")
            cases.append(ActivityCase(share, gates=(OutputGate("\n".join(lines)),)))
        gates = (InputGate(f"{name}.alive == 1"),) if self.faults.any_crash else ()
        rate = self.parameter(f"{name}.sdc_rate", self.faults.sdc_rate_of(operator.name))
        self.activities.append(Activity(f"{name}.corrupted", exponential(rate), gates=gates, cases=tuple(cases)))

    def hosts(self) -> None:
        for number, (_, crash_rate, members) in enumerate(self.deployment.machines(self.faults.hosts)):
            rate = self.parameter(f"host{number}.crash_rate", crash_rate)
            dying = [f"{self.name(instance)}.dying" for instance in members]
            case = ActivityCase(outputs=dict.fromkeys(dying, 1))
            self.activities.append(Activity(f"host{number}.crash", exponential(rate), cases=(case,)))

    # Techniques.

    def group(self, number: int, group: ModelGroup) -> None:
        """Figure 5.8: a replica that loses an operator is deactivated; the first complete one becomes active after the
        fail-over time.
        """
        active = self.place(active_place(number), 1)
        if not self.faults.any_crash:
            return
        complete = [" and ".join(f"{self.name(each)}.alive == 1" for each in replica) for replica in group.replicas]
        shocks = self.deployment.group_shocks(number)
        for replica, condition in enumerate(complete):
            starts = "\n".join([f"{active} = 0", *self.outage_starts(shocks)])
            ends = "\n".join([f"{active} = {replica + 1}", *self.outage_ends(shocks, f"group{number}")])
            gate = InputGate(f"{active} == {replica + 1} and not ({condition})")
            self.activities.append(
                Activity(
                    f"group{number}.deactivate{replica}",
                    None,
                    gates=(gate,),
                    cases=(ActivityCase(gates=(OutputGate(starts),)),),
                )
            )
            earlier = "".join(f" and not ({each})" for each in complete[:replica])
            gate = InputGate(f"{active} == 0 and {condition}{earlier}")
            seconds = self.parameter(f"group{number}.failover", group.failover)
            self.activities.append(
                Activity(
                    f"group{number}.activate{replica}",
                    deterministic(seconds),
                    gates=(gate,),
                    cases=(ActivityCase(gates=(OutputGate(ends),)),),
                )
            )
            self.invariants.append(
                Invariant(
                    f"replica {replica} of group{number} is complete while it is active",
                    f"{active} != {replica + 1} or ({condition})",
                )
            )

    def punctuation(self) -> None:
        """Clears the duplicate counters. A punctuation does not overtake tuples: it acts when none is in flight."""
        due = self.place("punctuation.due")
        seconds = self.parameter("punctuation.seconds", self.deployment.punctuation)
        mark = ActivityCase(gates=(OutputGate(f"{due} = 1"),))
        self.activities.append(Activity("punctuation.mark", deterministic(seconds), cases=(mark,)))
        busy = [
            f"{place.name} == 0"
            for place in self.places
            if any(part in place.name for part in (".processing", ".sending", ".buffer", ".to_", "_queue"))
        ]
        clear = "\n".join([f"{due} = 0", *(f"{counter} = 0" for counter in self.counters)])
        gate = InputGate(" and ".join([f"{due} == 1", *busy]), clear)
        self.activities.append(Activity("punctuation.clear", None, gates=(gate,), priority=1))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
