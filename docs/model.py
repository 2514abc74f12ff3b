"""Draw the five figures of the page how seqkit works, each from a run: ``python docs/model.py``.

The figures are ``docs/explanation/figures/<name>.svg``. With ``--check`` the script writes nothing and fails
if a figure is not up to date.
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from figures import CELL, COLOURS, GAP, INK, PALE, Token, square, tokens
from pipeline import RECORD

import seqkit as sk
from seqkit.testing import CountingSource

FOLDER = Path(__file__).parent / "explanation" / "figures"
LETTERS = string.ascii_lowercase[:12]
LABEL, ROW = 150, 44


def place(position: float) -> float:
    return LABEL + position * (CELL + GAP)


def label(text: str, row: int) -> str:
    return f'<text x="0" y="{6 + row * ROW + 18}" fill="{INK}">{text}</text>'


def cell(item: Any, position: int, row: int) -> str:
    """Draw a token in its colour, and anything else as a text in a frame."""
    return square(int(place(position)), 6 + row * ROW, item)


def row_of(name: str, items: Any, row: int, first: int = 0) -> str:
    return label(name, row) + "".join(cell(item, first + i, row) for i, item in enumerate(items))


def picture(rows: int, drawn: str) -> str:
    width, height = int(place(len(LETTERS))), rows * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">{drawn}</svg>\n'
    )


# ---------------------------------------------------------------- the five steps


def view() -> str:
    """Read one batch, and colour the items that were read."""
    source = CountingSource(LETTERS)
    shuffled = sk.shuffle(source, seed=3)
    batch = sk.batch(shuffled, 3)[1]
    order = "".join(sk.shuffle(LETTERS, seed=3))
    read = {LETTERS[i] for i in source.reads}

    def marked(letters: str) -> list[Token | str]:
        return [Token(letter) if letter in read else letter for letter in letters]

    rows = [row_of("x", marked(LETTERS), 0), row_of("shuffle(x)", marked(order), 1)]
    rows.append(row_of("batch(…, 3)[1]", [Token(letter) for letter in batch], 2, order.index(batch[0])))
    return picture(3, "".join(rows))


class Noted(sk.View[Any]):
    """The items of a source. It notes the plans that the views above it pass down, as they do to a node."""

    _reads_ahead = True

    def __init__(self, source: Any, plans: list[list[int]]) -> None:
        super().__init__((sk.view(source),))
        self.plans = plans

    def _get(self, i: int) -> Any:
        return self._sources[0]._get(i)

    def _iter(self, plan: Any) -> Iterator[Any]:
        self.plans.append(list(plan))
        return self._sources[0]._iter(plan)

    def _rebuild(self, sources: tuple[sk.View[Any], ...]) -> Noted:
        return Noted(sources[0], self.plans)


def plan() -> str:
    """Iterate batches, and show the plan that each view got."""
    low: list[list[int]] = []
    middle: list[list[int]] = []
    top: list[list[int]] = []
    batches = Noted(sk.batch(Noted(sk.shuffle(Noted(LETTERS, low), seed=3), middle), 3), top)
    items = "".join(letter for batch in batches for letter in batch)
    rows = [label("plan of batch", 0)]
    rows += [cell(number, 3 * i + 1, 0) for i, number in enumerate(top[0])]
    rows += [row_of("plan of shuffle", middle[0], 1), row_of("plan of x", low[0], 2)]
    rows.append(row_of("items", tokens(items), 3))
    return picture(4, "".join(rows))


def node() -> str:
    """Draw when each item of a recorded run was computed, and when each batch was with the consumer."""
    run = json.loads(RECORD.read_text())
    scale = (place(len(LETTERS)) - LABEL) / max(batch["released"] for batch in run["batches"])
    drawn = [label(f"worker {i}", i) for i in range(2)] + [label("consumer", 2)]

    def bar(letters: str, start: float, end: float, row: int) -> str:
        x, width, y = LABEL + start * scale, (end - start) * scale, 6 + row * ROW
        return (
            f'<rect x="{x:.1f}" y="{y}" width="{width - 1:.1f}" height="{CELL}" rx="3"'
            f' fill="{COLOURS[letters[0]]}"/><text x="{x + width / 2:.1f}" y="{y + 18}"'
            f' text-anchor="middle" fill="white">{letters}</text>'
        )

    drawn += [bar(item["letters"], item["start"], item["end"], item["worker"]) for item in run["items"]]
    drawn += [bar(batch["letters"], batch["received"], batch["released"], 2) for batch in run["batches"]]
    return picture(3, "".join(drawn))


def order() -> str:
    """Read two epochs, one of them with workers, and one item alone."""
    shuffled = sk.shuffle(LETTERS, seed=3)
    with sk.prefetch(shuffled, 2) as ahead:
        by_workers = list(ahead.at_epoch(1))
    rows = [row_of(f"epoch {epoch}", tokens("".join(shuffled.at_epoch(epoch))), epoch) for epoch in (0, 1)]
    rows += [row_of("epoch 1, 2 workers", tokens("".join(by_workers)), 2), label("epoch 1, item 7 alone", 3)]
    rows.append(cell(Token(shuffled.at_epoch(1)[7]), 7, 3))
    return picture(4, "".join(rows))


def state() -> str:
    """Stop a loader in the middle of an epoch, and go on with another one."""

    def loader(num_workers: int) -> Any:
        return sk.DataLoader(LETTERS, 2, shuffle=True, seed=3, num_workers=num_workers, method="thread")

    first, second = loader(0), loader(2)
    iterator = iter(first)
    read = "".join(letter for _ in range(3) for letter in next(iterator))
    saved = json.loads(json.dumps(first.state_dict()))
    second.load_state_dict(saved)
    with second:
        rest = "".join(letter for batch in second for letter in batch)
    text = ", ".join(f"{name}: {saved[name]}" for name in ("epoch", "delivered", "seed"))
    rows = [row_of("read", tokens(read), 0), label("state", 1)]
    rows.append(f'<text x="{place(0)}" y="{6 + ROW + 18}" fill="{INK}">{text}, …</text>')
    rows.append(row_of("resumed, 2 workers", tokens(rest), 2, len(read)))
    rows.append(
        f'<line x1="{place(len(read)) - GAP / 2}" x2="{place(len(read)) - GAP / 2}" y1="0" y2="{3 * ROW}"'
        f' stroke="{PALE}"/>'
    )
    return picture(3, "".join(rows))


FIGURES: dict[str, Callable[[], str]] = {
    "view": view,
    "plan": plan,
    "node": node,
    "order": order,
    "state": state,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for name, draw in FIGURES.items():
        path, text = FOLDER / f"{name}.svg", draw()
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        sys.exit(f"figures out of date: {', '.join(stale)}; run python docs/model.py")


if __name__ == "__main__":
    main()
