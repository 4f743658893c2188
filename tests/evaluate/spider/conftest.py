"""A schema of three tables, where concerts and their singers refer to singers."""

import pytest

from serl.evaluate.spider.schema import Schema


@pytest.fixture(scope="session")
def schema() -> Schema:
    return Schema(
        tables={
            "singer": ("singer_id", "name", "country", "age"),
            "concert": ("concert_id", "title", "year"),
            "singer_in_concert": ("concert_id", "singer_id"),
        },
        same_as={
            "singer.singer_id": "singer.singer_id",
            "singer_in_concert.singer_id": "singer.singer_id",
            "concert.concert_id": "concert.concert_id",
            "singer_in_concert.concert_id": "concert.concert_id",
        },
    )
