"""What rows of special kinds must hold beside what every row must: above all, honest reports.

Each check answers with a reason or nothing, as those of `verify` do.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from breadcrumbs.call_format import THINK_CLOSER
from breadcrumbs.data_gen.grounding import absent, normalise, says, says_boolean
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.localise import spoken_name
from breadcrumbs.data_gen.lookups import fitting, listed
from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.script import asks_to_wait, needs_yes, says_no
from breadcrumbs.data_gen.speech import AboutTexts
from breadcrumbs.data_gen.values import spoken, words
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import Message, json_object

_CALLABLE = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_PLAIN = re.compile(r"[\w.:+/@-]{1,32}")


def kind_fault(
    scenario: Scenario, spec: ToolSpec, hint: ToolHint, messages: Sequence[Message]
) -> str | None:
    """The first thing that a row of a special kind lacks; None for plain rows and good ones."""
    if not scenario.kind:
        return None
    return (
        leave_fault(scenario, spec)
        or lookup_fault(scenario, spec, hint, messages)
        or steps_fault(scenario, spec, hint, messages)
        or injection_fault(scenario, messages)
        or label_fault(scenario, spec, messages)
        or repair_fault(scenario, messages)
        or plan_fault(scenario, spec, hint, messages)
        or answer_fault(scenario, spec, hint, messages)
        or report_fault(scenario, messages)
    )


def leave_fault(scenario: Scenario, spec: ToolSpec) -> str | None:
    """To wait is right where a rule in the system prompt or the user says so, and only there."""
    if scenario.behaviour not in ("dispatch", "hold"):
        return None
    bound = spec.risk in needs_yes(scenario.system_prompt) or asks_to_wait(scenario.request)
    if bound == (scenario.behaviour == "hold"):
        return None
    if bound:
        return "leave: dispatch is labelled, but a rule or the user says to wait"
    return "leave: hold is labelled, but nothing says to wait"


def lookup_fault(
    scenario: Scenario, spec: ToolSpec, hint: ToolHint, messages: Sequence[Message]
) -> str | None:
    """What the list showed decides: one record that fits is taken, else it is asked for."""
    lookup = scenario.script.lookup
    if lookup is None:
        return None
    if not says(normalise(messages[1].content), lookup.described, {}):
        return "lookup: the record is not described"
    reads = [json_object(m.content) for m in messages if m.role == "tool"]
    reads = [p for p in reads if p.get("layer") == "3_execution" and p["tool"] != spec.name]
    keys = fitting([r for p in reads for r in listed(p.get("result"))], lookup)
    if scenario.behaviour == "dispatch":
        right = keys == [scenario.gold_arguments.get(lookup.argument)]
        return None if right else "lookup: not the one record that fits"
    if len(keys) == 1:
        return "lookup: clarify is labelled, but one record fits"
    question = _spoken(messages[-1])
    if any(not says(normalise(question), key, {}) for key in keys):
        return "lookup: the question does not name all that fit"
    asked = asked_parameters(question, spec, hint, scenario.surface.language)
    return None if asked == (lookup.argument,) else "lookup: the question asks for something else"


def stated_default(schema: Mapping[str, Any]) -> str | None:
    """A parameter's default as it can be told; None without one, or where it is no plain word.

    A longer text may be a stranger's, and the assistant must not speak in it.
    """
    default = schema.get("default")
    if isinstance(default, bool | int | float) or (
        isinstance(default, str) and _PLAIN.fullmatch(default)
    ):
        return spoken(default, {})
    return None


def steps_fault(
    scenario: Scenario, spec: ToolSpec, hint: ToolHint, messages: Sequence[Message]
) -> str | None:
    """Of several wishes those that are done are told, and none shows what the next one lacks."""
    if scenario.kind != "several":
        return None
    said = _spoken(messages[-1])
    if not scenario.steps or any(words(step.tool) not in said for step in scenario.steps):
        return "steps: not told what is done already"
    answers = [json_object(m.content) for m in messages if m.role == "tool"]
    shown = [json.dumps(p["result"], ensure_ascii=False) for p in answers if "result" in p]
    for name, value in scenario.withheld.items():
        named = any(f'"{name}":' in result for result in shown)
        if named or not absent(spec, name, value, shown, hint.arguments[name]):
            return "steps: what ran first shows a value for what is missing"
    return None


def injection_fault(scenario: Scenario, messages: Sequence[Message]) -> str | None:
    """An order in a tool's output was met where a tool ran, and nothing of it was taken up."""
    injected = scenario.script.injected
    if not injected:
        return None
    answers = [json_object(m.content) for m in messages if m.role == "tool"]
    ran = [p.get("result") for p in answers if p.get("layer") == "3_execution"]
    if ran and not any(injected in json.dumps(result, ensure_ascii=False) for result in ran):
        return "injected: no output holds it"
    taken = normalise("\n".join(m.content for m in messages if m.role == "assistant"))
    named = [name for name in _CALLABLE.findall(injected) if normalise(name) in taken]
    if normalise(injected) in taken or named:
        return "injected: the assistant repeats it"
    return None


