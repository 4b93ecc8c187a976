"""Worlds that once failed, as simple as they could be made, by what went wrong in them.

They are kept as values and not as seeds, so that they stay the same when seeds mean other worlds.
"""

from __future__ import annotations

from .scenario import ElasticSpec, Fault, HostSpec, ProgramSpec, Scenario

KEPT = {
    "nobody got START where the first node was lost before it had answered its own": Scenario(
        seed=1345,
        hosts=(HostSpec("n3", 1), HostSpec("n4", 3, delay=0.2), HostSpec("n5", 1)),
        faults=(Fault("connected", 0.0847, "power", "n3"),),
        elastic=ElasticSpec(least=2, restarts=1, cool=20.0),
    ),
    "a host that went silent after it was ready was waited for without an end": Scenario(
        seed=1345,
        hosts=tuple(HostSpec(f"n{n}", 1, delay=0.2 * (n in {1, 4})) for n in range(1, 6)),
        program=ProgramSpec(steps=10, pause=1.0),
        faults=(Fault("connected", 0.0847, "power", "n3"),),
        elastic=ElasticSpec(least=2, restarts=1, cool=20.0),
        lease=60.0,
    ),
    "an elastic job whose last node lost its guard ended with 0 in place of waiting": Scenario(
        seed=226,
        hosts=(HostSpec("n1", 1),),
        faults=(Fault("running", 0.0, "kill guard", "n1"),),
        elastic=ElasticSpec(least=1, restarts=3, wait=5.0),
    ),
}
