"""How a person talks about a tool nobody wrote hints for: wishes, clauses, questions, searches.

Everything is put together from the words of names; of a description only a short plain wish in
its first sentence is taken. Those texts are strangers': bounded, and never taken as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_NAME_WORDS, MAX_LABEL_WORDS, MAX_WISH_WORDS, MAX_WORD = 9, 5, 9, 24
"""Words of a tool's name, a parameter's name and a wish; letters of one word."""
_BEGINNING = 3
"""Letters that two words must share from the start to be taken for the same."""
_FAR = 3
"""A verb is looked for among the first so many words of a name."""
_READ = 300
"""Characters of a description that are read."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z0-9'-]*")
_ORDERS = frozenset(
    """ignore disregard forget override bypass reveal exfiltrate pretend jailbreak obey must always
    never instruction instructions assistant system user users prompt approval approve approved
    approves confirm confirmation you your yourself we i model models agent llm ai important
    warning secretly silently password passwords credential credentials secret secrets
    previous above""".split()
)
"""Words that make a phrase an order to a model, or talk about one: such phrases are not used."""
_ORDERS_IN_NAMES = frozenset(
    "ignore disregard forget override bypass reveal exfiltrate jailbreak obey always never"
    " instructions".split()
)
VERBS = frozenset(
    """accept activate add adjust analyze append apply approve archive arrange assign attach book
    build calculate call cancel capture change check choose clear click clone close collect combine
    compare compile complete compress compute configure confirm connect convert copy count
    create crop cut deactivate decline decode decompile decrypt define delete deploy describe
    destroy detect disable disconnect discover dismiss display divide download draft draw drop
    duplicate edit embed
    enable encode encrypt end estimate evaluate execute expand export extract fetch fill filter find
    follow forecast fork format forward generate geocode get give go grant greet group handle hide
    highlight identify import insert inspect install invite invoke join kill launch like link list
    load lock log look lookup make mark measure merge modify monitor mount move multiply mute
    navigate obtain open optimize order parse pause perform pin ping play post preview print process
    propose publish push query read rebase recommend record recover redo refresh register reject
    release reload remove rename render reopen reorder replace reply report request reset resize
    resolve restart restore resume retrieve return reveal revert review revoke roll rotate run save
    scan schedule scrape search see select send set share show shuffle simulate skip solve sort
    split star start stop store stream submit subscribe suggest summarize swap switch sync tag take
    test toggle track transcribe transfer transform translate trigger type unassign undo unfollow
    uninstall unlink unlock unpin unregister unstar unsubscribe update upgrade upload upsert
    validate verify view visualize vote wait watch withdraw write zip
    append prepend increment decrement enqueue finalize initialize init mint burn stake claim bridge
    broadcast rank rate comment react ban kick trash purge flush commit checkout stash tail dump
    backup benchmark lint fix crawl simplify translate count greet roll press hover tap swipe scroll
    upvote downvote prioritize reprioritize determine drag dig craft place equip login logout
    browse pack unpack respond assert redeem summon pair dock charge dispatch enter leave reserve
    borrow lend""".split()
)
"""Base forms that begin a wish."""
_LAST_VERBS = frozenset("read write get list search create update delete add remove".split())
"""What follows its thing in some names: `issue_read`."""
_ASKING_FOR = frozenset("return retrieve fetch obtain read view display load".split())
_PREPOSITIONS = frozenset("for from in into of on onto to at as between within about".split())
_CUT = frozenset(
    "by with using via if when where that which based including given matching".split()
)
_DANGLING = _PREPOSITIONS | frozenset(
    """a an the all any current specific specified given new existing available its their
    this""".split()
)
"""Words that no wish ends with."""
_WITHOUT_ARTICLE = frozenset(
    "a all an any me my the this forward back up down next again complete available".split()
)
_FILLERS = frozenset("tool api mcp endpoint v1 v2 v3 cmd".split())
_MASS = frozenset(
    """access activity advice balance code content data documentation feedback health help history
    html info information java json markdown media memory metadata money news output progress
    schema source status storage stuff text time traffic usage weather work xml yaml""".split()
)
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "create": ("create", "make", "set up"),
    "add": ("add",),
    "new": ("create",),
    "delete": ("delete", "remove", "get rid of"),
    "remove": ("remove", "take away"),
    "get": ("get", "look up", "pull up"),
    "read": ("read", "open"),
    "list": ("list", "go through"),
    "search": ("search", "look through"),
    "find": ("find", "look for"),
    "lookup": ("look up", "find"),
    "update": ("update", "change", "edit"),
    "modify": ("modify", "change"),
    "edit": ("edit", "change"),
    "set": ("set", "change"),
    "send": ("send",),
    "calculate": ("calculate", "work out"),
    "compute": ("compute", "work out"),
    "generate": ("generate", "make"),
    "run": ("run", "start"),
    "execute": ("run", "execute"),
    "check": ("check", "look at"),
    "analyze": ("analyze", "take a look at"),
    "upload": ("upload",),
    "describe": ("describe",),
}
_NEW = frozenset("create add make generate new open schedule insert register draft".split())
"""Verbs whose thing is not there yet: it takes `a`."""
_SEEKING = frozenset("search find query browse".split())
"""Verbs that may be followed by the server's own name: `search wikipedia`."""
_GRAVE = frozenset(
    """cancel clear delete destroy drop erase execute kick kill publish purge remove reset revoke
    send share transfer trash uninstall wipe withdraw""".split()
)
"""What only a tool's own name may say of it: a description that lies would label a row wrongly."""
_LEAD = re.compile(
    r"^(?:(?:this|the) (?:tool|function|method|endpoint|command) (?:will |can |is used to )?"
    r"|(?:a )?tool (?:to|for) |(?:can be )?used? (?:this )?(?:tool )?to "
    r"|allows? (?:you |users )?to )",
    re.IGNORECASE,
)
_PARAGRAPH_END = re.compile(r"\n\s*(?:\n|Args\b|Parameters\b|Returns\b)")
_CLAUSE_END = re.compile(r"[.:;,(\[\n!?\"`<>{}|]| - | – | — ")


