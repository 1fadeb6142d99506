"""What every table of an experiment file is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Keys(BaseModel):
    """A TOML table: unknown keys are complaints, values are final."""

    model_config = ConfigDict(extra="forbid", frozen=True)
