"""Values of a parameter nobody wrote hints for: from its schema, its name and its description.

Candidates are tried in order, and one counts only if what it draws passes the parameter's own
schema, so a guess can be poor but never invalid. Patterns are matched, never expanded.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from jsonschema_rs import Draft202012Validator as Check

from breadcrumbs.data_gen.everyday import (
    ADDRESSES,
    COMMON_NUMBERS,
    DECIMALS,
    NUMBERS,
    PEOPLE,
    POOLS,
    QUOTED,
    WORDS,
)
from breadcrumbs.data_gen.hints import CHECK_DAY
from breadcrumbs.data_gen.phrases import is_plain, split_words
from breadcrumbs.data_gen.values import draw
from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import compile_schema

MAX_CHOICES, MAX_FIELDS, MAX_NESTING = 24, 4, 2
"""Values of one pool, fields of one nested object, and objects or lists inside one another."""
_DRAWS = 12
_READ = 400
"""Characters of a description that are read for examples."""
_EXAMPLE = re.compile(r"[A-Za-z0-9#@/+][A-Za-z0-9 ._:/@+#-]{0,39}")
_EXAMPLE_WORDS = 3
_EXAMPLES = re.compile(
    r"(?:\be\.g\.?,?|\bfor example,?|\bsuch as|\bexamples?:|\bone of:?|\boptions:?|\bvalues:?"
    r"|\bvalid \w{1,20}:|\beither)\s*(?P<listed>[^()\n;]{1,160})",
    re.IGNORECASE,
)
_NO_EXAMPLES = frozenset(
    "etc a an the and any e.g i.e all for or other others if in of to with default".split()
)
_MARKED = re.compile(r"'([^'\n]{1,40})'|\"([^\"\n]{1,40})\"|`([^`\n]{1,40})`")
_SECRETS = re.compile(
    r"\b(?:password|passphrase|passwd|secret|credentials?|mnemonic|private key|api key|apikey"
    r"|(?:access|auth|bearer|refresh|session|api|bot) token|seed phrase)\b"
)
_CURSORS = re.compile(r"\b(?:cursor|(?:page|continuation|next|sync|resume) ?token|etag|after id)\b")
_OPEN_CHOICE = frozenset(
    "type mode status kind action operation format level sort unit units state method strategy"
    " by scope visibility priority severity role event style period frequency".split()
)
"""Words whose values are a fixed list that only the schema could tell."""
_DATES = frozenset("date day due deadline birthday".split())
_MOMENTS = frozenset("datetime timestamp since until time at".split())
_MOMENT_FORMS = ("iso 8601", "iso8601", "iso format", "rfc3339", "rfc 3339", "hh:mm", "datetime")
_BOUND_WORDS = frozenset("start end from to begin after before".split())
_FORMATS: dict[str, dict[str, Any]] = {
    "date": {"date": True},
    "date-time": {"datetime": True},
    "time": {"time": True},
    "email": {"email": True},
    "idn-email": {"email": True},
}
_FORMAT_POOLS = {
    "uri": "url",
    "url": "url",
    "iri": "url",
    "uri-reference": "url",
    "uuid": "uuid",
    "hostname": "host",
    "ipv4": "ip",
    "ip": "ip",
    "duration": "duration",
    "color": "colour_code",
    "phone": "phone",
}
_TOLD = (
    ("url", "url"),
    ("file path", "path"),
    ("sql", "sql"),
    ("script", "code"),
    ("text", "text"),
    ("sentence", "text"),
    ("description of", "text"),
)
"""What a description may say of a text whose name says nothing."""
_ANY_TEXT = (
    "name path url uuid hex24 hex64 wallet digits digits2 digits8 digits11 digits14 slash_pair"
    " version letters2 letters3 letter"
    " email host language_code country_code commit colour_code"
).split()


@dataclass(frozen=True, slots=True)
class Source:
    """What draws a parameter's values, and whether they are said in quotes."""

    values: dict[str, Any]
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Underivable:
    """Why nothing could be derived; shown to the person who can add a hint."""

    reason: str


