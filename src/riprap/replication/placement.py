"""Assigns elements to tasks so that replicas of a group do not share an executor.

Spark decides where tasks run, and a task knows its executor only once it runs. So a task is not bound to an element
beforehand: it reports its executor and gets an element, and again when Spark has restarted it. Each replica stays on
one executor where there are several; so does each set of copies under full replication (the first copy of every
operator, the second, and so on). Where this is not possible, `shared` reports it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

COPIES = "copies"  # the group of all elements in copies; a run with copies has no other groups


@dataclass(frozen=True)
class ElementPlace:
    """An element; `group` is "" for one that is in none."""

    pe: str
    group: str = ""
    replica: int = 0


class Placement:
    """Not thread-safe."""

    def __init__(self, places: Iterable[ElementPlace]) -> None:
        self._places = tuple(places)
        self._task: dict[str, int] = {}  # by claimed element
        self._executor: dict[str, str] = {}

    def claim(self, task: int, executor: str) -> str:
        """The element of a task that starts on this executor. Its previous element is free again."""
        for pe, owner in list(self._task.items()):
            if owner == task:
                del self._task[pe], self._executor[pe]
        free = [place for place in self._places if place.pe not in self._task]
        place = min(free, key=lambda place: self._unfitness(place, executor))
        self._task[place.pe], self._executor[place.pe] = task, executor
        return place.pe

    def _unfitness(self, place: ElementPlace, executor: str) -> int:
        if not place.group:
            return 2
        own = self._of(place.group, place.replica)
        others = {e for r in self._replicas(place.group) if r != place.replica for e in self._of(place.group, r)}
        if executor in others:
            return 4
        if not own:
            return 1
        return 0 if executor in own else 3

    def _of(self, group: str, replica: int) -> set[str]:
        """Executors of a replica."""
        members = [place.pe for place in self._places if (place.group, place.replica) == (group, replica)]
        return {self._executor[pe] for pe in members if pe in self._executor}

    def _replicas(self, group: str) -> list[int]:
        return sorted({place.replica for place in self._places if place.group == group})

    def tasks(self, pe: str) -> set[int]:
        """The task that runs this element; while none does, the tasks without an element."""
        if pe in self._task:
            return {self._task[pe]}
        return set(range(len(self._places))) - set(self._task.values())

    def shared(self) -> list[str]:
        """A sentence for each group whose replicas share an executor."""
        sentences = []
        for group in dict.fromkeys(place.group for place in self._places if place.group):
            executors = [self._of(group, replica) for replica in self._replicas(group)]
            if len(set().union(*executors)) < sum(map(len, executors)):
                who = "copies of operators" if group == COPIES else f"replicas of HA group {group}"
                sentences.append(
                    f"{who} share an executor, so its loss would be the loss of both: "
                    "use a master with an executor for each, for example `master=local-cluster[2,8,1024]`"
                )
        return sentences
