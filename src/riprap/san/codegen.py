"""The compiler: generates one specialised Numba function from a resolved network.

The function has three bit sets of items to check again: timed activities, instantaneous activities, observers
(rewards and invariants). Completing an activity changes the marking and adds to the sets exactly what the changes can
affect, which the texts of the gates determine. Nothing else is checked. A tournament tree over the timed activities
gives the next completion. Parameters are in an array, so one compilation serves all their values.

Three choices reduce compilation time: five helpers that LLVM inlines instead of one body (the cost of Numba's analyses
is superlinear in the body), state in arrays instead of variables, and named constants.

    m  marking          p  parameters      tree  completion times, as a tournament
    s  bit sets, and the counter of the generator in s[0]
    f  [now, start, horizon]
    drawn, rate, since  parameters drawn with; current rates of rewards, and since when
"""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from riprap.san.formalism import DistributionKind, Measure
from riprap.san.language import FUNCTIONS, Code, dotted
from riprap.san.resolved import TOLERANCE, Resolved, ResolvedActivity
from riprap.san.simulate import LOOP_LIMIT, RING, Trouble

_SAMPLER = {
    DistributionKind.EXPONENTIAL: "exponential",
    DistributionKind.UNIFORM: "between",
    DistributionKind.NORMAL: "normal",
    DistributionKind.LOGNORMAL: "lognormal",
    DistributionKind.WEIBULL: "weibull",
    DistributionKind.GAMMA: "gamma",
}
_WORD = 64

_ARRAYS = ("p", "rewards", "m", "trace_times", "trace_activities", "ring", "s", "f", "tree", "drawn", "rate", "since")
_ARGUMENTS = "b, m, p, s, f, tree, drawn, rewards, rate, since, key"
_INLINED = '@njit(error_model="numpy", forceinline=True)'
_DECORATOR = '@njit(nogil=True, cache=True, error_model="numpy")'

HEADER = '''\
"""Generated from a network; see riprap.san.codegen."""
from math import floor, sqrt
import numpy as np
from numba import njit
from riprap.san.machine import borrowed, integrate, lowest, repair
from riprap.san.generator import uniform
from riprap.san.samplers import between, due, exponential, gamma, lognormal, normal, one_of, weibull
ONE = np.uint64(1)
ZERO = np.uint64(0)
'''


def generate(network: Resolved) -> str:
    """The text of a module with `simulate` and `simulate_many`."""
    lines = _Generator(network).module()
    used = sorted(set(re.findall(r"\bM_([0-9a-f]+)\b", "\n".join(lines))))
    constants = [f"M_{digits} = np.uint64(0x{digits})" for digits in used]
    constants += [f"TIMED = np.array({[*network.timed, 0]})", f"INSTANT = np.array({[*network.instant, 0]})"]
    return HEADER + "\n".join([*constants, *lines]) + "\n"


@dataclass(frozen=True)
class Sizes:
    """Lengths of the work arrays of generated functions; the caller owns the arrays."""

    sets: int
    tree: int
    timed: int


def sizes(network: Resolved) -> Sizes:
    generator = _Generator(network)
    return Sizes(generator.observers.end, 2 * generator.leaves, len(network.timed))


def mask(bits: int) -> str:
    """The name of a constant bit set; named because Numba is slow to compile calls of uint64()."""
    return f"M_{bits:x}"


def parameter_array(network: Resolved) -> list[float]:
    """The argument `p` of generated functions: named parameters, then the values of empirical distributions."""
    values = list(network.parameters.values())
    for activity in network.activities:
        values.extend(activity.values)
    return values


