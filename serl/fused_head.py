"""Log-probs of given tokens from hidden states, without the logits of all of them ever being there.

    logp_n = z_n[y_n] − lse(z_n),    z = (h Wᵀ + b) / τ                 n: token, V: vocabulary
    ∂L/∂z_n = g_n (onehot(y_n) − softmax(z_n)),    g_n = ∂L/∂logp_n

Logits are made for a chunk of tokens at a time, and once more in the backward pass, in a buffer that is turned into
probabilities and then into their gradient in place; of the last chunk the probabilities are kept, so that they need not
be made again. The head's gradient is summed up in one [V, D] tensor, chunk by chunk. The softmax is float32, or float64
for a float64 model. With a tied head, the gradient goes to the shared weight beside the embedding's; with a frozen one,
none is computed.
"""

import torch

from serl.partition import inside

# Tokens of a chunk: matrix products are efficient from CHUNK on; with a small vocabulary it is as many as LOGITS allow.
CHUNK, LOGITS = 256, 2**23


def token_logprobs(hidden_ND: torch.Tensor, head: torch.nn.Linear, target_N: torch.Tensor, temperature: float
                   ) -> torch.Tensor:
    """log softmax of the head's logits / temperature at the targets, [N], with gradients where they are enabled."""
    def work(hidden_ND: torch.Tensor) -> torch.Tensor:
        return _TokenLogprobs.apply(hidden_ND, head.weight, head.bias, target_N, temperature)

    return inside(head, work, hidden_ND)


@torch.no_grad()
def token_entropies(hidden_ND: torch.Tensor, head: torch.nn.Linear, temperature: float) -> torch.Tensor:
    """Entropy of the next token's distribution after each hidden state, nats, [N], without gradient."""
    def work(hidden_ND: torch.Tensor) -> torch.Tensor:
        out_N = [hidden_ND.new_empty(0, dtype=_wide(hidden_ND.dtype))]
        for part in _parts(hidden_ND, head.weight):
            logp_CV = _logits(hidden_ND[part], head.weight, head.bias, temperature)
            logp_CV.sub_(logp_CV.logsumexp(-1, keepdim=True))
            out_N.append(-(logp_CV.exp() * logp_CV).nan_to_num_(0.0).sum(-1))  # p = 0: −inf · 0
        return torch.cat(out_N)

    return inside(head, work, hidden_ND)


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden_ND, weight_VD, bias_V, target_N, temperature):
        logp_N = hidden_ND.new_empty(len(hidden_ND), dtype=_wide(hidden_ND.dtype))
        lse_N, last_CV = torch.empty_like(logp_N), None
        for part in _parts(hidden_ND, weight_VD):
            last_CV = None  # its memory is for the next chunk
            last_CV = _logits(hidden_ND[part], weight_VD, bias_V, temperature)
            at_target_C = last_CV.gather(-1, target_N[part, None])[:, 0]
            lse_N[part] = _logsumexp_(last_CV)
            logp_N[part] = at_target_C - lse_N[part]
        kept = last_CV is not None and any(ctx.needs_input_grad)
        ctx.last_CV = last_CV.div_(last_CV.sum(-1, keepdim=True)) if kept else None
        ctx.save_for_backward(hidden_ND, weight_VD, bias_V, target_N, lse_N)
        ctx.temperature = temperature
        return logp_N

    @staticmethod
    def backward(ctx, grad_N):
        hidden_ND, weight_VD, bias_V, target_N, lse_N = ctx.saved_tensors
        for_hidden, for_weight, for_bias, *_ = ctx.needs_input_grad
        d_hidden = torch.empty_like(hidden_ND) if for_hidden else None
        d_weight = torch.zeros_like(weight_VD) if for_weight else None
        d_bias = torch.zeros_like(bias_V) if for_bias else None
        for part in reversed(_parts(hidden_ND, weight_VD)):
            p_CV, ctx.last_CV = ctx.last_CV, None
            if p_CV is None:
                p_CV = _logits(hidden_ND[part], weight_VD, bias_V, ctx.temperature).sub_(lse_N[part, None]).exp_()
            scale_C1 = (grad_N[part] / ctx.temperature)[:, None]
            grad_CV = p_CV.mul_(-scale_C1).scatter_add_(1, target_N[part, None], scale_C1)
            grad_CV = grad_CV.to(weight_VD.dtype)
            if for_hidden:
                torch.mm(grad_CV, weight_VD, out=d_hidden[part])
            if for_weight:
                d_weight.addmm_(grad_CV.T, hidden_ND[part])
            if for_bias:
                d_bias += grad_CV.sum(0)
        return d_hidden, d_weight, d_bias, None, None


def _parts(hidden_ND: torch.Tensor, weight_VD: torch.Tensor) -> list[slice]:
    chunk = max(CHUNK, LOGITS // len(weight_VD))
    return [slice(start, min(start + chunk, len(hidden_ND))) for start in range(0, len(hidden_ND), chunk)]


def _logits(hidden_CD: torch.Tensor, weight_VD: torch.Tensor, bias_V: torch.Tensor | None, temperature: float
            ) -> torch.Tensor:
    logits_CV = torch.nn.functional.linear(hidden_CD, weight_VD, bias_V).to(_wide(hidden_CD.dtype))
    return logits_CV.div_(temperature) if temperature != 1.0 else logits_CV


def _logsumexp_(logits_CV: torch.Tensor) -> torch.Tensor:
    """log-sum-exp [C]; the logits are turned into something proportional to their softmax."""
    top_C1 = logits_CV.amax(-1, keepdim=True)
    return logits_CV.sub_(top_C1).exp_().sum(-1).log_().add_(top_C1[:, 0])


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
