"""A line chart as SVG text: a few series, points with tooltips and marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 680.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 68.0, 20.0, 22.0, 50.0
_LINE = 15.0  # of text

_STYLE = """\
.ch{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:12px;max-width:100%;\
height:auto}
.ch text{fill:var(--ink,#1f2328)}.ch .t{fill:var(--soft,#59636e);font-size:11px}
.ch .g{stroke:var(--line,#d1d9e0);stroke-width:1}
.ch .l{fill:none;stroke-width:2}.ch .p{stroke:var(--surface,#fff);stroke-width:1.5}
.ch .k{fill:none;stroke:var(--mark,#bc4c00);stroke-width:2}
"""


@dataclass(frozen=True)
class ChartPoint:
    x: float
    y: float
    tooltip: str = ""
    mark: str = ""  # a label beside the point, which gets a ring


@dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[ChartPoint]
    steps: bool = False  # the value holds until the next point
    line: bool = True  # the points are joined
    dots: bool = True  # draw the points; otherwise earlier series have wider lines, so that none hides another


def chart(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    moments: Mapping[float, str] | None = None,
) -> str:
    """`log_x`: a logarithmic x axis; every x is above 0. `moments`: labels at some x."""
    points = [point for line in series for point in line.points]
    if not points:
        return ""
    x_most = max(p.x for p in points)
    xs = decades(min(p.x for p in points), x_most) if log_x else ticks(0.0, x_most)
    ys = ticks(min(0.0, *(p.y for p in points)), max(p.y for p in points))
    x_low, x_high, y_low, y_high = xs[0], xs[-1], ys[0], ys[-1]
    names = _LINE * (len(series) - 1)  # height of the legend above the curves
    top, height = _TOP + names, _HEIGHT + (names if len(series) > 3 else 0.0)

    def along(x: float) -> float:
        """The position of `x` on its axis, from 0 to 1."""
        return log10(x / x_low) / log10(x_high / x_low) if log_x else (x - x_low) / (x_high - x_low)

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + along(x) * (_WIDTH - _LEFT - _RIGHT),
            height - _BOTTOM - (y - y_low) / (y_high - y_low) * (height - top - _BOTTOM),
        )

    parts = [f"<style>{_STYLE}</style>"]
    for value in ys:
        _, y = at(x_low, value)
        parts.append(
            f'<path class="g" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
            f'<text class="t" text-anchor="end" x="{_LEFT - 8}" y="{y + 4:.1f}">{value:g}</text>'
        )
    for value in xs:
        x, _ = at(value, y_low)
        parts.append(
            f'<text class="t" text-anchor="middle" x="{x:.1f}" y="{height - _BOTTOM + 18:.1f}">{value:g}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text text-anchor="middle" x="{middle:.1f}" y="{height - 10:g}">{escape(x_label)}</text>')
    parts.append(f'<text x="4" y="13">{escape(y_label)}</text>')
    for moment, word in (moments or {}).items():
        x, _ = at(moment, y_low)
        parts.append(
            f'<path class="k" stroke-dasharray="4 3" d="M{x:.1f} {top:.1f}V{height - _BOTTOM:.1f}"/>'
            f'<text text-anchor="end" x="{x - 6:.1f}" y="{top + 12:.1f}">{escape(word)}</text>'
        )
    for number, line in enumerate(series):
        colour = f"var(--series-{number % 8 + 1},#bc4c00)"
        path = ""
        for point in line.points:
            x, y = at(point.x, point.y)
            path += f"M{x:.1f} {y:.1f}" if not path else f"H{x:.1f}V{y:.1f}" if line.steps else f"L{x:.1f} {y:.1f}"
        if line.line:
            wide = "" if line.dots else f";stroke-width:{1.5 + 1.4 * (len(series) - 1 - number):g}"
            parts.append(f'<path class="l" style="stroke:{colour}{wide}" d="{path}"/>')
        for point in line.points if line.dots else ():
            x, y = at(point.x, point.y)
            about = point.tooltip or f"{line.name}: {point.x:g}, {point.y:g}"
            ring = f'<circle class="k" cx="{x:.1f}" cy="{y:.1f}" r="8"/>' if point.mark else ""
            side = ("end", x - 12) if x > _WIDTH * 0.75 else ("start", x + 12)
            word = (
                f'<text text-anchor="{side[0]}" x="{side[1]:.1f}" y="{y - 8:.1f}">{escape(point.mark)}</text>'
                if point.mark
                else ""
            )
            parts.append(
                f'<g><title>{escape(about)}</title><circle class="p" style="fill:{colour}" cx="{x:.1f}" cy="{y:.1f}" '
                f'r="4"/>{ring}{word}</g>'
            )
        if len(series) > 1:
            parts.append(
                f'<text x="{_WIDTH - _RIGHT}" y="{13 + _LINE * number:g}" text-anchor="end" style="fill:{colour}">'
                f"{escape(line.name)}</text>"
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ch" role="img" aria-label="{escape(y_label)} against '
        f'{escape(x_label)}" width="{_WIDTH:.0f}" height="{height:.0f}" viewBox="0 0 {_WIDTH:.0f} {height:.0f}">'
        + "".join(parts)
        + "</svg>"
    )


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from at or below `low` to at or above `high`, two at least; both are above 0."""
    first = floor(log10(low) + 1e-9)
    last = max(ceil(log10(high) - 1e-9), first + 1)
    return [10.0**power for power in range(first, last + 1)]


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`, about five of them."""
    span = high - low
    if span <= 1e-9 * max(1.0, abs(low), abs(high)):  # visibly flat
        return [float(floor(low)), float(floor(low)) + 1.0]
    magnitude = 10.0 ** floor(log10(span / 5))
    step = min((factor * magnitude for factor in (1, 2, 5, 10)), key=lambda s: abs(span / s - 5))
    first = floor(low / step + 1e-9)
    values = [round(first * step, 12)]
    while values[-1] < high - step * 1e-6:
        values.append(round((first + len(values)) * step, 12))
    return values
