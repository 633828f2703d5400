"""Annotations and lists as JSON."""

from evaluation.findings.catalogue.explanation import Explanation

JSON_FILES: dict[str, Explanation] = {
    "not-json": Explanation(
        title="The file is not JSON",
        why="A file that stops early, or that holds NaN or Infinity, which JSON does not know, cannot be read as a "
        "whole; reading the part that is fine would lose the rest.",
        fix="Write it with a JSON library, as UTF-8, and replace NaN and Infinity by null or leave the key out. In "
        "Python, json.dump(…, allow_nan=False) tells where they are.",
        example="[not-json] 'nuclei.json': unexpected character, expected a JSON value (line 1, column 42); expected "
        "well-formed JSON in UTF-8. Write it with a JSON library; NaN and Infinity are not JSON.",
    ),
    "too-deep": Explanation(
        title="Arrays and objects of a JSON file are nested too deep",
        why="No format needs more than a few levels; bounds keep a hostile file from exhausting the reader.",
        fix="Write the plain structure of the format. Organisers can raise limits.json_depth in challenge.toml.",
        example="[too-deep] 'nuclei.json': arrays and objects nested 40 deep; expected at most 32 (limits.json_depth "
        "in challenge.toml). Write the plain structure of the format.",
    ),
    "invalid-annotation": Explanation(
        title="An annotation in a JSON file is not built as its format says",
        why="What it means is not known, and a nucleus would be lost if it were left out.",
        fix="Write it as the line says.",
        example="[invalid-annotation] 'nuclei.geojson', feature 1: the coordinates of a 'Polygon' are '[[1, 2], [5, "
        "2], [1, 6]]'; expected a list of rings, each a list of positions.",
    ),
    "empty-polygon": Explanation(
        title="A polygon has no vertex",
        why="It lies nowhere. Often the contour of an object that is too small came out empty.",
        fix="Leave the polygon out, or write its outline.",
        example="[empty-polygon] 'nuclei.json', polygon 2: no vertex; expected an outline of three vertices or more. "
        "Leave it out, or write its outline.",
    ),
    "invalid-probability": Explanation(
        title="The probability of a nucleus is not a number from 0 to 1",
        why="Predictions are ranked by it; percentages, logits and distances are other scales.",
        fix="Write numbers from 0 to 1, or no probabilities at all.",
        example="[invalid-probability] 'nuclei.json', polygon 2: the probability '1.5'; expected a number from 0 to 1.",
    ),
    "missing-probability": Explanation(
        title="Some nuclei have a probability and others have none",
        why="Nuclei without one cannot be ranked among those that have one; any number in its place would be a guess. "
        "So it is with the probabilities of the classes: a nucleus has one for each class of the challenge, or none.",
        fix="Write a probability for every nucleus of the case, or for none; if you write those of the classes, write "
        "all of them.",
        example="[missing-probability] 'nuclei.json', polygon 2: no probability, although other nuclei have one; "
        "expected a probability for every nucleus, or for none.",
    ),
}