def source_of(name: str, schema: Mapping[str, Any], depth: int = 0) -> Source | Underivable:
    """Where the values of a parameter come from; the same for the same name and schema."""
    flat = flattened(schema)
    tokens = [word.lower() for word in split_words(name)]
    told = " ".join(tokens)
    about = str(flat.get("description", ""))[:_READ].lower()
    opens = tokens[-1:] == ["token"] and re.search(r"\b(?:api|auth\w*|access|bearer)\b", about)
    if _SECRETS.search(told) or told == "token" or opens:
        return Underivable("it takes a credential, which belongs in no request")
    if _CURSORS.search(told):
        return Underivable("its value comes from an earlier answer")
    found = _candidates(name, tokens, flat, depth)
    if isinstance(found, Underivable):
        return found
    return _first_fitting(name, found, schema)


def flattened(schema: Mapping[str, Any]) -> dict[str, Any]:
    """One plain schema: the first variant that is not null, joined with what stands beside it."""
    flat = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf")}
    for key in ("anyOf", "oneOf"):
        variants = [part for part in schema.get(key, ()) if isinstance(part, Mapping)]
        kept = next((part for part in variants if part.get("type") != "null"), None)
        if kept is not None:
            flat = {**flattened(kept), **flat}
    for part in schema.get("allOf", ()):
        if isinstance(part, Mapping):
            flat = {**flattened(part), **flat}
    kinds = flat.get("type")
    if isinstance(kinds, list):
        flat["type"] = next((kind for kind in kinds if kind != "null"), "null")
    return flat


def fits(values: Mapping[str, Any], schema: Mapping[str, Any], seed: str) -> bool:
    """Whether everything a source draws passes the schema."""
    return _passes(values, schema, compile_schema(schema), seed)


def _passes(values: Mapping[str, Any], schema: Mapping[str, Any], check: Check, seed: str) -> bool:
    rng = random.Random(seed)
    try:
        drawn = [draw(values, schema, {}, CHECK_DAY, rng) for _ in range(_DRAWS)]
    except (CatalogError, KeyError, IndexError, TypeError, ValueError):
        return False
    return all(check.is_valid(value) for value in drawn)


def _first_fitting(
    name: str, candidates: Iterator[Source], schema: Mapping[str, Any]
) -> Source | Underivable:
    check = compile_schema(schema)
    for candidate in candidates:
        values = candidate.values
        if "pool" in values:
            values = {"pool": [v for v in values["pool"] if check.is_valid(v)][:MAX_CHOICES]}
        if _passes(values, schema, check, name):
            return Source(values, candidate.quoted)
    return Underivable("every value tried breaks its schema (pattern, length or bounds)")


def _candidates(
    name: str, tokens: Sequence[str], flat: Mapping[str, Any], depth: int
) -> Iterator[Source] | Underivable:
    if "const" in flat:
        return iter([_pool([flat["const"]])]) if _sayable(flat["const"]) else _unsayable()
    if flat.get("enum"):
        return _from_enum(flat["enum"])
    kind = flat.get("type", "string")
    if kind == "boolean":
        return iter([Source({"boolean": True})])
    if kind in ("integer", "number"):
        return _numbers(tokens, flat, kind)
    if kind == "array":
        return _list(name, flat, depth)
    if kind == "object":
        return _object(flat, depth)
    if kind == "string":
        return _texts(tokens, flat)
    return Underivable(f"its type is {str(kind)[:20]}")


def _from_enum(enum: Sequence[Any]) -> Iterator[Source] | Underivable:
    said = [value for value in enum if _sayable(value)]
    if not said:
        return _unsayable()
    if len(said) == len(enum):
        return iter([Source({"enum": True}), _pool(said)])
    return iter([_pool(said)])


