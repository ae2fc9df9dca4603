"""The compiler: a resolved network to the text of one specialised function for Numba.

Shape of the function: three sets of things to look at again — timed activities, instantaneous activities, observers
(rewards and invariants) — are bit sets held in registers. Completing an activity changes the marking and adds to the
sets exactly what its changes can affect, which is known from the texts of the gates. Nothing else is looked at.
The next completion comes from a tournament tree over the timed activities. Parameters are an array, so that one
compilation serves every value of them.
"""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from riprap.san.formalism import Kind, Measure
from riprap.san.language import FUNCTIONS, Code, dotted
from riprap.san.resolved import TOLERANCE, Resolved, ResolvedActivity
from riprap.san.run import LOOP_LIMIT, RING, Trouble

_SAMPLER = {
    Kind.EXPONENTIAL: "exponential",
    Kind.UNIFORM: "between",
    Kind.NORMAL: "normal",
    Kind.LOGNORMAL: "lognormal",
    Kind.WEIBULL: "weibull",
    Kind.GAMMA: "gamma",
}
_WORD = 64

HEADER = '''\
"""Generated from a network; see riprap.san.codegen."""
from math import floor, sqrt
import numpy as np
from numba import njit, uint64
from riprap.san.bits import lowest
from riprap.san.generator import uniform
from riprap.san.samplers import between, exponential, gamma, lognormal, normal, one_of, weibull
ONE = uint64(1)
'''


def generate(network: Resolved) -> str:
    """The text of a module with `simulate` and `simulate_many`."""
    return HEADER + "\n".join(_Generator(network).module()) + "\n"


def parameter_array(network: Resolved) -> list[float]:
    """What the generated functions take as `p`: the named parameters, then the values of empirical distributions."""
    values = list(network.parameters.values())
    for activity in network.activities:
        values.extend(activity.values)
    return values


