"""Real upstream servers behind the gateway: what runs, what does not, and what is then said."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp.types import CallToolResult, ImageContent, TextContent

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.approvals import TOOL_CHANGED, ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog, Risk
from breadcrumbs.gateway.gateway import Gateway, GatewaySession
from breadcrumbs.gateway.identity import SimulatedClock, SystemClock, SystemIds
from breadcrumbs.gateway.imports.drafts import Draft, Refusal
from breadcrumbs.gateway.imports.importing import Import
from breadcrumbs.gateway.imports.live import MAX_ANSWER_BYTES, LiveServer, list_tools
from breadcrumbs.gateway.upstream import CHANGED, MAX_REASON, MAX_TOLD, UpstreamExecutor, result_of
from breadcrumbs.gateway.upstream_session import TOO_LATE, Masker, UpstreamLimits
from breadcrumbs.gateway.worlds import OutcomeUnknown, ToolFailure

SERVER = str(Path(__file__).with_name("upstream_server.py"))
PATIENT = UpstreamLimits(start_s=60, call_s=60)
TOO_LONG = f"a line of its output is over {MAX_ANSWER_BYTES} bytes"
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def desk(folder: Path, name: str = "desk", *tools: str, **env: str) -> LiveServer:
    return LiveServer(name, sys.executable, (SERVER, "desk", str(folder / name), *tools), env)


def effects(folder: Path, name: str = "desk") -> list[str]:
    path = folder / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def label(name: str, description: str, risk: Risk, domain: str = "desk") -> Draft:
    return Draft(name, description, TEXT, "labels.yaml", domain, own=risk)


LOOK = label("look", "Look at something.", Risk.READ)
HUGE = label("huge", "Answer 50 MB.", Risk.READ)
HANG = label("hang", "Hang.", Risk.READ)
CHANGE = label("change", "Change write_down.", Risk.READ)


@asynccontextmanager
async def opened(
    *servers: LiveServer, labels: tuple[Draft, ...] = (), limits: UpstreamLimits = PATIENT
) -> AsyncIterator[Gateway]:
    executor = UpstreamExecutor(servers, labels, limits)
    catalog = await executor.open()
    clock, ids = SystemClock(), SystemIds()
    journal = ApprovalJournal(":memory:", clock, ids)
    gateway = Gateway(catalog, executor, journal, clock=clock, ids=ids)
    executor.prepare, executor.on_catalog = gateway.prepare, gateway.take_catalog
    try:
        yield gateway
    finally:
        await executor.close()


async def run(session: GatewaySession, tool: str, **arguments: Any) -> dict[str, Any]:
    await session.call("get_tool_schema", {"tool_names": [tool]})
    return await session.call("execute_tool", {"tool_name": tool, "arguments": arguments})


async def approved(gateway: Gateway, tool: str, **arguments: Any) -> dict[str, Any]:
    """The answer to a write that is held and then approved by a person."""
    held = await run(gateway.session(), tool, **arguments)
    assert held["status"] == "approval_required"
    return await gateway.decide(held["approval_id"], approve=True, by="ann")


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.02)


async def test_reads_run_and_writes_wait_for_the_journal_G1_G2(tmp_path: Path) -> None:
    async with opened(desk(tmp_path), labels=(LOOK,)) as gateway:
        session = gateway.session()
        assert (await run(session, "look", text="hill"))["result"] == {"text": "hill"}
        held = await run(session, "write_down", text="hi")
        approval = held["approval_id"]
        assert (held["status"], effects(tmp_path)) == ("approval_required", [])
        said_yes = {"tool_name": "write_down", "arguments": {"text": "hi"}, "approval_id": approval}
        assert (await session.call("execute_tool", said_yes))["status"] == "approval_required"
        assert effects(tmp_path) == []  # an id alone runs nothing
        gateway.journal.decide(approval, approve=True, by="ann")
        for _ in range(3):
            assert (await session.call("execute_tool", said_yes))["status"] == "done"
        await gateway.decide(approval, approve=True, by="ann")
        assert effects(tmp_path) == [f"write_down hi {approval}"]  # G42: its id is the key


async def test_a_server_that_asks_back_is_called_once_per_approval_G1(tmp_path: Path) -> None:
    """The SDK's own way calls it again and again: that is the negative control."""
    asking = LiveServer("ask", sys.executable, (SERVER, "asking", str(tmp_path / "ask")))
    async with opened(asking) as gateway:
        answer = await approved(gateway, "ask_back")
        assert (answer["status"], effects(tmp_path, "ask")) == ("unknown", ["ask_back"])
        executor: Any = gateway.executor
        client = await executor._places["ask"].upstream._session().client()
        with pytest.raises(Exception, match="input_required"):
            await client.call_tool("ask_back", {})
    assert len(effects(tmp_path, "ask")) > 2