def _unsayable() -> Underivable:
    return Underivable("nobody could say its allowed values in a sentence")


def _sayable(value: Any) -> bool:
    """Whether a value given in a schema can stand in a request: short, plain, no instruction."""
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, int | float):
        return True
    return isinstance(value, str) and bool(_EXAMPLE.fullmatch(value)) and is_plain(value)


def _numbers(tokens: Sequence[str], flat: Mapping[str, Any], kind: str) -> Iterator[Source]:
    given = [v for v in _given(flat) if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(given) > 1:
        yield _pool(given)
    last = tokens[-1] if tokens else ""
    before = tokens[-2] if len(tokens) > 1 and last in ("number", "no") else last
    usual = NUMBERS.get(before, NUMBERS.get(last, COMMON_NUMBERS))
    step = flat.get("multipleOf", 1)
    for low, high in (usual, COMMON_NUMBERS, (0, 1), (0, 10**6)):
        low, high = _within(low, high, flat)
        if low > high:
            continue
        if isinstance(step, int) and step > 1:
            first = -(-int(low) // step) * step
            yield _pool(list(range(first, int(high) + 1, step)[:MAX_CHOICES]))
        if kind == "integer":
            yield Source({"integer": [int(low), int(high)]})
        else:
            places = 4 if last in ("latitude", "longitude", "lat", "lon", "lng") else 2
            decimal = Source({"number": [low, high], "decimals": places})
            whole = Source({"integer": [int(low), int(high)]})
            narrow = high - low <= 1
            yield from (decimal, whole) if last in DECIMALS or narrow else (whole, decimal)
    if given:
        yield _pool(given)


def _within(low: float, high: float, flat: Mapping[str, Any]) -> tuple[float, float]:
    """The part of a range that the schema's bounds leave, moved to them where they lie outside."""
    least, most = _bound(flat, "inimum", 1), _bound(flat, "aximum", -1)
    if least is not None and most is not None and min(high, most) - max(low, least) < 1:
        return least, most
    if least is not None and least > low:
        low, high = least, max(high, least + (high - low))
    if most is not None and most < high:
        low, high = min(low, most) if least is None else max(least, min(low, most)), most
    return low, high


def _bound(flat: Mapping[str, Any], word: str, inside: int) -> float | None:
    step = 1 if flat.get("type") == "integer" else 0.01
    plain, beyond = flat.get(f"m{word}"), flat.get(f"exclusiveM{word}")
    bounds: list[float] = [plain] if _is_number(plain) else []
    if _is_number(beyond):
        bounds.append(beyond + inside * step)
    if not bounds:
        return None
    return max(bounds) if inside > 0 else min(bounds)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list(name: str, flat: Mapping[str, Any], depth: int) -> Iterator[Source] | Underivable:
    if depth >= MAX_NESTING or flat.get("prefixItems"):
        return Underivable("its members are nested too deep or each of another kind")
    inner = flat.get("items")
    inner = inner if isinstance(inner, Mapping) else {}
    member = source_of(_singular(name), inner, depth + 1)
    if isinstance(member, Underivable):
        return Underivable(f"its members: {member.reason}")
    if "boolean" in member.values or "list" in member.values:
        return Underivable("nobody says a list of lists, or of yes and no")
    low = int(flat.get("minItems", 1)) or 1
    high = min(int(flat.get("maxItems", 3)), max(low, 1 if "object" in member.values else 3))
    if low > MAX_FIELDS or high < low:
        return Underivable(f"it takes at least {low} members")
    values: dict[str, Any] = {"list": member.values, "length": [low, high]}
    return iter([Source(values, quoted=False)])


def _object(flat: Mapping[str, Any], depth: int) -> Iterator[Source] | Underivable:
    properties = flat.get("properties")
    if depth >= MAX_NESTING or not isinstance(properties, Mapping) or not properties:
        return Underivable("it is an object without fields that could be said")
    names = [name for name in flat.get("required", ()) if name in properties]
    if len(names) > MAX_FIELDS:
        return Underivable(f"it is an object of {len(names)} required fields")
    parts: dict[str, Any] = {}
    for name in names or list(properties):
        if len(parts) == (MAX_FIELDS if names else 2):
            break
        inner = properties[name]
        source = source_of(name, inner if isinstance(inner, Mapping) else {}, depth + 1)
        unsaid = isinstance(source, Underivable) or "boolean" in source.values
        if unsaid and names:
            reason = source.reason if isinstance(source, Underivable) else "yes or no inside"
            return Underivable(f"its field {name[:40]!r}: {reason}")
        if isinstance(source, Source) and not unsaid:
            parts[name] = source.values
    if not parts:
        return Underivable("none of its fields could be said")
    return iter([Source({"object": parts})])


def _singular(name: str) -> str:
    for suffix, ending in (("ies", "y"), ("ses", "s"), ("s", "")):
        if name.endswith(suffix) and len(name) - len(suffix) > 2 and not name.endswith("ss"):
            return name[: -len(suffix)] + ending
    return name


def _texts(tokens: Sequence[str], flat: Mapping[str, Any]) -> Iterator[Source] | Underivable:
    form = flat.get("format")
    encoding = flat.get("contentEncoding") or form in ("binary", "byte", "base64")
    if encoding or "base64" in tokens:
        return Underivable("it takes encoded data")
    if form in ("password", "secret"):
        return Underivable("it takes a credential, which belongs in no request")
    given = [value for value in _given(flat) if isinstance(value, str) and _sayable(value)]
    by_name = _by_name(tokens, str(flat.get("description", ""))[:_READ].lower(), flat)
    if tokens and tokens[-1] in _OPEN_CHOICE and not given and form is None:
        return Underivable("the values it may have stand nowhere")
    return _text_sources(form, given, by_name, "pattern" in flat or "minLength" in flat)


def _text_sources(
    form: Any, given: Sequence[str], by_name: Source | None, is_bound: bool
) -> Iterator[Source]:
    if form in _FORMATS:
        yield Source(_FORMATS[form])
    if form in _FORMAT_POOLS:
        yield _pool(POOLS[_FORMAT_POOLS[form]])
    if len(given) > 1:
        yield _pool(given)
    if by_name is not None:
        yield by_name
    if given:
        yield _pool(given)
    yield _pool(POOLS["name"])
    for pool in _ANY_TEXT if is_bound else ("letters2", "letters3", "letter"):
        if pool in POOLS:
            yield _pool(POOLS[pool])
    yield Source({"date": True})
    yield Source({"datetime": True})
    yield Source({"time": True})
    yield Source({"pool": list(POOLS["text"])}, quoted=True)


def _by_name(tokens: Sequence[str], told: str, flat: Mapping[str, Any]) -> Source | None:
    """What the name of a text says of its values, the description deciding between readings."""
    last = tokens[-1] if tokens else ""
    whole = set(tokens)
    if last in ("to", "recipient", "number", "contact") and ("phone" in told or "phone" in whole):
        return _pool(POOLS["phone"])
    if last in ADDRESSES or (last in ("to", "from", "user") and "email" in told):
        return Source({"email": True})
    if last in PEOPLE or (last == "name" and whole & {"first", "full", "contact", "person"}):
        return Source({"person": True})
    timed = _time_source(last, whole, told)
    if timed is not None:
        return timed
    if last in ("id", "ids", "key") and "key" not in tokens[:-1] and last != "key":
        return _pool(_numbered(tokens))
    if last in NUMBERS and last not in WORDS:
        low, high = NUMBERS[last]
        return _pool([str(number) for number in range(int(low), int(high) + 1)][:MAX_CHOICES])
    pool = _pool_for(last, whole, told, flat)
    return None if pool is None else Source({"pool": list(POOLS[pool])}, pool in QUOTED)


def _time_source(last: str, whole: set[str], told: str) -> Source | None:
    says_day = "yyyy-mm-dd" in told or "yyyy/mm/dd" in told
    says_moment = any(form in told for form in _MOMENT_FORMS)
    if last in _DATES or (says_day and (last in _MOMENTS or whole & _BOUND_WORDS)):
        return Source({"datetime" if says_moment else "date": True})
    told_twice = len(whole) > 1 or says_moment
    if (last in _MOMENTS and told_twice) or (whole & _BOUND_WORDS and says_moment):
        return Source({"datetime": True})
    return None


def _pool_for(last: str, whole: set[str], told: str, flat: Mapping[str, Any]) -> str | None:
    chained = last == "address" and (whole & {"contract", "wallet", "token"} or "wallet" in told)
    if "0x" in told or chained or last in ("wallet", "contract"):
        return "hex64" if "hash" in whole or "64" in told else "wallet"
    pool = WORDS.get(last)
    if pool == "language" and ("code" in told or "iso" in told or "code" in whole):
        return "language_code"
    if last == "code":
        coded = {"country": "country_code", "language": "language_code", "currency": "currency"}
        return next((coded[word] for word in coded if word in whole), pool)
    if pool == "country" and ("code" in told or flat.get("maxLength") == 2):
        return "country_code"
    if last in ("from", "to") and "currency" in told:
        return "currency"
    if pool == "colour" and ("hex" in told or "#" in told):
        return "colour_code"
    folders = {"repo", "repository", "project", "workspace", "root", "collection"}
    if pool == "path" and (whole & folders or ("director" in told and "file" not in told)):
        return "folder"
    if pool == "path" and "url" in told:
        return "url"
    if pool == "query" and ("sql" in told or "select" in told):
        return "sql"
    if last == "name" and whole & {"file", "filename"}:
        return "filename"
    if last == "name":
        return next((WORDS[w] for w in sorted(whole - {"name"}) if w in WORDS), "name")
    return pool or next((pool for word, pool in _TOLD if word in told), None)


def _numbered(tokens: Sequence[str]) -> list[str]:
    """Ids in one form for one kind of thing: `INV-1043` for `invoice_id`."""
    stem = "".join(filter(str.isalpha, "".join(tokens[:-1])))[:3].upper() or "REC"
    rng = random.Random(stem)
    return [f"{stem}-{number}" for number in sorted(rng.sample(range(1000, 9999), 12))]


def _given(flat: Mapping[str, Any]) -> list[Any]:
    """Values the schema itself names as examples, without its default."""
    listed = flat.get("examples")
    found = list(listed[:MAX_CHOICES]) if isinstance(listed, list) else []
    text = flat.get("description")
    if isinstance(text, str):
        found += _told_examples(text[:_READ])
    unique = [value for place, value in enumerate(found) if value not in found[:place]]
    return [value for value in unique if value != flat.get("default")][:MAX_CHOICES]


def _told_examples(text: str) -> list[Any]:
    """What a description lists after "e.g." or "one of", cleaned; marked by quotes or commas."""
    found: list[Any] = []
    for match in _EXAMPLES.finditer(text):
        listed = match["listed"]
        marked = ["".join(groups) for groups in _MARKED.findall(listed)]
        parts = marked or [p.strip(" .") for p in re.split(r",|\bor\b|\|", listed.split(". ")[0])]
        found += [part for part in parts if _is_example(part, bool(marked))]
    return found


def _is_example(part: str, is_marked: bool) -> bool:
    if not _sayable(part) or len(part.split()) > (_EXAMPLE_WORDS if is_marked else 1):
        return False
    return is_marked or part.lower() not in _NO_EXAMPLES


def _pool(values: Sequence[Any]) -> Source:
    return Source({"pool": list(values)})
