"""`Profile`: the result of `profile`, as a table for terminals and notebooks, and as data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

from ..core.units import count, percent, plural, rounded, seconds, size
from . import html
from .diagnosis import Diagnosis, diagnose
from .measurement import Measurement, Stage
from .probe import Event, Thread

__all__ = ["Profile"]

HEAD = ("stage", "", "share", "items", "median", "p95", "first", "size", "type")
RIGHT = (2, 3, 4, 5, 6, 7)
BAR = 10


@dataclass(frozen=True, repr=False)
class Profile(Measurement):
    """What `profile` found. Its text is a table and the `diagnosis`. In notebooks it has coloured bars.

    Attributes
    ----------
    threads : tuple
        Each thread that read items, and its events, for `save_trace`.
    """

    threads: tuple[tuple[Thread, list[Event]], ...] = field(default=(), repr=False, compare=False)

    @property
    def diagnosis(self) -> Diagnosis:
        """What limits the pipeline, and a remedy. Print it to see a few sentences."""
        return diagnose(self)

    def __str__(self) -> str:
        rows = [HEAD, *([line, _text_bar(share), *cells] for line, share, cells in self._rows())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines = [
            "  ".join(
                cell.rjust(width) if column in RIGHT else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return html.visible("\n".join([*lines, "", *self._summary(), str(self.diagnosis)]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for line, share, (*cells, kind) in self._rows():
            code = f'<span style="{html.MONO};white-space:pre">{html.escape(line)}</span>'
            rows.append([code, html.bar(share), *map(html.escape, cells), html.code(kind)])
        notes = "".join(f"<div>{html.faint(html.escape(line))}</div>" for line in self._summary())
        found = f"<p><b>{html.with_code(self.diagnosis)}</b></p>"
        return html.frame(found, html.scrolling(html.table(rows, HEAD, RIGHT)), notes)

    def _rows(self) -> Iterator[tuple[str, float, Sequence[str]]]:
        """Yield the line, the share and the cells of each stage."""
        for stage in self.stages:
            whole_s = max(self.elapsed_s, stage.seconds) if stage.waits else self.seconds
            share = stage.seconds / max(whole_s, 1e-9)
            yield stage.line, share, _cells(stage, share)

    def _summary(self) -> list[str]:
        """Return lines about the consumer and the nodes."""
        failed = f", {plural(self.failed, 'failure')}" if self.failed else ""
        lines = [f"{plural(self.items, 'item')}{failed}, {rounded(self.rate, 4)} per second."]
        for number, node in enumerate(self.nodes):
            now = node.figures
            busy = now.worked_ns / 1e9 / max(self.elapsed_s * node.workers, 1e-9)
            words = [f"workers busy {percent(min(busy, 1.0))}", f"{count(now.chunk)} items per job"]
            if not number:
                words += [f"started in {seconds(node.start_s)}", f"transport {seconds(self.transport_s)}"]
            if now.restarts:
                words.append(plural(now.restarts, "restart"))
            lines.append(f"{node.view}, {node.workers} × {node.method}: {', '.join(words)}.")
        return lines

    # ---------------------------------------------------------------- data

    def to_dict(self) -> dict[str, Any]:
        """Return all figures and the diagnosis as dicts, lists, numbers and texts, such as for JSON."""
        found = {name: getattr(self, name) for name in ("items", "failed", "counted", "elapsed_s", "rate")}
        found |= {"waited_s": self.waited_s, "subject": self.subject}
        found |= {"stages": [asdict(stage) for stage in self.stages]}
        found |= {"nodes": [asdict(node) for node in self.nodes]}
        return found | {"diagnosis": asdict(self.diagnosis)}

    def save_trace(self, path: str | PathLike[str]) -> None:
        """Write a trace file that https://ui.perfetto.dev and Chrome's ``chrome://tracing`` open.

        Parameters
        ----------
        path : str or PathLike
            Such as ``"trace.json"``. An existing file is replaced.

        Notes
        -----
        A row for each worker has a bar for each timed item of each stage.
        """
        begin_s = min((event.begun_s for _, events in self.threads for event in events), default=0.0)
        found: list[dict[str, Any]] = []
        for row, (thread, events) in enumerate(self.threads):
            place = {"pid": thread.pid, "tid": row}
            title = "consumer" if thread.worker < 0 else f"worker {thread.worker} ({thread.pid})"
            found.append({"ph": "M", "name": "thread_name", **place, "args": {"name": title}})
            for event in events:
                about = {"index": event.at, "own_us": 1e6 * event.own_s, "cpu_us": 1e6 * event.cpu_s}
                times = {"ts": 1e6 * (event.begun_s - begin_s), "dur": 1e6 * event.taken_s}
                name = self.stages[event.stage].view
                found.append({"ph": "X", "name": name, "cat": "stage", **place, **times, "args": about})
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": found, "displayTimeUnit": "ms"}, file)


def _cells(stage: Stage, share: float) -> list[str]:
    if not stage.items and not stage.failed:
        return ["-"] * 6 + [""]
    items = count(stage.items) + (f" ({stage.failed} failed)" if stage.failed else "")
    times = [seconds(value) for value in (stage.median_s, stage.p95_s, stage.first_s)]
    text = f"waits {percent(share)}" if stage.waits else percent(share)
    return [text, items, *times, size(stage.nbytes) if stage.nbytes else "-", stage.kind]


def _text_bar(share: float) -> str:
    """Return a bar of eighths of a character.

    >>> _text_bar(0.55), _text_bar(0)
    ('█████▌', '')
    """
    eighths = round(8 * BAR * min(share, 1.0))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
