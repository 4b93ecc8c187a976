"""Metrics as text, in the text format that Prometheus and its collectors read (0.0.4). Pure."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Labels = Mapping[str, str]


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: the name without the prefix of all metrics; the name of a counter ends in `_total`.
        help: the meaning, with its unit.
        samples: (labels, value) of each time series.
    """

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]

    @property
    def kind(self) -> str:
        """The type in the format."""
        return "counter" if self.name.endswith("_total") else "gauge"


def text(metrics: Iterable[Metric], common: Labels) -> str:
    """Return metrics as text; every sample has the `common` labels, too."""
    return "".join(line for metric in metrics for line in _lines(metric, common))


def joint(label: str, of_each: Mapping[str, Iterable[Metric]]) -> list[Metric]:
    """Return metrics of several things as one of each name, told apart by a label.

    Args:
        label: the name of the label.
        of_each: the metrics of each thing, by the value of the label; "" for no label.
    """
    found: dict[str, Metric] = {}
    for value, metrics in of_each.items():
        own = {label: value} if value else {}
        for one in metrics:
            samples = tuple(({**own, **labels}, number) for labels, number in one.samples)
            before = found.get(one.name, one._replace(samples=()))
            found[one.name] = before._replace(samples=before.samples + samples)
    return list(found.values())


def _lines(metric: Metric, common: Labels) -> Iterator[str]:
    name = f"dsrun_{metric.name}"
    yield f"# HELP {name} {metric.help}\n"
    yield f"# TYPE {name} {metric.kind}\n"
    for labels, value in metric.samples:
        pairs = ",".join(f'{key}="{_escaped(one)}"' for key, one in {**common, **labels}.items())
        yield f"{name}{{{pairs}}} {value!r}\n"


def _escaped(value: str) -> str:
    """Escape a label's value, and replace bytes that are not UTF-8."""
    safe = value.encode("utf-8", "replace").decode()
    return safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
