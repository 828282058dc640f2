"""`/v1/approvals`: what waits, drawn from the stored rows, and a person's decisions.

A decision must bring back the challenge that its card came with, so one card's answer cannot
decide another. A caller sees its own writes; a key with `approve_all` sees everybody's.
"""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from starlette.exceptions import HTTPException

from breadcrumbs import openai_wire as wire
from breadcrumbs import runs_wire as native
from breadcrumbs.access import Access
from breadcrumbs.callers import Caller
from breadcrumbs.gateway.approvals import ApprovalCard
from breadcrumbs.gateway.card_view import shown
from breadcrumbs.gateway.gateway import Gateway


def add(app: FastAPI, gateway: Gateway, access: Access) -> None:
    """Put the routes into an app."""
    known = Depends(access.caller)
    decides = Depends(access.needs("approve"))

    def found(approval_id: str, caller: Caller) -> ApprovalCard:
        card = gateway.journal.get(approval_id)
        if card is None or not _sees(caller, card):
            raise HTTPException(404, f"no approval {approval_id!r}")
        return card

    def body(card: ApprovalCard, caller: Caller) -> dict[str, Any]:
        whole = {**card.to_dict(), "display": shown(card, gateway.clock.peek())}
        challenge = gateway.challenge(card) if caller.may("approve") else None
        return whole if challenge is None else {**whole, "challenge": challenge}

    def pending(caller: Caller = known) -> dict[str, Any]:
        """What waits for a person, oldest first."""
        cards = [card for card in gateway.journal.pending() if _sees(caller, card)]
        return {"object": "list", "data": [body(card, caller) for card in cards]}

    def one(approval_id: str, caller: Caller = known) -> dict[str, Any]:
        """One held write, however it stands."""
        return body(found(approval_id, caller), caller)

    async def decide(
        approval_id: str, decision: wire.DecisionRequest, caller: Caller = decides
    ) -> dict[str, Any]:
        """Approve or deny; what is approved runs once, now, with the stored arguments.

        Where another gateway on the journal has the tool, that gateway runs it within a second.
        """
        found(approval_id, caller)
        if gateway.keys is not None and not gateway.challenge_fits(
            approval_id, decision.challenge or ""
        ):
            raise HTTPException(403, "challenge: send the one that the card has now")
        return await gateway.decide(
            approval_id, approve=decision.approve, by=caller.name, reason=decision.reason
        )

    place = "/v1/approvals/{approval_id}"
    app.add_api_route("/v1/approvals", pending, response_model=native.ApprovalList)
    app.add_api_route(place, one, response_model=native.ApprovalBody)
    app.add_api_route(place, decide, methods=["POST"], response_model=native.Decided)


def _sees(caller: Caller, card: ApprovalCard) -> bool:
    return card.principal == caller.name or caller.may("approve_all")
