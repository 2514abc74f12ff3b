"""Values and errors as HTML: a picture with its type and range, a table for dicts and tuples, a red card."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import brief
from .html import ALARM, MONO, card, escape, faint, table
from .steps import Step
from .summary import Summary
from .units import seconds

__all__ = ["error_card", "path_of", "step_card", "value"]


def value(summary: Summary) -> str:
    """Return a value as HTML.

    >>> from .summary import summarise
    >>> "mean 2" in value(summarise(range(3))), "hello" in value(summarise("hello"))
    (False, True)
    """
    if summary.parts:
        rows = [[faint(escape(name or str(i))), value(part)] for i, (name, part) in enumerate(summary.parts)]
        return table(rows) + (faint(escape(f"… {summary.text}")) if summary.text else "")
    kind = f'<span style="{MONO};font-size:12px">{escape(summary.type)}</span>'
    if summary.shape is None:
        text = f'<span style="overflow-wrap:anywhere">{escape(summary.text)}</span>'
        return f"{text} {faint(kind)}{_alarm(summary.alarm)}"
    about = f"<div>{faint(escape(summary.text))}</div>" if summary.text else ""
    return f"{summary.picture}<div>{kind}{_alarm(summary.alarm)}</div>{about}"


def _alarm(text: str) -> str:
    return f' <b style="color:{ALARM}">⚠ {escape(text)}</b>' if text else ""


def step_card(step: Step, title: str = "") -> str:
    """Return the card of a step: its value, or the error below it."""
    title = title or f"{step.view}[{brief(step.index)}]"
    if step.value is None:
        return error_card(step.failed() or (step,), title)
    return card(escape(title), value(step.value), f"<div>{faint(seconds(step.seconds))}</div>")


def error_card(path: Sequence[Step], title: str) -> str:
    """Return the red card of an item that failed, with the path to the view where it did."""
    text = f'<div style="overflow-wrap:anywhere">{escape(path[-1].error)}</div>'
    return card(escape(title), text, f"<div>{faint(escape(path_of(path)))}</div>", colour=ALARM)


def path_of(path: Sequence[Step]) -> str:
    """Return the way to a failing step, as errors show it: ``batch[3] → smap[97]``."""
    return " → ".join(f"{step.name}[{brief(step.index)}]" for step in path)
