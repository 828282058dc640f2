"""`breadcrumbs approvals`: decide held writes from a terminal, and check the journal.

Works on the journal alone, in a process of its own: a decision moves a row, and the gateway that
serves runs what was approved. Everything shown comes from the stored row, hidden characters
written out.
"""

from __future__ import annotations

import getpass
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from breadcrumbs.errors import DataError

if TYPE_CHECKING:
    from breadcrumbs.gateway.approvals import ApprovalCard, ApprovalJournal

FAULTY = 1
journal_option = click.option(
    "--journal",
    default="approvals.sqlite",
    show_default=True,
    envvar="BREADCRUMBS_JOURNAL",
    help="A file, or a postgresql:// URL; also BREADCRUMBS_JOURNAL.",
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
by_option = click.option("--by", default=getpass.getuser, help="Who decides; you, if not said.")


@click.group()
def approvals() -> None:
    """Decide held writes, and check the journal they lie in."""


@approvals.command("list")
@journal_option
@click.option("--all", "everything", is_flag=True, help="Decided and finished ones too.")
@as_json_option
def list_command(journal: str, everything: bool, as_json: bool) -> None:
    """What waits for a person, oldest first."""
    with _opened(journal) as opened:
        cards = opened.pending()  # what ran out is written down as such by this
        cards = opened.rows() if everything else cards
    if as_json:
        click.echo(json.dumps([_record(card) for card in cards], indent=2))
        return
    for card in cards:
        click.echo(_line(card))
    if not cards:
        click.echo("nothing waits", err=True)


@approvals.command()
@click.argument("approval_id")
@journal_option
@as_json_option
def show(approval_id: str, journal: str, as_json: bool) -> None:
    """One held write whole: its card, how it stands, and what happened to it."""
    with _opened(journal) as opened:
        card = _found(opened, approval_id)
        events = opened.events(approval_id)
    if as_json:
        history = [
            {"at": e.at, "by": e.actor, "from": e.before or None, "to": e.after} for e in events
        ]
        click.echo(json.dumps({**_record(card), "events": history}, indent=2))
        return
    from breadcrumbs.visible import visible

    _show_card(card)
    for event in events:
        click.echo(f"{event.at}  {event.after:<10} {visible(event.actor)}")
    if card.reason:
        click.echo(f"reason: {visible(card.reason)}")
    if card.result is not None:
        click.echo(f"result: {visible(json.dumps(card.result, ensure_ascii=False))}")


@approvals.command()
@click.argument("approval_id")
@journal_option
@by_option
@click.option("--yes", is_flag=True, help="Do not ask again.")
def approve(approval_id: str, journal: str, by: str, yes: bool) -> None:
    """Let a held write run once, with the arguments its card shows."""
    with _opened(journal) as opened:
        card = _found(opened, approval_id)
        _show_card(card)
        if yes or click.confirm("run it?"):
            _decide(opened, card, True, by, "")
            click.echo("approved; the gateway runs it")


@approvals.command()
@click.argument("approval_id")
@journal_option
@by_option
@click.option("--reason", default="", help="What the model is told.")
def deny(approval_id: str, journal: str, by: str, reason: str) -> None:
    """Refuse a held write, and the same call again in its session."""
    with _opened(journal) as opened:
        _decide(opened, _found(opened, approval_id), False, by, reason)
    click.echo("denied")


@approvals.command("watch")
@journal_option
@by_option
@click.option("--every", "every_s", type=click.FloatRange(0.1, 60), default=1.0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Only print new cards, one a line.")
def watch_command(journal: str, by: str, every_s: float, as_json: bool) -> None:
    """Show held writes as they come and ask about each; Ctrl-C leaves."""
    with _opened(journal) as opened:
        watch(opened, by, every_s, as_json=as_json)


@approvals.command()
@click.argument("approval_id")
@journal_option
@by_option
@click.option("--uses", type=int, required=True, help="How many calls.")
@click.option("--minutes", type=int, required=True, help="For how long.")
@click.option("--fixed", multiple=True, metavar="FIELD", help="Must have the card's value.")
def grant(
    approval_id: str, journal: str, by: str, uses: int, minutes: int, fixed: tuple[str, ...]
) -> None:
    """Let the same caller use a card's tool again without a card; never a destructive one."""
    with _opened(journal) as opened:
        card = _found(opened, approval_id)
        made = opened.grant(card, fixed=fixed, uses=uses, ttl_s=minutes * 60, by=by)
    click.echo(f"{made.id}: {made.uses_left} calls of {made.tool} until {made.expires_at}")


@approvals.command()
@click.argument("grant_id")
@journal_option
@by_option
def revoke(grant_id: str, journal: str, by: str) -> None:
    """Take a grant back."""
    with _opened(journal) as opened:
        if not opened.revoke(grant_id, by):
            raise DataError(f"no grant {grant_id!r} with a use left; nothing was changed")
    click.echo("revoked")


@approvals.command()
@journal_option
@click.option("--head", help="A head that an earlier check printed; it must still be there.")
@as_json_option
def verify(journal: str, head: str | None, as_json: bool) -> None:
    """Check the log and every row against it; exit status 1 where something was changed."""
    with _opened(journal) as opened:
        checked = opened.verify(head)
    if as_json:
        found = {"events": checked.events, "head": checked.head, "faults": list(checked.faults)}
        click.echo(json.dumps(found, indent=2))
    else:
        from breadcrumbs.visible import visible

        for fault in checked.faults:
            click.echo(visible(fault))
        click.echo(f"{checked.events} events, {len(checked.faults)} faults, head {checked.head}")
    if checked.faults:
        sys.exit(FAULTY)


def watch(
    journal: ApprovalJournal,
    by: str,
    every_s: float,
    *,
    as_json: bool = False,
    ask: Callable[[str], str] = lambda text: click.prompt(text, default="", show_default=False),
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Show each pending card once, until interrupted; ask about it unless `as_json`."""
    seen: set[str] = set()
    while True:
        for card in journal.pending():
            if card.id in seen:
                continue
            seen.add(card.id)
            if as_json:
                click.echo(json.dumps(_record(card)))
                continue
            _show_card(card)
            answer = ask("run it? [y/n, Enter for later]").strip().lower()
            if answer in ("y", "yes", "n", "no"):
                decided = journal.decide(card.id, approve=answer.startswith("y"), by=by)
                click.echo("decided" if decided else "too late: it was decided or ran out")
        wait(every_s)


@contextmanager
def _opened(place: str) -> Iterator[ApprovalJournal]:
    from breadcrumbs.gateway.approvals import ApprovalJournal
    from breadcrumbs.gateway.identity import SystemClock, SystemIds

    journal = ApprovalJournal(place, SystemClock(), SystemIds(), must_exist=True)
    try:
        yield journal
    finally:
        journal.close()


def _found(journal: ApprovalJournal, approval_id: str) -> ApprovalCard:
    card = journal.get(approval_id)
    if card is None:
        raise DataError(f"no approval {approval_id!r}; see: breadcrumbs approvals list")
    return card


def _decide(
    journal: ApprovalJournal, card: ApprovalCard, approve: bool, by: str, reason: str
) -> None:
    if not journal.decide(card.id, approve=approve, by=by, reason=reason):
        now = _found(journal, card.id)
        raise DataError(f"{card.id} is {now.state} already; nothing was changed")


def _show_card(card: ApprovalCard) -> None:
    from rich.console import Console

    from breadcrumbs.chat import card_view

    Console(highlight=False).print(card_view(card.to_dict()))


def _line(card: ApprovalCard) -> str:
    from breadcrumbs.visible import visible

    return (
        f"{card.id}  {card.state:<9} {visible(card.tool)} ({card.risk})"
        f" for {visible(card.principal)}, until {card.expires_at}"
    )


def _record(card: ApprovalCard) -> dict[str, Any]:
    return {
        **card.to_dict(),
        "session": card.session,
        "created_at": card.created_at,
        "decided_by": card.decided_by,
        "reason": card.reason,
        "result": card.result,
    }
