"""Code that workers run before their own program. FOLDER comes first on a worker's PYTHONPATH."""

from __future__ import annotations

import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
