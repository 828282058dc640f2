"""A small agent over OpenAI's chat completions, with a nudge loop or without (first argument).

`nudge` asks again when a turn after a schema makes no call, unless it asks for what is missing;
`plain` hands every text to its user; `deaf` nudges questions too; `endless` nudges for ever.
`stream` as a second argument reads a stream.
"""

import json
import os
import sys
import urllib.request

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "email": {"type": "string", "format": "email"},
        "priority": {"type": "string", "enum": ["low", "high"], "default": "low"},
    },
    "required": ["title", "email"],
}
ANSWERS = {
    "search_tool_catalog": {"layer": "1_catalog", "matches": [{"name": "create_ticket"}]},
    "get_tool_schema": {
        "layer": "2_schema_disclosure",
        "disclosed": [{"name": "create_ticket", "inputSchema": SCHEMA}],
    },
}
PARAMETERS = {
    "search_tool_catalog": {"query": {"type": "string"}},
    "get_tool_schema": {"tool_names": {"type": "array", "items": {"type": "string"}}},
    "execute_tool": {"tool_name": {"type": "string"}, "arguments": {"type": "object"}},
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": fields, "required": list(fields)},
        },
    }
    for name, fields in PARAMETERS.items()
]


def ask(messages: list[dict], stream: bool) -> dict:
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "m", "messages": messages, "tools": TOOLS, "stream": stream}).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
        },
    )
    with urllib.request.urlopen(request) as answer:
        if not stream:
            return json.load(answer)["choices"][0]["message"]
        message: dict = {"role": "assistant", "content": ""}
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                message["content"] += choice["delta"].get("content") or ""
                if "tool_calls" in choice["delta"]:
                    message["tool_calls"] = choice["delta"]["tool_calls"]
        return message


def main(mode: str, stream: bool) -> None:
    request = "Open a ticket titled 'lift is stuck'"
    if os.environ["BREADCRUMBS_AUDIT_RUN"] != "true_question":
        request += " for ann@example.com"
    messages = [{"role": "user", "content": request}]
    nudges = 0
    while True:
        message = ask(messages, stream)
        messages.append({"role": "assistant", **message})
        for call in message.get("tool_calls") or ():
            assert call["function"]["name"] != "execute_tool", "the audit must not act"
            answer = json.dumps(ANSWERS[call["function"]["name"]])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
        if message.get("tool_calls"):
            continue
        text = message["content"]
        final = "nothing was done" in text or (mode == "nudge" and "What is the email" in text)
        if mode == "plain" or (final and mode != "endless") or (nudges == 2 and mode != "endless"):
            break
        nudges += 1
        messages.append({"role": "user", "content": "Call the tool, or say what is missing."})
    sys.stdout.write(text + "\n")


main(sys.argv[1], "stream" in sys.argv)