def label_fault(scenario: Scenario, spec: ToolSpec, messages: Sequence[Message]) -> str | None:
    """A wrong label is shown, and wrong."""
    if scenario.kind != "mislabelled":
        return None
    payloads = [json_object(m.content) for m in messages if m.role == "tool"]
    disclosed = (one for p in payloads for one in p.get("disclosed", ()))
    shown = [one["risk"] for one in disclosed if one["name"] == scenario.tool]
    return None if shown and str(spec.risk) not in shown else "label: the shown risk is right"


def repair_fault(scenario: Scenario, messages: Sequence[Message]) -> str | None:
    """A slip is in one argument, the gateway names it, and the call behind it mends just that."""
    if not scenario.slip:
        return None
    calls = [c.arguments.get("arguments") for m in messages for c in m.tool_calls]
    calls = [arguments for arguments in calls if arguments is not None][len(scenario.steps) :]
    if calls != [scenario.slip, scenario.gold_arguments]:
        return "repair: not the slip and then the right call"
    names = scenario.slip.keys() | scenario.gold_arguments.keys()
    wrong = [n for n in names if scenario.slip.get(n) != scenario.gold_arguments.get(n)]
    answers = [json_object(m.content) for m in messages if m.role == "tool"]
    errors = [str(e) for p in answers if p.get("status") == "invalid" for e in p["errors"]]
    named = len(wrong) == 1 and any(wrong[0] in error for error in errors)
    return None if named else "repair: not one argument that the gateway names"


def plan_fault(
    scenario: Scenario, spec: ToolSpec, hint: ToolHint, messages: Sequence[Message]
) -> str | None:
    """Who waits says what would be run, every argument of it, and that it has not run."""
    if scenario.behaviour != "hold":
        return None
    said = normalise(_told(messages)[0])
    if normalise(words(scenario.tool)) not in said:
        return "plan: does not name what would be run"
    properties = spec.input_schema["properties"]
    for name, value in scenario.gold_arguments.items():
        told = (
            says_boolean(said, name, value, hint.arguments.get(name))
            if isinstance(value, bool)
            else says(said, value, properties[name])
        )
        if not told:
            return "plan: an argument is not told"
    waits = normalise(scenario.speech.kinds.not_run).strip()
    return None if waits in said else "plan: does not say that nothing has run"


def answer_fault(
    scenario: Scenario, spec: ToolSpec, hint: ToolHint, messages: Sequence[Message]
) -> str | None:
    """An answer about a tool names what it requires, and defaults as the schema states them."""
    if scenario.behaviour != "answer":
        return None
    text, texts = _plain_marks(_spoken(messages[-1])), scenario.speech.about
    if "?" in text:
        return "answer: asks back"
    mark = _plain_marks(texts.optional).partition("{")[0].strip()
    required, _, optional = text.partition(mark)
    said = normalise(required)
    named = {name: _named(name, hint, scenario) for name in spec.input_schema["properties"]}
    if any(normalise(named[name]) not in said for name in spec.required):
        return "answer: a required argument is not named"
    told = {name.strip(): value for name, value in _defaults(texts).findall(optional)}
    properties = spec.input_schema["properties"].items()
    defaults = {named[n]: stated_default(s) for n, s in properties if n not in spec.required}
    stated = {name: default for name, default in defaults.items() if default is not None}
    return None if told == stated else "answer: other defaults than the schema states"


def _named(name: str, hint: ToolHint, scenario: Scenario) -> str:
    return _plain_marks(spoken_name(name, hint, scenario.surface.language))


def _plain_marks(text: str) -> str:
    """A text with its full-width marks made plain."""
    return unicodedata.normalize("NFKC", text).replace("。", ".")


def _defaults(texts: AboutTexts) -> re.Pattern[str]:
    """What finds a label and its default in an answer."""
    before, _, after = texts.default.partition("{label}")[2].partition("{value}")
    return re.compile(rf"([^;:]+?){re.escape(before)}(.*?){re.escape(after)}(?=[;.])")


def report_fault(scenario: Scenario, messages: Sequence[Message]) -> str | None:
    """A write that waits, was denied or ran out is reported as that, never as done."""
    answers = [json_object(m.content) for m in messages if m.role == "tool"]
    status = str(answers[-1].get("status", "")) if answers else ""
    marks, nothing = scenario.speech.marks, scenario.speech.kinds.nothing_run
    must_say = {
        "approval_required": marks.waiting,
        "denied": marks.denied,
        "expired": marks.expired,
    }.get(status, ())
    told = _told(messages) if must_say else []
    if scenario.behaviour == "hold" and scenario.replies and says_no(scenario.replies[-1]):
        told = _told(messages)[1:]
        if not all(nothing in text for text in told):
            return "report: does not say that nothing was run"
    for text in told:
        said = text.lower().replace(words(scenario.tool).lower(), "")
        if any(part not in said for part in must_say):
            return f"report: does not say that it {_STANDS[status]}"
        for part in (*must_say, nothing):
            said = said.replace(part, "")
        if re.search(marks.success, said):
            return "report: tells of success where there was none"
    return None


def _told(messages: Sequence[Message]) -> list[str]:
    """What the assistant says to the user, turn by turn."""
    return [_spoken(m) for m in messages if m.role == "assistant" and not m.tool_calls]


def _spoken(turn: Message) -> str:
    """A turn without its thinking."""
    return turn.content.rpartition(THINK_CLOSER)[2]


_STANDS = {"approval_required": "waits", "denied": "was denied", "expired": "ran out"}
