"""The page of `make demo`: what each step of the loop said, and where its report is."""

import sys
import textwrap
from pathlib import Path

from riprap.report import page as p

REPORTS = {
    "1-assess": "assessment/report.html",
    "2-plan": "plan.html",
    "3-prove": "proof/proof.html",
    "4-check": "",
}


WIDTH = 108  # columns that the page shows without scrolling


def fitting(lines: list[str]) -> str:
    """Sentences that are longer than the page is wide go on in the next line; tables are not."""
    parts = (textwrap.wrap(line, WIDTH, subsequent_indent="    ") if len(line) > WIDTH else [line] for line in lines)
    return "\n".join(line for part in parts for line in part).strip("\n")


def main(directory: Path) -> None:
    blocks = []
    for name, report in REPORTS.items():
        title, command, *said = (directory / f"{name}.txt").read_text().splitlines()
        link = f'<p><a href="{report}">The whole report</a></p>' if report else ""
        blocks.append(p.section(title, p.code(fitting([command])), p.code(fitting(said)), link))
    lead = "Assess, plan, run and prove: one app through the whole loop, on this machine."
    (directory / "index.html").write_text(p.page("Riprap, from end to end", blocks, lead=lead, footer="make demo"))


main(Path(sys.argv[1]))
