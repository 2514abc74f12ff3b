"""Draw the moving picture of the page about slots from a recorded run of a pipeline.

``python docs/pipeline.py --record`` runs the pipeline with two worker processes, and writes to
``docs/pipeline.json`` when each item was computed and where each batch lay. Without an option the script
draws ``docs/pipeline.svg`` from that record. With ``--check`` it writes nothing. It fails if the picture does
not show the record, or if today's pipeline has other batches.
"""

from __future__ import annotations

import json
import os
import string
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from figures import CELL, COLOURS, INK, PALE

import seqkit as sk

RECORD, PICTURE = Path(__file__).with_suffix(".json"), Path(__file__).with_suffix(".svg")
LETTERS = string.ascii_lowercase[:12]
WORKERS, SIZE, SLOTS, STEP_S = 2, 2, 4, 0.09
SLOW = "c"  # takes four times as long, so that later batches are finished first


# ---------------------------------------------------------------- the run


def load(letter: str) -> np.ndarray[Any, Any]:
    return np.full((64, 64), ord(letter))


def note(journal: str, **facts: Any) -> None:
    """Append a line. Lines of several processes do not mix, because one write appends one line."""
    info = sk.get_worker_info()
    with open(journal, "ab", buffering=0) as file:
        file.write(json.dumps({**facts, "worker": info.id if info else None}).encode() + b"\n")


