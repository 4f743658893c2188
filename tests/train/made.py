"""A trajectory made by hand: a prompt, a query with its answer, a solution; ids are arbitrary."""

from serl.agent.dialects import Action, Kind
from serl.agent.trajectory import Trajectory, Turn
from serl.sql.outcome import Outcome, Status

ANSWER = Outcome(Status.OK, ("name",), (("Lima",),), 1, "", 1.0)


def made_trajectory(prompt: list[int], query: list[int], answer: list[int], solution: list[int],
                    offset: float = 0.0) -> Trajectory:
    """Each action is one token of tag, its SQL, one token of tag. Sampler log-probs are −1 less `offset`."""
    trajectory = Trajectory()
    trajectory.append_context(prompt)
    for kind, ids in ((Kind.SQL, query), (Kind.FINAL, solution)):
        if kind is Kind.FINAL:
            trajectory.append_context(answer)
        state = (0, len(trajectory))
        inner = [0] + [1] * (len(ids) - 2) + [0]
        start, end = trajectory.append_sampled(ids, [-1.0 - offset] * len(ids), inner)
        trajectory.turns.append(Turn(state, (start, end), (start + 1, end - 1), state[1] - 1, Action(kind, "SELECT 1"),
                                     "", ANSWER))
    return trajectory
