"""What the native API takes and gives, as its OpenAPI document shows it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from breadcrumbs.events import DoneReason
from breadcrumbs.openai_wire import Body, WireMessage

Open = ConfigDict(extra="allow")


class ErrorDetails(BaseModel):
    """What went wrong, in OpenAI's fields."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """Every error."""

    error: ErrorDetails


class ModelCard(BaseModel):
    """One model; `parent` is the bare model behind a loop."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    parent: str | None


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"]
    data: list[ModelCard]


class RunRequest(Body):
    """A run to begin: a user's text or a whole conversation, maybe going on from an earlier run."""

    model_config = ConfigDict(extra="forbid")
    input: str | list[WireMessage] = Field(min_length=1, max_length=500_000)
    previous_run_id: str | None = Field(default=None, max_length=100)


class RunCard(BaseModel):
    """How a run stands. `messages` is the conversation as it is kept, without nudges."""

    id: str
    object: Literal["run"]
    created: int
    status: Literal["running", "waiting", DoneReason]
    previous_run_id: str | None
    input: str
    events: int
    held: list[str]
    messages: list[dict[str, Any]]
    usage: dict[str, int] | None


class RunList(BaseModel):
    """Runs, oldest first, without their messages."""

    object: Literal["list"]
    data: list[dict[str, Any]]


class ShownArgument(BaseModel):
    """One argument, everything that an eye would miss written out."""

    name: str
    value: str


class ShownCard(BaseModel):
    """A held write drawn from its stored row: show this, not the raw values."""

    tool: str
    risk: str
    principal: str
    arguments: list[ShownArgument]
    notes: list[str]
    characters: int
    seconds_left: int


class ApprovalBody(BaseModel):
    """A held write; `challenge` must come back with the decision."""

    model_config = Open
    approval_id: str
    tool: str
    risk: Literal["read", "write", "destructive"]
    arguments: dict[str, Any]
    principal: str
    state: Literal[
        "pending", "approved", "executing", "done", "denied", "expired", "failed", "unknown"
    ]
    expires_at: str
    notes: list[str]
    display: ShownCard


class ApprovalList(BaseModel):
    """What waits, oldest first."""

    object: Literal["list"]
    data: list[ApprovalBody]


class Decided(BaseModel):
    """How a write stands after a decision: the gateway's own payload."""

    model_config = Open
    layer: str
    status: str


class Session(BaseModel):
    """Who a browser is signed in as, and what it may do."""

    caller: str
    scopes: list[str]
    models: list[str]
