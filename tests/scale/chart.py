"""Draws what demo.py --json measured: bytes transferred and seconds of each engine.

usage: chart.py MEASURED.json CHART.svg
"""

import json
import pathlib
import sys
from html import escape

WIDTH, LEFT, BAR, GAP = 720, 240, 18, 8


def bars(rows, title, unit, top):
    """A group of bars, and where it ends."""
    most = max(value for _, value in rows) or 1
    parts = [f'<text x="16" y="{top + 14}" font-weight="bold">{escape(title)}</text>']
    top += 28
    for label, value in rows:
        length = (WIDTH - LEFT - 110) * value / most
        parts.append(f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="#2f6fab"/>')
        parts.append(f'<text x="{LEFT + length + 6:.1f}" y="{top + 13}">{value:,.1f} {unit}</text>')
        top += BAR + GAP
    return parts, top + 12


def main():
    measured = json.loads(pathlib.Path(sys.argv[1]).read_text())
    engines, scans = measured["engines"], measured["scans"]
    parts, top = [], 12
    for rows, title, unit in (
        ([(row["engine"], row["query"]) for row in engines], "The query, seconds", "s"),
        ([(row["engine"], row["bytes"] / 1e6) for row in engines[1:]], "Transferred", "MB"),
        ([(label, row["bytes"] / 1e6) for label, row in scans.items()], "Stored", "MB"),
        ([(label, row["rows_per_second"] / 1e6) for label, row in scans.items()], "All columns to Arrow, million rows a second", ""),
    ):
        more, top = bars(rows, title, unit, top)
        parts += more
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="13">'
    style = f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>'
    pathlib.Path(sys.argv[2]).write_text("\n".join([head, style, *parts, "</svg>", ""]))


main()
