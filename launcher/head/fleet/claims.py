"""The identity of each node launcher, according to the output of the nodes. Pure.

The label of an output tells the node that speaks (`backends.dial_command`), and so its place. But
an engine may give its tasks another order than it was asked for, and its label is a number. So a
node may also claim the place of another: it gets that once all nodes have said who they are, if no
other has claimed it.
"""

from __future__ import annotations

from ...common.records import NamedTuple


class Claim(NamedTuple):
    """The first announcement in the output of a node.

    Attributes:
        speaker: rank of the node in whose output it was.
        place: rank that the node claims.
        name: name that the node claims.
        token: token that the node launcher will show.
    """

    speaker: int
    place: int
    name: str
    token: str

    @property
    def is_own(self) -> bool:
        """True if the node claims its own place."""
        return self.speaker == self.place


class ClaimVerdict(NamedTuple):
    """The verdict on a claim.

    Attributes:
        refused: each invalid claim, with the claim that has its place.
    """

    accepted: list[Claim]
    refused: list[tuple[Claim, Claim]]


class Claims:
    """All claims so far: one of each speaker, and at most one valid for each place."""

    def __init__(self, count: int) -> None:
        """Begin without claims of this many nodes."""
        self._count = count
        self._by_speaker: dict[int, Claim] = {}
        self._by_place: dict[int, list[Claim]] = {}
        self._valid: dict[int, Claim] = {}

    def has(self, speaker: int) -> bool:
        """Return whether this node has named itself."""
        return speaker in self._by_speaker

    def valid(self, place: int) -> Claim | None:
        """Return the valid claim to a place, or None."""
        return self._valid.get(place)

    def add(self, claim: Claim) -> ClaimVerdict:
        """Add the first claim of a speaker."""
        rivals = self._by_place.setdefault(claim.place, [])
        rivals.append(claim)
        self._by_speaker[claim.speaker] = claim
        everyone = len(self._by_speaker) == self._count
        judged = self._by_speaker.values() if everyone else [claim] * claim.is_own
        accepted = list(filter(self._is_acceptable, judged))
        self._valid |= {one.place: one for one in accepted}
        # Those before the second one have been refused, or are valid.
        latest = rivals if len(rivals) == 2 else rivals[2:][-1:]
        wrong = [one for one in latest if one != self._valid.get(one.place)]
        return ClaimVerdict(accepted, [(one, _other(rivals, one)) for one in wrong])

    def remove(self, rank: int) -> None:
        """Forget a node's statements, and the claims to its place: it is being started again."""
        self._valid.pop(rank, None)
        for claim in self._by_place.pop(rank, []):
            self._by_speaker.pop(claim.speaker, None)
        self._by_speaker.pop(rank, None)

    def _is_acceptable(self, claim: Claim) -> bool:
        alone = len(self._by_place[claim.place]) == 1
        return claim.place not in self._valid and (claim.is_own or alone)


def _other(rivals: list[Claim], claim: Claim) -> Claim:
    return next(one for one in rivals if one != claim)
