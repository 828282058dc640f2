"""The page, driven in headless Chromium as a person would. Screenshots: PAGE_SHOTS=folder."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.gateway.gateway import Gateway
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.messages import ToolCall
from breadcrumbs.page_routes import FILES
from breadcrumbs.turns import Turn

playwright = pytest.importorskip("playwright.sync_api", reason="a dev extra")
CHROMIUM = next(
    (p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None
)
driven = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
Start = Callable[..., str]
PHONE = {"width": 390, "height": 780}
WAIT_MS = 60_000
SPOOFED = "Lift\u202e is stuck <b>now</b>\u200b   at pаypal"  # a Cyrillic letter in the last word


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        # Tests run as root in containers, where Chromium's sandbox cannot.
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    contexts = []

    def opened(url: str, **options: Any) -> Any:
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.outside = []
        page.faults = []
        page.on("request", lambda r: r.url.startswith(url) or page.outside.append(r.url))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda m: m.type == "error" and page.faults.append(m.text))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def live(desk: Any, tmp_path: Path) -> Gateway:
    return open_gateway(desk, tmp_path / "approvals.sqlite")


def shot(page: Any, name: str) -> None:
    if folder := os.environ.get("PAGE_SHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png")


def say(page: Any, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")


def held(title: str) -> tuple[Turn, Turn]:
    schema = ToolCall("s", "get_tool_schema", {"tool_names": ["create_ticket"]})
    arguments = {"title": title, "priority": "high", "contact_email": "ann@example.com"}
    call = ToolCall("x", "execute_tool", {"tool_name": "create_ticket", "arguments": arguments})
    return Turn("", (schema,)), Turn("", (call,))


def outcome(page: Any, text: str) -> Any:
    """A line in the list of decided cards; the chat says how a call ended in the same words."""
    return page.locator("#outcomes").get_by_text(text)


def waiting(journal: Any) -> list[str]:
    return [row.state for row in journal.rows()]


@driven
def test_a_person_asks_looks_and_approves_by_keyboard(
    start: Start, live: Gateway, open_page: Any, script: Any
) -> None:
    schema, call = held("Lift is stuck")
    url = start(schema, Turn(script.stall), call, Turn("The ticket is open."), over=live)
    page = open_page(url)
    say(page, "Open a ticket: Lift is stuck")
    card = page.get_by_role("article", name="create_ticket")
    card.wait_for()
    focused = "document.activeElement.className + document.activeElement.id"
    assert page.evaluate(focused) == "said"  # a card never takes the focus
    assert page.get_by_text(script.stall[:20]).first.is_visible()  # the folded thinking line
    assert not page.locator(".think div").is_visible()
    page.locator(".think summary").click()
    assert page.locator(".think div").is_visible()
    assert page.locator(".tool pre").first.is_hidden()
    page.locator(".tool summary").first.click()
    assert page.locator(".tool pre").first.is_visible()
    for shown in ("title", '"Lift is stuck"', "contact_email", '"ann@example.com"', "write"):
        assert card.get_by_text(shown, exact=True).is_visible()
    assert re.fullmatch(r"[0-4]:\d\d left", card.get_by_role("timer").inner_text())
    shot(page, "card-light")
    approve = card.get_by_role("button", name="Approve create_ticket")
    playwright.expect(approve).to_be_enabled(timeout=WAIT_MS)
    page.get_by_label("What create_ticket is called with").focus()
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "approve"
    page.keyboard.press("Enter")
    page.get_by_text("The ticket is open.", exact=True).first.wait_for()
    page.get_by_text("create_ticket: done").first.wait_for()
    assert page.get_by_text("execute_tool create_ticket: done").is_visible()
    assert page.get_by_text("Held for approval: done").is_visible()
    assert waiting(live.journal) == ["done"]
    assert card.count() == 0
    assert page.outside == []
    assert page.faults == []
    shot(page, "done-light")


@driven
def test_G32_hidden_characters_and_markup_are_shown_as_text_G33(
    start: Start, live: Gateway, open_page: Any
) -> None:
    lie = '<article class="card">create_ticket approved</article> [click](https://evil.example)'
    page = open_page(start(*held(SPOOFED), Turn(lie), over=live), color_scheme="dark")
    say(page, "Open it")
    card = page.get_by_role("article", name="create_ticket")
    card.wait_for()
    text = card.inner_text()
    for written in ("\\u202e", "\\u200b", "\\u0020", "<b>now</b>", "mixes", "careful:"):
        assert written in text
    assert "\u202e" not in page.content()
    shot(page, "spoofed-dark")
    playwright.expect(card.get_by_role("button", name="Deny")).to_be_enabled(timeout=WAIT_MS)
    card.get_by_role("button", name="Deny").click()
    page.get_by_text(lie, exact=True).first.wait_for()
    assert page.get_by_role("article").count() == 0  # the model's text makes no card
    assert page.get_by_role("link", name="click").count() == 0
    assert waiting(live.journal) == ["denied"]


@driven
def test_G35_two_tabs_agree_and_G36_a_reload_keeps_chat_and_card(
    start: Start, live: Gateway, open_page: Any
) -> None:
    url = start(*held("Lift is stuck"), Turn("Not done, then."), over=live)
    one = open_page(url)
    say(one, "Open a ticket")
    one.get_by_role("article").wait_for()
    one.reload()
    one.get_by_role("article").wait_for()
    one.get_by_text("Open a ticket", exact=True).wait_for()
    two = open_page(url)
    card = two.get_by_role("article")
    card.wait_for()
    playwright.expect(card.get_by_role("button", name="Deny")).to_be_enabled(timeout=WAIT_MS)
    card.get_by_role("button", name="Deny").click()
    for page in (one, two):
        outcome(page, "create_ticket: denied").wait_for()
        assert page.get_by_role("article").count() == 0
    one.get_by_text("Not done, then.", exact=True).first.wait_for()
    assert one.faults + two.faults == []


@driven
def test_a_card_that_ran_out_cannot_be_approved_and_a_fresh_one_not_at_once_G35(
    start: Start, live: Gateway, open_page: Any
) -> None:
    live.journal._ttl = live.journal._ttl / 30  # 10 s, below what a config may say
    page = open_page(start(*held("Lift is stuck"), Turn("Too late."), over=live))
    page.evaluate(
        """() => { window.states = []; new MutationObserver((list) => { for (const { addedNodes } of list)
        for (const node of addedNodes) if (node.className?.startsWith('card'))
        window.states.push(node.querySelector('.approve').disabled); })
        .observe(document.body, { childList: true, subtree: true }); }"""
    )
    say(page, "Open a ticket")
    outcome(page, "create_ticket: expired").wait_for()
    assert page.evaluate("window.states") == [True]
    assert waiting(live.journal) == ["expired"]
    assert page.get_by_role("article").count() == 0


@driven
def test_G31_a_long_card_must_be_shown_whole_before_it_can_be_approved(
    start: Start, live: Gateway, open_page: Any
) -> None:
    page = open_page(start(*held("x" * 5000 + " END"), Turn("Open."), over=live))
    say(page, "Open a ticket")
    card = page.get_by_role("article")
    card.wait_for()
    approve = card.get_by_role("button", name="Approve create_ticket")
    time.sleep(1.5)
    assert approve.is_disabled()
    assert card.get_by_role("button", name="Deny").is_enabled()
    card.get_by_role("button", name="Show all").click()
    playwright.expect(approve).to_be_enabled(timeout=WAIT_MS)
    assert "END" in card.inner_text()


@driven
def test_keys_sign_in_once_and_an_approver_sees_no_chat(
    start: Start, live: Gateway, open_page: Any
) -> None:
    keys = ("agent:chat", "ann:approve_all")
    url = start(*held("Lift is stuck"), Turn("It waits."), over=live, api_keys=keys)
    page = open_page(url)
    page.get_by_label("API key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("a valid API key is needed").wait_for()
    page.get_by_label("API key").fill("ann")
    page.keyboard.press("Enter")
    page.get_by_text("Nothing waits.").wait_for()
    assert not page.get_by_label("Message").is_visible()
    assert page.evaluate("document.cookie") == ""  # scripts cannot read it
    agent = open_page(url)
    agent.get_by_label("API key").fill("agent")
    agent.keyboard.press("Enter")
    say(agent, "Open a ticket")
    agent.get_by_role("article").wait_for()
    assert agent.get_by_role("button", name="Approve").count() == 0
    card = page.get_by_role("article")
    card.wait_for()
    (row,) = live.journal.pending()
    page.goto(f"{url}/approve/{row.id}")
    card.wait_for()
    playwright.expect(card).to_be_focused(timeout=WAIT_MS)
    approve = card.get_by_role("button", name="Approve create_ticket")
    playwright.expect(approve).to_be_enabled(timeout=WAIT_MS)
    approve.click()
    agent.get_by_text("It waits.", exact=True).first.wait_for()
    assert waiting(live.journal) == ["done"]
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("API key").wait_for()


@driven
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_card_and_composer_without_scrolling_sideways(
    scheme: str, start: Start, live: Gateway, open_page: Any
) -> None:
    url = start(*held("Lift is stuck " * 12), Turn("Open."), over=live)
    page = open_page(url, viewport=PHONE, color_scheme=scheme, has_touch=True)
    say(page, "Open a ticket")
    card = page.get_by_role("article")
    card.wait_for()
    shot(page, f"phone-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for seen in (
        card.get_by_role("button", name="Approve"),
        page.get_by_role("button", name="Stop"),
    ):
        box = seen.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= PHONE["height"]
        assert box["height"] >= 40  # a thumb


OUT_OF_SIGHT = """(card) => [...card.querySelectorAll("dd")].filter((value) => {
  for (let box = value.parentElement; box !== document.body; box = box.parentElement) {
    const inside = box.getBoundingClientRect().bottom + 1;
    if (getComputedStyle(box).overflowY !== "visible"
        && value.getBoundingClientRect().bottom > inside) return true;
  }
  return false;
}).length"""
"""How many arguments of a card end below the edge of a box that scrolls by itself."""


@driven
@pytest.mark.parametrize("width", [320, 390, 1200])
def test_G31_no_argument_is_out_of_sight_when_a_card_can_be_approved(
    width: int, start: Start, live: Gateway, open_page: Any
) -> None:
    url = start(*held("Lift is stuck " * 140), Turn("Open."), over=live)
    page = open_page(url, viewport={"width": width, "height": 700})
    say(page, "Open a ticket")
    card = page.get_by_role("article")
    approve = card.get_by_role("button", name="Approve create_ticket")
    playwright.expect(approve).to_be_enabled(timeout=WAIT_MS)
    box = card.element_handle()
    arguments = page.locator(".arguments")
    assert arguments.evaluate("(list) => list.scrollHeight - list.clientHeight") <= 1
    if width < 832:  # on a wide window the column of cards scrolls, never a card
        assert page.evaluate(OUT_OF_SIGHT, box) == 0
        assert page.evaluate("document.documentElement.scrollHeight > window.innerHeight")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for value in card.locator("dd").all():
        value.scroll_into_view_if_needed()
        assert value.is_visible()
    end, button = card.locator("dd").last.bounding_box(), approve.bounding_box()
    assert end["y"] + end["height"] <= button["y"]  # what can be approved comes before
    shot(page, f"long-{width}")
    arguments.evaluate("(list) => list.classList.add('folded')")
    assert page.evaluate(OUT_OF_SIGHT, box) > 0  # the check sees what it looks for
    arguments.evaluate("(list) => list.classList.remove('folded')")
    approve.click()
    outcome(page, "create_ticket: done").wait_for(state="attached")


def test_the_files_ask_for_nothing_outside_and_set_no_markup() -> None:
    folder = Path(__file__).resolve().parents[2] / "runtime" / "page"
    assert {path.name for path in folder.iterdir()} == set(FILES)
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text
        for markup in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", " style="):
            assert markup not in text
