"""The papers' objectives as loops over Python floats, negated into losses.

`x` is the current policy's log-probs, `x0` those inside a stop-gradient: finite differences move x and leave x0.
`c` is the sampler's correction, a constant factor of a token's term; without it, 1.
"""

from math import exp, log


def clip(value, low, high):
    return min(max(value, low), high)


def surrogate(ratio, advantage, low, high, dual=None):
    """PPO, and dual-clip PPO for a negative advantage."""
    value = min(ratio * advantage, clip(ratio, 1 - low, 1 + high) * advantage)
    return max(value, dual * advantage) if dual is not None and advantage < 0 else value


def ones(rows):
    return [[1.0] * len(row.logp) for row in rows]


def grpo(rows, x, low=0.2, high=0.2, dual=None, c=None):
    """J = 1/G Σ_i 1/|o_i| Σ_t min(...)"""
    total = 0.0
    for row, now, factor in zip(rows, x, c or ones(rows)):
        mean = 0.0
        for t in range(len(now)):
            term = surrogate(exp(now[t] - row.old[t]), row.advantage[t], low, high, dual)
            mean += factor[t] * term / len(now)
        total += mean
    return -total / len(rows)


def dapo(rows, x, low=0.2, high=0.28, dual=None, c=None):
    """J = 1/Σ|o_i| Σ_i Σ_t min(...)"""
    total = tokens = 0.0
    for row, now, factor in zip(rows, x, c or ones(rows)):
        for t in range(len(now)):
            total += factor[t] * surrogate(exp(now[t] - row.old[t]), row.advantage[t], low, high, dual)
            tokens += 1
    return -total / tokens


def dr_grpo(rows, x, low=0.2, high=0.2, dual=None, c=None):
    """J = 1/G Σ_i Σ_t min(...)"""
    total = 0.0
    for row, now, factor in zip(rows, x, c or ones(rows)):
        for t in range(len(now)):
            total += factor[t] * surrogate(exp(now[t] - row.old[t]), row.advantage[t], low, high, dual)
    return -total / len(rows)


def sequence_ratio(now, old):
    """s = (π(y)/π_old(y))^(1/|y|)"""
    product = 1.0
    for t in range(len(now)):
        product *= exp(now[t]) / exp(old[t])
    return product ** (1 / len(now))


def gspo(rows, x, low, high):
    """J = 1/G Σ_i min(s_i A_i, clip(s_i) A_i), one advantage a row."""
    total = 0.0
    for row, now in zip(rows, x):
        total += surrogate(sequence_ratio(now, row.old), row.advantage[0], low, high)
    return -total / len(rows)


def gspo_token(rows, x, x0, low, high, dual=None, c=None):
    """J = 1/G Σ_i 1/|y_i| Σ_t min(s_it A_it, clip(s_it) A_it),  s_it = sg[s_i] π/sg[π]"""
    total = 0.0
    for row, now, frozen, factor in zip(rows, x, x0, c or ones(rows)):
        fixed = sequence_ratio(frozen, row.old)
        for t in range(len(now)):
            ratio = fixed * exp(now[t]) / exp(frozen[t])
            total += factor[t] * surrogate(ratio, row.advantage[t], low, high, dual) / len(now)
    return -total / len(rows)


def cispo(rows, x, x0, low, high, c=None):
    """J = 1/Σ|o_i| Σ_i Σ_t sg[clip(r)] A log π"""
    total = tokens = 0.0
    for row, now, frozen, factor in zip(rows, x, x0, c or ones(rows)):
        for t in range(len(now)):
            total += factor[t] * clip(exp(frozen[t] - row.old[t]), 1 - low, 1 + high) * row.advantage[t] * now[t]
            tokens += 1
    return -total / tokens


def k3(rows, x, weights):
    """Σ weight · (π_ref/π − ln(π_ref/π) − 1)"""
    total = 0.0
    for row, now, weight in zip(rows, x, weights):
        for t in range(len(now)):
            ratio = exp(row.ref[t]) / exp(now[t])
            total += weight * (ratio - log(ratio) - 1)
    return total


def correction(rows, mode, cap, floor):
    """Importance weights of trainer against sampler, a token."""
    result = []
    for row in rows:
        rho = [exp(old) / exp(sampler) for old, sampler in zip(row.old, row.sampler)]
        if mode == "token":
            result.append([min(value, cap) for value in rho])
        elif mode == "mask":
            result.append([value if floor <= value <= cap else 0.0 for value in rho])
        else:
            product = 1.0
            for value in rho:
                product *= value
            result.append([min(product, cap)] * len(rho))
    return result
