"""Short storms from fixed seeds; ``make soak`` runs longer ones."""

import dataclasses

import pytest
from storm import FAULTS, Storm
from stub_llm import StubLLM


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (11, {"kill_seconds": 0.7, "pace_seconds": 0.1}),
        (12, {"kill_seconds": 2.0, "pace_seconds": 0.3, "faults": FAULTS}),
        (13, {"kill_seconds": 4.0, "pace_seconds": 0.3, "faults": ("damage",)}),
    ],
    ids=["kills", "every fault", "damage"],
)
def test_every_accepted_turn_is_one_entry_or_one_dead_letter(world, seed, options):
    with StubLLM(default="slow:0.2") as stub:
        report = Storm(world, stub, seed, turns=40, **options).blow()
    assert report.sound, dataclasses.asdict(report)
    assert report.turns == 40
    assert report.kills + report.other_faults.get("damages", 0) > 0