class Augment:
    """A map that takes some time, and notes when it began and when it ended."""

    def __init__(self, journal: str):
        self.journal = journal

    def __call__(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        letter, start = chr(image[0, 0]), time.monotonic()
        time.sleep(0.4 if letter == SLOW else 0.1)
        note(self.journal, letters=letter, start=start, end=time.monotonic())
        return image


class Stack(Augment):
    """`numpy.stack` into the slot of the batch, that notes when it was done."""

    def __call__(self, images: Any) -> np.ndarray[Any, Any]:
        stacked = np.stack(images, out=sk.empty((len(images), *images[0].shape), images[0].dtype))
        note(self.journal, letters=letters(stacked), stacked=time.monotonic())
        return stacked


def letters(batch: np.ndarray[Any, Any]) -> str:
    return "".join(chr(image[0, 0]) for image in batch)


def pipeline(journal: str) -> sk.View[Any]:
    images = sk.smap(load, sk.shuffle(LETTERS, seed=3))
    return sk.batch(sk.smap(Augment(journal), images), SIZE, collate_fn=Stack(journal))


def record() -> dict[str, Any]:
    """Run the pipeline, and return the times of its items and batches in seconds since the first item."""
    batches: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        journal = f"{folder}/journal"
        ahead = sk.prefetch(pipeline(journal), WORKERS, "process", max_buffered=SLOTS - 1, chunk_size=1)
        with ahead:
            for batch in ahead:
                address = batch.__array_interface__["data"][0]
                facts = {"letters": letters(batch), "address": address, "received": time.monotonic()}
                time.sleep(STEP_S)  # stands for a training step
                del batch  # the slot is free now
                batches.append({**facts, "released": time.monotonic()})
        notes = [json.loads(line) for line in Path(journal).read_text().splitlines()]
    items = {each["letters"]: each for each in notes if "start" in each}
    stacked = {each["letters"]: each["stacked"] for each in notes if "stacked" in each}
    slots = sorted({batch.pop("address") for batch in batches if batch.setdefault("slot", batch["address"])})
    for batch in batches:
        batch.update(slot=slots.index(batch["slot"]), stacked=stacked[batch["letters"]])
    begin = min(item["start"] for item in items.values())
    return {"items": in_seconds(items.values(), begin), "batches": in_seconds(batches, begin)}


def in_seconds(records: Any, begin: float) -> list[dict[str, Any]]:
    times = {"start", "end", "stacked", "received", "released"}
    return [{k: round(v - begin, 3) if k in times else v for k, v in each.items()} for each in records]


# ---------------------------------------------------------------- the drawing

LEFT, STEP, SECONDS, LEAD, REST = 120, CELL + 6, 12, 0.1, 0.25
SOURCE, ORDER, WORK, SLOT, OUT = 12, 64, 116, 226, 286  # the heights of the rows
WIDTH, HEIGHT = LEFT + len(LETTERS) * STEP, 322


def draw(run: dict[str, Any]) -> str:
    order = "".join(sk.shuffle(LETTERS, seed=3))
    items = {item["letters"]: item for item in run["items"]}
    length = max(batch["released"] for batch in run["batches"]) + LEAD + REST
    rules, tokens, frames = [], [], []
    slot_width = SIZE * STEP + 14

    def at(seconds: float) -> str:
        return f"{min(100 * (seconds + LEAD) / length, 100):.2f}%"

    for number, batch in enumerate(run["batches"]):
        box = LEFT + batch["slot"] * slot_width
        received, released = batch["received"], batch["released"]
        rules.append(
            f"@keyframes s{number}{{0%,{at(received - 0.01)}{{opacity:0}}"
            f"{at(received)},{at(released)}{{opacity:1}}{at(released + 0.01)},100%{{opacity:0}}}}"
        )
        frames.append(
            f'<rect class="k" style="animation-name:s{number}" x="{box - 5}" y="{SLOT - 5}" opacity="0"'
            f' width="{SIZE * STEP + 4}" height="{CELL + 10}" rx="5" fill="none"'
            f' stroke="{COLOURS["d"]}" stroke-width="3"/>'
        )
        for place, letter in enumerate(batch["letters"]):
            item, mine = items[letter], order.index(letter)
            lane = WORK + item["worker"] * (CELL + 14)
            stay = [
                (-LEAD, LEFT + LETTERS.index(letter) * STEP, SOURCE),
                (item["start"] - 0.08, LEFT + LETTERS.index(letter) * STEP, SOURCE),
                (item["start"] - 0.04, LEFT + mine * STEP, ORDER),
                (item["start"], LEFT + place * STEP, lane),
                (batch["stacked"], LEFT + place * STEP, lane),
                (batch["stacked"] + 0.04, box + place * STEP, SLOT),
                (batch["released"], box + place * STEP, SLOT),
                (batch["released"] + 0.05, LEFT + mine * STEP, OUT),
            ]
            moves = "".join(f"{at(t)}{{transform:translate({x}px,{y}px)}}" for t, x, y in stay)
            end = stay[-1]
            rules.append(
                f"@keyframes m{letter}{{{moves}100%{{transform:translate({end[1]}px,{end[2]}px)}}}}"
                f"@keyframes r{letter}{{0%,{at(item['start'])}{{rx:3px}}{at(item['end'])},100%{{rx:13px}}}}"
            )
            half = CELL / 2
            tokens.append(
                f'<g class="k" style="animation-name:m{letter};transform:translate({end[1]}px,{end[2]}px)">'
                f'<rect class="k" style="animation-name:r{letter}" width="{CELL}" height="{CELL}"'
                f' rx="{half:g}" fill="{COLOURS[letter]}"/><text x="{half:g}" y="18" text-anchor="middle"'
                f' fill="white">{letter}</text></g>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">'
        f"<style>.k{{animation:{SECONDS}s linear infinite}}"
        "@media(prefers-reduced-motion:reduce){.k{animation:none}}"
        f"{''.join(rules)}</style>"
        f"{scenery(order, slot_width)}{''.join(frames)}{''.join(tokens)}</svg>\n"
    )


def scenery(order: str, slot_width: int) -> str:
    """Draw what does not move: the names of the rows, the order, the workers and the slots."""
    labels = [("x", SOURCE), ("shuffle(x)", ORDER), ("slots", SLOT), ("received", OUT)]
    labels += [(f"map, worker {i}", WORK + i * (CELL + 14)) for i in range(WORKERS)]
    drawn = [f'<text x="0" y="{y + 18}" fill="{INK}">{text}</text>' for text, y in labels]
    for place, letter in enumerate(order):
        drawn.append(
            f'<text x="{LEFT + place * STEP + CELL / 2:g}" y="{ORDER + 18}" text-anchor="middle"'
            f' fill="{INK}">{letter}</text>'
        )
    boxes = [(LEFT + i * slot_width, SLOT) for i in range(SLOTS)]
    boxes += [(LEFT, WORK + i * (CELL + 14)) for i in range(WORKERS)]
    for x, y in boxes:
        drawn.append(
            f'<rect x="{x - 5}" y="{y - 5}" width="{SIZE * STEP + 4}" height="{CELL + 10}" rx="5"'
            f' fill="none" stroke="{PALE}"/>'
        )
    return "".join(drawn)


def main() -> None:
    if "--record" in sys.argv:
        RECORD.write_text(json.dumps(record(), indent=1) + "\n")
    run = json.loads(RECORD.read_text())
    if "--check" not in sys.argv:
        PICTURE.write_text(draw(run))
        return
    if PICTURE.read_text() != draw(run):
        sys.exit("docs/pipeline.svg does not show the record: run python docs/pipeline.py")
    today = [letters(batch) for batch in pipeline(os.devnull)]
    if [batch["letters"] for batch in run["batches"]] != today:
        sys.exit("the pipeline has other batches than the record: run python docs/pipeline.py --record")


if __name__ == "__main__":
    main()
