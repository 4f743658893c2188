"""Colours of the page by numbers: readable in both themes, and told apart by eyes that miss a kind of cone."""

import math
import re

import pytest

from serl.view.page import ASSETS

PAGE, EXPLORER = ((ASSETS / name).read_text(encoding="utf-8") for name in ("page.css", "explorer.css"))
THEMES = ("light", "dark")
LEVELS = [float(alpha) for alpha in re.findall(r"--a: ([\d.]+);", EXPLORER)]

# Machado, Oliveira, Fernandes 2009: what linear RGB looks like to eyes without red or green cones (severity 1).
MISSING_CONES = {
    "red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))  # sRGB


def theme(name):
    """The theme's variables as RGB triples of 0 … 255; the dark ones stand in the media query of page.css."""
    light, dark = PAGE.split("@media (prefers-color-scheme: dark)", 1)
    block = light if name == "light" else dark[: dark.index("}")]
    hexes = {key: tuple(bytes.fromhex(value)) for key, value in re.findall(r"--([\w-]+): #([0-9a-f]{6})", block)}
    triples = re.findall(r"--([\w-]+): (\d+) (\d+) (\d+)", block)
    return hexes | {key: tuple(map(int, channels)) for key, *channels in triples}


def over(colour, ground, alpha):
    return tuple(alpha * above + (1 - alpha) * below for above, below in zip(colour, ground, strict=True))


def linear(colour):
    return [(channel / 255 / 12.92 if channel / 255 <= 0.04045 else ((channel / 255 + 0.055) / 1.055) ** 2.4)
            for channel in colour]


def contrast(one, other):
    """WCAG 2's contrast ratio."""
    lights = sorted(applied(XYZ, linear(colour))[1] for colour in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def applied(matrix, colour):
    return [sum(weight * part for weight, part in zip(row, colour, strict=True)) for row in matrix]


def lab(linear_rgb):
    """CIE L*a*b* of a colour of linear RGB (D65), in which distances are as large as they look."""
    x, y, z = applied(XYZ, linear_rgb)
    fx, fy, fz = (part ** (1 / 3) if part > 216 / 24389 else (24389 / 27 * part + 16) / 116
                  for part in (x / 0.95047, y, z / 1.08883))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def test_contrast_of_black_and_white_is_21():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", THEMES)
def test_text_is_readable_on_every_ground(name):
    colours = theme(name)
    pairs = [(ink, ground) for ink in ("ink", "soft") for ground in ("page", "card", "code")]
    pairs += [(ink, "code") for ink in ("keyword", "string", "digit", "comment")]
    pairs += [("ink", "mark"), ("good", "good-back"), ("bad", "bad-back"), ("card", "ink")]
    pairs += [(ink, ground) for ink in ("c1", "good", "bad") for ground in ("page", "card")]
    found = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in found.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("side", ["up", "down", "low"])
def test_tokens_are_readable_on_the_strongest_colour(name, side):
    colours = theme(name)
    strongest = over(colours[side], colours["code"], max(LEVELS))
    assert contrast(colours["ink"], strongest) >= 4.5


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("cone", MISSING_CONES)
def test_both_directions_are_told_apart_without_red_or_green_cones(name, cone):
    colours = theme(name)

    def seen(side, alpha):
        return lab(applied(MISSING_CONES[cone], linear(over(colours[side], colours["code"], alpha))))

    for alpha, least in ((LEVELS[2], 15), (LEVELS[4], 25)):  # a difference of 2.3 can just be seen
        assert math.dist(seen("up", alpha), seen("down", alpha)) > least


def test_colours_grow_with_the_level_and_the_direction_has_a_line_of_its_own():
    assert sorted(LEVELS) == LEVELS and len(LEVELS) == 5
    assert re.search(r"\.up1.*text-decoration: underline rgb", EXPLORER)
    assert re.search(r"\.down1.*text-decoration: underline dotted", EXPLORER)
