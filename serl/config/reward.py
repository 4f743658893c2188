"""What a trajectory is worth (`reward`), and its checks."""

from dataclasses import dataclass, field

from serl.errors import InputError


@dataclass(frozen=True)
class RewardConfig:
    """Which terms are added up (serl.reward). `reward: NAME` is short for `reward: {preset: NAME}`."""

    # serl | sql_r1 | mtsql_r1 | mtsql_outcome | skyrl_sql | mars_sql | arctic | think2sql | reasoning_sql | none
    # (serl.reward.presets)
    preset: str = "serl"
    # Weights by term, where they are not the preset's: of its own terms by name (0: logged, but not rewarded), and of
    # functions of yours, from `serl.reward.facts.Facts` to a number, by where they are: my_package.my_module.my_term.
    terms: dict[str, float] = field(default_factory=dict)
    length_max: int = 2048  # L_max of sql_r1's length term: longer thinking and answers are rewarded no further
    length_unit: str = "token"  # token | char (as the released code of SQL-R1 counts)
    verify_by: str = "status"  # status | result (gold's): what a verdict on an execution should tell (mtsql_r1)
    verify_empty: float = 0.1  # what no_pass earns where a query found no rows (mtsql_r1 by status)


def check_reward(reward: RewardConfig) -> None:
    """A plain name is one of the preset's terms, and something is rewarded."""
    from serl.reward.presets import PRESETS  # its terms read these options

    own = PRESETS[reward.preset]
    for name in reward.terms:
        if "." not in name and name not in own:
            raise InputError(f"config: reward.terms has {name!r}; preset {reward.preset} has "
                             f"{', '.join(own) or 'no term'}, and a function of yours is written module.{name}")
    weights = {name: term.weight for name, term in own.items()} | reward.terms
    if not any(weights.values()):
        raise InputError(f"config: reward.terms leaves preset {reward.preset} nothing to reward")