async def test_a_server_cannot_stop_the_gateway_by_its_own_pattern(tmp_path: Path) -> None:
    asking = LiveServer("ask", sys.executable, (SERVER, "asking", str(tmp_path / "ask")))
    async with opened(asking) as gateway:
        assert (await approved(gateway, "match"))["status"] == "done"


async def test_a_denied_write_never_reaches_the_server_G28(tmp_path: Path) -> None:
    async with opened(desk(tmp_path)) as gateway:
        session = gateway.session()
        held = await run(session, "write_down", text="hi")
        denied = await gateway.decide(held["approval_id"], approve=False, by="ann")
        again = await run(session, "write_down", text="hi")
        assert (denied["status"], again["status"]) == ("denied", "denied")
        assert effects(tmp_path) == []


async def test_a_write_whose_server_dies_is_unknown_and_not_repeated_G38_G39(
    tmp_path: Path,
) -> None:
    async with opened(desk(tmp_path), labels=(LOOK,)) as gateway:
        ended = await approved(gateway, "write_and_die", text="hi")
        assert ended["status"] == "unknown"
        assert ended["reason"] == "server 'desk': Connection closed"
        again = await gateway.decide(ended["approval_id"], approve=True, by="ann")
        assert (again["status"], len(effects(tmp_path))) == ("unknown", 1)
        # The server is started again for the next question, not for the write.
        assert (await run(gateway.session(), "look", text="x"))["status"] == "done"
        assert len(effects(tmp_path)) == 1
        # A retry would be seen: the same write, held and approved anew, is a second line.
        await approved(gateway, "write_and_die", text="hi")
        assert len(effects(tmp_path)) == 2


async def test_a_server_that_died_while_nobody_asked_is_started_again(tmp_path: Path) -> None:
    die = label("write_and_die", "Write a text down, and die.", Risk.READ)
    async with opened(desk(tmp_path), labels=(die,)) as gateway:
        died = await run(gateway.session(), "write_and_die")  # labelled a read: it failed, no more
        assert died["status"] == "failed"
        assert (await approved(gateway, "write_down", text="on"))["status"] == "done"


async def test_a_server_that_hangs_is_named_and_let_go(tmp_path: Path) -> None:
    limits = UpstreamLimits(start_s=2, call_s=0.5)
    async with opened(desk(tmp_path), labels=(HANG, LOOK), limits=limits) as gateway:
        unknown = await approved(gateway, "write_and_hang", text="hi")
        assert (unknown["status"], len(effects(tmp_path))) == ("unknown", 1)
        assert unknown["reason"] == "server 'desk' gave no answer within 0.5 s"
        # It does not even list its tools any more, so the next call gets a new process.
        assert (await run(gateway.session(), "look", text="x"))["status"] == "done"
        failed = await run(gateway.session(), "hang")
        assert (failed["status"], failed["reason"]) == ("failed", unknown["reason"])


async def test_an_answer_over_the_bound_does_not_reach_the_model(tmp_path: Path) -> None:
    async with opened(desk(tmp_path), labels=(HUGE,)) as gateway:
        session = gateway.session()
        failed = await run(session, "huge", text="2000000")
        assert failed["status"] == "failed"
        assert failed["reason"] == "the tool answered 2000011 bytes; 1048576 at most are taken"
        fits = await run(session, "huge", text="1000000")
        assert len(fits["result"]["text"]) == 1_000_000


@pytest.mark.parametrize("tool", ["huge", "ramble"])
async def test_a_line_over_the_bound_is_not_kept_and_its_server_is_let_go(
    tmp_path: Path, tool: str
) -> None:
    async with opened(desk(tmp_path), labels=(HUGE, LOOK)) as gateway:
        answer = await approved(gateway, "ramble") if tool == "ramble" else None
        answer = answer or await run(gateway.session(), "huge")
        assert answer["status"] == ("unknown" if tool == "ramble" else "failed")
        assert answer["reason"] == f"server 'desk': {TOO_LONG}"
        assert (await run(gateway.session(), "look", text="x"))["status"] == "done"


