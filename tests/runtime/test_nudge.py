from breadcrumbs.asking import Parameter
from breadcrumbs.nudge import nudge_text, repair_text
from breadcrumbs.radar import Disclosed

ONE = Disclosed("create_ticket", (Parameter("title", required=True), Parameter("floor")))


def test_the_contract_names_tool_and_required_fields_and_offers_every_exit() -> None:
    text = nudge_text(ONE)
    assert "create_ticket" in text
    assert "(title)" in text
    assert "which required value is missing" in text
    assert "no call is needed" in text
    for pressure in ("immediately", "MUST", "System:", "NOT"):
        assert pressure not in text


def test_without_required_fields_none_are_named() -> None:
    assert "required fields" not in nudge_text(Disclosed("list_tickets", ()))


def test_several_disclosed_tools_are_all_named_and_none_is_preferred() -> None:
    text = nudge_text(Disclosed("create_ticket", ONE.parameters, others=("close_ticket",)))
    assert "create_ticket, close_ticket" in text
    assert "tool_name that fits" in text


def test_the_seed_style_is_imperative() -> None:
    assert "MUST" in nudge_text(ONE, "seed")


def test_a_repair_quotes_the_problem() -> None:
    assert "it was cut off" in repair_text(["it was cut off"])