@dataclass(frozen=True, slots=True)
class ParsedName:
    """A tool's name as words: what stands before the verb, the verb, and what follows."""

    before: tuple[str, ...]
    verb: str | None
    rest: tuple[str, ...]

    @property
    def noun(self) -> tuple[str, ...]:
        """The words of the thing acted on, up to the first preposition."""
        words: list[str] = []
        for word in self.rest:
            if word in _PREPOSITIONS or word in _CUT:
                break
            words.append(word)
        return tuple(words) or self.before


def split_words(name: str) -> list[str]:
    """The words of a name in any style, their case kept only where all of a word is capital."""
    found = _WORD.findall(name)
    return [word if word.isupper() and len(word) > 1 else word.lower() for word in found]


def is_plain(text: str) -> bool:
    """Whether no word of a short text is an order to a model, nor longer than words are."""
    tokens = [token.lower() for token in re.findall(r"[A-Za-z]+", text)]
    return _ORDERS.isdisjoint(tokens) and all(len(token) <= MAX_WORD for token in tokens)


def name_fault(name: str) -> str | None:
    """Why a tool's name cannot be said; None where it can."""
    found = [word.lower() for word in split_words(name.rpartition(".")[2])]
    if not found:
        return "its name has no words"
    if len(found) > MAX_NAME_WORDS or any(len(word) > MAX_WORD for word in found):
        return "its name is too long to be said"
    if not _ORDERS_IN_NAMES.isdisjoint(found):
        return "its name reads like an instruction"
    return None


def label_fault(name: str) -> str | None:
    """Why a parameter's name cannot be said; None where it can."""
    found = [word.lower() for word in split_words(name)]
    if not found or len(found) > MAX_LABEL_WORDS or any(len(word) > MAX_WORD for word in found):
        return "its name cannot be said in a request"
    if not _ORDERS_IN_NAMES.isdisjoint(found):
        return "its name reads like an instruction"
    return None


def parse_name(name: str, domain: str = "") -> ParsedName:
    """Find the verb: first, else last (`issue_read`), else after the server's own name."""
    found = [w for w in split_words(name.rpartition(".")[2]) if w.lower() not in _FILLERS]
    found = found or split_words(name)
    server = set(domain.split("_"))
    low = [word.lower() for word in found]
    if low[0] in server and low[0] not in VERBS and len(low) > 1:
        inner = parse_name("_".join(found[1:]))
        return ParsedName((found[0], *inner.before), inner.verb, inner.rest)
    if low[0] in VERBS or low[0].removeprefix("un").removeprefix("re") in VERBS:
        return ParsedName((), low[0], tuple(found[1:]))
    if len(low) > 1 and low[-1] in _LAST_VERBS:
        return ParsedName((), low[-1], tuple(found[:-1]))
    for place in range(1, min(_FAR, len(low) - 1)):
        if low[place] in VERBS:
            return ParsedName(tuple(found[:place]), low[place], tuple(found[place + 1 :]))
    if len(low) > 1 and low[-1] in VERBS:
        return ParsedName((), low[-1], tuple(found[:-1]))
    return ParsedName((), None, tuple(found))


