"""Made-up measurements of links between nodes."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

from dsrun.launcher.features.full_check.messages import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.features.full_check.runner_pairs import Pair
    from dsrun.launcher.features.full_check.runner_steps import StepFailed

Links = dict[tuple[str, str], "Link | StepFailed"]

HEALTHY = Link("10.0.0.1", 6e-5, 8e-5, 9e8, 9e8, 9e8, 9e8, 20_000, 0, 20_000, 0)


def rated(out: float = 9e8, back: float = 9e8) -> Link:
    """A link with these bytes per second."""
    return HEALTHY._replace(out=out, out_free=out, back=back, back_free=back)


def nodes(count: int) -> list[str]:
    """The names n1, n2 and so on."""
    return [f"n{at}" for at in range(1, count + 1)]


def among(names: Sequence[str], link: Link = HEALTHY) -> Links:
    """The same measurement of all links between these nodes."""
    return dict.fromkeys(combinations(names, 2), link)


def of_node(node: str, links: Links) -> list[Pair]:
    """The links of a node."""
    return [pair for pair in links if node in pair]


def noisy(links: Links, seed: int) -> Links:
    """The measurements as a busy machine would have them."""
    random = Random(seed)

    def shaken(link: Link) -> Link:
        slower, slow_out, slow_back = (random.uniform(1.0, 1.5) for _ in range(3))
        return link._replace(
            best_s=link.best_s * slower,
            out=link.out / slow_out,
            out_free=link.out_free / slow_out,
            back=link.back / slow_back,
            back_free=link.back_free / slow_back,
            resent=link.resent + random.randrange(9),
        )

    return {pair: shaken(link) if isinstance(link, Link) else link for pair, link in links.items()}
