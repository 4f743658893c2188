"""Readers of the field's prediction files. All return Predictions, keyed by question id.

    *.json     BIRD's object {"0": "SQL\\t----- bird -----\\tdb_id"}, or a list of the objects that jsonl has
    *.jsonl    {"question_id": ..., "sql": ...} a line
    *.csv      a header; the predicted SQL, and question_id or the question's own text (as in DIN-SQL's files)
    others     one SQL a line in the split's order, with an optional tab and db_id (Spider, BIRD)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from serl.data.example import Example
from serl.data.predictions.keyed import read_json_file, read_jsonl_file
from serl.data.predictions.lines import read_lines
from serl.data.predictions.prediction import Predictions
from serl.data.predictions.table import read_csv

__all__ = ["Predictions", "read_predictions"]

_Reader = Callable[[Path, Sequence[Example]], Predictions]
_READERS: dict[str, _Reader] = {".json": read_json_file, ".jsonl": read_jsonl_file, ".csv": read_csv}


def read_predictions(path: Path | str, examples: Sequence[Example]) -> Predictions:
    """The predictions in `path` for the questions of a split; the file's ending tells its form.

    InputError where the file cannot be read or its predictions are for other databases than the questions.
    """
    path = Path(path)
    return _READERS.get(path.suffix.lower(), read_lines)(path, examples)
