"""Samples by level: balanced, seeded, whatever order the questions come in."""

from collections import Counter
from pathlib import Path
from random import Random

from serl.data.balance import Sample, balanced
from serl.data.example import Example

LEVELS = ("Simple", "Moderate", "Complex")


def made(number: int) -> Example:
    return Example(question_id=f"q{number}", db_id="d", question="?", evidence="", gold_sql="SELECT 1",
                   difficulty=LEVELS[number % 3], db_path=Path("d"), split="data", position=number)


EXAMPLES = [made(number) for number in range(300)]


def ids(examples) -> set[str]:
    return {example.question_id for example in examples}


def test_every_level_has_its_number_or_all_that_there_are():
    sample = balanced(EXAMPLES[:30], Sample(per_level=7))
    assert Counter(example.difficulty for example in sample) == dict.fromkeys(LEVELS, 7)
    assert len(balanced(EXAMPLES[:30], Sample(per_level=11))) == 30
    assert balanced(EXAMPLES, Sample()) == EXAMPLES


def test_levels_are_chosen_by_name_whatever_its_case():
    assert {example.difficulty for example in balanced(EXAMPLES, Sample(("complex",), 5))} == {"Complex"}


def test_the_sample_depends_on_the_seed_and_not_on_the_order():
    one = balanced(EXAMPLES, Sample(per_level=20))
    shuffled = Random(0).sample(EXAMPLES, len(EXAMPLES))
    assert ids(balanced(shuffled, Sample(per_level=20))) == ids(one)
    assert one == sorted(one, key=lambda example: example.position)
    assert ids(balanced(EXAMPLES, Sample(per_level=20, seed=1))) != ids(one)


def test_a_smaller_sample_is_a_part_of_a_larger_one_and_sampling_again_is_the_same():
    large, small = (balanced(EXAMPLES, Sample(per_level=count)) for count in (30, 10))
    assert ids(small) < ids(large)
    assert balanced(large, Sample(per_level=10)) == small


def test_each_question_has_the_same_chance():
    """Of 1,000 seeds each of 10 questions is in about 300 samples of 3: within four standard deviations of 14.5."""
    few = [made(3 * number) for number in range(10)]
    counts = Counter(example.question_id for seed in range(1000) for example in balanced(few, Sample((), 3, seed)))
    assert counts.total() == 3000 and all(242 < count < 358 for count in counts.values())


def test_a_question_that_comes_twice_is_read_once():
    assert balanced([EXAMPLES[0], EXAMPLES[3], EXAMPLES[0]], Sample(per_level=3)) == [EXAMPLES[0], EXAMPLES[3]]