@dataclass
class _Set:
    """A bit set spread over 64-bit variables `name0`, `name1`, …"""

    name: str
    size: int

    @property
    def words(self) -> range:
        return range(max(1, -(-self.size // _WORD)))

    def fill(self) -> list[str]:
        return [
            f"{self.name}{word} = uint64({hex((1 << min(_WORD, max(0, self.size - word * _WORD))) - 1)})"
            for word in self.words
        ]

    def empty(self) -> list[str]:
        return [f"{self.name}{word} = uint64(0)" for word in self.words]

    def add(self, members: Iterable[int]) -> list[str]:
        masks: dict[int, int] = {}
        for member in members:
            masks[member // _WORD] = masks.get(member // _WORD, 0) | 1 << member % _WORD
        return [f"{self.name}{word} |= uint64({hex(mask)})" for word, mask in sorted(masks.items())]

    def remove(self, member: int) -> str:
        return f"{self.name}{member // _WORD} &= uint64({hex(~(1 << member % _WORD) & (1 << _WORD) - 1)})"

    def any(self) -> str:
        return " | ".join(f"{self.name}{word}" for word in self.words) + " != uint64(0)"

    def lowest(self, target: str) -> list[str]:
        """Code that puts the smallest member into `target`."""
        lines = []
        for word in self.words:
            keyword = "if" if word == 0 else "elif"
            if word == self.words[-1]:
                keyword, condition = ("else", "") if word else ("if", " True")
            else:
                condition = f" {self.name}{word} != uint64(0)"
            lines += [f"{keyword}{condition}:", f"    {target} = lowest({self.name}{word}) + {word * _WORD}"]
        return lines

    def pop(self, target: str) -> list[str]:
        """Code that takes the smallest member out."""
        lines = []
        for line in self.lowest(target):
            lines.append(line)
            if "lowest(" in line:
                word = line.split("lowest(")[1].split(")")[0]
                lines.append(f"    {word} &= {word} - ONE")
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
        self.timed = _Set("d", len(network.timed))
        self.instant = _Set("i", len(network.instant))
        self.enabled = _Set("e", len(network.instant))
        self.observers = _Set("o", len(self.rates) + len(network.invariants))
        offset = len(network.parameters)
        self.values: dict[int, tuple[int, int]] = {}
        for number, activity in enumerate(network.activities):
            self.values[number] = (offset, offset + len(activity.values))
            offset += len(activity.values)

    def module(self) -> list[str]:
        """Both functions."""
        lines = [
            '@njit(nogil=True, cache=True, error_model="numpy")',
            "def simulate(initial, p, key, start, horizon, rewards, m, trace_times, trace_activities, ring):",
        ]
        lines += _indent(self.body())
        lines += [
            "",
            '@njit(nogil=True, cache=True, error_model="numpy")',
            "def simulate_many(initial, p, keys, start, horizon, rewards, m, trace_times, trace_activities, ring):",
            "    total = 0",
            "    for r in range(keys.shape[0]):",
            "        status, detail, t, events = simulate(initial, p, keys[r], start, horizon, rewards[r], m,"
            " trace_times, trace_activities, ring)",
            "        total += events",
            "        if status != 0:",
            "            return status, detail, t, total",
            "    return 0, 0, horizon, total",
        ]
        return lines

    def body(self) -> list[str]:
        network = self.network
        lines = [
            "m[:] = initial",
            "rewards[:] = 0.0",
            f"tree = np.full({2 * self.leaves}, np.inf)",
            f"rate = np.zeros({len(network.rewards)})",
            f"since = np.zeros({len(network.rewards)})",
            f"drawn = np.zeros(({len(network.timed)}, 2))",
            "c = uint64(0)",
            "t = 0.0",
            "events = 0",
            "b = 0",
            *self.timed.fill(),
            *self.instant.fill(),
            *self.observers.fill(),
            *self.enabled.empty(),
            "while True:",
        ]
        loop = ["streak = 0", "while True:"]
        settle = [f"while {self.instant.any()}:", *_indent(self.instant.pop("b"))]
        settle += _indent(_dispatch([self.check_instant(place) for place in range(len(network.instant))]))
        settle += [f"if not ({self.enabled.any()}):", "    break", *self.enabled.lowest("b")]
        settle += ["streak += 1"]
        settle += _dispatch([self.fire(number, network.instant) for number in network.instant])
        loop += _indent(settle)
        loop += [f"while {self.timed.any()}:", *_indent(self.timed.pop("b"))]
        loop += _indent(_dispatch([self.check_timed(leaf, number) for leaf, number in enumerate(network.timed)]))
        loop += [f"while {self.observers.any()}:", *_indent(self.observers.pop("b"))]
        loop += _indent(_dispatch(self.observe()))
        loop += [
            "if not tree[1] <= horizon:",
            "    break",
            "t = tree[1]",
            "b = 1",
            f"while b < {self.leaves}:",
            "    b = 2 * b if tree[2 * b] == t else 2 * b + 1",
            "tree[b] = np.inf",
            f"b -= {self.leaves}",
        ]
        loop += _dispatch([[*self.timed.add([leaf]), *self.fire(number)] for leaf, number in enumerate(network.timed)])
        lines += _indent(loop)
        lines += ["t = horizon"]
        for index, reward in enumerate(network.rewards):
            if reward.measure is not Measure.IMPULSE:
                lines += self.integrate(index)
            if reward.measure is Measure.TIME_AVERAGED:
                lines += [f"rewards[{index}] /= horizon - start"]
        return [*lines, "return 0, 0, t, events"]

    def check_instant(self, place: int) -> list[str]:
        condition = self.condition(self.network.activities[self.network.instant[place]])
        return [f"if {condition}:", *_indent(self.enabled.add([place])), "else:", f"    {self.enabled.remove(place)}"]

    def check_timed(self, leaf: int, number: int) -> list[str]:
        """Schedule, reschedule or forget; then repair the path to the root of the tournament."""
        activity = self.network.activities[number]
        node = self.leaves + leaf
        draw = self.draw(leaf, number, activity)
        if activity.timing:
            values = [f"x{index} = float({self.emit(code)})" for index, code in enumerate(activity.delay)]
            changed = " or ".join(f"x{index} != drawn[{leaf}, {index}]" for index in range(len(activity.delay)))
            negative = " or ".join(f"x{index} < 0.0" for index in range(len(activity.delay)))
            inner = [*values, f"if tree[{node}] == np.inf or {changed}:"]
            inner += _indent([f"if {negative}:", f"    return {Trouble.DELAY}, {number}, t, events"])
            inner += _indent([f"drawn[{leaf}, {index}] = x{index}" for index in range(len(activity.delay))])
            inner += _indent(draw)
        else:
            inner = [f"if tree[{node}] == np.inf:", *_indent(draw)]
        lines = [f"if {self.condition(activity)}:", *_indent(inner), "else:", f"    tree[{node}] = np.inf"]
        return [*lines, *(f"tree[{at}] = min(tree[{2 * at}], tree[{2 * at + 1}])" for at in _path(node))]

    def draw(self, leaf: int, number: int, activity: ResolvedActivity) -> list[str]:
        node = self.leaves + leaf
        if activity.kind is Kind.EMPIRICAL:
            low, high = self.values[number]
            return [f"x, c = one_of(p[{low}:{high}], key, c)", f"tree[{node}] = t + x"]
        names = [f"x{index}" for index in range(len(activity.delay))]
        if not activity.timing:
            names = [f"float({self.emit(code)})" for code in activity.delay]
        if activity.kind is Kind.DETERMINISTIC:
            return [f"tree[{node}] = t + {names[0]}"]
        assert activity.kind is not None
        return [f"x, c = {_SAMPLER[activity.kind]}({', '.join(names)}, key, c)", f"tree[{node}] = t + x"]

    def fire(self, number: int, instant: Sequence[int] = ()) -> list[str]:
        """Complete an activity: impulses, the case, inputs, outputs; note what is affected."""
        activity = self.network.activities[number]
        lines = []
        if instant:
            lines += [
                f"ring[events % {RING}] = {number}",
                f"if streak > {LOOP_LIMIT}:",
                f"    return {Trouble.LOOP}, {number}, t, events",
            ]
        lines += [
            "if events < trace_times.shape[0]:",
            "    trace_times[events] = t",
            f"    trace_activities[events] = {number}",
            "events += 1",
        ]
        for index, reward in enumerate(self.network.rewards):
            if number in reward.activities:
                lines += ["if t >= start:", f"    rewards[{index}] += float({self.emit(reward.code)})"]
        lines += self.choose(number, activity)
        touched = {name for name, _ in activity.inputs}.union(*(code.writes for code in activity.programs))
        lines += [f"m[{self.place[name]}] -= {tokens}" for name, tokens in activity.inputs]
        for code in activity.programs:
            lines += self.statements(code, number)
        branches = []
        for case in activity.cases:
            branch = [f"m[{self.place[name]}] += {tokens}" for name, tokens in case.outputs]
            for code in case.programs:
                branch += self.statements(code, number)
            changed = {name for name, _ in case.outputs}.union(*(code.writes for code in case.programs))
            branches.append([*branch, *self.affected(touched | changed)])
        return lines + (branches[0] if len(branches) == 1 else _dispatch(branches, "k"))

    def choose(self, number: int, activity: ResolvedActivity) -> list[str]:
        if len(activity.cases) == 1:
            return []
        count = len(activity.cases)
        lines = [f"q{index} = float({self.emit(case.probability)})" for index, case in enumerate(activity.cases)]
        total = " + ".join(f"q{index}" for index in range(count))
        if any(case.probability.reads & activity.places for case in activity.cases):
            least = " or ".join(f"q{index} < -{TOLERANCE}" for index in range(count))
            lines += [f"if abs({total} - 1.0) > {TOLERANCE} or {least}:"]
            lines += [f"    return {Trouble.PROBABILITIES}, {number}, t, events"]
        lines += ["u = uniform(key, c)", "c += ONE"]
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
        instant = [
            place for place, number in enumerate(self.network.instant) if changed & activities[number].condition
        ]
        codes = [self.network.rewards[index].code for index in self.rates]
        codes += [code for _, code in self.network.invariants]
        observers = [index for index, code in enumerate(codes) if changed & code.reads]
        return [*self.timed.add(timed), *self.instant.add(instant), *self.observers.add(observers)] or ["pass"]

    def observe(self) -> list[list[str]]:
        branches = []
        for index in self.rates:
            value = [f"x = float({self.emit(self.network.rewards[index].code)})", f"if x != rate[{index}]:"]
            branches.append([*value, *_indent([*self.integrate(index), f"rate[{index}] = x"])])
        for index, (_, code) in enumerate(self.network.invariants):
            branches.append([f"if not {self.test(code)}:", f"    return {Trouble.INVARIANT}, {index}, t, events"])
        return branches

    def integrate(self, index: int) -> list[str]:
        return [
            f"x0 = max(since[{index}], start)",
            "if t > x0:",
            f"    rewards[{index}] += rate[{index}] * (t - x0)",
            f"since[{index}] = t",
        ]

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
        """`node` with places as `m[i]`, parameters as `p[i]`, and truth values and numbers told apart for Numba."""
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

    def statements(self, code: Code, number: int) -> list[str]:
        return self.block(code.tree.body, number)

    def block(self, statements: list[ast.stmt], number: int) -> list[str]:
        lines: list[str] = []
        for node in statements:
            match node:
                case ast.Assign(targets=[target], value=value):
                    lines += self.assign(dotted(target), ast.unparse(_as_number(self.names(value))), number)
                case ast.AugAssign(target=target, op=op, value=value):
                    sum_ = ast.unparse(self.names(ast.BinOp(target, op, value)))
                    lines += self.assign(dotted(target), sum_, number)
                case ast.If(test=test, body=body, orelse=orelse):
                    lines += [f"if {_truth(self.names(test))}:", *_indent(self.block(body, number))]
                    if orelse:
                        lines += ["else:", *_indent(self.block(orelse, number))]
                case ast.Pass():
                    lines += ["pass"]
        return lines

    def assign(self, name: str, value: str, number: int) -> list[str]:
        lines = [f"m[{self.place[name]}] = int({value})"]
        if "-" in value:
            lines += [f"if m[{self.place[name]}] < 0:", f"    return {Trouble.NEGATIVE}, {number}, t, events"]
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


def _path(node: int) -> list[int]:
    """Ancestors of a node of the tournament, nearest first."""
    path = []
    while node > 1:
        node //= 2
        path.append(node)
    return path


def _indent(lines: Iterable[str]) -> list[str]:
    return ["    " + line for line in lines]


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
