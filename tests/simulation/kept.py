"""Worlds that once failed, as simple as they could be made, by what went wrong in them.

They are kept as values and not as seeds, so that they stay the same when seeds mean other worlds.
"""

from __future__ import annotations

from .scenario import (
    Deed,
    ElasticSpec,
    Fault,
    HeldJob,
    HoldSpec,
    HostSpec,
    ProgramSpec,
    Scenario,
)

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
    "workers of a round that began just after a signal to all of a node got none to stop": Scenario(
        seed=2750,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1)),
        faults=(Fault("running", 0.00006, "signal session", "n1", value=1),),
        elastic=ElasticSpec(least=2, restarts=3, wait=5.0),
        grace=0.0,
    ),
    "output of a lost node's workers was shown as that of another node": Scenario(
        seed=131,
        hosts=(HostSpec("n1", 2, delay=0.01), HostSpec("n2", 3)),
        program=ProgramSpec(steps=4, pause=0.0, length=30_000),
        faults=(Fault("ending", 0.00436, "kill guard", "n1"),),
        elastic=ElasticSpec(least=1, restarts=3, cool=20.0),
    ),
    "the runner met a closed pipe before it had read why a node leaves": Scenario(
        seed=1327,
        hosts=(HostSpec("n1", 1, delay=0.2), HostSpec("n2", 1)),
        program=ProgramSpec(steps=5, pause=1.0, term="slow", child="tied"),
        faults=(
            Fault("running", 0.51812, "signal session", "n1", value=1),
            Fault("connected", 0.23445, "delay", "n2", heals=2.0),
        ),
        lease=4.0,
        logs=True,
    ),
    "a hold was not released after a job on it that its nodes had refused": Scenario(
        seed=51,
        hosts=(HostSpec("n1", 2), HostSpec("n2", 2, delay=0.2)),
        program=ProgramSpec(pause=0.0),
        faults=(Fault("running", 0.00616, "signal guard", "n2", value=15),),
        hold=HoldSpec(((HeldJob((("n1", 0, 2),)),), (HeldJob((("n2", 0, 2),)),)), rest=0.0),
    ),
    "a hold lost the nodes that had waited for a slow one": Scenario(
        seed=4019,
        hosts=(HostSpec("n3", 3), HostSpec("n4", 2, delay=0.2, start="slow")),
        lease=4.0,
        hold=HoldSpec((), rest=3.0),
    ),
    "a runner that was suspended before the start took its nodes for silent": Scenario(
        seed=91,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 2, delay=0.01)),
        faults=(Fault("connected", 0.011053, "suspend runner", "login", heals=240.0),),
    ),
    "a runner that was suspended while it stopped the job gave its nodes no time": Scenario(
        seed=232,
        hosts=(HostSpec("n1", 2), HostSpec("n2", 1), HostSpec("n3", 1, delay=0.01)),
        program=ProgramSpec(steps=7, pause=1.0, term="ignore", deeds=(Deed(3, 0, 2, "kill", 9),)),
        faults=(Fault("ending", 0.004773, "suspend runner", "login", heals=240.0),),
        grace=30.0,
        lease=60.0,
    ),
    "workers of a node that had sent no frames lived beside those of the next round": Scenario(
        seed=79,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 2, delay=0.01), HostSpec("n3", 1)),
        program=ProgramSpec(steps=12, pause=0.1, term="ignore"),
        faults=(Fault("running", 0.5, "garbage", "n2", value=6),),
        elastic=ElasticSpec(least=2, restarts=1),
    ),
    "a node launcher crashed whose guard was killed before it had read all": Scenario(
        seed=836,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1, delay=0.2)),
        program=ProgramSpec(child="tied"),
        faults=(Fault("running", 0.0, "kill guard", "n1"),),
    ),
    "workers of a node that missed the runner lived beside those of the next round": Scenario(
        seed=1337,
        hosts=(HostSpec("n1", 1, delay=0.2), HostSpec("n2", 2), HostSpec("n3", 1)),
        program=ProgramSpec(12, 0.0, 200, "slow", deeds=(Deed(3, 0, 3, "hang", 0),)),
        faults=(
            Fault("running", 0.0673, "cut in", "n3", heals=240.0),
            Fault("start", 120.0, "signal runner", "login", value=2),
        ),
        elastic=ElasticSpec(least=1, restarts=1, cool=20.0, window=5.0),
        grace=30.0,
        lease=60.0,
    ),
    "a node launcher that stood still before its first sign of life was not missed": Scenario(
        seed=1,
        hosts=(HostSpec("n1", 1),),
        faults=(Fault("connected", 0.0, "freeze launcher", "n1"),),
    ),
    "processes that fork and leave when their worker ends outlived the job": Scenario(
        seed=1,
        hosts=(HostSpec("n1", 2),),
        program=ProgramSpec(child="hops"),
        crowd=150,
    ),
}
