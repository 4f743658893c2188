"""Sequences that begin alike are packed into one row when that is the cheaper way, and each token is there once."""

import numpy as np
import pytest

from serl.token_tree import Tree, pack


def tree_of(*sequences: list[int]) -> Tree:
    tree = Tree()
    for ids in sequences:
        tree.add(ids)
    return tree


def test_a_shared_beginning_is_there_once():
    tree = tree_of([1, 2, 3], [1, 2, 4, 5], [6], [1, 2, 4, 7])
    assert tree.ids == [1, 2, 3, 4, 5, 6, 7]
    assert tree.depth == [0, 1, 2, 2, 3, 0, 3]
    assert [path.tolist() for path in tree.paths] == [[0, 1, 2], [0, 1, 3, 4], [5], [0, 1, 3, 6]]
    assert not tree.straight and tree_of([1, 2], [1, 2]).straight


def test_a_token_sees_its_own_path_up_to_itself():
    mask = tree_of([1, 2, 3], [1, 2, 4, 5], [6], [1, 2, 4, 7]).mask()
    seen = [np.flatnonzero(row).tolist() for row in mask]
    assert seen == [[0], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 3, 4], [5], [0, 1, 3, 6]]


def test_a_sequence_that_is_there_already_adds_nothing():
    tree = tree_of([1, 2, 3])
    assert tree.add([1, 2]).tolist() == [0, 1] and tree.add([1, 2, 3]).tolist() == [0, 1, 2]
    assert len(tree) == 3


def test_branches_of_one_trajectory_share_a_row_and_strangers_do_not():
    trunk = list(range(100, 160))
    branches = [[*trunk[:20], *range(200, 230)], [*trunk[:40], *range(300, 330)], [*trunk[:20], *range(200, 215), 7]]
    strangers = [list(range(400, 440)), list(range(500, 540))]
    packed = pack([strangers[0], *branches, strangers[1]], 1500, 256)
    assert sorted(sorted(members) for _, members in packed) == [[0], [1, 2, 3], [4]]
    for tree, members in packed:
        for path, index in zip(tree.paths, members):
            assert [tree.ids[place] for place in path] == [strangers[0], *branches, strangers[1]][index]
    assert sum(len(tree) for tree, _ in packed) == 40 + 40 + 40 + 30 + 30 + 1


@pytest.mark.parametrize("prefix, rows", [(0, 2), (1000, 1)])
def test_the_rule_weighs_repeated_tokens_against_a_larger_mask(prefix, rows):
    # Two sequences of 30 tokens, 4 of them shared, width 1: alone, the second costs 4 (6 + prefix) + 450 more; in one
    # row the mask grows from 30 to 56 squared, by (60 + 26) · 26 = 2236.
    shared = [1, 2, 3, 4]
    assert len(pack([[*shared, *range(10, 36)], [*shared, *range(50, 76)]], prefix, 1)) == rows
