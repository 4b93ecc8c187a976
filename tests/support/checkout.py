"""Where this checkout is, for tests that start its programs or read its files."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = CHECKOUT / "bin"
IMPORTABLE = {"PYTHONPATH": str(CHECKOUT / "tests" / "import")}
"""With this in its environment a Python imports `dsrun` from the checkout."""
