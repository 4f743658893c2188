"""Pools of words that the made-up cells are built from; a pattern such as "{first} {last}" names pools."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


POOLS: dict[str, tuple[str, ...]] = {
    "first": _words(
        "Anna Ben Clara David Emma Frank Grace Henry Irene Jack Karen Leo Maria Nina Oscar Paula "
        "Quinn Rosa Sam Tina Victor Wendy Adam Bella Carl Diana Eric Fiona George Helen Ivan Julia "
        "Kevin Laura Mark Nora Owen Peter Rachel Simon Tom Vera Walter Alice Bruno Cora Daniel Ella "
        "Felix Gina"),
    "last": _words(
        "Smith O'Brien Garcia Miller Brown Rossi Weber Martin Silva Novak Tanaka Kim Lopez O'Neil "
        "Wilson Moore D'Angelo Clark Lewis Young King Wright Scott Green Baker Adams Nelson Hill "
        "Campbell Mitchell Roberts Carter Phillips Evans Turner Parker Collins Edwards Stewart "
        "Morris Murphy Cook Rogers Reed Morgan Bell O'Hara Bailey Cooper Richardson Cox Howard Ward "
        "Peterson Gray James Watson Brooks Kelly Sanders"),
    "adjective": _words(
        "Red Silent Golden Broken Hidden Last First Lost Bright Dark Long Little Great Wild Cold "
        "Blue Green Old New Sweet Secret Empty Burning Distant White Black Quiet Endless Gentle "
        "Iron"),
    "noun": _words(
        "River Garden Winter Summer House Road Night Morning Star Moon Sea Mountain Forest Bridge "
        "Window Mirror Letter Dream Shadow Light Storm Island Train Door Song Dance Fire Rain Stone "
        "Bird"),
    "place": _words(
        "Ashford Brookside Cedar Dover Eastwood Fairview Greenfield Harbor Ivy Jasper Kingston "
        "Lakeside Maple Northgate Oakland Pine Queens Riverside Stony Thornton Union Valley "
        "Westfield York Clifton Elm Foxhill Granite Hilltop Juniper"),
    "city": _words(
        "Boston Denver Chicago Dallas Seattle Austin London Paris Madrid Rome Berlin Vienna Oslo "
        "Dublin Lisbon Prague Tokyo Sydney Toronto Milan"),
    "country": _words(
        "USA France Italy Spain Germany Japan Brazil Canada Australia Norway"),
}

CITIES = POOLS["city"]
COUNTRIES = POOLS["country"]
