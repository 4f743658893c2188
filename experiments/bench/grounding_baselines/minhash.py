"""MinHash signatures of 3-gram sets, and their locality-sensitive hashing in bands.

    Pr[min h(A) = min h(B)] = |A∩B| / |A∪B|                 for a random permutation h (Broder, 1997)
    Pr[A and B share a band] = 1 − (1 − J^r)^b              b bands of r hashes

b and r are chosen, as is usual, to make the areas of false positives below a threshold t of J and of false negatives
above it, ∫₀ᵗ 1 − (1 − J^r)^b dJ + ∫ₜ¹ (1 − J^r)^b dJ, least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from experiments.bench.grounding_baselines.ngrams import shingles

PERMUTATIONS = 100
CHUNK = 50_000  # texts hashed at once: bounds the memory of a build


def signatures(texts: Sequence[str], permutations: int = PERMUTATIONS, seed: int = 1) -> np.ndarray:
    """MinHash signatures [texts, permutations], uint32.

    A permutation is x → a·mix(x) + b modulo 2⁶⁴ with a odd, a bijection; the high 32 bits of a minimum are kept.
    """
    generator = np.random.default_rng(seed)
    a_P, b_P = generator.integers(0, 2**64, (2, permutations), dtype=np.uint64)
    a_P |= np.uint64(1)
    out_TP = np.empty((len(texts), permutations), dtype=np.uint32)
    for first in range(0, len(texts), CHUNK):
        grams_G, counts_T = shingles(texts[first : first + CHUNK])
        starts_T = np.cumsum(counts_T) - counts_T
        distinct_U, which_G = np.unique(grams_G, return_inverse=True)  # a 3-gram is hashed once, however common
        mixed_U = _mix(distinct_U)
        for p, (a, b) in enumerate(zip(a_P, b_P)):
            hashes_U = ((a * mixed_U + b) >> np.uint64(32)).astype(np.uint32)
            out_TP[first : first + CHUNK, p] = np.minimum.reduceat(hashes_U[which_G], starts_T)
    return out_TP


def _mix(x: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit numbers that breaks up their regularities (the finalizer of SplitMix64)."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


@lru_cache
def choose_bands(threshold: float, permutations: int = PERMUTATIONS) -> tuple[int, int]:
    """(bands, rows) with the least area of errors about a Jaccard similarity.

    >>> choose_bands(0.01), choose_bands(0.5)
    ((100, 1), (20, 5))
    """
    step = 1e-3
    similarity_J = np.arange(step / 2, 1, step)

    def errors(shape: tuple[int, int]) -> float:
        bands, rows = shape
        missed_J = (1 - similarity_J**rows) ** bands
        return float(step * np.where(similarity_J < threshold, 1 - missed_J, missed_J).sum())

    shapes = [(bands, rows) for bands in range(1, permutations + 1) for rows in range(1, permutations // bands + 1)]
    return min(shapes, key=errors)


@dataclass(frozen=True)
class Bands:
    """Texts by the hash of each band of their signature."""

    rows: int
    keys_BT: np.ndarray
    """Sorted hashes of each band, uint32."""
    text_BT: np.ndarray
    """The text of each hash, int32."""

    @classmethod
    def of(cls, signatures_TP: np.ndarray, threshold: float) -> Bands:
        bands, rows = choose_bands(threshold, signatures_TP.shape[1])
        keys_BT = _band_keys(signatures_TP, bands, rows)
        order_BT = np.argsort(keys_BT, axis=1, kind="stable")
        return cls(rows, np.take_along_axis(keys_BT, order_BT, 1), order_BT.astype(np.int32))

    def candidates(self, signatures_QP: np.ndarray) -> list[np.ndarray]:
        """For each query, the texts that share at least one band with it, in ascending order."""
        keys_BQ = _band_keys(signatures_QP, len(self.keys_BT), self.rows)
        low_BQ = np.stack([np.searchsorted(own, keys, "left") for own, keys in zip(self.keys_BT, keys_BQ)])
        high_BQ = np.stack([np.searchsorted(own, keys, "right") for own, keys in zip(self.keys_BT, keys_BQ)])
        out = []
        for query in range(len(signatures_QP)):
            hit = np.flatnonzero(low_BQ[:, query] < high_BQ[:, query])
            buckets = [self.text_BT[band, low_BQ[band, query] : high_BQ[band, query]] for band in hit]
            out.append(np.unique(np.concatenate(buckets)) if buckets else np.zeros(0, dtype=np.int32))
        return out


def _band_keys(signatures_TP: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """The hash of each band of each signature [bands, texts]; equal bands have equal hashes."""
    banded_TBR = signatures_TP[:, : bands * rows].reshape(len(signatures_TP), bands, rows)
    keys_TB = banded_TBR[:, :, 0].astype(np.uint64)
    for row in range(1, rows):
        keys_TB = _mix(keys_TB) ^ banded_TBR[:, :, row]
    return np.ascontiguousarray(keys_TB.T.astype(np.uint32))


def jaccard(signatures_CP: np.ndarray, signature_P: np.ndarray) -> np.ndarray:
    """Estimated Jaccard similarities of a signature to others: the share of equal minima."""
    return (signatures_CP == signature_P).mean(1)