async def test_a_line_without_end_is_cut_off_though_nobody_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(desk(tmp_path), labels=(LOOK,)) as gateway:
        executor: Any = gateway.executor
        upstream = executor._places["desk"].upstream
        assert (await approved(gateway, "ramble", text="later"))["status"] == "done"
        session = upstream._current
        await until(session.task.done)  # and with it the process
        assert caplog.messages == [f"server 'desk': {TOO_LONG}; it was let go"]
        assert (await run(gateway.session(), "look", text="x"))["status"] == "done"


def answer(*blocks: Any, **more: Any) -> CallToolResult:
    return CallToolResult(content=list(blocks), **more)


def test_what_a_tool_answers_becomes_the_result() -> None:
    text, image = TextContent(text="a"), ImageContent(data="aGk=", mime_type="image/png")
    assert result_of(answer(text, TextContent(text="b")), 100) == {"text": "a\nb"}
    assert result_of(answer(text, structured_content={"n": 1}), 100) == {"n": 1}
    assert result_of(answer(image), 100)["content"][0]["mimeType"] == "image/png"
    with pytest.raises(OutcomeUnknown, match="211 bytes; 100 at most"):
        result_of(answer(TextContent(text="x" * 200)), 100)
    with pytest.raises(ToolFailure, match="^the tool says that it failed$"):
        result_of(answer(is_error=True), 100)
    token = "sk-" + "abcdefghij9081726354KLMN"
    with pytest.raises(ToolFailure, match=r"^401 for \[secret removed\]$"):
        result_of(answer(TextContent(text=f"401 for {token}"), is_error=True), 100)
    token = "sk-" + "abcdefghij9081726354KLMN"
    with pytest.raises(ToolFailure, match=r"^401 for \[secret removed\]$"):
        result_of(answer(TextContent(text=f"401 for {token}"), is_error=True), 100)
    with pytest.raises(ToolFailure) as cut:
        result_of(answer(TextContent(text="x" * MAX_REASON + "y"), is_error=True), 100)
    assert str(cut.value).endswith("x… (cut)")


async def test_what_a_server_refuses_has_failed(tmp_path: Path) -> None:
    async with opened(desk(tmp_path)) as gateway:
        failed = await approved(gateway, "refuse", text="no budget")
        assert (failed["status"], failed["reason"]) == ("failed", "no budget")
        misfit = await approved(gateway, "misfit")
        assert misfit["status"] == "failed"
        assert misfit["reason"] == "server 'desk': no such field; it was not run"


@pytest.mark.parametrize("how", ["quiet", "loud", "quiet destructive", "loud destructive"])
async def test_a_tool_that_changed_does_not_run_as_it_was_approved_G6_G19(
    tmp_path: Path, how: str
) -> None:
    async with opened(desk(tmp_path), labels=(CHANGE,)) as gateway:
        session = gateway.session()
        before = gateway.catalog.tools["write_down"]
        held = await run(session, "write_down", text="hi")
        await run(session, "change", text=how)
        if "loud" in how:
            await until(lambda: gateway.catalog.tools["write_down"] != before)
        refused = await gateway.decide(held["approval_id"], approve=True, by="ann")
        assert (refused["status"], effects(tmp_path)) == ("failed", [])
        assert refused["reason"] == (TOOL_CHANGED if "loud" in how else CHANGED)
        call = {"tool_name": "write_down", "arguments": {"text": "hi"}}
        assert (await session.call("execute_tool", call))["status"] == "not_disclosed"
        now = await session.call("get_tool_schema", {"tool_names": ["write_down"]})
        risk = "destructive" if "destructive" in how else "write"
        assert now["disclosed"][0]["risk"] == risk
        anew = await session.call("execute_tool", call)
        done = await gateway.decide(anew["approval_id"], approve=True, by="ann")
        assert (done["status"], len(effects(tmp_path))) == ("done", 1)


async def test_a_tool_that_did_not_change_runs_though_its_server_was_asked_again(
    tmp_path: Path,
) -> None:
    """The control of the test above: other tools may change."""
    async with opened(desk(tmp_path), labels=(CHANGE,)) as gateway:
        held = await run(gateway.session(), "refuse", text="ran")
        await run(gateway.session(), "change", text="loud")
        ran = await gateway.decide(held["approval_id"], approve=True, by="ann")
        assert ran["reason"] == "ran"


