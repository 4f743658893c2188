"""What a batch may not do to the policy (`train.guards`), and its checks."""

from dataclasses import dataclass

from serl.errors import InputError

ACTIONS = ("off", "skip", "stop")


@dataclass(frozen=True)
class GuardsConfig:
    """Each is off, skips the update, or stops the run; the batch is kept in RUN/guards (serl.train.guards)."""

    non_finite: str = "stop"  # skip | stop: a loss or a gradient norm is NaN or infinite; it is never applied
    kl: str = "stop"  # off | skip | stop: the policy jumps away
    kl_limit: float = 1.0  # nats a token from the policy that acted to the one that is updated (kl/old)
    reference_limit: float = 10.0  # nats a token from the policy to the KL reference (kl), with train.kl_beta above 0
    length: str = "stop"  # off | skip | stop: trajectories dwindle to nothing
    length_floor: float = 4.0  # sampled tokens of a trajectory, on average; the tags of a solution are more than that
    entropy: str = "stop"  # off | skip | stop: the policy always says the same, or anything
    entropy_floor: float = 1e-3  # nats a token (rollout/entropy); the embedded model's runs stay above 0.05
    entropy_rise: float = 3.0  # nats a token above the run's first step; knowing nothing of V tokens is ln V
    skips: int = 8  # skipped updates one after the other that stop the run, since it would go on for nothing


def check_guards(guards: GuardsConfig) -> None:
    """InputError for an action or a threshold that is none. A non-finite update has no `off`: it ends the weights."""
    for name in ("non_finite", "kl", "length", "entropy"):
        choices = ACTIONS[1:] if name == "non_finite" else ACTIONS
        if (value := getattr(guards, name)) not in choices:
            raise InputError(f"config: train.guards.{name} is {value!r}; choose one of {', '.join(choices)}")
    for name in ("kl_limit", "reference_limit", "length_floor", "entropy_floor", "entropy_rise"):
        if getattr(guards, name) < 0:
            raise InputError(f"config: train.guards.{name} is {getattr(guards, name)}; it must be at least 0")
    if guards.skips < 1:
        raise InputError(f"config: train.guards.skips is {guards.skips}; it must be at least 1")
