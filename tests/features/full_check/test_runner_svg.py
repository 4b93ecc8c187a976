"""Matrices as a picture."""

from __future__ import annotations

from xml.etree import ElementTree

from dsrun.launcher.features.full_check.runner_steps import MeasuredFault
from dsrun.launcher.features.full_check.runner_svg import MOST, draw

from .test_runner_matrix import matrix

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def test_each_value_is_a_square_with_its_colour() -> None:
    root = parsed(draw([matrix(4, n2=50.0)], []))
    squares = [one for one in root.iter(f"{SVG}rect") if one.get("x")]
    colours = [str(one.get("fill")) for one in squares]
    assert len(squares) == 16
    assert colours.count("#eee") == 4
    assert colours.count("#e48181") == 3
    assert colours.count("#81e481") == 9
    titles = [one.text for one in root.iter(f"{SVG}title")]
    assert "n2 to n1: 50" in titles
    assert "n1 to n1: not measured" in titles


def test_faults_are_below_and_names_are_escaped() -> None:
    fault = MeasuredFault("slow_cores", ("<n1>",), "slow & hot", "")
    root = parsed(draw([matrix(2, name="<n&")], [fault]))
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert texts[-1] == "<n1>: slow & hot"
    assert "<n&1" in texts
    healthy = parsed(draw([], []))
    assert [one.text for one in healthy.iter(f"{SVG}text")] == [
        "no node and no link is worse than the others"
    ]


def test_the_picture_of_many_nodes_is_bounded() -> None:
    picture = draw([matrix(300)], [])
    assert len(list(parsed(picture).iter(f"{SVG}title"))) <= MOST**2
    assert len(picture) < 1_000_000