def wishes(name: str, description: str, domain: str) -> tuple[str, ...]:
    """What a person wants of the tool, as verb phrases in lower case, best first."""
    parsed = parse_name(name, domain)
    found: list[str] = []
    told = told_wish(description, name)
    if parsed.verb is not None and (parsed.rest or told is None):
        words = parsed.rest or parsed.before
        own_words = {word.lower() for word in words} <= set(domain.split("_"))
        named, new = own_words and parsed.verb in _SEEKING, parsed.verb in _NEW
        thing = " ".join(words) if named else noun_phrase(words, new=new)  # a name has no article
        for verb in _SYNONYMS.get(parsed.verb, (parsed.verb,)):
            found.append(f"{verb} {thing}".strip())
    if told is not None:
        found.insert(0 if parsed.verb is None else len(found), told)
    if not found:
        words = (*parsed.before, *parsed.rest)
        thing = " ".join(words)
        found = [f"get the {thing}"] if len(words) > 1 else [f"run {thing}", f"use {thing}"]
    return tuple(dict.fromkeys(found))


def noun_phrase(words: Sequence[str], *, new: bool) -> str:
    """`pending review` as `the pending review`, or `a pending review` where it is to be made."""
    if words and words[0] in _CUT:
        return " ".join(words)
    parts: list[str] = []
    group: list[str] = []
    for word in words:
        if word in _CUT and (parts or group):
            break
        if word in _PREPOSITIONS:
            parts += [*_with_article(group, new=new), word]
            group, new = [], False
        else:
            group.append(word)
    parts += _with_article(group, new=new)
    while parts and parts[-1] in _PREPOSITIONS and len(parts) > 1:
        parts.pop()
    return " ".join(parts)


def _with_article(group: Sequence[str], *, new: bool) -> list[str]:
    if not group or group[0].lower() in _WITHOUT_ARTICLE:
        return list(group)
    last = group[-1].lower()
    many = last.endswith("s") and not last.endswith(("ss", "us", "is"))
    if new and (many or last in _MASS):
        return list(group)
    if not new:
        return ["the", *group]
    vowels = "AEFHILMNORSX" if group[0].isupper() else "aeio"
    return ["an" if group[0][0] in vowels else "a", *group]


def told_wish(description: str, name: str) -> str | None:
    """The first sentence of a description as a wish, if it is a short plain imperative.

    It must speak of what the name speaks of, and hold no word of `_ORDERS`; and what cannot be
    undone must be in the name as well.
    """
    first = _PARAGRAPH_END.split(description[:_READ].strip(), maxsplit=1)[0]
    text = _LEAD.sub("", " ".join(first.split()))
    tokens = _CLAUSE_END.split(text, maxsplit=1)[0].split()
    if not tokens or not all(_PLAIN_WORD.fullmatch(token) for token in tokens[:MAX_WISH_WORDS]):
        return None
    verb = _base(tokens[0].lower())
    if verb is None:
        return None
    kept: list[str] = []
    for token in tokens[1:]:
        if token.lower() in ("and", "or"):
            return None
        if token.lower() in _CUT:
            break
        kept.append(token)
    while kept and (kept[-1].lower() in _DANGLING or _is_aim(kept)):
        kept.pop()
    if (
        not 0 < len(kept) < MAX_WISH_WORDS
        or kept[0].lower() in ("of", "operations")
        or not is_plain(" ".join(kept))
    ):
        return None
    if verb in _GRAVE and verb not in map(str.lower, split_words(name)):
        return None
    named = [_stem(word.lower()) for word in split_words(name)]
    if not any(_alike(one, _stem(token.lower())) for one in named for token in kept):
        return None
    verb = "get" if verb in _ASKING_FOR else verb
    return " ".join([verb, *kept])


def _base(word: str) -> str | None:
    """`retrieves` and `retrieve` as `retrieve`; None for what is no known verb."""
    for candidate in (word, word.removesuffix("s"), word.removesuffix("es")):
        if candidate in VERBS:
            return candidate
    candidate = word.removesuffix("ies") + "y"
    return candidate if candidate in VERBS else None


def _is_aim(kept: Sequence[str]) -> bool:
    """Whether it ends in `to determine`, cut off from what is determined."""
    return len(kept) > 1 and kept[-2].lower() == "to" and _base(kept[-1].lower()) is not None


def _alike(one: str, other: str) -> bool:
    """Whether one word begins the other: `dep` and `depend`."""
    short, long = sorted((one, other), key=len)
    return len(short) >= _BEGINNING and long.startswith(short)