async def test_a_server_that_says_over_and_over_that_it_changed_is_asked_twice(
    tmp_path: Path,
) -> None:
    """One question open, one more that waits: all who come meanwhile share that one."""
    async with opened(desk(tmp_path), labels=(CHANGE, LOOK)) as gateway:
        executor: Any = gateway.executor
        place = executor._places["desk"]
        asked, answers, list_tools = [], asyncio.Event(), place.upstream.tools

        async def slow() -> Any:
            asked.append(len(executor._refreshing))
            await answers.wait()
            return await list_tools()

        place.upstream.tools = slow
        await run(gateway.session(), "change", text="loud" * 500)
        reads = [asyncio.create_task(run(gateway.session(), "look", text="x")) for _ in range(20)]
        await until(lambda: asked != [])
        await asyncio.sleep(0.1)
        assert len(executor._refreshing) <= 2
        answers.set()
        assert {(await read)["status"] for read in reads} == {"done"}
        assert len(asked) <= 3  # the last notes may come when the second question is open


@pytest.mark.parametrize(("lost", "ends"), [("swept", "unknown"), ("expired", "failed")])
async def test_a_write_that_waited_too_long_for_its_server_does_not_begin_G41(
    tmp_path: Path, lost: str, ends: str
) -> None:
    async with opened(desk(tmp_path)) as gateway:
        executor: Any = gateway.executor
        upstream = executor._places["desk"].upstream
        list_tools, journal = upstream.tools, gateway.journal

        async def late() -> Any:
            if lost == "swept":
                assert journal.recover() == 1
            elif lost == "expired":
                journal._clock = SimulatedClock(SystemClock().now() + timedelta(seconds=301))
            return await list_tools()

        upstream.tools = late
        ended = await approved(gateway, "write_down", text="late")
        assert (ended["status"], effects(tmp_path)) == (ends, [])
        swept = "the gateway stopped while it ran"
        assert ended["reason"] == (TOO_LATE if lost == "expired" else swept)
        upstream.tools = list_tools
        journal._clock = SystemClock()
        assert (await approved(gateway, "write_down", text="in time"))["status"] == "done"


async def test_two_servers_with_a_tool_of_one_name(tmp_path: Path) -> None:
    servers = desk(tmp_path, "one", "write_down"), desk(tmp_path, "two", "write_down", "look")
    async with opened(*servers) as gateway:
        assert gateway.catalog.names() == ["look", "two.write_down", "write_down"]
        await approved(gateway, "two.write_down", text="for two")
        assert (effects(tmp_path, "one"), len(effects(tmp_path, "two"))) == ([], 1)
        await approved(gateway, "write_down", text="for one")
        assert (len(effects(tmp_path, "one")), len(effects(tmp_path, "two"))) == (1, 1)


async def test_no_server_can_take_the_approvals_of_another_G6_G19(tmp_path: Path) -> None:
    """The same tool, word for word, on another server is another tool."""
    async with opened(desk(tmp_path, "honest", "write_down")) as gateway:
        held = await run(gateway.session(), "write_down", text="hi")
        thief = UpstreamExecutor([desk(tmp_path, "thief", "write_down")], (), PATIENT)
        mine, theirs = gateway.catalog.tools["write_down"], (await thief.open()).tools["write_down"]
        try:
            gateway.executor = thief
            gateway.take_catalog(thief.catalog)
            refused = await gateway.decide(held["approval_id"], approve=True, by="ann")
        finally:
            await thief.close()
    assert (refused["status"], refused["reason"]) == ("failed", TOOL_CHANGED)
    assert (effects(tmp_path, "honest"), effects(tmp_path, "thief")) == ([], [])
    alone = [dataclasses.replace(spec, upstream=None).content_hash for spec in (mine, theirs)]
    assert alone[0] == alone[1]  # nothing but the server tells them apart


