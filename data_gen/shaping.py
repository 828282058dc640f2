"""Draws the shapes of scenarios: a config's ranges in, one `Shape` for all twins out."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.shape import NO_NAMING, Shape
from breadcrumbs.data_gen.splits import Split
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.namings import naming_of


@checked(config=STRICT)
class Shapes:
    """Which shapes a data set has; as it stands, one alone."""

    namings: tuple[str, ...] = (NO_NAMING,)
    """Names and payload shapes of the meta-tools, drawn evenly."""
    held_out_namings: tuple[str, ...] = ()
    """Those of the held-out splits, and of no training row; none means they have the others."""

    def __post_init__(self) -> None:
        for name in (*self.namings, *self.held_out_namings):
            try:
                naming_of(name)
            except ConfigError as error:
                raise ValueError(str(error)) from error
        if not self.namings:
            raise ValueError("namings: name one at least")
        if both := sorted(set(self.namings) & set(self.held_out_namings)):
            raise ValueError(f"held_out_namings: {both[0]} is in namings too; a row would show it")


def shaped(twins: Sequence[Scenario], shapes: Shapes, split: Split, seed: int) -> list[Scenario]:
    """The twins of one blueprint under one shape, fixed by seed and blueprint."""
    rng = random.Random(f"{seed}/{twins[0].blueprint}/shape")
    shape = Shape(naming=rng.choice(namings_for(split, shapes)))
    return [dataclasses.replace(twin, shape=shape) for twin in twins]


def namings_for(split: Split, shapes: Shapes) -> tuple[str, ...]:
    """The namings that rows of a split may have."""
    return shapes.namings if split == "train" else shapes.held_out_namings or shapes.namings