def _stem(word: str) -> str:
    return word.removesuffix("s")[:6]


def label_of(name: str) -> str:
    """A parameter's name as a person writes it."""
    found = split_words(name)
    return _ALONE.get(found[0], found[0]) if len(found) == 1 else " ".join(map(_in_full, found))


def _in_full(word: str) -> str:
    return _IN_FULL.get(word, word)


_IN_FULL = {
    "lat": "latitude",
    "lon": "longitude",
    "lng": "longitude",
    "num": "number",
    "desc": "description",
    "msg": "message",
    "src": "source",
    "dst": "destination",
    "dest": "destination",
    "cwd": "working directory",
    "tz": "timezone",
    "lang": "language",
    "repo": "repository",
    "org": "organization",
    "env": "environment",
    "max": "maximum",
    "min": "minimum",
}
_ALONE = _IN_FULL | {"q": "query", "from": "origin", "to": "destination"}


def clauses_of(label: str, *, quoted: bool, kind: str) -> tuple[str, ...]:
    """Ways to say a value of a parameter."""
    said = "'{value}'" if quoted else "{value}"
    if kind in ("list", "object"):
        return (f"with the {label} {said}", f"with {label}: {said}", f"using {label} {said}")
    if quoted:
        return (f"with the {label} {said}", f"using {said} as the {label}", f"with {label} {said}")
    first, _, last = label.lower().rpartition(" ")
    plain = (f"with the {label} {said}", f"using {said} as the {label}", f"with {label} {said}")
    if first and last in ("id", "number", "name", "key"):
        return (f"for {first} {said}", *plain)
    way = first.split(" ")[0] if first else last
    timed = not first or way not in ("start", "end") or last in ("date", "time", "day")
    special = _DIRECTIONS.get(way if timed else "", _SPECIAL.get(label.lower()))
    return (special, *plain) if special else plain


_DIRECTIONS = {
    "from": "from {value}",
    "to": "to {value}",
    "until": "until {value}",
    "since": "since {value}",
    "origin": "from {value}",
    "destination": "to {value}",
    "recipient": "to {value}",
    "sender": "from {value}",
    "start": "starting {value}",
    "end": "ending {value}",
}
_SPECIAL = {
    "date": "on {value}",
    "email": "with the e-mail address {value}",
    "city": "for the city of {value}",
    "repository": "in the {value} repository",
    "branch": "on the {value} branch",
    "language": "in the language {value}",
    "currency": "with {value} as the currency",
    "limit": "with a limit of {value}",
    "path": "at the path {value}",
    "folder": "in the folder {value}",
    "url": "at the url {value}",
}


def switch_clauses(label: str) -> dict[bool, tuple[str, ...]]:
    """Ways to say that something is on or off."""
    first, _, rest = label.partition(" ")
    if first in ("include", "with", "show") and rest:
        return {
            True: (f"with {rest} included", f"including {rest}"),
            False: (f"with {rest} left out", f"leaving out {rest}"),
        }
    thing = switch_of(label)
    return {
        True: (f"with {thing} turned on", f"with {thing} set to yes"),
        False: (f"with {thing} turned off", f"with {thing} set to no"),
    }


def switch_of(label: str) -> str:
    """What is switched: `pinned` for `is pinned`."""
    first, _, rest = label.partition(" ")
    return rest if rest and first in ("is", "has", "use", "enable", "enabled", "should") else label


def questions_of(label: str, kind: str) -> tuple[str, ...]:
    """Ways to ask for a parameter, the plainest first."""
    be = "are" if label.endswith("s") and not label.endswith(("ss", "us", "is")) else "is"
    if kind == "boolean":
        return (f"What is the {label}?", f"Should {switch_of(label)} be on or off?")
    if kind in ("datetime", "date", "time"):
        return (f"What is the {label}?", f"Which {label} should I use?")
    return (
        f"What {be} the {label}?",
        f"Which {label} should I use?",
        f"Please tell me the {label}.",
    )


def search_texts(name: str, description: str, domain: str) -> tuple[str, ...]:
    """What to type into a tool search, best first; whether it finds the tool is tried later."""
    parsed = parse_name(name, domain)
    named = " ".join(word.lower() for word in split_words(name.rpartition(".")[2]))
    server = domain.replace("_", " ")
    found = [" ".join(filter(None, (parsed.verb, *parsed.noun))), named]
    told = told_wish(description, name)
    if told is not None:
        found.append(told)
    if server != named:
        found += [f"{named} {server}", f"{told} {server}" if told else named]
    return tuple(dict.fromkeys(text for text in found if text))