async def test_labels_are_the_operators_and_hints_only_raise_them_G26(tmp_path: Path) -> None:
    server = LiveServer("notes", sys.executable, (SERVER, "stdio"))
    executor = UpstreamExecutor([server], (), PATIENT)
    try:
        risks = {name: str(spec.risk) for name, spec in (await executor.open()).tools.items()}
    finally:
        await executor.close()
    assert risks == {"list_notes": "write", "add_note": "write", "drop_folder": "destructive"}
    async with opened(desk(tmp_path, "desk", "look", "hang"), labels=(LOOK,)) as gateway:
        risks = {name: str(spec.risk) for name, spec in gateway.catalog.tools.items()}
        assert risks == {"look": "read", "hang": "write"}


async def test_a_label_without_a_server_offers_nothing(tmp_path: Path) -> None:
    async with opened(desk(tmp_path, "desk", "hang"), labels=(LOOK,)) as gateway:
        assert gateway.catalog.names() == ["hang"]


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (LiveServer("gone", "no-such-command-anywhere"), "server 'gone': .*No such file"),
        (LiveServer("dead", sys.executable, (SERVER, "dead")), r"'dead': .*cannot open the data"),
        (LiveServer("dies", sys.executable, (SERVER, "dies")), "server 'dies': Connection closed"),
        (LiveServer("web", url="http://127.0.0.1:9/mcp"), "server 'web': ConnectError"),
    ],
)
async def test_a_server_that_does_not_start_is_named_and_nothing_is_left(
    tmp_path: Path, server: LiveServer, says: str
) -> None:
    code = f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()));"
    code += f"import sys; sys.argv = ['', 'desk', 'x']; exec(open({SERVER!r}).read())"
    other = LiveServer("other", sys.executable, ("-c", code))
    with pytest.raises(CatalogError, match=says):
        await UpstreamExecutor([other, server], (), PATIENT).open()
    pid = int((tmp_path / "pid").read_text()) if (tmp_path / "pid").exists() else 0
    if pid:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_server_without_an_answer_is_named() -> None:
    limits = UpstreamLimits(start_s=1)
    with pytest.raises(CatalogError, match="server 'mute': does not answer within 1 s"):
        await UpstreamExecutor(
            [LiveServer("mute", sys.executable, (SERVER, "silent"))], (), limits
        ).open()


async def test_servers_without_a_usable_tool() -> None:
    nothing = LiveServer("nan", sys.executable, (SERVER, "nan"))
    with pytest.raises(CatalogError, match="none of the servers offers a tool"):
        await UpstreamExecutor([nothing], (), PATIENT).open()


async def test_a_list_that_takes_long_to_check_holds_up_nobody_else() -> None:
    executor: Any = UpstreamExecutor([])
    served: list[Catalog] = []
    executor.on_catalog = served.append
    executor.prepare = lambda catalog: time.sleep(0.2)
    executor._checked = lambda lists: (time.sleep(0.2), Import((), (), (), ()))[1]
    importing = asyncio.create_task(executor._import())
    turns = 0
    while not importing.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 5, "others had their turns meanwhile"
    assert len(served) == 1


def test_refused_tools_are_named_once_and_neither_kept_nor_named_without_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    executor = UpstreamExecutor([])
    few = [Refusal("look", "no schema"), Refusal("look", "no schema"), Refusal("act", "no schema")]
    for _ in range(3):
        executor._tell(few)
    assert caplog.messages == ["refused: look: no schema", "refused: act: no schema"]
    for number in range(3):  # a server that makes up other names each time it is asked
        caplog.clear()
        executor._tell([Refusal(f"bad {number} {n}", "its name") for n in range(1000)])
        assert len(caplog.messages) == MAX_TOLD + 1
        assert caplog.messages[-1] == f"refused: {1000 - MAX_TOLD} more"
        assert len(executor._told) == 1000


async def test_secrets_of_the_servers_file_are_in_no_message(tmp_path: Path) -> None:
    server = desk(tmp_path, "desk", "secret", "refuse", TOKEN="hunter2")
    async with opened(server) as gateway:
        await approved(gateway, "secret")
        refused = await approved(gateway, "refuse", text="401 for hunter2")
        assert refused["reason"] == "401 for [secret removed]"
        executor = gateway.executor
        assert isinstance(executor, UpstreamExecutor)
    code = "import os, sys; sys.exit('the token is ' + os.environ['TOKEN'])"
    leaky = LiveServer("leaky", sys.executable, ("-c", code), {"TOKEN": "hunter2"})
    with pytest.raises(CatalogError, match=r"the token is \[secret removed\]"):
        await UpstreamExecutor([leaky], (), PATIENT).open()
    with pytest.raises(CatalogError, match="the token is hunter2"):  # without the mask
        await list_tools(leaky, timeout_s=60)


