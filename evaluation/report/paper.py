"""The table of scores for a paper: a row for each model, a column for each shown score, as LaTeX, CSV or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evaluation.files.results.documents import csv_table
from evaluation.report.skills import COMPARED, MARK, SkillRow, about_spread

_OF_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "²": "$^2$",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)  # fmt: skip
_ARROWS = {"↑": r"$\uparrow$", "↓": r"$\downarrow$"}
_OF_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\|*_`<[]"})


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Scores of models.

    models  names, in the order of the scores of each row
    rows    of scores, as terminals and pages show them
    number, unit  how many images or patients the means are over
    """

    models: Sequence[str]
    rows: Sequence[SkillRow]
    number: int
    unit: str

    def records(self) -> list[dict[str, str | float | None]]:
        """Return a row for each model: name, n, and each score by its path, with interval and standard deviation."""
        records = []
        for index, model in enumerate(self.models):
            record: dict[str, str | float | None] = {"model": model, "n": self.number}
            for row in self.rows:
                score = row.scores[index]
                record[row.path] = score.value
                if any(one.ends for one in row.scores):
                    record[f"{row.path}.low"], record[f"{row.path}.high"] = score.ends or (None, None)
                if any(one.deviation is not None for one in row.scores):
                    record[f"{row.path}.sd"] = score.deviation
            records.append(record)
        return records

    def csv(self) -> str:
        """Return numbers for programs."""
        records = self.records()
        return csv_table([*records[0]], [record.values() for record in records])

    def markdown(self) -> str:
        """Return a table with the best of each column in bold."""
        head = ["model", *(f"{COMPARED[row.path]} {row.arrow}" for row in self.rows)]
        lines = [head, ["---", *["---:"] * len(self.rows)]]
        lines += self._cells(lambda name: name.translate(_OF_MARKDOWN), "**{}**")
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{self._about()}\n"

    def tex(self) -> str:
        """Return a tabular for the package booktabs, with the best of each column in bold."""
        titles = (f"{COMPARED[row.path].translate(_OF_TEX)} {_ARROWS[row.arrow]}" for row in self.rows)
        lines = [["Model", *titles], *self._cells(lambda name: name.translate(_OF_TEX), r"\textbf{{{}}}")]
        head, *body = (f"{' & '.join(line)} \\\\\n" for line in lines)
        columns = f"l{'r' * len(self.rows)}"
        return (
            f"% {self._about()} Needs \\usepackage{{booktabs}}.\n"
            f"\\begin{{tabular}}{{{columns}}}\n"
            f"\\toprule\n{head}\\midrule\n{''.join(body)}\\bottomrule\n\\end{{tabular}}\n"
        )

    def _about(self) -> str:
        return f"Mean over {self.number:,} {self.unit}. {about_spread(self.rows)}".rstrip()

    def _cells(self, escaped: Callable[[str], str], bold: str) -> list[list[str]]:
        models = [index for index, model in enumerate(self.models) if not model.startswith(MARK)]
        best = [row.best(models) for row in self.rows]
        lines = []
        for index, model in enumerate(self.models):
            line = [escaped("".join(sign if sign.isprintable() else "?" for sign in model))]
            for row, of_row in zip(self.rows, best, strict=True):
                text = "–" if row.scores[index].value is None else row.scores[index].text()
                is_best = index in models and of_row is not None and row.scores[index].value == of_row
                line.append(bold.format(text) if is_best else text)
            lines.append(line)
        return lines


TEXT_OF_ENDING: Mapping[str, Callable[[PaperTable], str]] = {
    ".tex": PaperTable.tex,
    ".csv": PaperTable.csv,
    ".md": PaperTable.markdown,
}
