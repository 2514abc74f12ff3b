"""Values and errors as HTML: a picture with its type and range, a table for dicts and tuples, a red card."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import brief
from ..core.units import seconds
from .html import ALARM, MONO, card, escape, faint, row, table
from .steps import Step
from .summary import Summary

__all__ = ["chain", "error_card", "label", "path_of", "stage_row", "step_card", "value"]


def value(summary: Summary) -> str:
    """Return a value as HTML.

    >>> from .summary import summarise
    >>> "mean 2" in value(summarise(range(3))), "hello" in value(summarise("hello"))
    (False, True)
    """
    if summary.parts:
        parts = [(name or str(i), part) for i, (name, part) in enumerate(summary.parts)]
        pictures = "".join(_array(part, name) for name, part in parts if part.picture)
        rows = [[faint(escape(name)), value(part)] for name, part in parts if not part.picture]
        more = faint(escape(f"… {summary.text}")) if summary.text else ""
        return pictures + (table(rows) if rows else "") + more
    if summary.shape is not None:
        return _array(summary)
    shown = summary.text or summary.type
    return f'<span style="overflow-wrap:anywhere">{escape(shown)}</span>{_alarm(summary.alarm)}'


def _array(summary: Summary, name: str = "") -> str:
    kind = f'<span style="{MONO};font-size:12px">{escape(summary.type)}</span>'
    head = f"{faint(escape(name))} {kind}" if name else kind
    about = f"<div>{faint(escape(summary.text))}</div>" if summary.text else ""
    return f"{summary.picture}<div>{head}{_alarm(summary.alarm)}</div>{about}"


def _alarm(text: str) -> str:
    return f' <b style="color:{ALARM}">⚠ {escape(text)}</b>' if text else ""


def step_card(step: Step, title: str = "", path: Sequence[Step] = ()) -> str:
    """Return the card of a step: its value, or the error at the end of the path to it.

    With a title, the time is that of the item in all views. Otherwise it is that of this view.
    """
    taken = step.all_seconds() if title else step.seconds
    title = title or label(step)
    if step.value is None:
        return error_card(path or step.failed(), title)
    return card(escape(title), value(step.value), f"<div>{faint(seconds(taken))}</div>")


def error_card(path: Sequence[Step], title: str) -> str:
    """Return the red card of an item that failed, with the path to the view where it did."""
    text = f'<div style="overflow-wrap:anywhere">{escape(path[-1].error)}</div>'
    return card(escape(title), text, f"<div>{faint(escape(path_of(path)))}</div>", colour=ALARM)


def path_of(path: Sequence[Step]) -> str:
    """Return the way to a failing step, as errors show it: ``batch[3] → smap[97]``."""
    return " → ".join(f"{step.name}[{brief(step.index)}]" for step in path)


def chain(step: Step) -> list[Step]:
    """Return the stages of an item from the source on, without those that only choose an item.

    Of several parts the first is followed, or the one that failed.
    """
    path = list(step.failed()) or [step]
    while path[-1].parts:
        path.append(path[-1].parts[0])
    return [each for each in reversed(path) if not each.is_same and (each.value is not None or each.error)]


def label(step: Step) -> str:
    """Return a view with the index of its item: ``smap(decode)[97]``."""
    return f"{step.view}[{brief(step.index)}]"


def stage_row(step: Step) -> str:
    """Return the cards of an item in all stages, from the source on."""
    arrow = '<div style="display:inline-block;align-self:center;opacity:0.6">→</div>'
    cards = [step_card(each, path=step.failed()) for each in chain(step)]
    return row((part for i, each in enumerate(cards) for part in [arrow] * (i > 0) + [each]))
