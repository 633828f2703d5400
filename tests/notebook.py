"""docs/python.md as a notebook: its texts and its code as cells, with what the code prints and shows.

``pytest tests/test_docs.py --renew-golden`` writes docs/python.ipynb.
"""

from __future__ import annotations

import ast
import io
import json
import re
from contextlib import redirect_stdout
from typing import Any

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed_notebook(text: str) -> str:
    """The notebook of a document (nbformat 4.4), its Python executed in the current folder from top to bottom."""
    cells: list[dict[str, Any]] = []
    names: dict[str, Any] = {"__name__": "notebook"}  # what one cell makes the next one has
    for index, part in enumerate(re.split(r"^```python\n(.*?)^```\n", text, flags=re.DOTALL | re.MULTILINE)):
        source = part.strip("\n").splitlines(keepends=True)
        if not source:
            continue
        if index % 2 == 0:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": source})
            continue
        count = 1 + sum(cell["cell_type"] == "code" for cell in cells)
        cells.append(
            {
                "cell_type": "code",
                "execution_count": count,
                "metadata": {},
                "outputs": outputs_of(part, names, count),
                "source": source,
            }
        )
    document = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def outputs_of(code: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What a cell prints, and how its last line shows itself if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "docs/python.md", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "docs/python.md", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs
