"""The cheapest choice that meets every line, found exactly, as an integer program.

One binary per operator, option and case. A case that breaks a line by itself is excluded; rows couple the cases of
neighbours (input can be replayed if, and only if, all operators upstream are backups), replicas of one group, operators
that fail together, and the availability of the whole app. Every solution is evaluated again in whole numbers
(`protection_problem.evaluate`); one that fails there, or that cannot run, is excluded, and the program is solved again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from riprap.base.errors import PlanError
from riprap.planner.protection_problem import (
    AVAILABILITY,
    Chosen,
    FailureCase,
    Line,
    Outcome,
    ProtectionProblem,
    evaluate,
    kept,
)
from riprap.planner.sink_effects import NOTHING_WRONG
from riprap.planner.slo import PPM

Refuses = Callable[[Mapping[str, Chosen]], bool]
_MOST_ROUNDS = 200
_MOST_STEPS = 24
_Key = tuple[str, int, bool, bool]  # operator, option, replayed, backup


def cheapest(problem: ProtectionProblem, refuses: Refuses = lambda chosen: False) -> Outcome | None:
    """None: no choice meets every line. `refuses`: whether a choice cannot run."""
    return _Program(problem).solve(refuses)


def conflict(problem: ProtectionProblem, refuses: Refuses = lambda chosen: False) -> list[Line]:
    """Lines that cannot all be met; without any one of them the rest can."""
    needed = list(problem.lines)
    for line in list(needed):
        rest = [other for other in needed if other != line]
        if cheapest(only(problem, rest), refuses) is None:
            needed = rest
    return needed


def only(problem: ProtectionProblem, lines: list[Line]) -> ProtectionProblem:
    for line in problem.lines:
        if line not in lines:
            problem = problem.with_line(line, None)
    return problem


def nearest(
    problem: ProtectionProblem, line: Line, refuses: Refuses = lambda chosen: False
) -> tuple[int, Outcome] | None:
    """The value of a line, closest to what is asked for, that can be met together with the others; None: none."""
    free = cheapest(problem.with_line(line, None), refuses)
    if free is None:
        return None
    if line.name == "exactly_once":
        return 0, free
    least = line.name == "score_at_least"
    good, bad = (0 if least else _loosest(problem, line)), problem.lines[line]
    best = cheapest(problem.with_line(line, good), refuses)
    if best is None:
        return None
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        found = cheapest(problem.with_line(line, middle), refuses)
        if found is None:
            bad = middle
        else:
            best = found
            good = found.values[line][0]
    return good, best


def curve(problem: ProtectionProblem, line: Line, refuses: Refuses = lambda chosen: False) -> list[tuple[int, int]]:
    """Values of a line and the lowest prices to reach them, from the loosest to the strictest that can be met."""
    steps: list[tuple[int, int]] = []
    least = line.name == "score_at_least"
    limit: int | None = 0 if least else _loosest(problem, line)
    if line.name == "exactly_once":
        return steps
    while limit is not None and len(steps) < _MOST_STEPS:
        found = cheapest(problem.with_line(line, limit), refuses)
        if found is None:
            break
        value = found.values[line][0]
        if steps and steps[-1][1] == found.price:
            steps[-1] = (value, found.price)
        else:
            steps.append((value, found.price))
        limit = value + 1 if least else value - 1
        if limit < 0 or (least and limit > PPM):
            break
    return steps


def strictest(problem: ProtectionProblem, best: Outcome, refuses: Refuses = lambda chosen: False) -> Line | None:
    """The line that raises the price most; None: none does."""
    saved: dict[Line, int] = {}
    for line in problem.lines:
        if line.name != "exactly_once":
            without = cheapest(problem.with_line(line, None), refuses)
            saved[line] = best.price - without.price if without is not None else 0
    raising = [line for line, difference in saved.items() if difference > 0]
    return max(raising, key=lambda line: saved[line], default=None)


def _loosest(problem: ProtectionProblem, line: Line) -> int:
    """A value that every choice meets."""
    options = [option for entry in problem.operators.values() for option in entry.options]
    options += [option.unreplicated for option in options if option.unreplicated is not None]
    cases = [case for option in options for case in option.cases.values()]
    if line.name == "recovery":
        return max(case.recovery for case in cases)
    if line.name == AVAILABILITY:  # if operators fail more often than they recover, more than all of the time
        most = [max(case.down for option in entry.options for case in option.cases.values())
                for entry in problem.operators.values()]  # fmt: skip
        return -(-sum(most) * PPM // problem.mtbf)
    if line.name == "wrong":
        return PPM
    return max(case.effects.get(line.sink, NOTHING_WRONG).wrong_for for case in cases)


class _Program:
    def __init__(self, problem: ProtectionProblem) -> None:
        import highspy

        self.problem = problem
        self.keys: list[_Key] = [
            (name, number, replayed, backup)
            for name, operator in problem.operators.items()
            for number, option in enumerate(operator.options)
            for (replayed, backup) in option.cases
            if not backup or operator.backup is not None
        ]
        self.columns = {key: column for column, key in enumerate(self.keys)}
        count = len(self.keys)
        self.highs = highspy.Highs()
        for name, value in {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0}.items():
            self.highs.setOptionValue(name, value)
        high = np.array([float(self._allowed(key)) for key in self.keys])
        self.highs.addVars(count, np.zeros(count), high)
        columns = np.arange(count, dtype=np.int32)
        self.highs.changeColsIntegrality(count, columns, np.full(count, highspy.HighsVarType.kInteger))
        prices = np.array([float(self._price(key)) for key in self.keys])
        self.highs.changeColsCost(count, columns, prices / max(prices.max(initial=0.0), 1.0))
        self._couple()
        self._together()

    def _case(self, key: _Key) -> FailureCase:
        name, number, replayed, backup = key
        return self.problem.operators[name].options[number].cases[replayed, backup]

    def _price(self, key: _Key) -> int:
        name, number, _, backup = key
        operator = self.problem.operators[name]
        return operator.options[number].price + (operator.backup or 0 if backup else 0)

    def _allowed(self, key: _Key) -> bool:
        """Whether the failure of this operator alone keeps every line."""
        case = self._case(key)
        for sink in self.problem.operators[key[0]].sinks:
            effect = case.effects.get(sink, NOTHING_WRONG)
            values = {
                "recovery": case.recovery,
                "wrong": effect.wrong,
                "wrong_for": effect.wrong_for,
                "score_at_least": effect.score,
                "exactly_once": int(case.exact),
            }
            for name, limit in self.problem.slo[sink].lines().items() if sink in self.problem.slo else ():
                if not kept(Line(sink, name), values[name], int(limit)):
                    return False
        return True

    def _row(self, low: float, high: float, terms: Mapping[int, float]) -> None:
        self.highs.addRow(low, high, len(terms), np.array(list(terms), np.int32), np.array(list(terms.values())))

    def _of(self, name: str, wanted: Callable[[_Key], bool]) -> list[int]:
        return [column for key, column in self.columns.items() if key[0] == name and wanted(key)]

    def _couple(self) -> None:
        operators = self.problem.operators
        backups = {name: self._of(name, lambda key: key[3]) for name in operators}
        replicas = {name: self._of(name, self._replicated) for name in operators}
        for name, operator in operators.items():
            every = self._of(name, lambda key: True)
            replayed = self._of(name, lambda key: key[2])
            self._row(1.0, 1.0, dict.fromkeys(every, 1.0))
            for before in operator.upstream:
                self._row(0.0, np.inf, dict.fromkeys(backups[before], 1.0) | dict.fromkeys(replayed, -1.0))
            fed = [column for before in operator.upstream for column in backups[before]]
            most = len(operator.upstream) - 1.0
            self._row(-np.inf, most, dict.fromkeys(fed, 1.0) | dict.fromkeys(replayed, -1.0))
            if name in self.problem.must:
                self._row(1.0, np.inf, dict.fromkeys([*backups[name], *replicas[name]], 1.0))
            for other in self.problem.grouped.get(name, frozenset()) - {name} if replicas[name] else ():
                own = dict.fromkeys(replicas[name], 1.0)
                self._row(-np.inf, 0.0, own | dict.fromkeys(replicas.get(other, []), -1.0))

    def _replicated(self, key: _Key) -> bool:
        return self.problem.operators[key[0]].options[key[1]].technique == "ha_group"

    def _together(self) -> None:
        problem = self.problem
        sets = [(names, False) for names in problem.sets]
        sets += [(frozenset(problem.operators), True)] if problem.host else []
        for line, limit in problem.lines.items():
            if line.name == AVAILABILITY:
                allowed = limit * problem.mtbf // PPM
                scale = max(allowed, 1)
                self._row(
                    -np.inf, allowed / scale, {c: self._case(key).down / scale for key, c in self.columns.items()}
                )
                continue
            for names, replicas in sets:
                terms, most = dict[int, float](), float(limit)
                for key, column in self.columns.items():
                    if key[0] not in names or line.sink not in problem.operators[key[0]].sinks:
                        continue
                    case = self._case_of_all(key) if replicas else self._case(key)
                    effect = case.effects.get(line.sink, NOTHING_WRONG)
                    if line.name == "wrong":
                        terms[column] = float(effect.wrong)
                    elif line.name == "score_at_least":
                        terms[column], most = float(PPM - effect.score), float(PPM - limit)
                    else:  # the worst of them counts
                        values = {"recovery": case.recovery, "wrong_for": effect.wrong_for, "exactly_once": case.exact}
                        terms[column], most = float(not kept(line, int(values[line.name]), limit)), 0.0
                if (line.name != "wrong" or limit < PPM) and (line.name != "score_at_least" or limit > 0):
                    self._row(-np.inf, most, terms)

    def _case_of_all(self, key: _Key) -> FailureCase:
        """If all replicas fail at once."""
        option = self.problem.operators[key[0]].options[key[1]]
        return (option.unreplicated or option).cases[key[2], key[3]]

    def solve(self, refuses: Refuses) -> Outcome | None:
        import highspy

        for _ in range(_MOST_ROUNDS):
            self.highs.run()
            if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return None
            values = self.highs.getSolution().col_value
            picked = [key for key, column in self.columns.items() if values[column] > 0.5]
            chosen = {
                name: Chosen(self.problem.operators[name].options[number], backup) for name, number, _, backup in picked
            }
            outcome = evaluate(self.problem, chosen)
            if outcome is not None and not outcome.broken(self.problem) and not refuses(chosen):
                return _without_idle(self.problem, outcome, refuses)
            self._row(-np.inf, len(picked) - 1.0, {self.columns[key]: 1.0 for key in picked})
        raise PlanError(f"the first {_MOST_ROUNDS} plans of {self.problem.app} cannot run: give operators other names")


def _without_idle(problem: ProtectionProblem, best: Outcome, refuses: Refuses) -> Outcome:
    """Without measures that cost nothing and that no line needs."""
    for name, operator in problem.operators.items():
        option, backup = best.chosen[name]
        for simpler in (Chosen(operator.options[0], False), Chosen(operator.options[0], backup), Chosen(option, False)):
            if simpler == best.chosen[name]:
                break
            changed = {**best.chosen, name: simpler}
            found = evaluate(problem, changed)
            if found is not None and found.price <= best.price and not found.broken(problem) and not refuses(changed):
                best = found
                break
    return best


def protected_alike(problem: ProtectionProblem, technique: Callable[[str, int], bool]) -> ProtectionProblem:
    """The problem in which every operator has only the options that `technique` accepts, and its own if it has none."""
    operators = {}
    for name, operator in problem.operators.items():
        options = tuple(option for number, option in enumerate(operator.options) if technique(name, number))
        operators[name] = replace(operator, options=options or operator.options)
    return replace(problem, operators=operators)
