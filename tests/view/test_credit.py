"""The picture of `serl credit`: which rows stand in which panel, and each gap's controls beside it."""

from serl.hindsight.credit.auc import Auc
from serl.hindsight.credit.mistakes import Lead, Row, Table
from serl.view.credit import credit_picture, panels_of

SOME, NONE = Auc(0.6, 0.5, 0.7, 90, 20, 9), Auc(None, None, None, 9, 0, 1)


def row(source: str, teacher: str = "", hindsight: str = "", *controls: str, low: float = 0.1) -> Row:
    return Row(source, teacher, hindsight, SOME, NONE, SOME, tuple(Lead(name, 0.2, low, 0.3) for name in controls))


TABLE = Table((row("student −logp"), row("teacher_gap", "as recorded", "exec", "student −logp"),
               row("teacher_gap", "live", "exec+verdict", "empty", "exec+verdict flipped", "student −logp", low=-0.1),
               row("teacher_gap", "live", "empty"), row("teacher_gap", "live", "exec+verdict flipped"),
               row("teacher_gap", "live", "exec − empty", "exec shuffled − empty"),
               row("teacher_gap", "live", "exec shuffled − empty"),
               row("teacher_gap", "live", "exec / spread", "empty / spread"),
               row("teacher_gap", "live", "empty / spread")), 3, 0, 0)


def test_every_teacher_and_gap_has_a_panel_with_the_controls_beside_their_level():
    found = {heading: [(line.name, {kind: each.hindsight for kind, each in line.controls.items()}) for line in lines]
             for heading, lines in panels_of(TABLE).items()}
    assert found == {
        "no teacher": [("student −logp", {})],
        "teacher_gap, as recorded": [("exec ✓", {})],
        "teacher_gap, live": [("exec+verdict", {"empty": "empty", "flipped": "exec+verdict flipped"})],
        "teacher_gap − empty, live": [("exec ✓", {"shuffled": "exec shuffled − empty"})],
        "teacher_gap / spread, live": [("exec ✓", {"empty": "empty / spread"})],
    }


def test_the_picture_is_written_also_of_nothing(tmp_path):
    assert credit_picture(TABLE, "run $1", tmp_path / "credit.png").read_bytes().startswith(b"\x89PNG")
    assert credit_picture(Table((), 0, 0, 0), "run", tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")
