"""Why a value is undefined."""

from evaluation.model import UndefinedReason


def why_undefined(references: int, predictions: int) -> UndefinedReason:
    """The reason why a score that needs matched pairs, or one side, has no value, from what there is on either side."""
    if references == 0:
        return "no-instances" if predictions == 0 else "no-reference"
    return "no-prediction" if predictions == 0 else "nothing-matched"
