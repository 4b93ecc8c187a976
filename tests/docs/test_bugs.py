"""The page of all faults that were found."""

from __future__ import annotations

from docs.generate.bugs import page
from tests.simulation.finds import Find, Measured

SEED = Find(3, 7, "rule")


def bug(name: str, **more: str) -> dict[str, str]:
    given = {"id": name, "what": "It *was* a|b.", "where": "m.py", "found_by": "stranger"}
    return {**given, "kind": "end", "test": f"t.py::test_{name}", **more}


def test_each_has_a_row_with_its_seeds() -> None:
    measured = {
        "soon": Measured("2026-01-01", (SEED,) * 5, 0, 10, 400),
        "rare": Measured("2026-01-01", (SEED,), 397, 10, 400),
    }
    bugs = [bug("old"), bug("soon", replant="x"), bug("rare", replant="x", blind="It is late.")]
    rows = [line for line in page(bugs, measured).splitlines() if line.startswith("| `")]
    assert rows == [
        "| `rare` | 1 in 400 | It is late. |",
        "| `old`: It \\*was\\* a\\|b. | trial | `t.py::test_old` |  |",
        "| `soon`: It \\*was\\* a\\|b. | trial | `t.py::test_soon` | 3 |",
        "| `rare`: It \\*was\\* a\\|b. | trial | `t.py::test_rare` | 1 in 400 |",
    ]


def test_the_figures_are_counted() -> None:
    measured = {"a": Measured("2026-01-01", (SEED,) * 5, 0, 10, 400)}
    text = page([bug("a", replant="x"), bug("b")], measured)
    assert "The 2 faults" in text
    assert "| trial | 2 |" in text
    assert "* 1 of 1 faults are found, 1 of them within 100 seeds" in text
    assert "* 1 of the 1 that worlds were not the first to find" in text
