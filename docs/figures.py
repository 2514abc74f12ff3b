"""Draw the figures of the reference pages: the items of a view and their source items.

The script runs each combinator on a few coloured tokens and draws the result, so figures agree with the code.
``python docs/figures.py`` writes ``docs/reference/figures/<name>.svg``. With ``--check`` it writes nothing
and fails if a figure is not up to date.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import seqkit as sk

FOLDER = Path(__file__).parent / "reference" / "figures"
CELL, GAP, LABEL, ROW = 26, 6, 96, 52
COLOURS = {"a": "#4e79a7", "b": "#e15759", "c": "#3f8f89", "d": "#b88a00", "e": "#b07aa1", "f": "#9c755f"}
COLOURS |= {"g": "#59823f", "h": "#c2568d", "i": "#5a66c0", "j": "#c0662f", "k": "#6b7280", "l": "#3c88b5"}
INK, PALE = "#757b84", "#9aa0a8"  # can be read on light and on dark pages


@dataclass(frozen=True)
class Token:
    """An item to draw. The letter selects the colour; `mapped` is True after a function was applied."""

    letter: str
    mapped: bool = False


def tokens(letters: str) -> list[Token]:
    return [Token(letter) for letter in letters]


def mark(token: Token, *_: Any) -> Token:
    """Return the token marked as mapped. The figures use it as their function."""
    return Token(token.letter, True)


def fragile(token: Token) -> Token:
    """Return the token, or fail for some tokens."""
    if token.letter in "bd":
        raise ValueError(token.letter)
    return token


def fails_once() -> Callable[[Token], Token]:
    """Return a function that fails when it is first called with a token."""
    seen = set()

    def read(token: Token) -> Token:
        if token.letter not in seen:
            seen.add(token.letter)
            raise OSError(token.letter)
        return token

    return read


def documents_of(rows: Any) -> Any:
    return rows[:, 0]


def parts(item: Any) -> list[Any]:
    """Return the tokens of an item: a token, or a list, tuple or dict of tokens."""
    if isinstance(item, dict):
        item = list(item.values())
    return list(item) if isinstance(item, Sequence) and not isinstance(item, str) else [item]


# ---------------------------------------------------------------- drawing


def square(x: int, y: int, token: Any) -> str:
    if not isinstance(token, Token):
        text = "" if token is None else str(token)
        return (
            f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="3" fill="none" stroke="{PALE}"/>'
            f'<text x="{x + CELL / 2}" y="{y + 18}" text-anchor="middle" fill="{INK}">{text}</text>'
        )
    radius = CELL // 2 if token.mapped else 3
    return (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="{radius}" fill="{COLOURS[token.letter]}"/>'
        f'<text x="{x + CELL / 2}" y="{y + 18}" text-anchor="middle" fill="white">{token.letter}</text>'
    )


def row(label: str, items: Sequence[Any], y: int, endless: bool) -> tuple[str, int]:
    """Draw one sequence, and return the drawing and its width."""
    drawn = [f'<text x="0" y="{y + 18}" fill="{INK}">{label}</text>']
    x = LABEL
    for item in items:
        inside = parts(item)
        width = max(len(inside), 1) * CELL
        if isinstance(item, list | tuple | dict):
            drawn.append(
                f'<rect x="{x - 3}" y="{y - 3}" width="{width + 6}" height="{CELL + 6}" rx="5"'
                f' fill="none" stroke="{INK}"/>'
            )
        drawn += [square(x + i * CELL, y, token) for i, token in enumerate(inside)]
        x += width + GAP + 6
    if endless:
        drawn.append(f'<text x="{x}" y="{y + 18}" fill="{INK}">…</text>')
        x += CELL
    return "".join(drawn), x


@dataclass(frozen=True)
class Figure:
    """The sources, drawn above, and the resulting view, drawn below."""

    sources: dict[str, Sequence[Any]]
    make: Callable[..., Any]
    expression: str
    first: int | None = None  # number of items to draw if the view has no end

    def draw(self) -> str:
        result = self.make(*self.sources.values())
        items = list(islice(result, self.first))
        rows = [*self.sources.items(), (self.expression, items)]
        drawn, width = [], 0
        for number, (label, row_items) in enumerate(rows):
            endless = self.first is not None and number == len(rows) - 1
            text, reach = row(label, row_items, 6 + number * ROW, endless)
            drawn.append(text)
            width = max(width, reach)
        line = (len(rows) - 1) * ROW - 10
        if self.sources:
            drawn.append(f'<line x1="0" x2="{width}" y1="{line}" y2="{line}" stroke="{PALE}"/>')
        height = len(rows) * ROW - 14
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">'
            f"{''.join(drawn)}</svg>\n"
        )


def saved_and_loaded(items: Sequence[Any]) -> sk.View[Any]:
    with tempfile.TemporaryDirectory() as folder:
        sk.pack(items).save(f"{folder}/items")
        return sk.load_packed(f"{folder}/items")


ONE = {"x": tokens("abcdef")}
FEW = {"x": tokens("abcd")}
TWO = {"x": tokens("abc"), "y": tokens("def")}

FIGURES = {
    "batch": Figure(ONE, lambda x: sk.batch(x, 4), "batch(x, 4)"),
    "bins": Figure(
        ONE,
        lambda x: sk.gather_groups(x, sk.smap(documents_of, sk.bins([5, 1, 3, 3, 2, 4], 6, long="error"))),
        "bins(lengths, 6)",
    ),
    "collate": Figure(TWO, lambda x, y: sk.collate([x, y]), "collate([x, y])"),
    "concatenate": Figure(TWO, lambda x, y: sk.concatenate([x, y]), "concatenate"),
    "gather": Figure(FEW, lambda x: sk.gather(x, [3, 0, 0, 2]), "[3, 0, 0, 2]"),
    "gather_groups": Figure(FEW, lambda x: sk.gather_groups(x, [[3, 0], [2], [1, 0]]), "gather_groups"),
    "debug": Figure(FEW, lambda x: sk.debug(x, lambda i, token: None), "debug(x, f)"),
    "load_packed": Figure(FEW, lambda x: saved_and_loaded(x), "load_packed"),
    "monitor_throughput": Figure(FEW, lambda x: sk.monitor_throughput(x), "monitored"),
    "per_process": Figure(FEW, lambda x: sk.per_process(lambda: x), "per_process"),
    "prefetch": Figure(FEW, lambda x: sk.prefetch(x, 2), "prefetch(x)"),
    "random_map": Figure(FEW, lambda x: sk.random_map(mark, x, seed=0), "f(item, rng)"),
    "read": Figure(FEW, lambda x: sk.read("-", open_fn=lambda path: x), "read(path)"),
    "shuffle": Figure(ONE, lambda x: sk.shuffle(x, seed=3), "shuffle(x)"),
    "shuffle_buffer": Figure(ONE, lambda x: sk.shuffle_buffer(x, 3, seed=1), "shuffle_buffer(x, 3)"),
    "shuffle_groups": Figure(ONE, lambda x: sk.shuffle_groups(x, 2, seed=4), "shuffle_groups(x, 2)"),
    "smap": Figure(FEW, lambda x: sk.smap(mark, x), "smap(f, x)"),
    "stages": Figure(
        {"x": tokens("abcdef"), "node below": list(sk.shuffle(tokens("abcdef"), seed=3))},
        lambda x, ahead: sk.batch(sk.shuffle(sk.prefetch(x, 2), seed=3), 2),
        "node above",
    ),
    "starmap": Figure(
        {"x": [(Token("a"), Token("b")), (Token("c"), Token("d"))]},
        lambda x: sk.starmap(mark, x),
        "f(*item)",
    ),
    "take": Figure(FEW, lambda x: sk.take(x, np.array([1, 3])), "[1, 3]"),
    "unbatch": Figure({"x": [tokens("abc"), tokens("de")]}, lambda x: sk.unbatch(x, 3), "unbatch(x, 3)"),
    "view": Figure(FEW, lambda x: sk.view(x)[::-1], "view(x)[::-1]"),
    "add_cache": Figure(FEW, lambda x: sk.add_cache(x, 2), "add_cache(x)"),
    "arange": Figure({}, lambda: sk.arange(2, 14, 3), "arange"),
    "case": Figure({"selector": [0, 1, 1], **TWO}, lambda s, x, y: sk.case(s, x, y), "case(s, x, y)"),
    "cycle": Figure({"x": tokens("abc")}, sk.cycle, "cycle(x)", first=7),
    "epochs": Figure({"x": tokens("abc")}, lambda x: sk.epochs(sk.shuffle(x, seed=1)), "epochs(x)", first=9),
    "fallback": Figure(
        ONE,
        lambda x: sk.fallback("replace", sk.smap(fragile, x)),
        '"replace", b, d fail',
    ),
    "filter": Figure(ONE, lambda x: sk.filter(lambda t: t.letter in "bdf", x), "filter(f, x)"),
    "flatten": Figure({"x": [tokens("ab"), tokens("c"), tokens("def")]}, sk.flatten, "flatten(x)"),
    "interleave": Figure({"x": tokens("abcd"), "y": tokens("ef")}, sk.interleave, "interleave"),
    "materialize": Figure(FEW, lambda x: sk.materialize(sk.smap(mark, x)), "materialize"),
    "mix": Figure(
        {"x": tokens("abcd"), "y": tokens("ef")},
        lambda x, y: sk.mix([x, y], [2, 1], seed=0),
        "mix, 2 to 1",
    ),
    "pack": Figure(FEW, lambda x: sk.pack(x), "pack(x)"),
    "random_split": Figure(ONE, lambda x: map(list, sk.random_split(x, [4, 2], seed=0)), "random_split"),
    "kfold": Figure(ONE, lambda x: [[*test] for _, test in sk.kfold(x, 3, seed=0)], "3 folds"),
    "repeat": Figure({"value": tokens("a")}, lambda x: sk.repeat(x[0]), "repeat(value)", first=5),
    "retry": Figure(FEW, lambda x: sk.retry(sk.smap(fails_once(), x), 2, wait=0), "retry(x, 2)"),
    "shard": Figure(ONE, lambda x: [list(sk.shard(x, rank, 2)) for rank in (0, 1)], "2 shards"),
    "split": Figure(ONE, lambda x: sk.split(x, 2), "split(x, 2)"),
    "switch": Figure({"condition": [1, 0, 1], **TWO}, lambda c, x, y: sk.switch(c, x, y), "switch(c, x, y)"),
    "time_split": Figure(
        ONE, lambda x: [[*past, *test] for past, test in sk.time_split(x, range(6), 2)], "2 pairs"
    ),
    "uniter": Figure(FEW, lambda x: sk.uniter(x), "uniter(x)"),
    "window": Figure(FEW, lambda x: sk.window(x, 2), "window(x, 2)"),
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for name, figure in FIGURES.items():
        path, text = FOLDER / f"{name}.svg", figure.draw()
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"figures out of date: {', '.join(stale)}; run python docs/figures.py")


if __name__ == "__main__":
    main()
