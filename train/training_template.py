"""A model's chat template with generation tags, for trainers that find the loss mask by them.

TRL has such a template for some families, and not always one of the same text. This one is the
served template itself, rendered as it is and cut at the served prompts: whatever the family, the
text is the original's and the tags lie where `rendering` puts the loss.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

_TAGGED = re.compile(r"\{%-?\s*generation\s*-?%\}")
_BEFORE = "{% macro served_text(messages, add_generation_prompt) %}"
_BEHIND = """{% endmacro %}
{%- set whole = served_text(messages, add_generation_prompt) -%}
{%- set cut = namespace(at=0, end=0) -%}
{%- for index in range(messages | length) -%}
{%- if messages[index].role == 'assistant' -%}
{%- set start = served_text(messages[:index], true) | length -%}
{%- set cut.end = whole | length -%}
{%- for stop in STOPS -%}
{%- set found = whole.find(stop, start) + (stop | length) -%}
{%- if found >= start + (stop | length) and found < cut.end -%}
{%- set cut.end = found -%}
{%- endif -%}
{%- endfor -%}
{{- whole[cut.at:start] -}}
{%- set turn = whole[start:cut.end] -%}
{%- generation -%}
{{- turn -}}
{%- endgeneration -%}
{%- set cut.at = cut.end -%}
{%- endif -%}
{%- endfor -%}
{{- whole[cut.at:] -}}"""


def training_template(renderer: Renderer) -> str:
    """The renderer's template with each assistant turn between generation tags.

    A template that has the tags is returned as it is. Of a turn that the template leaves open at
    the end of a conversation, the end-of-turn token is not in the text, and so in no mask.
    """
    if has_tags(renderer.template):
        return renderer.template
    stops = "[" + ", ".join(f"'{stop}'" for stop in renderer.call_format.stops) + "]"
    return _BEFORE + renderer.template.removesuffix("\n") + _BEHIND.replace("STOPS", stops)


def has_tags(template: str) -> bool:
    """Whether a template says itself where the assistant's turns are."""
    return _TAGGED.search(template) is not None
