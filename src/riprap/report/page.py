"""The layout of reports: one self-contained HTML page, readable on a phone, in print, in light and dark mode.

A page is a title and blocks; a block is HTML text made by the functions here, which escape their arguments. A page
loads nothing over the network. Drawings and charts share the colour variables (`--surface`, `--ink`, `--mark`, …).
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_CSS = """\
:root{color-scheme:light dark;--surface:#ffffff;--raised:#f6f8fa;--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;\
--mark:#bc4c00;--good:#1a7f37;--bad:#cf222e;--link:#0969da;--series-1:#bc4c00;--series-2:#0969da;--series-3:#1a7f37;\
--series-4:#8250df;--series-5:#9a6700;--series-6:#bf3989;--series-7:#1b7c83;--series-8:#57606a}
@media (prefers-color-scheme:dark){:root{--surface:#0d1117;--raised:#161b22;--ink:#e6edf3;--soft:#9198a1;\
--line:#30363d;--mark:#f0883e;--good:#3fb950;--bad:#f85149;--link:#4493f8;--series-1:#f0883e;--series-2:#4493f8;--series-3:#3fb950;\
--series-4:#ab7df8;--series-5:#d29922;--series-6:#db61a2;--series-7:#39c5cf;--series-8:#9198a1}}
@media print{:root{--surface:#fff;--raised:#fff;--ink:#000;--soft:#444;--line:#bbb;--mark:#a33b00}}
*{box-sizing:border-box}
body{margin:0;background:var(--surface);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,\
"DejaVu Sans",sans-serif;-webkit-text-size-adjust:100%}
main{max-width:68rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}
h1{font-size:1.6rem;line-height:1.25;margin:.2rem 0}
h2{font-size:1.15rem;margin:2.4rem 0 .6rem;padding-top:.9rem;border-top:1px solid var(--line)}
p{max-width:46rem;margin:.6rem 0}
.lead{font-size:1.08rem}
.soft,figcaption,caption{color:var(--soft);font-size:.88rem}
.note{border-left:3px solid var(--mark);padding:.1rem 0 .1rem .9rem;color:var(--soft);font-size:.92rem}
.facts{display:flex;flex-wrap:wrap;gap:.7rem;margin:1.2rem 0;padding:0}
.facts div{background:var(--raised);border:1px solid var(--line);border-radius:6px;padding:.5rem .9rem;min-width:7rem}
.facts dt{color:var(--soft);font-size:.78rem}
.facts dd{margin:0;font-size:1.25rem;font-weight:600;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;margin:.8rem 0}
figure{margin:1rem 0}
figure .wide svg{display:block}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.32rem .8rem;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600;font-size:.82rem}
td.num,th.num{text-align:right}
td.long{white-space:normal;min-width:14rem}
tr.hot td{background:color-mix(in srgb,var(--mark) 11%,transparent)}
code,pre{font-family:ui-monospace,"SF Mono",Consolas,"DejaVu Sans Mono",monospace;font-size:.86rem}
pre{background:var(--raised);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;overflow-x:auto}
footer{margin-top:3rem;border-top:1px solid var(--line);padding-top:.8rem;color:var(--soft);font-size:.85rem}
@media (max-width:40rem){main{padding:1rem .9rem 3rem}h1{font-size:1.35rem}.facts div{flex:1 1 8rem}}
@media print{main{max-width:none;padding:0}h2{break-after:avoid}figure,table,.facts{break-inside:avoid}\
.wide{overflow:visible}.wide svg{max-width:100%;height:auto}}
"""


def page(title: str, blocks: Iterable[str], *, lead: str = "", footer: str = "") -> str:
    """The whole document. `lead`: a sentence under the title; `footer`: how the result was obtained."""
    opening = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    closing = f"<footer>{escape(footer)}</footer>" if footer else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_CSS}</style></head><body><main>\n"
        f"<h1>{escape(title)}</h1>{opening}\n" + "\n".join(blocks) + f"\n{closing}</main></body></html>\n"
    )


def section(title: str, *blocks: str) -> str:
    return f"<section><h2>{escape(title)}</h2>" + "\n".join(blocks) + "</section>"


def text(words: str) -> str:
    return f"<p>{escape(words)}</p>"


def note(words: str) -> str:
    """A remark that stands out: an assumption, a warning."""
    return f'<p class="note">{escape(words)}</p>'


def facts(values: Mapping[str, str]) -> str:
    """The key figures, in large type."""
    boxes = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values.items())
    return f'<dl class="facts">{boxes}</dl>'


def figure(svg: str, caption: str = "") -> str:
    """`svg` is trusted: it comes from `riprap.graph.drawing` or `riprap.report.chart`. Wide drawings scroll."""
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="wide">{svg}</div>{words}</figure>'


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    long: Iterable[int] = (),
    hot: Iterable[int] = (),
) -> str:
    """`numbers`: right-aligned columns; `long`: columns that may wrap; `hot`: highlighted rows."""
    right, wrap, marked = set(numbers), set(long), set(hot)

    def kind(column: int) -> str:
        return ' class="num"' if column in right else ' class="long"' if column in wrap else ""

    head = "".join(f"<th{kind(i)}>{escape(name)}</th>" for i, name in enumerate(columns))
    body = "".join(
        f"<tr{' class=hot' if number in marked else ''}>"
        + "".join(f"<td{kind(i)}>{escape(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>\n"
        for number, row in enumerate(rows)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def code(listing: str) -> str:
    return f"<pre>{escape(listing)}</pre>"
