"""Worlds that once failed, as simple as they could be made, by what went wrong in them.

They are kept as values and not as seeds, so that they stay the same when seeds mean other worlds.
"""

from __future__ import annotations

from .scenario import (
    Change,
    Deed,
    ElasticSpec,
    Fault,
    HeldJob,
    HoldSpec,
    HostSpec,
    Look,
    ProgramSpec,
    RolePart,
    Scenario,
    StreamSpec,
)

CHANCES = 6
"""How often each is played, every time with another chance: its times move as the code changes."""


def each(one: Scenario) -> list[Scenario]:
    """Return a world with its own chance, and with others unless it has very many processes."""
    chances = 1 if one.program.child == "hops" else CHANCES
    return [one._replace(seed=one.seed + more) for more in range(chances)]


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
    "an elastic job ended with 0 whose last node was removed when it lost the others": Scenario(
        seed=2287,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1)),
        program=ProgramSpec(steps=9, deeds=(Deed(0, 0, 0, "early", 0),)),
        faults=(Fault("running", 1.5, "kill launcher", "n2"),),
        elastic=ElasticSpec(least=1, restarts=1),
        changes=(Change(1.0, ("n2",)),),
    ),
    "workers of a node whose line was reset lived beside those of the next round": Scenario(
        seed=323,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1)),
        program=ProgramSpec(steps=9, pause=1.0, term="ignore"),
        faults=(Fault("running", 1.0, "reset", "n1"),),
        elastic=ElasticSpec(least=1, restarts=1, most=1),
        grace=30.0,
        lease=60.0,
    ),
    "workers of a node that was cut off as it was removed lived beside the next round's": Scenario(
        seed=3594,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1)),
        program=ProgramSpec(steps=9, pause=1.0, term="slow"),
        faults=(Fault("running", 0.0, "half open", "n1"),),
        elastic=ElasticSpec(least=1, restarts=1),
        grace=30.0,
        lease=4.0,
        changes=(Change(0.4, ("n2",)),),
    ),
    "output was not read any more after a round whose log files could not be made": Scenario(
        seed=6823,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1, delay=0.2)),
        program=ProgramSpec(pause=0.0),
        faults=(Fault("connected", 1.54, "fill disk", "n1", heals=0.1),),
        elastic=ElasticSpec(least=1, restarts=1),
        logs=True,
    ),
    "nothing said what a node had left that was lost while it started its workers": Scenario(
        seed=728,
        hosts=(HostSpec("n1", 1),),
        program=ProgramSpec(pause=1.0, child="daemon"),
        faults=(
            Fault("running", 0.0, "half open", "n1"),
            Fault("connected", 4.26117, "kill both", "n1"),
        ),
    ),
    "nothing said what the workers of an elastic round had left on a lost node": Scenario(
        seed=193,
        hosts=(HostSpec("n1", 3), HostSpec("n2", 2, start="chatty")),
        program=ProgramSpec(term="slow", child="tied"),
        faults=(Fault("running", 0.0006141184780402498, "kill both", "n2"),),
        elastic=ElasticSpec(least=1, restarts=3),
    ),
    "nothing said what workers had left that had ended before their node was lost": Scenario(
        seed=3782,
        hosts=(HostSpec("n2", 1),),
        program=ProgramSpec(pause=0.0, term="ignore", child="stays"),
        faults=(Fault("running", 0.0813642761723562, "kill both", "n2"),),
    ),
    "what a killed node launcher had left ran on beside the next rounds of its job": Scenario(
        seed=1,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1)),
        program=ProgramSpec(steps=20, pause=1.0, child="daemon"),
        faults=(Fault("running", 1.0, "kill both", "n2"),),
        elastic=ElasticSpec(least=1, restarts=1),
    ),
    "a node that connected after Ctrl-Z took the runner for dead": Scenario(
        seed=1566,
        hosts=(HostSpec("n1", 1),),
        program=ProgramSpec(pause=1.0),
        faults=(Fault("start", 0.0007951914181093556, "suspend runner", "login", heals=6.0),),
        lease=4.0,
    ),
    "a node launcher that a signal ended had not sent the end of its output": Scenario(
        seed=1765,
        hosts=(HostSpec("n3", 3),),
        program=ProgramSpec(pause=0.0, length=30_000),
        faults=(
            Fault("running", 0.001, "delay", "n3", heals=1.0),
            Fault("running", 0.2, "signal guard", "n3", value=2),
        ),
        hold=HoldSpec(((HeldJob((("n3", 0, 3),)),),)),
    ),
    "a guard crashed to which nobody listened any more": Scenario(
        seed=5524,
        hosts=(HostSpec("n2", 1),),
        faults=(
            Fault("running", 0.4654682111381163, "cut and reset", "n2", heals=1.0),
            Fault("running", 0.007126613134548514, "stick launcher", "n2", heals=6.0),
        ),
        lease=4.0,
    ),
    "the end of a released node's session was taken for that of its next one": Scenario(
        seed=5672,
        hosts=(HostSpec("n1", 1), HostSpec("n3", 1), HostSpec("n4", 3, start="slow")),
        program=ProgramSpec(steps=19, term="slow"),
        elastic=ElasticSpec(least=2, restarts=0),
        spares=(HostSpec("s0", 1),),
        changes=(Change(7.8, ("n1", "n3")), Change(8.0, ("n3", "n4", "s0"))),
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
    "no output was read in the rounds after one whose workers could not start": Scenario(
        seed=8962,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1, start="chatty"), HostSpec("n3", 1)),
        faults=(Fault("running", 0.0, "fill disk", "n3", heals=1.0),),
        elastic=ElasticSpec(least=1, restarts=3),
        logs=True,
    ),
    "a node that answered once the others had started kept them from a round": Scenario(
        seed=1722,
        hosts=(
            HostSpec("n1", 2, delay=0.2),
            HostSpec("n2", 1),
            HostSpec("n3", 2, delay=0.01),
            HostSpec("n4", 3, delay=0.2),
        ),
        faults=(Fault("connected", 0.002427816390790557, "stick launcher", "n1", heals=60.0),),
        elastic=ElasticSpec(least=1, restarts=1),
    ),
    "a lane that was opened just after a signal to all of its node never left": Scenario(
        seed=5556189,
        hosts=(HostSpec("n1", 2, delay=0.2),),
        faults=(Fault("start", 0.9761165784924859, "signal session", "n1", value=15),),
        hold=HoldSpec(groups=((HeldJob((("n1", 0, 1),)), HeldJob((("n1", 1, 2),))),), rest=0.5),
        checked=True,
    ),
    "the program of a world failed on a host that was out of processes": Scenario(
        seed=1598,
        hosts=(HostSpec("n2", 3),),
        program=ProgramSpec(child="hops"),
        faults=(
            Fault("running", 0.22928492081148732, "stick launcher", "n2", heals=240.0, value=33804),
        ),
    ),
    "a failure was missed in the report that the loss of a node had explained": Scenario(
        seed=2526,
        hosts=(HostSpec("n1", 1), HostSpec("n4", 1)),
        program=ProgramSpec(deeds=(Deed(-1, 0, 0, "kill", value=9),)),
        faults=(Fault("ending", 0.0009656327703827519, "kill both", "n1", value=43177),),
        elastic=ElasticSpec(least=1, restarts=0),
        logs=True,
        looks=(Look(1.618, "stop"),),
    ),
    "nothing said what a lost node had left whose new node launcher had no use any more": Scenario(
        seed=100,
        hosts=(
            HostSpec("n2", 1, delay=0.01, sick=True),
            HostSpec("n3", 2, delay=0.2),
            HostSpec("n4", 1),
            HostSpec("n5", 1),
        ),
        program=ProgramSpec(child="stays", halves=True, deeds=(Deed(-1, 1, 0, "early", value=0),)),
        faults=(Fault("stopping", 0.0006238724258091421, "kill both", "n5", value=32386),),
        elastic=ElasticSpec(least=2, restarts=3),
        lease=4.0,
        checked=True,
    ),
    "workers met the first node's launcher at the master port after an early heartbeat": Scenario(
        seed=6790,
        hosts=(HostSpec("n1", 1, delay=0.2), HostSpec("n2", 1)),
        program=ProgramSpec(child="hops", meets=True),
        lease=4.0,
        health=True,
        hang=40.0,
        crowd=150,
    ),
    "a host that was taken off the list and put back while the job began got START twice": Scenario(
        seed=82,
        hosts=tuple(HostSpec(f"n{n}", 1, delay=0.2 * (n == 1)) for n in range(1, 6)),
        elastic=ElasticSpec(least=4, restarts=0),
        changes=(
            Change(0.93458784384165, ("n1", "n2", "n3", "n4")),
            Change(1.1717914130964056, ("n1", "n3", "n4", "n5")),
        ),
    ),
    "observers were told of a rank that the node had made up": Scenario(
        seed=3895,
        hosts=(HostSpec("n1", 1),),
        faults=(Fault("running", 0.0002655316952977255, "garbage", "n1", value=40654),),
        spares=(HostSpec("s0", 1), HostSpec("s1", 1)),
    ),
    "a role whose node was lost in the moment of its start was waited for for ever": Scenario(
        seed=1000950,
        hosts=(HostSpec("n1", 2), HostSpec("n4", 2)),
        faults=(
            Fault("running", 0.009802349398437507, "freeze runner", "login", 6.0, value=14310),
        ),
        lease=4.0,
        roles=(
            RolePart("r0", (("n1", 0, 1),), "job"),
            RolePart("r2", (("n4", 1, 2),), "wait", after=("r0",)),
        ),
    ),
    "a role started again beside its workers on a node that did not answer any more": Scenario(
        seed=1000833,
        hosts=(HostSpec("n1", 2),),
        program=ProgramSpec(term="ignore", halves=True),
        faults=(Fault("running", 0.09549736744608894, "stall", "n1", 6.0, value=19547),),
        lease=4.0,
        roles=(RolePart("r0", (("n1", 0, 2),), "job", restarts=3),),
    ),
    "a role started again beside its workers on a node whose line was reset": Scenario(
        seed=1000398,
        hosts=(HostSpec("n1", 2),),
        program=ProgramSpec(19, 4.0, term="ignore", deeds=(Deed(0, 0, 15, "raise"),)),
        faults=(
            Fault("start", 4.623498450929764e-05, "stall output", "login", 22.5, value=44169),
            Fault("stopping", 0.0007883576369082721, "cut and reset", "n1", 7.5, value=42398),
        ),
        streams=StreamSpec(piped=True),
        roles=(
            RolePart("r0", (("n1", 0, 1),), "job", restarts=3, deeds=True),
            RolePart("r1", (("n1", 1, 2),), "wait", restarts=1),
        ),
    ),
    "workers of roles got SIGPIPE, which programs ignore, as their stop signal": Scenario(
        seed=1000750,
        hosts=tuple(HostSpec(name, 3) for name in ("n2", "n3", "n4", "n5")),
        program=ProgramSpec(term="slow", child="daemon"),
        faults=(Fault("connected", 0.0005927445223973939, "close output", "login", value=15071),),
        grace=0.0,
        streams=StreamSpec(piped=True),
        roles=(
            RolePart("r0", (("n4", 0, 2),), "job"),
            RolePart("r1", (("n2", 1, 2),), "never"),
            RolePart("r2", (("n3", 2, 3),), "never"),
        ),
    ),
    "the end of a role parted the lines that others had begun": Scenario(
        seed=1000411,
        hosts=(HostSpec("n1", 2),),
        program=ProgramSpec(
            pause=1.0, length=30000, term="ignore", halves=True, deeds=(Deed(0, 0, 2, "exit", 3),)
        ),
        roles=(
            RolePart("r0", (("n1", 0, 1),), "job", deeds=True),
            RolePart("r2", (("n1", 1, 2),), "job"),
        ),
    ),
    "a node of an elastic job went on alone when its engine ended before the start": Scenario(
        seed=1200049,
        hosts=(HostSpec("n3", 1, delay=0.01, start="slow"), HostSpec("n4", 1)),
        faults=(Fault("start", 0.749057, "kill engine", "login"),),
        elastic=ElasticSpec(least=1, restarts=1),
        engine="tolerant",
    ),
    "a node launcher left workers at its end, whose guard an engine had killed": Scenario(
        seed=1200311,
        hosts=(HostSpec("n1", 1),),
        program=ProgramSpec(child="stays", shards=20),
        faults=(Fault("running", 0.005529, "freeze launcher", "n1", heals=90.0),),
        lease=60.0,
        looks=(Look(3.979183, "stop"),),
        engine="strict",
    ),
    "a node that was back and left without workers kept what had been left before": Scenario(
        seed=1204796,
        hosts=(HostSpec("n1", 1), HostSpec("n2", 1)),
        program=ProgramSpec(child="stays"),
        faults=(Fault("start", 0.681975, "kill both", "n1"),),
        elastic=ElasticSpec(least=1, restarts=1),
        changes=(Change(7.480004, nodes=1),),
        engine="tolerant",
    ),
    "an engine that was killed was the cause in place of a signal a second before": Scenario(
        seed=1202557,
        hosts=(HostSpec("n3", 1),),
        program=ProgramSpec(term="ignore", halves=True),
        faults=(
            Fault("connected", 2.258221, "signal launcher", "n3", value=15),
            Fault("stopping", 0.994795, "kill engine", "login"),
        ),
        engine="strict",
    ),
    "a node that an engine ended was lost before the one for which it ended": Scenario(
        seed=1201110,
        hosts=(HostSpec("n2", 1), HostSpec("n3", 1, start="killed")),
        program=ProgramSpec(term="slow", child="bomb"),
        engine="strict",
    ),
    "a cause that was known before the connection ended was not told": Scenario(
        seed=390,
        hosts=(HostSpec("n1", 2, delay=0.2), HostSpec("n2", 1)),
        faults=(Fault("start", 1.0, "kill launcher", "n1"),),
    ),
    "a start waited forever for a list of files that an earlier question had stopped": Scenario(
        seed=4648,
        hosts=(
            HostSpec("n1", 1, start="chatty"),
            HostSpec("n2", 1),
            HostSpec("n3", 2, delay=0.2, code="files"),
        ),
        faults=(Fault("connected", 0.064349, "power", "n1", heals=10.0, value=26389),),
        elastic=ElasticSpec(least=1, restarts=1),
        lease=4.0,
        changes=(Change(0.744847, ("n2",)),),
        checked=True,
        start_timeout=15.0,
    ),
    "answers about a first node that was lost started the job before the next one had a port": (
        Scenario(
            seed=1,
            hosts=(HostSpec("n1", 1), HostSpec("n2", 1, delay=0.2), HostSpec("n3", 1, delay=0.2)),
            faults=(Fault("connected", 1.1, "kill guard", "n1"),),
            least=1,
        )
    ),
    "a runner that stood still lost a node whose frames came after those of another": Scenario(
        seed=2012309,
        hosts=(HostSpec("n1", 2, delay=0.01), HostSpec("n2", 1), HostSpec("n3", 1)),
        program=ProgramSpec(deeds=(Deed(-1, 0, 4, "exit", 3),)),
        faults=(
            Fault(
                "stopping", 0.0043701076108545725, "busy runner", "login", heals=30.0, value=47902
            ),
        ),
        elastic=ElasticSpec(least=3, restarts=1),
        lease=60.0,
        engine="tolerant",
    ),
    "an answer about files went on with a node that was asked for its port meanwhile": Scenario(
        seed=2000066,
        hosts=(
            HostSpec("n2", 2, delay=0.01, code="files"),
            HostSpec("n3", 1),
            HostSpec("n4", 1),
            HostSpec("n5", 1, delay=0.2),
        ),
        program=ProgramSpec(steps=5),
        faults=(
            Fault("connected", 0.3733156108312642, "cut and reset", "n4", heals=0.1, value=63227),
        ),
        least=1,
        checked=True,
        engine="strict",
    ),
    "a node was ready for a round as it said, while its workers ran on in the last one": Scenario(
        seed=2009352,
        hosts=(HostSpec("n1", 3), HostSpec("n2", 2, delay=0.2)),
        program=ProgramSpec(steps=4, pause=1.0),
        faults=(Fault("running", 0.5, "garbage", "n1", value=4),),
        elastic=ElasticSpec(least=1, restarts=3),
    ),
    "the runner waited without end for a round that its node had never begun": Scenario(
        seed=15,
        hosts=(HostSpec("n1", 1),),
        program=ProgramSpec(steps=4, pause=1.0),
        faults=(Fault("running", 0.5, "garbage", "n1", value=4),),
        elastic=ElasticSpec(least=1, restarts=3),
    ),
    "the engine of a killed runner never missed a host without power": Scenario(
        seed=2008746,
        hosts=(HostSpec("n1", 1),),
        program=ProgramSpec(pause=4.0),
        faults=(
            Fault("running", 0.001, "power", "n1"),
            Fault("ending", 0.001, "kill runner", "login"),
        ),
        elastic=ElasticSpec(least=1, restarts=1),
        engine="tolerant",
    ),
    "workers of a stuck node launcher without a guard lived beside those of the next one": Scenario(
        seed=1300762,
        hosts=(HostSpec("n0", 1), HostSpec("n1", 2)),
        program=ProgramSpec(steps=8, pause=15.0, term="ignore"),
        faults=(
            Fault("running", 0.00016952832309162513, "reset", "n0"),
            Fault("running", 0.0, "stick launcher", "n1", heals=90.0),
            Fault("stopping", 0.0, "kill guard", "n1"),
        ),
        elastic=ElasticSpec(least=1, restarts=3),
        lease=60.0,
    ),
    "nothing said that workers of a stuck node launcher ran on beside the next round": Scenario(
        seed=1300762,
        hosts=(HostSpec("n0", 1), HostSpec("n1", 1)),
        program=ProgramSpec(steps=5, pause=15.0),
        faults=(
            Fault("running", 0.0, "stick launcher", "n1", heals=90.0),
            Fault("stopping", 0.0, "kill guard", "n1"),
        ),
        elastic=ElasticSpec(least=1, restarts=3),
        lease=15.0,
    ),
}