@dataclass(frozen=True)
class _Set:
    """A bit set in the words from `s[first]` on."""

    first: int
    size: int

    @property
    def slots(self) -> list[str]:
        return [f"s[{self.first + word}]" for word in range(max(1, -(-self.size // _WORD)))]

    @property
    def end(self) -> int:
        return self.first + len(self.slots)

    def fill(self) -> list[str]:
        return [
            f"{slot} = {mask((1 << min(_WORD, max(0, self.size - word * _WORD))) - 1)}"
            for word, slot in enumerate(self.slots)
        ]

    def add(self, members: Iterable[int]) -> list[str]:
        masks: dict[int, int] = {}
        for member in members:
            masks[member // _WORD] = masks.get(member // _WORD, 0) | 1 << member % _WORD
        return [f"{self.slots[word]} |= {mask(bits)}" for word, bits in sorted(masks.items())]

    def remove(self, member: int) -> str:
        return f"{self.slots[member // _WORD]} &= {mask(~(1 << member % _WORD) & (1 << _WORD) - 1)}"

    def any(self) -> str:
        return " | ".join(self.slots) + " != ZERO"

    def lowest(self, take: bool) -> list[str]:
        """Code that assigns the smallest member to `b` and, with `take`, removes it."""
        lines = []
        for word, slot in enumerate(self.slots):
            last = slot == self.slots[-1]
            lines += [("else:" if word else "if True:") if last else f"{'elif' if word else 'if'} {slot} != ZERO:"]
            lines += [f"    b = lowest({slot}) + {word * _WORD}"]
            lines += [f"    {slot} &= {slot} - ONE"] if take else []
        return lines


class _Generator:
    def __init__(self, network: Resolved) -> None:
        self.network = network
        self.place = {name: index for index, name in enumerate(network.places)}
        self.parameter = {name: index for index, name in enumerate(network.parameters)}
        self.leaves = 1
        while self.leaves < max(2, len(network.timed)):
            self.leaves *= 2
        self.rates = [index for index, reward in enumerate(network.rewards) if reward.measure is not Measure.IMPULSE]
        self.timed = _Set(1, len(network.timed))
        self.instant = _Set(self.timed.end, len(network.instant))
        self.enabled = _Set(self.instant.end, len(network.instant))
        self.observers = _Set(self.enabled.end, len(self.rates) + len(network.invariants))
        offset = len(network.parameters)
        self.values: dict[int, tuple[int, int]] = {}
        for number, activity in enumerate(network.activities):
            self.values[number] = (offset, offset + len(activity.values))
            offset += len(activity.values)

    def module(self) -> list[str]:
        """The helpers, the function, and the function for many replications."""
        network = self.network
        timed = [[*self.timed.add([leaf]), *self.fire(number)] for leaf, number in enumerate(network.timed)]
        return [
            *_helper("check_instant", [self.check_instant(place) for place in range(len(network.instant))]),
            *_helper("check_timed", [self.check_timed(leaf, number) for leaf, number in enumerate(network.timed)]),
            *_helper("fire_instant", [self.fire(number) for number in network.instant]),
            *_helper("fire_timed", timed),
            *_helper("observe", self.observe()),
            _DECORATOR,
            f"def simulate(initial, key, start, horizon, {', '.join(_ARRAYS)}):",
            *_indent(self.body()),
            _DECORATOR,
            f"def simulate_many(initial, keys, start, horizon, {', '.join(_ARRAYS)}):",
            "    total = 0",
            "    for r in range(keys.shape[0]):",
            "        trouble, detail, t, events = simulate(initial, keys[r], start, horizon, "
            f"{', '.join('rewards[r]' if name == 'rewards' else name for name in _ARRAYS)})",
            "        total += events",
            "        if trouble != 0:",
            "            return trouble, detail, t, total",
            "    return 0, 0, horizon, total",
        ]

    def body(self) -> list[str]:
        network = self.network
        record = [
            "if events < trace_times.shape[0]:",
            "    trace_times[events] = f[0]",
            "    trace_activities[events] = number",
        ]
        loop = [
            "streak = 0",
            "while True:",
            f"    while {self.instant.any()}:",
            *_indent(_indent(self.instant.lowest(take=True))),
            f"        check_instant({_ARGUMENTS})",
            f"    if not ({self.enabled.any()}):",
            "        break",
            *_indent(self.enabled.lowest(take=False)),
            "    number = INSTANT[b]",
            f"    ring[events % {RING}] = number",
            "    streak += 1",
            f"    if streak > {LOOP_LIMIT}:",
            f"        return {Trouble.LOOP}, number, f[0], events",
            *_indent(record),
            "    events += 1",
            f"    trouble = fire_instant({_ARGUMENTS})",
            "    if trouble != 0:",
            "        return trouble, number, f[0], events",
            f"while {self.timed.any()}:",
            *_indent(self.timed.lowest(take=True)),
            f"    trouble = check_timed({_ARGUMENTS})",
            "    if trouble != 0:",
            "        return trouble, TIMED[b], f[0], events",
            f"while {self.observers.any()}:",
            *_indent(self.observers.lowest(take=True)),
            f"    trouble = observe({_ARGUMENTS})",
            "    if trouble != 0:",
            f"        return trouble, b - {len(self.rates)}, f[0], events",
            "if not tree[1] <= horizon:",
            "    break",
            "f[0] = tree[1]",
            "b = 1",
            f"while b < {self.leaves}:",
            "    b = 2 * b if tree[2 * b] == f[0] else 2 * b + 1",
            "tree[b] = np.inf",
            f"b -= {self.leaves}",
            "number = TIMED[b]",
            *record,
            "events += 1",
            f"trouble = fire_timed({_ARGUMENTS})",
            "if trouble != 0:",
            "    return trouble, number, f[0], events",
        ]
        lines = [
            *(f"{name} = borrowed({name})" for name in _ARRAYS),
            "m[:] = initial",
            "s[:] = ZERO",
            "tree[:] = np.inf",
            "rewards[:] = 0.0",
            "rate[:] = 0.0",
            "since[:] = 0.0",
            "f[0] = 0.0",
            "f[1] = start",
            "f[2] = horizon",
            "events = 0",
            *self.timed.fill(),
            *self.instant.fill(),
            *self.observers.fill(),
            "while True:",
            *_indent(loop),
            "f[0] = horizon",
        ]
        for index, reward in enumerate(network.rewards):
            if reward.measure is not Measure.IMPULSE:
                lines += [f"integrate({index}, f, rewards, rate, since)"]
            if reward.measure is Measure.TIME_AVERAGED:
                lines += [f"rewards[{index}] /= horizon - start"]
        return [*lines, "return 0, 0, horizon, events"]

    def check_instant(self, place: int) -> list[str]:
        condition = self.condition(self.network.activities[self.network.instant[place]])
        return [f"if {condition}:", *_indent(self.enabled.add([place])), "else:", f"    {self.enabled.remove(place)}"]

    def check_timed(self, leaf: int, number: int) -> list[str]:
        """Schedules, reschedules or cancels; then repairs the path to the root of the tournament."""
        activity = self.network.activities[number]
        node = self.leaves + leaf
        draw = self.draw(leaf, number, activity)
        if activity.timing:
            values = [f"x{index} = 1.0 * ({self.emit(code)})" for index, code in enumerate(activity.delay)]
            changed = " or ".join(f"x{index} != drawn[{leaf}, {index}]" for index in range(len(activity.delay)))
            negative = " or ".join(f"x{index} < 0.0" for index in range(len(activity.delay)))
            inner = [*values, f"if tree[{node}] == np.inf or {changed}:"]
            inner += _indent([f"if {negative}:", f"    return {Trouble.DELAY}"])
            inner += _indent([f"drawn[{leaf}, {index}] = x{index}" for index in range(len(activity.delay))])
            inner += _indent(draw)
        else:
            inner = [f"if tree[{node}] == np.inf:", *_indent(draw)]
        forget = ["else:", f"    tree[{node}] = np.inf"]
        condition = self.condition(activity)
        lines = [f"if {condition}:", *_indent(inner), *(forget if condition != "True" else [])]
        return [*lines, f"repair(tree, {node})"]

    def draw(self, leaf: int, number: int, activity: ResolvedActivity) -> list[str]:
        node = self.leaves + leaf
        names = [f"x{index}" for index in range(len(activity.delay))]
        if not activity.timing:
            names = [f"({self.emit(code)})" for code in activity.delay]
        if activity.kind is DistributionKind.DETERMINISTIC:
            return [f"tree[{node}] = due(f[0], {names[0]})"]
        if activity.kind is DistributionKind.EMPIRICAL:
            low, high = self.values[number]
            call = f"one_of(p[{low}:{high}], key, s[0])"
        else:
            assert activity.kind is not None
            call = f"{_SAMPLER[activity.kind]}({', '.join(names)}, key, s[0])"
        return [f"x, c = {call}", "s[0] = c", f"tree[{node}] = due(f[0], x)"]

    def fire(self, number: int) -> list[str]:
        """Completes an activity: impulses, case, inputs, outputs; then marks what is affected."""
        activity = self.network.activities[number]
        lines = []
        for index, reward in enumerate(self.network.rewards):
            if number in reward.activities:
                lines += ["if f[0] >= f[1]:", f"    rewards[{index}] += {self.emit(reward.code)}"]
        lines += self.choose(activity)
        touched = {name for name, _ in activity.inputs}.union(*(code.writes for code in activity.programs))
        lines += [f"m[{self.place[name]}] -= {tokens}" for name, tokens in activity.inputs]
        for code in activity.programs:
            lines += self.block(code.tree.body)
        branches = []
        for case in activity.cases:
            branch = [f"m[{self.place[name]}] += {tokens}" for name, tokens in case.outputs]
            for code in case.programs:
                branch += self.block(code.tree.body)
            changed = {name for name, _ in case.outputs}.union(*(code.writes for code in case.programs))
            branches.append([*branch, *self.affected(touched | changed)])
        return lines + (branches[0] if len(branches) == 1 else _dispatch(branches, "k"))

    def choose(self, activity: ResolvedActivity) -> list[str]:
        if len(activity.cases) == 1:
            return []
        count = len(activity.cases)
        lines = [f"q{index} = {self.emit(case.probability)}" for index, case in enumerate(activity.cases)]
        total = " + ".join(f"q{index}" for index in range(count))
        if any(case.probability.reads & activity.places for case in activity.cases):
            least = " or ".join(f"q{index} < -{TOLERANCE}" for index in range(count))
            lines += [f"if abs({total} - 1.0) > {TOLERANCE} or {least}:"]
            lines += [f"    return {Trouble.PROBABILITIES}"]
        lines += ["u = uniform(key, s[0])", "s[0] += ONE"]
        for index in range(count - 1):
            below = " + ".join(f"q{each}" for each in range(index + 1))
            lines += [f"{'if' if index == 0 else 'elif'} u < {below}:", f"    k = {index}"]
        return [*lines, "else:", f"    k = {count - 1}"]

    def affected(self, changed: set[str]) -> list[str]:
        """Add to the three sets what depends on `changed`."""
        activities = self.network.activities
        timed = [
            leaf
            for leaf, number in enumerate(self.network.timed)
            if changed & (activities[number].condition | activities[number].timing)
        ]
        instant = [place for place, number in enumerate(self.network.instant) if changed & activities[number].condition]
        codes = [self.network.rewards[index].code for index in self.rates]
        codes += [code for _, code in self.network.invariants]
        observers = [index for index, code in enumerate(codes) if changed & code.reads]
        return [*self.timed.add(timed), *self.instant.add(instant), *self.observers.add(observers)] or ["pass"]

    def observe(self) -> list[list[str]]:
        branches = []
        for index in self.rates:
            value = [f"x = 1.0 * ({self.emit(self.network.rewards[index].code)})", f"if x != rate[{index}]:"]
            branches.append([*value, f"    integrate({index}, f, rewards, rate, since)", f"    rate[{index}] = x"])
        for _, code in self.network.invariants:
            branches.append([f"if not {self.test(code)}:", f"    return {Trouble.INVARIANT}"])
        return branches

    def condition(self, activity: ResolvedActivity) -> str:
        parts = [f"m[{self.place[name]}] >= {tokens}" for name, tokens in activity.inputs]
        parts += [self.test(code) for code in activity.predicates]
        return " and ".join(parts) or "True"

    def test(self, code: Code) -> str:
        statement = code.tree.body[0]
        assert isinstance(statement, ast.Expr)
        return f"({_truth(self.names(statement.value))})"

    def emit(self, code: Code) -> str:
        statement = code.tree.body[0]
        assert isinstance(statement, ast.Expr)
        return ast.unparse(_as_number(self.names(statement.value)))

    def names(self, node: ast.expr) -> ast.expr:
        """`node` with places as `m[i]`, parameters as `p[i]`, and with booleans and numbers distinguished for Numba."""
        generator = self

        class Names(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.AST:
                return node if node.id in FUNCTIONS else generator.slot(node.id)

            def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
                return generator.slot(dotted(node))

            def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
                return ast.BoolOp(node.op, [_as_truth(self.visit(value)) for value in node.values])

            def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
                return ast.BinOp(_as_number(self.visit(node.left)), node.op, _as_number(self.visit(node.right)))

            def visit_Call(self, node: ast.Call) -> ast.AST:
                return ast.Call(node.func, [_as_number(self.visit(argument)) for argument in node.args], [])

        return Names().visit(ast.parse(ast.unparse(node), mode="eval").body)

    def slot(self, name: str) -> ast.expr:
        text = f"m[{self.place[name]}]" if name in self.place else f"p[{self.parameter[name]}]"
        return ast.parse(text, mode="eval").body

    def block(self, statements: list[ast.stmt]) -> list[str]:
        lines: list[str] = []
        for node in statements:
            match node:
                case ast.Assign(targets=[target], value=value):
                    lines += self.assign(dotted(target), value)
                case ast.AugAssign(target=target, op=op, value=value):
                    lines += self.assign(dotted(target), ast.BinOp(target, op, value))
                case ast.If(test=test, body=body, orelse=orelse):
                    lines += [f"if {_truth(self.names(test))}:", *_indent(self.block(body))]
                    if orelse:
                        lines += ["else:", *_indent(self.block(orelse))]
                case ast.Pass():
                    lines += ["pass"]
        return lines

    def assign(self, name: str, value: ast.expr) -> list[str]:
        text = ast.unparse(_as_number(self.names(value)))
        exact = not re.search(r"[./p]|sqrt", text.replace("//", ""))  # already an integer
        lines = [f"m[{self.place[name]}] = {text if exact else f'int({text})'}"]
        if "-" in text:
            lines += [f"if m[{self.place[name]}] < 0:", f"    return {Trouble.NEGATIVE}"]
        return lines


def _is_truth(node: ast.expr) -> bool:
    negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negation or isinstance(node, ast.Compare | ast.BoolOp)


def _as_truth(node: ast.expr) -> ast.expr:
    return node if _is_truth(node) else ast.Compare(node, [ast.NotEq()], [ast.Constant(0)])


def _as_number(node: ast.expr) -> ast.expr:
    return ast.IfExp(node, ast.Constant(1), ast.Constant(0)) if _is_truth(node) else node


def _truth(node: ast.expr) -> str:
    return ast.unparse(_as_truth(node))


def _indent(lines: Iterable[str]) -> list[str]:
    return ["    " + line for line in lines]


def _helper(name: str, branches: Sequence[list[str]]) -> list[str]:
    """A function of `b` with one branch for each value; 0 for "no trouble"."""
    return [_INLINED, f"def {name}({_ARGUMENTS}):", *_indent(_dispatch(branches)), "    return 0"]


def _dispatch(branches: Sequence[list[str]], on: str = "b") -> list[str]:
    """`if b == 0: … elif b == 1: …`, as a balanced tree of comparisons."""
    if not branches:
        return ["pass"]
    return _dispatch_between(branches, on, 0, len(branches))


def _dispatch_between(branches: Sequence[list[str]], on: str, low: int, high: int) -> list[str]:
    if high - low == 1:
        return branches[low]
    middle = (low + high) // 2
    return [
        f"if {on} < {middle}:",
        *_indent(_dispatch_between(branches, on, low, middle)),
        "else:",
        *_indent(_dispatch_between(branches, on, middle, high)),
    ]