def test_headers_and_parts_of_urls_are_secrets_too() -> None:
    mask = Masker(
        [
            LiveServer(
                "web",
                url="https://ann:s3same@crm.example/mcp?api_key=k3y-k3y",
                headers={"Authorization": "Bearer plainword", "X-Short": "no"},
            )
        ]
    )
    said = mask("plainword s3same k3y-k3y 'Bearer plainword' no crm.example")
    assert (
        said
        == "[secret removed] [secret removed] [secret removed] '[secret removed]' no crm.example"
    )


@pytest.mark.parametrize(
    ("args", "secrets", "kept"),
    [
        (("--token", "hunter2"), ["hunter2"], "--token"),
        (("--api-key=hunter2", "-y"), ["hunter2"], "--api-key"),
        (("--header", "Authorization: Bearer hunter2"), ["hunter2"], "--header"),
        (("-c", 'export DB_PASSWORD="hunter2"; run'), ["hunter2"], "export run"),
        (("https://h.example/?k=hunter%202",), ["hunter%202", "hunter 2"], "h.example"),
        (("--db=postgresql://ann:hunter2@db/x",), ["hunter2"], "postgresql db"),
        (("serve", "zQ81mX0vN4bT7kLp2"), ["zQ81mX0vN4bT7kLp2"], "serve"),
        (("@scope/server-notes", "/home/ann/notes", "--port", "8080"), [], "/home/ann/notes 8080"),
    ],
)
def test_what_is_secret_in_arguments(args: tuple[str, ...], secrets: list[str], kept: str) -> None:
    mask = Masker([LiveServer("x", "npx", args)])
    assert mask(" | ".join(secrets)) == " | ".join(["[secret removed]"] * len(secrets))
    assert mask(kept) == kept


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://h.example/api/s/zQ81mX0vN4bT7kLp2/mcp", "zQ81mX0vN4bT7kLp2"),
        ("https://h.example/mcp?key=a%2Fb%3Dc", "a%2Fb%3Dc"),
        ("https://h.example/mcp?key=a%2Fb%3Dc", "a/b=c"),
        ("https://h.example/mcp?key=open+sesame", "open sesame"),
        ("https://h.example/mcp?key=open sesame", "open%20sesame"),  # as it is sent
        ("https://ann:p%40ss-word@h.example/mcp", "p@ss-word"),
        ("https://h.example/mcp#hunter2", "hunter2"),
    ],
)
def test_what_is_secret_in_an_address(url: str, said: str) -> None:
    mask = Masker([LiveServer("x", url=url)])
    assert mask(f"401 for {said}.") == "401 for [secret removed]."
    assert mask("h.example /api mcp key") == "h.example /api mcp key"


async def test_many_calls_at_once_over_one_session(tmp_path: Path) -> None:
    async with opened(desk(tmp_path), labels=(LOOK,)) as gateway:
        session = gateway.session()
        await session.call("get_tool_schema", {"tool_names": ["look"]})
        calls = [
            session.call("execute_tool", {"tool_name": "look", "arguments": {"text": str(n)}})
            for n in range(20)
        ]
        results = [done["result"]["text"] for done in await asyncio.gather(*calls)]
        assert results == [str(n) for n in range(20)]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[LiveServer]:
    """The SDK's server over HTTP, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SERVER, "http", str(port)],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "EFFECTS": str(tmp_path / "web")},
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield LiveServer("web", url=f"http://127.0.0.1:{port}/mcp")
    process.kill()
    process.wait()


async def test_over_http_a_write_runs_once_and_a_death_is_unknown_G39(
    tmp_path: Path, web: LiveServer
) -> None:
    async with opened(web) as gateway:
        done = await approved(gateway, "append_line", line="one")
        assert (done["status"], effects(tmp_path, "web")) == ("done", ["one"])
        ended = await approved(gateway, "append_line", line="two", crash=True)
        assert (ended["status"], effects(tmp_path, "web")) == ("unknown", ["one", "two"])
        gone = await approved(gateway, "append_line", line="three")
        assert (gone["status"], gone["reason"].endswith("nothing was run")) == ("failed", True)
