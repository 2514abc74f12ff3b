"""Run cells in a real Jupyter kernel, in a process of its own, because the client has threads.

``python -m tests.kernel CELL...`` prints a JSON list of what a notebook shows for each cell.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from jupyter_client.manager import start_new_kernel


def shown(client: Any, cell: str) -> str:
    """Run a cell. Return its printed text, and the traceback of its error without colours."""
    texts: list[str] = []

    def collect(message: Any) -> None:
        content = message["content"]
        texts.append(content.get("text", "") or "\n".join(content.get("traceback", ())))

    client.execute_interactive(cell, timeout=60, allow_stdin=False, output_hook=collect)
    return re.sub(r"\x1b\[[\d;]*m", "", "".join(texts))


def main() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        print(json.dumps([shown(client, cell) for cell in sys.argv[1:]]))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
