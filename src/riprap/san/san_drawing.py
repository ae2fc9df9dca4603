"""A network as SVG, with the usual symbols: circles for places with their tokens, ovals for timed activities, bars for
instantaneous ones with a dot per case, triangles for gates. Arcs that only a gate's text implies are dashed.

Places and activities are in columns by their distance from the initially enabled ones; text stays within its column.
"""

from dataclasses import dataclass
from html import escape

from riprap.san.formalism import Network
from riprap.san.resolved import Resolved, ResolvedActivity, resolve

_ROW, _COLUMN, _MARGIN, _FONT = 46, 190, 24, 11
_STYLE = """\
.net{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:11px;\
background:var(--surface,#fff)}
.net text{fill:var(--ink,#1f2328);text-anchor:middle}.net .arc{fill:none;stroke:var(--soft,#59636e);stroke-width:1}
.net .gate{stroke-dasharray:3 3}.net .shape{fill:var(--raised,#f6f8fa);stroke:var(--ink,#1f2328);stroke-width:1.3}
.net .solid{fill:var(--ink,#1f2328)}
@media (prefers-color-scheme:dark){.net{background:var(--surface,#0d1117)}.net text{fill:var(--ink,#e6edf3)}
.net .arc{stroke:var(--soft,#9198a1)}.net .shape{fill:var(--raised,#161b22);stroke:var(--ink,#e6edf3)}
.net .solid{fill:var(--ink,#e6edf3)}}
"""


@dataclass(frozen=True)
class _Arc:
    source: str
    target: str
    gate: bool


def draw(network: Network) -> str:
    """One self-contained SVG."""
    resolved = resolve(network)
    arcs = _arcs(resolved)
    columns = _columns(resolved, arcs)
    at: dict[str, tuple[int, int]] = {}
    for column, members in enumerate(columns):
        for row, name in enumerate(members):
            at[name] = (_MARGIN + _COLUMN // 2 + column * _COLUMN, _MARGIN + 20 + row * _ROW)
    width = 2 * _MARGIN + _COLUMN * max(1, len(columns))
    height = 2 * _MARGIN + _ROW * max(1, *(len(members) for members in columns)) if columns else 100
    parts = [_curve(at[arc.source], at[arc.target], arc.gate) for arc in arcs]
    parts += [
        _place(at[f"p:{name}"], name, tokens) for name, tokens in zip(resolved.places, resolved.initial, strict=True)
    ]
    parts += [_activity(at[f"a:{activity.name}"], activity) for activity in resolved.activities]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="net" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(resolved.name)}"><style>{_STYLE}</style>'
        + "".join(parts)
        + "</svg>"
    )


def _arcs(network: Resolved) -> list[_Arc]:
    arcs: dict[tuple[str, str], bool] = {}

    def add(source: str, target: str, gate: bool) -> None:
        arcs[source, target] = arcs.get((source, target), True) and gate

    for activity in network.activities:
        name = f"a:{activity.name}"
        for place, _ in activity.inputs:
            add(f"p:{place}", name, False)
        for code in activity.predicates:
            for place in sorted(code.reads & activity.places):
                add(f"p:{place}", name, True)
        for case in activity.cases:
            for place, _ in case.outputs:
                add(name, f"p:{place}", False)
            for code in case.programs:
                for place in sorted(code.writes):
                    add(name, f"p:{place}", True)
        for code in activity.programs:
            for place in sorted(code.writes):
                add(name, f"p:{place}", True)
    return [_Arc(source, target, gate) for (source, target), gate in arcs.items()]


def _columns(network: Resolved, arcs: list[_Arc]) -> list[list[str]]:
    """Breadth-first from the activities without inputs and the places with tokens."""
    following: dict[str, list[str]] = {}
    for arc in arcs:
        if not arc.gate:
            following.setdefault(arc.source, []).append(arc.target)
    everything = [*(f"p:{name}" for name in network.places), *(f"a:{activity.name}" for activity in network.activities)]
    depth: dict[str, int] = {}
    wave = [f"a:{each.name}" for each in network.activities if not each.inputs]
    wave += [f"p:{name}" for name, tokens in zip(network.places, network.initial, strict=True) if tokens]
    level = 0
    while wave:
        for name in wave:
            depth.setdefault(name, level)
        wave = list(dict.fromkeys(other for name in wave for other in following.get(name, ()) if other not in depth))
        level += 1
    columns: list[list[str]] = []
    for name in everything:
        column = depth.get(name, 0)
        while len(columns) <= column:
            columns.append([])
        columns[column].append(name)
    return [members for members in columns if members]


def _curve(source: tuple[int, int], target: tuple[int, int], gate: bool) -> str:
    (x1, y1), (x2, y2) = source, target
    side = 22 if x2 > x1 else -22
    x1, x2 = x1 + side, x2 - side
    bend = max(20, abs(x2 - x1) // 2) * (1 if x2 >= x1 else -1)
    kind = "arc gate" if gate else "arc"
    return f'<path class="{kind}" d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"/>'


def _place(at: tuple[int, int], name: str, tokens: int) -> str:
    x, y = at
    inside = (
        f'<circle class="solid" cx="{x}" cy="{y}" r="3"/>'
        if tokens == 1
        else f'<text x="{x}" y="{y + 4}">{tokens}</text>'
    )
    return f'<circle class="shape" cx="{x}" cy="{y}" r="10"/>{inside if tokens else ""}{_label(x, y, name)}'


def _activity(at: tuple[int, int], activity: ResolvedActivity) -> str:
    x, y = at
    if activity.kind is None:
        shape = f'<rect class="solid" x="{x - 2}" y="{y - 12}" width="4" height="24"/>'
    else:
        shape = f'<ellipse class="shape" cx="{x}" cy="{y}" rx="7" ry="13"/>'
    if len(activity.cases) > 1:
        step = 20 // max(1, len(activity.cases) - 1)
        shape += "".join(
            f'<circle class="shape" cx="{x + 9}" cy="{y - 10 + number * step}" r="2.5"/>'
            for number in range(len(activity.cases))
        )
    if activity.predicates:
        shape += f'<path class="shape" d="M{x - 12} {y}l-9 -6v12z"/>'
    if any(case.programs for case in activity.cases) or activity.programs:
        shape += f'<path class="shape" d="M{x + 22} {y}l-9 -6v12z"/>'
    kind = "instantaneous" if activity.kind is None else activity.kind.name.lower()
    return f"<g><title>{escape(activity.name)}: {kind}</title>{shape}{_label(x, y, activity.name)}</g>"


def _label(x: int, y: int, name: str) -> str:
    """Below the symbol; a long name is shortened from the left, since its end is the most specific."""
    most = _COLUMN * 2 // _FONT - 6
    text = name if len(name) <= most else "…" + name[-most + 1 :]
    return f'<text x="{x}" y="{y + 26}">{escape(text)}</text>'
