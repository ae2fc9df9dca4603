"""Composition of networks by sharing places: `join` for different networks, `rep` for copies of one.

Names of the parts get a prefix, `part.name`, except those of shared places, which are merged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tests.san.programs import rename

from riprap.base.errors import known
from riprap.san.formalism import Activity, ActivityCase, Distribution, InputGate, Network, Number, OutputGate, SanPlace
from riprap.san.language import expression, program
from riprap.san.resolved import NetworkError


def join(name: str, parts: Mapping[str, Network], shared: Mapping[str, Sequence[tuple[str, str]]]) -> Network:
    """One network of `parts`; `shared`: name of each common place → the (part, place) pairs that it replaces."""
    names: dict[tuple[str, str], str] = {}
    tokens: dict[str, set[int]] = {}
    for common, members in shared.items():
        for part, place in members:
            if part not in parts:
                raise NetworkError(f"shared place {common} names part {part}, which is not one of {known(parts, part)}")
            places = {each.name: each.tokens for each in parts[part].places}
            if place not in places:
                raise NetworkError(
                    f"shared place {common} names {place} of {part}, which is not one of {known(places, place)}"
                )
            names[part, place] = common
            tokens.setdefault(common, set()).add(places[place])
    for common, starts in tokens.items():
        if len(starts) > 1:
            raise NetworkError(
                f"shared place {common} starts with {sorted(starts)} tokens in its parts; the numbers must be equal"
            )
    whole = Network(name, tuple(SanPlace(common, starts.pop()) for common, starts in tokens.items()), ())
    for part, network in parts.items():
        renamed = _renamed(network, lambda old, part=part: names.get((part, old), f"{part}.{old}"), part)  # type: ignore[misc]
        whole = Network(
            name,
            whole.places + tuple(place for place in renamed.places if place.name not in tokens),
            whole.activities + renamed.activities,
            whole.rewards + renamed.rewards,
            whole.invariants + renamed.invariants,
            {**whole.parameters, **renamed.parameters},
        )
    return whole


def rep(name: str, network: Network, copies: int, shared: Sequence[str]) -> Network:
    """`copies` of `network`, called copy1, copy2, …, with the places `shared` in common."""
    if copies < 1:
        raise NetworkError(f"{copies} copies of {network.name}: at least 1 is needed")
    parts = {f"copy{number}": network for number in range(1, copies + 1)}
    return join(name, parts, {place: [(part, place) for part in parts] for place in shared})


def _renamed(network: Network, new: Callable[[str], str], prefix: str) -> Network:
    def number(value: Number) -> Number:
        return rename(expression(value), new) if isinstance(value, str) else value

    def distribution(value: Distribution | None) -> Distribution | None:
        return value and Distribution(value.kind, tuple(number(each) for each in value.parameters))

    def text(value: str) -> str:
        return rename(program(value), new) if value else value

    def case(value: ActivityCase) -> ActivityCase:
        outputs = {new(place): tokens for place, tokens in value.outputs.items()}
        return ActivityCase(
            number(value.probability), outputs, tuple(OutputGate(text(gate.function)) for gate in value.gates)
        )

    def activity(value: Activity) -> Activity:
        return replace(
            value,
            name=f"{prefix}.{value.name}",
            delay=distribution(value.delay),
            inputs={new(place): tokens for place, tokens in value.inputs.items()},
            gates=tuple(
                InputGate(rename(expression(gate.predicate), new), text(gate.function)) for gate in value.gates
            ),
            cases=tuple(case(each) for each in value.cases),
        )

    return Network(
        network.name,
        tuple(SanPlace(new(place.name), place.tokens) for place in network.places),
        tuple(activity(each) for each in network.activities),
        tuple(
            replace(each, name=f"{prefix}.{each.name}", expression=rename(expression(each.expression), new),
                    activities=tuple(f"{prefix}.{name}" for name in each.activities))
            for each in network.rewards
        ),
        tuple(
            replace(each, name=f"{prefix}.{each.name}", expression=rename(expression(each.expression), new))
            for each in network.invariants
        ),
        {new(name): value for name, value in network.parameters.items()},
    )  # fmt: skip
