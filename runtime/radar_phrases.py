"""What the radar listens for, by language: how leave is asked, a step announced, a value wanted.

One `Phrases` a language, one field a purpose; to add a language, add one more to `LANGUAGES` and
cases for it to the tests. All languages are tried on every text, since a short turn does not say
which one it is in. Texts come in lower case and NFKC form, straight quotes, full-width marks made
plain; quotations and code are blanked before the closing sentences are searched. Every gap in a
pattern is bounded, so that no text makes one slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrasings of one language."""

    code: str
    leave: re.Pattern[str]
    """Asks for leave to act: "shall I go ahead?", "please confirm"."""
    offer: re.Pattern[str]
    """Leave in the form of an offer, which also ends many good answers: "if you like, I can"."""
    more: re.Pattern[str]
    """What marks an offer beyond the request: "also", "another time"."""
    choice: re.Pattern[str]
    """A question between two ways: no question for leave."""
    open_question: re.Pattern[str]
    """A question that yes or no does not answer."""
    wants: re.Pattern[str]
    """Asks for values without a question mark: "please provide"."""
    announces: re.Pattern[str]
    """Says that the work begins now or soon."""
    waits: re.Pattern[str]
    """Puts the next step into the user's hands, or says that there is none."""
    refuses: re.Pattern[str]
    """Says that something cannot or may not be done."""
    mandated: re.Pattern[str]
    """A rule from outside wants the question asked, or nothing could be taken back."""
    unclear: re.Pattern[str]
    """Several things fit, or the value stands nowhere."""
    field: re.Pattern[str]
    """Words of a schema: required, optional, default, types."""
    spare: re.Pattern[str]
    """Words that say a value may be left out."""
    only_talk: re.Pattern[str]
    """A user who wants an explanation, a plan or a draft, and nothing run."""
    asks_facts: re.Pattern[str]
    """A user who asks a question, so that a read answers it."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.MULTILINE)


_GAP = r"[^.?!\n]{0,120}"
_CJK_GAP = r"[^。?!\n]{0,60}"

_EN_OK = (
    r"(?:go[- ]?ahead|approval|permission|confirmation|ok(?:ay)?|answer|reply|consent|green light"
    r"|word|sign-off|nod|say-so|instructions?)"
)
_EN_DO = (
    r"(?:add|analy[sz]e|apply|ask the|book|bring|call|cancel|carry|change|check|clean|clear|close"
    r"|collect|compare|compile|continue|copy|count|create|cut|delete|dig|do|download|draft|edit"
    r"|examine|execute|fetch|file|fill|find|finish|fix|gather|generate|get|go|grab|handle|import"
    r"|inspect|install|investigate|invoke|issue|list|load|locate|look|make|mark|move|note|open"
    r"|lock|merge|order|pass|pause|pay|perform|place|play|post|prepare|proceed|process|publish|pull|put|query|read|rebuild"
    r"|record|refactor|register|remind|remove|rename|repair|replace|report|request|reserve|resolve"
    r"|restart|retrieve|review|rewrite|roll|run|save|scan|schedule|scrape|search|see|send|set"
    r"|share|sort|start|stop|submit|sum|summari[sz]e|switch|take|test|trace|track|transfer|translate|trigger"
    r"|try|turn|update|upload|use|verify|walk|work|write)"
)
_EN_DOING = (
    r"(?:adding|analy[sz]ing|applying|beginning|booking|calling|cancelling|changing|checking"
    r"|cleaning|closing|collecting|comparing|continuing|creating|deleting|editing|executing"
    r"|fetching|filing|finding|fixing|gathering|generating|getting|going|inspecting|installing"
    r"|investigating|invoking|kicking|launching|loading|locating|looking|making|moving|opening"
    r"|ordering|placing|posting|preparing|proceeding|processing|pulling|putting|querying|reading"
    r"|removing|renaming|replacing|requesting|reserving|restarting|retrieving|reviewing|running"
    r"|saving|scanning|scheduling|searching|sending|setting|starting|submitting|switching|taking"
    r"|testing|tracing|transferring|triggering|turning|updating|uploading|verifying|working"
    r"|writing)"
)
_EN = Phrases(
    "en",
    leave=_any(
        r"\b(?:would|do|did) you (?:like|want|prefer|need|wish) (?:for )?(?:me|us) to"
        r" (?!help you|assist|explain)",
        r"\bwant me to\b",
        r"\b(?:shall|should|may|could|can) (?:i|we) (?:also |now |just |then |please )?"
        rf"(?!help|assist|ask|get|have|know|be of)[a-z]+\b{_GAP}\?",
        r"\b(?:would|do) you (?:like|want|wish|prefer) to (?!know|see|hear|learn|talk|be|read|share)",
        r"\blet me know how (?:you(?:'d| would)? like|you want|to proceed|i should)",
        r"\b(?:can|could|would|will) you (?:please |just |quickly )?(?:confirm|approve|authori[sz]e)\b",
        r"\bjust to (?:confirm|be (?:sure|safe|clear)|double-check|make sure)\b",
        r"\bbefore (?:i|we) (?:proceed|continue|do|go|start|begin|run|make|send)\b[^.!\n]{0,120}\?",
        r"\bplease (?:confirm|approve|authori[sz]e)\b",
        r"\bconfirm (?:if|that|whether|before|to|and|this|these|so|it)\b",
        r"\blet me know (?:if|when|once|whether|that|as soon as) (?:i (?:should|can|may|shall)"
        r"|(?:this|that|it|everything|all) (?:is|looks|sounds|works)"
        r"|you(?:'re| are) (?:ok|okay|ready|happy|fine|good)|you (?:agree|approve|confirm))",
        r"\blet me know (?:and|to (?:proceed|continue|start|go))\b",
        r"\b(?:answer|reply|respond|say|type|write)(?: with| me| back)?(?: an?)?"
        r" (?:it|yes|y|ok|okay|go|confirm|proceed|continue)\b",
        r"\b(?:is|are) (?:that|this|it|these|those|all of this|everything)(?: all)?"
        r" (?:ok|okay|correct|right|fine|good|acceptable|what you (?:want|wanted|had|need))\b",
        r"\bis it (?:ok|okay|fine|all right|alright)\b",
        r"\b(?:ok|okay|fine|alright|all right|good|safe) (?:to (?:proceed|go|start|continue|run|lower|raise"
        rf"|{_EN_DO})|with you|by you|if i|for me to)\b{_GAP}\?",
        rf"(?:^|[.!,;:] )\s*(?:go ahead|proceed|continue|carry on|move on|start|begin|ready)\b{_GAP}\?",
        r"\bready (?:to (?:proceed|continue|go|start|begin)\b|when you are|for me to)",
        rf"\bwith your {_EN_OK}",
        r"\b(?:wait|waits|waiting|await|awaiting|awaits|need|needs|pending|hold|holding)(?: for| on)?"
        rf" (?:your|you to|the user's) (?:final |explicit )?(?:{_EN_OK}|approve|confirm|agree|say)",
        rf"\bgive (?:me )?(?:the|a|your) (?:final )?(?:{_EN_OK}|thumbs)",
        r"\b(?:just )?say the word|\bon your (?:go|word|ok|signal)\b|\bsay when\b",
        r"\bdo (?:you (?:approve|agree|consent|authori[sz]e|confirm)|i have your|we have your)\b",
        r"\b(?:are you|are we) (?:sure|ok|okay|fine|happy|good|ready|comfortable|certain)\b",
        r"\b(?:do you |would you )?mind if i\b|\bany objections?\b|\bsounds? (?:good|right|ok)\?",
        r"\bdoes (?:that|this|it|everything) (?:sound|look|work|seem)\b",
        r"\bi(?:'ll| will|'d| would| can) [^.?!\n]{0,100}\b(?:if|once|when|after|as soon as) you"
        r" (?:agree|confirm|approve|say|give|authori[sz]e)\b",
        r"\b(?:once|after|as soon as) you (?:agree|confirm|approve|say (?:yes|so|go|ok)"
        rf"|give (?:me )?(?:the|a|your) {_EN_OK}|authori[sz]e)\b",
        r"\bdo (?:i|we) (?:go ahead|proceed|continue|start)\b|\bpermission to [a-z]+\b"
        r"|\bwould (?:that|this|it) be (?:ok|okay|fine|all right|alright|acceptable|good)\b"
        r"|\bif (?:that|this|it|everything)(?:'s| is| works| looks| sounds) (?:ok|okay|fine|good|right|correct|for you)\b"
        r"|\bwhen(?:ever)? you(?:'re| are) ready\b|\b(?:hold off|wait) (?:until|till|for) you\b"
        r"|(?:^|[.!,;:] )\s*(?:ok|okay|alright) to [a-z]+\b[^.?!\n]{0,120}\?",
        r"\(y(?:es)?\s?/\s?no?\)|\byes or no\b",
    ),
    offer=_any(
        r"\bif you(?:'d| would)? (?:like|want|wish|prefer)(?: me to)?\b[^.?!\n]{0,60}"
        r"\bi(?:'ll| can| could| will|'m able)\b",
        rf"\bi(?:'ll| can| could| will|'d be)\b{_GAP}\bif you(?:'d| would)? (?:like|want|wish)",
        r"\blet me know if you(?:'d| would)? (?:like|want|wish)",
        r"\bi(?:'m| am) ready to (?!help|assist|answer)[a-z]+\b",
        rf"\bi(?:'m| am) (?:happy|able|glad) to {_EN_DO}\b",
        rf"(?:^\W*|[,;:] )(?:so |and |then |now )?i can (?:now |easily |then |certainly )?{_EN_DO}\b",
    ),
    more=_any(
        r"\b(?:also|as well|too|another|anything|something|else|instead|further|later|separately"
        r"|additional(?:ly)?|more|next)\b"
    ),
    choice=_any(
        r"\bor (?!cancel\b|do you\b|not\b|shall\b|should i (?:stop|wait|leave|hold|not)\b|stop\b"
        r"|wait\b|would\b|leave\b|hold\b|skip\b|adjust\b|change anything\b|make changes\b|is there\b)"
        r"[^.!?\n]{0,120}\?"
    ),
    open_question=_any(
        r"\b(?:which|what|who|whose|whom|when|where|why|how)\b[^.!?\n]{0,200}\?",
    ),
    wants=_any(
        r"\b(?:please|kindly) (?:provide|specify|give|tell|enter|supply|share|send|choose|pick|fill"
        r"|paste|state|indicate|select|let me know)\b",
        r"(?<!if )(?<!that )(?<!everything )(?<!all )\b(?:i|you)(?:'ll| will)? (?:\w+ )?need\b|\b(?:could|can|would) you\b|\btell me\b",
        r"\blet me know (?:the|which|what|who|where|when|how)\b|\bmissing\b|\bis required\b",
        r"\b(?:give|send|supply|provide|fill in|specify|share|list|paste) (?:me )?(?:the|those|these"
        r"|them|each|both|all|your|any|it|each of)\b|\bwaiting for\b|\bonce (?:i have|they are|you)",
        r"\btakes (?:these|the following|\w+) (?:parameters|inputs|arguments|fields|values)",
        r"\bfollowing (?:details|parameters|information|fields|values|inputs|arguments)"
        r"|\b(?:need|provide|give|send|supply) (?:me )?these\b",
        r"\b(?:required|necessary) (?:parameters|inputs|fields|values|details)",
        r"\bwith (?:these|those|an?|the) [^.?!\n]{1,80}\bcan be\b",
    ),
    announces=_any(
        r"^\W*(?!nothing|something|anything|everything|morning|evening|during|meeting)\w{2,}ing\b[^.?!\n]{0,60}\bnow\b",
        r"\b(?:i(?:'ll| will| shall|'m going to| am going to|'m about to| am about to)|let me) (?:now |just |first )?"
        r"(?!be\b|have\b|gladly|happily|know\b|leave\b|need\b|never\b|not\b|wait\b|keep\b|remember\b|stop (?:here|now|there)\b"
        r"|stay\b|remain\b|help\b|say\b|explain\b|answer\b|suggest\b|recommend\b|hope\b|assume\b|rephrase\b"
        r"|summari|clarify\b|tell\b|mention\b|miss\b|add that\b|do my\b)[a-z]\w+\b",
        r"\b(?:i|we)(?:'ll| will|'m going to| am going to|'re going to|'m about to| am about to"
        r"|'d) (?:now |first |then |next |just |quickly |also |start by |begin by |begin with |"
        rf"immediately |go ahead and |get |have a )*(?:{_EN_DO}|{_EN_DOING}|begin|look)\b",
        rf"\blet me (?:now |first |just |quickly |go ahead and |also |start by |begin by )*(?:{_EN_DO}"
        rf"|{_EN_DOING}|begin|have a)\b",
        rf"\b(?:i'm|i am|we're) (?:now |currently |already |just )?{_EN_DOING}\b",
        rf"\b(?:next|now|first|then),? (?:i|we) (?:now )?{_EN_DO}\b",
        rf"\b(?:i'd like|i should|time|now) (?:to )?(?:first |now )?{_EN_DO}\b|^\W*will do\b"
        r"|\bget(?:ting)? started\b|\bfirst step:",
        rf"\bi (?:still |first |now )?(?:need|have|want|must|ought)(?: to)? (?:first )?{_EN_DO}\b",
        rf"^\W*(?:(?:\w+ ){{0,2}}\w+ ?[-–—,;] ?|now |next |first |then |so )?{_EN_DOING}\b"
        r"(?![^.?!\n]{0,120}\b(?:is|are|was|were|takes?|needs?|requires?|would|may|can|could|means"
        r"|will|has|have|should|works?|costs?|removes?|makes?)\b)",
        r"\bon to the\b|\bmoving on (?:to|with)\b|\bup next\b|\bnext (?:up|step)(?: is)?\b"
        r"|\bthe next (?:calls?|steps?|messages?|turns?|actions?|commands?) (?:will|is|are)\b",
        r"\b(?:one|just a|give me a|a) (?:moment|minute|second|sec)\b|\bstand by\b|\bhold on\b"
        r"|\bhang (?:on|tight)\b|\b(?:i'm|i am) on it\b|^\W*on it\b|\bright away\b"
        r"|\b(?:get|be|come) (?:right )?back (?:to|with)\b|\bplease wait\b|\bbear with me\b",
        r"\b(?:is|are) (?:now )?being \w+ed\b|\bwill now be \w+"
        r"|\bwill be \w+ (?:now|shortly|next|in a moment|right away)\b",
    ),
    waits=_any(
        r"\?|\b(?:if|once|when|after|as soon as|unless|until) (?:you|someone|that|they|it|there)\b",
        r"\btell me\b|\blet me know\b|\bwhich one\b|\bno (?:suitable )?tool\b|\bplease (?!wait)\w+"
        r"|\bi(?:'ll| will) (?:be|gladly|happily|leave|wait|stop (?:here|now)|not|never|keep|hold|stay)\b"
        r"|\byou (?:can|could|may|might|need|have to|must|should|will)\b|\bplease\b.{0,20}\bpaste\b"
        r"|\b(?:could|would) be\b|\bnext steps\b",
    ),
    refuses=_any(
        r"\b(?:i|we)(?: can't| cannot| can not| won't| will not|'m not| am not| couldn't| could not"
        r"|'m unable| am unable| don't have| do not have| have no|'m sorry, but)\b"
        r"(?![^.?!\n]{0,60}\b(?:without|until|unless|before)\b)",
        r"\b(?:is|are) (?:currently |now )?(?:switched off|disabled|protected|forbidden)\b|\bnot something i\b|\bnobody can\b",
        r"\bnot (?:allowed|permitted|possible|available|authori[sz]ed|supported)\b|\bno access\b"
        r"|\bno (?:suitable |such |matching )?tool\b|\b(?:was|were|has been|have been) (?:not |denied"
        r"|declined|rejected|refused|cancelled|blocked)\b|\bdenied\b|\boutside (?:of )?(?:my|what i)\b|\binstead\b(?! of)",
    ),
    mandated=_any(
        r"\b(?:organi[sz]ation|company|polic(?:y|ies)|regulations?|rules?|law|guidelines?|compliance"
        r"|runbook|procedure)\b[^.?!\n]{0,40}\b(?:asks?|requires?|says?|demands?|wants?|states?"
        r"|prescribes?|calls? for|needs?|forbids?)\b",
        r"\b(?:required|obliged|bound|supposed|instructed) to (?:read|confirm|ask|repeat|get|verify"
        r"|check|obtain)",
        r"\b(?:(?:explicit|written|verbal) (?:approval|confirmation|consent|permission|agreement|ok|yes)"
        r"|(?:exact|literal) (?:statement|command|wording|text|phrase|query|words)|two-person|four-eyes)\b",
        r"\b(?:can(?:'t|not)|can not|impossible to|no way to|not) (?:be )?(?:undone|undo|reversed"
        r"|reverted|restored|recovered|taken back)\b|\birreversibl[ey]\b|\bread (?:it|them|this|your"
        r" \w+) back\b",
    ),
    unclear=_any(
        r"\bwhich (?:one|of|\w+ (?:do|did) you mean)\b|\bdo you mean\b|\bdid you mean\b"
        r"|\b(?:is|are) meant\b|\bambiguous\b|\bcould be (?:a lot|many|several|either)\b",
        r"\byou (?:didn't|did not|haven't|have not|only)(?: \w+)? (?:say|said|given|gave|tell|told"
        r"|mention|mentioned|name|named|specify|specified)\b",
        r"\b(?:found|there (?:is|are|was)|have) (?:none|no|nothing|neither)\b|\bnowhere\b",
        r"\b(?:can't|cannot|don't want to|won't|not) (?:guess|infer|invent|make|know|derive)\b",
        r"\b(?:two|three|four|several|multiple|more than one|both) (?:\w+ ){0,3}(?:called|named|match"
        r"|with that|with the|of that|of them|fit)",
    ),
    field=_any(
        r"\b(?:string|integer|int|boolean|bool|number|array|object|required|optional|mandatory"
        r"|default|defaults|enum|type|parameters?|arguments?|inputs?|fields?)\b"
    ),
    spare=_any(
        r"\b(?:optional(?:ly)?|default(?:s)?|if (?:any|needed)|usually|leave (?:it )?empty)\b"
    ),
    only_talk=_any(
        r"^\W*(?:please |can you |could you )?(?:explain|describe)\b",
        r"^\W*how (?:do|does|can|would|should) (?:i|you|it|we|\w+_\w+)\b",
        r"^\W*(?:what|which) (?:does|do|is|are|can) (?:i|it|the|\w+_\w+|[^?]{0,40}\btool)\b"
        r"[^?]{0,60}\b(?:need|take|return|do|mean|expect|pass|parameters?|arguments?|fields?|for)\b",
        r"^\W*(?:what|which) (?:\w+ )?(?:parameters?|arguments?|fields?|inputs?|values|information)\b",
        r"\b(?:do not|don'?t|without) (?:\w+ )?(?:run|execute|call|send|do|submit|change|running"
        r"|executing|calling|sending|changing|create|book|creating|booking|delete|apply)\w*(?! \w+ing)"
        r"(?: it| them| anything| any of it| yet| the \w+)?\s*(?:[.,;!]|$|just|only|yet)",
        r"\bshow me (?:what|how)\b|\b(?:only|just|draft|make|write|give me) (?:me )?(?:a |the |an )?"
        r"(?:\w+ )?(?:plan|outline|proposal)\b|\bhelp me (?:decide|think|understand|choose)\b"
        r"|\bwalk me through\b|\bwhat (?:would|will|could) (?:happen|you do|it do)\b|\bjust tell me\b"
        r"|\b(?:outline|propose|sketch) (?:a|the|how|what)\b|\blet me (?:review|see|check|decide)\b"
        r"|^\W*(?:does|do|is|are|can|could|will) (?!you\b|we\b)[^?]{0,80}\b(?:supports?|accepts?|allows?"
        r"|needs?|requires?|handles?|able|possible|returns?|cost|mean)\b[^?]{0,80}\?"
        r"|\bwhat do you think\b|^\W*(?:hi|hello|hey|thanks|thank you|good (?:morning|evening))\b\W*\w*\W*$",
    ),
    asks_facts=_any(
        r"^\W*(?:what|which|who|whose|when|where|why|how|is|are|was|were|do|does|did|has|have|show"
        r"|list|find|compare|summari[sz]e|look up|tell me|give me)\b",
    ),
)

_DE_DO = (
    r"(?:anleg\w*|anpass\w*|anruf\w*|anseh\w*|ansehe|auflist\w*|aufruf\w*|ausführ\w*|auslös\w*"
    r"|auswert\w*|bearbeit\w*|beginn\w*|behebe\w*|berechn\w*|bestell\w*|buch\w*|check\w*|durchführ\w*"
    r"|durchgeh\w*|durchsuch\w*|einricht\w*|eintrag\w*|ermittl\w*|erledig\w*|erstell\w*|fang\w*"
    r"|find\w*|fortfahr\w*|fortsetz\w*|führ\w*|frag\w*|geh\w*|hinzufüg\w*|hol\w*|kopier\w*|korrigier\w*"
    r"|kümmer\w*|lad\w*|leg\w*|les\w*|lies|lösch\w*|mach\w*|misch\w*|nachseh\w*|nehm\w*|öffn\w*|plan\w*|rechn\w*|übersetz\w*|teil\w*|zahl\w*|kauf\w*|regel\w*|dreh\w*"
    r"|prüf\w*|reservier\w*|ruf\w*|schalt\w*|schau\w*|schick\w*|schließ\w*|schreib\w*|seh\w*|send\w*"
    r"|setz\w*|speicher\w*|start\w*|stell\w*|storniere?\w*|such\w*|trag\w*|überarbeit\w*|überprüf\w*"
    r"|übertrag\w*|überweis\w*|umbenenn\w*|untersuch\w*|vergleich\w*|verschieb\w*|versuch\w*"
    r"|vorbereit\w*|vornehm\w*|weitermach\w*|werf\w*|widm\w*|zieh\w*|zusammen\w*|\w{3,}iere)"
)
_DE_SOON = (
    r"(?:jetzt|nun|gleich|sofort|zuerst|zunächst|als nächstes|als erstes|nachfolgend|anschließend"
    r"|danach|dann|kurz|umgehend|direkt|eben|gerade|schnell|im nächsten schritt|nochmals?|noch einmal)"
)
_DE_OK = (
    r"(?:bestätigung|freigabe|zustimmung|genehmigung|erlaubnis|okay|ok|einverständnis|antwort"
    r"|rückmeldung|bescheid|grünes licht|go)"
)
_DE = Phrases(
    "de",
    leave=_any(
        rf"\b(?:soll|sollen|darf|dürfen|kann|können|könnte) (?:ich|wir)\b{_GAP}\?",
        rf"\b(?:soll|sollen|darf|dürfen) (?:der|die|das|den|dies\w*|alle\w*|es|er|sie|ein\w*)\b{_GAP}\?",
        r"\b(?:möchte(?:st|n)?|willst|wollen|wünsch\w+|hätte\w*)(?: du| sie| ihr)?\b[^.?!\n]{0,40}"
        r"\bdass (?:ich|wir)\b",
        rf"\bmöchte(?:st du|n sie) (?!wissen|mehr)(?:[^?.!\n]{{0,80}} )?\w+(?:en|ern|eln)\b{_GAP}\?",
        r"\b(?:kannst|können|könntest|könnten) (?:du|sie)\b[^?.!\n]{0,60}\b(?:bestätig|freigeb|zustimm)\w*",
        r"\bbitte\b[^.?!\n]{0,80}\b(?:bestätig\w*|freigeben|genehmig\w*|zustimm\w*)",
        r"\b(?:bestätig\w*|genehmig\w*) (?:sie|du|mir|das|dies|bitte|kurz|es)\b",
        r"\b(?:gib|geben sie|gebt|sag|sagen sie)\b[^.?!\n]{0,60}"
        rf"\b(?:{_DE_OK}|ob ich|wenn ich|dass ich|ja)\b",
        r"\b(?:ist|wäre|passt|geht) (?:das|dies|es|alles)\b[^.?!\n]{0,40}\b(?:ordnung|ok|okay|richtig"
        r"|recht|so|korrekt|für)\b[^.?!\n]{0,40}\?",
        r"\b(?:einverstanden|fortfahren|weitermachen|loslegen|okay so|passt das so)\b[^.?!\n]{0,20}\?",
        r"\bweiter (?:mit|zu)\b[^.?!\n]{0,60}\?",
        rf"\b(?:warte|wartet|benötige|brauche)\b[^.?!\n]{{0,40}}\b(?:deine?r?|ihre?r?|eure?r?)\b[^.?!\n]{{0,20}}\b{_DE_OK}",
        r"\b(?:sobald|wenn|falls) (?:du|sie|ihr)\b[^.?!\n]{0,50}\b(?:bestätig\w*|zustimm\w*"
        r"|einverstanden|freigib\w*|freigeb\w*|ja sag\w*|das okay|grünes licht)\b",
        r"\b(?:antworte|antworten sie|schreib|schreiben sie)\b[^.?!\n]{0,20}\b(?:it|ja|ok|okay)\b",
        r"\bwenn (?:das|dies|es|alles) (?:so )?(?:passt|stimmt|okay|ok|in ordnung)\b",
        r"\bmit (?:deiner|ihrer) (?:zustimmung|erlaubnis|freigabe|bestätigung)\b",
        r"\bbist du sicher\b|\bsind sie sicher\b|\bauf (?:dein|ihr) (?:ok|okay|kommando|zeichen)\b",
    ),
    offer=_any(
        r"\b(?:wenn|falls|sofern) (?:du|sie|ihr) (?:möchte\w*|mög\w*|magst|will\w*|woll\w*|wünsch\w*)"
        rf"\b{_GAP}\b(?:ich|wir)\b",
        rf"\b(?:ich|wir) (?:kann|können|könnte\w*)\b{_GAP}\b(?:wenn|falls) (?:du|sie|ihr)"
        r" (?:möchte\w*|magst|will\w*|woll\w*)",
        r"\b(?:ich|wir) (?:kann|können|könnte)\b[^.?!\n]{0,80}\b(?:gerne?|sofort|jetzt|direkt"
        r"|für (?:dich|sie))\b",
        rf"\bgerne?\b[^.?!\n]{{0,20}}\bkann ich\b{_GAP}|\bauf wunsch\b{_GAP}\b(?:ich|wir)\b",
    ),
    more=_any(
        r"\b(?:auch|außerdem|zusätzlich|noch|sonst|weitere\w*|später|stattdessen|ander\w*|darüber"
        r" hinaus|ebenfalls)\b"
    ),
    choice=_any(
        r"\boder (?!nicht\b|soll ich (?:abbrechen|warten|es lassen)|abbrechen|lieber nicht|doch nicht"
        r"|gibt es|möchte\w*|warten)[^.!?\n]{0,120}\?"
    ),
    open_question=_any(
        r"\b(?:welche\w*|was|wer|wen|wem|wessen|wann|wo|wohin|woher|warum|wie|wofür|womit|worauf"
        r"|wodurch|wieviele?)\b[^.!?\n]{0,200}\?"
    ),
    wants=_any(
        r"\bbitte\b[^.?!\n]{0,80}\b(?:nenn\w*|gib\w*|geben|angeb\w*|an|mitteil\w*|teil\w*|ergänz\w*"
        r"|füll\w*|schick\w*|send\w*|wähl\w*|sag\w*|mit|ein|eingeben|ausfüllen|übermittel\w*)\b",
        r"\b(?:benötige?n?|benötigt|brauche?n?|braucht|fehl\w*)\b|\bsobald\b[^.?!\n]{0,80}\b(?:vor"
        r"|habe|vorliegen|da|bekannt)\b",
        r"\b(?:nenn|nennen sie|gib|geben sie|schick|schicken sie|sag|sagen sie|teil|teilen sie)"
        r" (?:mir|bitte|uns)\b|\bfolgende\w* (?:angaben|daten|felder|parameter|werte|informationen)",
        r"\b(?:mit|aus) (?:diesen|den|folgenden) (?:angaben|werten|daten)\b",
    ),
    announces=_any(
        rf"\b(?:ich|wir) (?:werde|werden)\b(?! nicht)[^.?!\n]{{0,120}}\b{_DE_DO}\b",
        rf"\b(?:ich|wir) {_DE_DO}\b[^.?!\n]{{0,80}}\b{_DE_SOON}\b",
        rf"\b{_DE_SOON}\b[^.?!\n]{{0,20}}\b(?:{_DE_DO}|werde|muss|will) (?:ich|wir)\b",
        r"\bich (?!habe|hatte|hätte|möchte|würde|könnte|wäre|sollte|warte|finde|brauche|bitte|danke)"
        rf"\w{{2,}}e\b[^.?!\n]{{0,60}}\b{_DE_SOON}\b",
        r"\b(?!habe|hatte|hätte|möchte|würde|könnte|wäre|sollte|finde|brauche)\w{3,}e ich\b"
        rf"(?![^.?!\n]{{0,40}}\b(?:nicht|keine?n?)\b)[^.?!\n]{{0,40}}\b{_DE_SOON}\b|^\W*moment,",
        r"^\W*(?:\w+[,!.] )?ich (?:prüf|such|hol|öffn|lad|ruf|erstell|leg|start|führ|send|schick|buch|lösch|änder|frag|les|geh"
        r"|schau|trag|stell|setz|mach|analysier|untersuch|durchsuch|ermittl|vergleich|berechn|rechn|übersetz|bestell"
        r"|reservier|aktualisier|richt|plan|schreib|speicher|bearbeit)e (?:mir |dir |ihnen )?(?:den|die|das|dem|der|ein\w*|nach"
        r"|in|im|alle\w*|alles)\b(?![^.?!\n]{0,80}\b(?:nicht|keine?n?|wenn|sobald)\b)",
        rf"\b{_DE_DO} ich\b(?! (?:nicht|keine?n?)\b)[^.?!\n]{{0,60}}\b{_DE_SOON}\b",
        rf"\b(?:ich|wir) (?:muss|müssen|will|wollen|möchte)\b[^.?!\n]{{0,100}}\b{_DE_DO}\b",
        rf"^\W*(?:{_DE_SOON} )?(?:ich )?{_DE_DO} (?:{_DE_SOON}|mir|den|die|das|nach)\b[^.?!\n]{{0,100}}"
        rf"(?:\b{_DE_SOON}\b|\.\.\.|:$)",
        r"\blass(?:en sie)? mich\b|\b(?:ich|wir) (?:kümmere?n?|mache?n?|begebe|setze) (?:mich|uns)\b"
        r"|\b(?:ich|wir) (?:fange|fangen|beginne|beginnen|starte|starten|lege|legen) (?:mit|bei|nun|los"
        r"|jetzt|zuerst)\b|\bwird erledigt\b|\bmache ich\b|\bich melde mich\b|\bmelde mich\b"
        r"|\bbin (?:schon )?dabei\b",
        r"\b(?:einen|ein|kleinen) (?:kurzen |kleinen )?(?:moment|augenblick)\b|\bbitte warten\b"
        r"|\bwarte kurz\b|\bgedulde\w*\b",
        r"\b(?:wird|werden) (?:jetzt|nun|gleich|sofort|umgehend|als nächstes)\b[^.?!\n]{0,100}",
        r"\bweiter (?:geht es|mit dem|mit der|zum|zur)\b|\bnächster schritt\b|\bals nächstes\b"
        r"|\bim nächsten schritt\b",
    ),
    waits=_any(
        r"\?|\b(?:wenn|sobald|falls|sofern|nachdem|bevor|bis) (?:du|sie|ihr|mir|jemand|es)\b",
        r"\b(?:sag|gib|nenn|schick|teil)(?:e|en sie)? (?:mir|bitte)\b|\bbescheid\b|\bbitte (?!warten)\w+"
        r"|\b(?:du|sie) (?:kannst|können|könntest|könnten|musst|müssen|solltest|sollten)\b"
        r"|\b(?:ich|wir) (?:werde|unternehme|mache|warte|lasse)\w*\b[^.?!\n]{0,50}\b(?:nicht|nichts"
        r"|kein\w*|warten)\b|\bnächste schritte\b|\bauf wunsch\b",
    ),
    refuses=_any(
        r"\b(?:ich|wir) (?:kann|können|darf|dürfen|konnte|konnten|werde|habe)\b[^.?!\n]{0,60}"
        r"\b(?:nicht|keine?n?|nichts)\b(?![^.?!\n]{0,60}\b(?:ohne|bevor|bis)\b)",
        r"\b(?:kann|darf|konnte) (?:ich|wir)\b[^.?!\n]{0,60}\b(?:nicht|keine?n?|nichts)\b",
        r"\bnicht (?:erlaubt|möglich|gestattet|zulässig|verfügbar|vorgesehen)\b|\bkein(?:en)? (?:zugriff"
        r"|passendes|geeignetes|recht|werkzeug)\b|\b(?:abgelehnt|verweigert|abgebrochen|gesperrt|stattdessen)\b",
        r"\b(?:sende|schicke|lösche|mache|ändere|führe|überweise|gebe) ich\b[^.?!\n]{0,20}\b(?:nicht|keine?n?)\b",
    ),
    mandated=_any(
        r"\b(?:richtlinie\w*|vorgabe\w*|vorschrift\w*|regel\w*|vorgeschrieben|verpflichtet|gesetz\w*"
        r"|organisation|compliance|vier-augen\w*|unternehmen|dienstanweisung)\b",
        r"\b(?:ausdrücklich\w*|wörtlich\w*|schriftlich\w*|genaue\w* (?:anweisung|wortlaut|befehl))\b",
        r"\bnicht (?:mehr )?(?:rückgängig|umkehrbar|wiederherst\w+)\b|\bunwiderruflich\w*\b"
        r"|\bendgültig\b",
    ),
    unclear=_any(
        r"\bwelche\w* (?:von|der|davon|dieser|beiden)\b|\bmein(?:st du|en sie)\b|\bgemeint\b"
        r"|\bwe[nm] (?:soll|mein)|\bmehrdeutig\b|\b(?:zwei|drei|mehrere|beide\w*) (?:\w+ ){0,2}"
        r"(?:namens|treffer|einträge|kontakte|personen|konten|gefunden)\b",
        r"\b(?:nicht|kein\w*|nirgend\w*) (?:\w+ ){0,2}(?:genannt|angegeben|gesagt|gefunden|hinterlegt"
        r"|bekannt|erraten|raten|erfinden|erschließen|ableiten)\b",
    ),
    field=_any(
        r"\b(?:pflicht\w*|erforderlich\w*|optional\w*|freiwillig\w*|standard\w*|vorgabe(?:wert)?"
        r"|zeichenkette|ganzzahl|zahl|text|wahrheitswert|liste|parameter|feld\w*|angabe\w*)\b"
    ),
    spare=_any(
        r"\b(?:optional\w*|freiwillig\w*|standard(?:wert|mäßig)?|voreinge\w+|üblicherweise)\b"
    ),
    only_talk=_any(
        r"^\W*(?:bitte |kannst du |können sie )?(?:mir )?(?:erklär\w*|beschreib\w*|erläuter\w*)\b",
        r"^\W*welche (?:\w+ )?(?:angaben|parameter|felder|argumente|werte|daten|optionen)\b",
        r"^\W*was (?:macht|braucht|tut|kann|liefert|gibt|muss|bedeutet|erwartet|ist)\b",
        r"^\W*(?:wie|wozu|wofür) (?:funktioniert|sieht|geht|benutzt|verwende|nutz|dient|ist|kann ich)\w*\b",
        r"\b(?:nicht|nichts) (?:ausführen|senden|starten|abschicken|anlegen|ändern|löschen|aufrufen)\b"
        r"|\bohne (?:\w+ ){0,3}(?:auszuführen|zu senden|abzuschicken|aufzurufen|zu ändern|zu starten)",
        r"\b(?:nur|erst\w*|bloß) (?:mal )?(?:einen?|den|die)? ?(?:plan|entwurf|vorschlag)\b"
        r"|\b(?:entwirf|skizziere|schlag\w*) (?:mir )?(?:einen )?(?:plan|entwurf|vor)\b"
        r"|\bzeig\w* mir,? (?:wie|was)\b|^\W*(?:hallo|danke|guten (?:morgen|tag|abend))\b\W*\w*\W*$",
    ),
    asks_facts=_any(
        r"^\W*(?:welche\w*|was|wer|wie|wann|wo|warum|wieso|ist|sind|hat|haben|gibt|zeig\w*|liste"
        r"|such\w*|finde|vergleich\w*|fass\w*)\b"
    ),
)

_FR_DO = (
    r"(?:accède|ajoute|analyse|annule|appelle|applique|attaque|calcule|change|cherche|clôture|commande"
    r"|commence|compare|complète|consulte|continue|copie|corrige|crée|déclenche|définis|démarre|déplace"
    r"|détermine|écris|effectue|efface|enregistre|envoie|enchaîne|établis|examine|exécute|extrais|fais"
    r"|ferme|génère|identifie|inspecte|installe|interroge|lance|lis|mets|modifie|note|ouvre|parcours"
    r"|passe|planifie|prépare|procède|programme|publie|rassemble|recherche|récupère|rédige|regarde"
    r"|relance|remplace|renomme|reprends|réserve|saisis|sauvegarde|supprime|télécharge|teste|traite"
    r"|traduis|partage|convertis|déploie|éteins|allume|baisse|monte|règle|achète|paie|ajuste|coupe|active|désactive"
    r"|transfère|trouve|utilise|vérifie|vire|vois)"
)
_FR_OK = (
    r"(?:confirmation|feu vert|accord|validation|autorisation|permission|réponse|approbation|ok)"
)
_FR = Phrases(
    "fr",
    leave=_any(
        r"\b(?:voulez|souhaitez|désirez|aimeriez|préférez|voudriez)-vous (?:donc |bien |vraiment )?que\b",
        r"\b(?:veux|souhaites|aimerais|préfères|voudrais)-tu (?:vraiment )?que\b",
        r"\b(?:tu veux|tu souhaites|vous voulez|vous souhaitez) que (?:je|j'|nous)",
        r"\b(?:voulez-vous|souhaitez-vous|désirez-vous|veux-tu|souhaites-tu) (?:vraiment |bien )?"
        r"(?!savoir|voir)\w+(?:er|ir|re)\b",
        rf"\b(?:dois|puis|peux|pourrais)-je (?!vous aider|t'aider){_GAP}\?",
        rf"\b(?:est-ce que |et )?(?:je|j')\s?(?:vous |te |l'|le |la |les )?(?:peux|dois|pourrais|{_FR_DO})\b{_GAP}\?",
        rf"\b(?:on|nous) (?:continue|procède|lance|y va|passe|commence|poursuit)\w*\b{_GAP}\?",
        r"\b(?:veuillez|merci de|pouvez-vous|peux-tu|pourriez-vous|prière de|il suffit de)\b[^.?!\n]{0,40}"
        r"\b(?:confirmer|valider|approuver|autoriser)\b",
        r"\b(?:confirmez|confirme|validez|valide)(?:-moi)?\b[^.?!\n]{0,40}(?:\?|\bque\b|\bpour\b|\bet\b|$)",
        r"\b(?:est-ce(?: que (?:c'est|cela|ça))?|c'est|ça) (?:bon|correct|ok|exact|d'accord|convient|vous va"
        r"|te va|vous convient|te convient|bien ça)\b[^.?!\n]{0,40}\?",
        r"\bcela (?:vous|te) (?:convient|va)\b|\bd'accord ?\?|\bêtes-vous (?:sûr|d'accord|certain)"
        r"|\bes-tu (?:sûr|d'accord)|\bon y va ?\?",
        rf"\b(?:j'attends|en attente de|dans l'attente de|il me faut|j'ai besoin de) (?:votre|ton|ta) {_FR_OK}",
        rf"\bdonne[sz]?-moi (?:le|votre|ton|ta|un) (?:{_FR_OK}|go)",
        r"\b(?:dites|dis)-moi (?:si|quand|que) (?:je (?:dois|peux|puis)|c'est|ça|vous êtes|tu es|cela|oui)",
        r"\b(?:dès que|une fois que|quand|si) (?:vous|tu) (?:\w+ )?(?:confirm\w*|valid\w*|donn\w* (?:votre|ton)"
        r"|êtes d'accord|es d'accord|m'autoris\w*|approuv\w*|le confirm\w*)",
        r"\b(?:répondez|réponds|tapez|écrivez|dites|dis)\b[^.?!\n]{0,20}\b(?:it|oui|ok)\b",
        r"\bsi (?:c'est|cela|ça) (?:bon|ok|vous|te|convient)\b",
        r"\bavec votre (?:accord|permission|autorisation)\b|\bun (?:simple )?(?:oui|ok) (?:de votre part|suffit)",
    ),
    offer=_any(
        r"\bsi (?:vous|tu) (?:le |l')?(?:voulez|souhaitez|désirez|veux|souhaites|préférez)\b"
        rf"{_GAP}\b(?:je|j')",
        r"\bje peux (?:maintenant |le |la |les |vous |l')*(?!aider|vous aider|répondre)\w{3,}(?:er|ir|re)\b",
        rf"\bje (?:peux|pourrais|vous propose)\b{_GAP}\bsi (?:vous|tu) (?:le |l')?(?:voulez|souhaitez|veux"
        r"|souhaites)",
    ),
    more=_any(
        r"\b(?:aussi|également|autres?|plus tard|en plus|en outre|par ailleurs|ensuite|davantage"
        r"|plutôt|autre chose|sinon)\b"
    ),
    choice=_any(
        r"\bou (?!non\b|pas\b|dois-je (?:annuler|attendre|m'arrêter)|annuler|bien non|préférez-vous (?:attendre|que j'attende))"
        r"[^.!?\n]{0,120}\?"
    ),
    open_question=_any(
        r"\b(?:quel(?:le)?s?|qui|quoi|quand|où|comment|combien|pourquoi|lequel|laquelle|lesquel(?:le)?s"
        r"|qu'est-ce|que (?:voulez|souhaitez|dois|faut))\b[^.!?\n]{0,200}\?"
    ),
    wants=_any(
        r"\b(?:veuillez|merci de|pouvez-vous|peux-tu|pourriez-vous|il faut|j'ai besoin|il me faut|il manque"
        r"|il me manque|s'il vous plaît|s'il te plaît)\b",
        r"\b(?:indique|fourni|précise|donne|communique|renseigne|complète|envoie|choisi)\w*[- ](?:moi|les|la"
        r"|le|chaque|ces|ce|chacun)\b|\bdès que (?:j'aurai|j'ai|vous)\b|\binformations suivantes\b"
        r"|\b(?:paramètres|champs|éléments|valeurs|données|renseignements) suivants?\b",
    ),
    announces=_any(
        r"\bje (?:vais|m'apprête à|m'en occupe|m'en charge|m'y mets|me charge|me mets|m'attelle|m'occupe)\b"
        r"(?! (?:pas|devoir)\b)",
        rf"\b(?:je|j')\s?(?:vous |te |l'|le |la |les |m'en )?{_FR_DO}\b",
        r"\b(?:je|j')\s?\w{3,}(?:erai|irai|rai)\b(?! (?:pas|rien|plus)\b)",
        r"\b(?:laisse|laissez)-moi\b(?! savoir)|\bun (?:petit )?instant\b|\bun moment\b|\btout de suite\b"
        r"|\bimmédiatement\b|\bje reviens (?:vers|avec)\b|\bveuillez patienter\b|\bpatientez\b",
        r"\b(?:je dois|il me faut|j'ai besoin de|il faut que je) (?:d'abord |encore |maintenant )?\w+(?:er|ir|re)\b",
        r"\bpassons (?:à|au|aux)\b|\b(?:prochaine|première) étape\b|\bje suis en train\b|\ben cours\b"
        r"|^\W*(?:recherche|lecture|lancement|création|vérification|analyse|consultation|envoi|exécution"
        r"|ouverture|suppression|mise à jour)\b[^.?!\n]{0,80}(?:\.\.\.|:$|en cours)",
        r"\b(?:va|vont) (?:maintenant |à présent )?être \w+",
    ),
    waits=_any(
        r"\?|\b(?:si|quand|dès que|lorsque|une fois que|tant que|à moins que) (?:vous|tu|quelqu'un)\b",
        r"\b(?:dites|dis|indique\w*|donne\w*|envoie|envoyez|précise\w*|fais|faites)-(?:moi|le|la)\b"
        r"|\bveuillez (?!patienter)|\bmerci de (?!patienter|votre patience)|\bje (?:ne|n')"
        r"|\b(?:vous|tu) (?:pouvez|peux|pourrez|pourriez|devez|dois|devriez)\b|\bvos instructions\b"
        r"|\bj'attends\b|\bprochaines étapes\b|\bje reste\b|\bje vous conseille\b",
    ),
    refuses=_any(
        r"\b(?:je|nous|on|il|elle) (?:ne|n')\s?\w+ (?:pas|aucun\w*|rien|plus)\b"
        r"(?![^.?!\n]{0,60}\b(?:sans|avant|tant que)\b)",
        r"\bje n'ai (?:pas|aucun\w*)\b|\bn'est pas (?:possible|autorisé|permis|disponible)\w*\b"
        r"|\bimpossible (?:de|d')|\baucun outil\b|\bà la place\b|\b(?:refusé|rejeté|interdit|bloqué)e?s?\b",
    ),
    mandated=_any(
        r"\b(?:politique|règlement|réglementation|règles?|procédure|organisation|loi|consigne|conformité)\b"
        r"[^.?!\n]{0,40}\b(?:exige|impose|demande|veut|prévoit|requiert|interdi)\w*",
        r"\b(?:je (?:suis|dois) (?:tenu|obligé|relire)|explicite\w*|par écrit|mot pour mot)\b",
        r"\birréversible\w*\b|\bne (?:peut|peuvent|pourra|pourront) (?:pas|plus) être (?:annul|restaur|récupér)"
        r"|\bdéfinitivement\b",
    ),
    unclear=_any(
        r"\b(?:lequel|laquelle|lesquels|lesquelles|duquel|auquel)\b|\bparle[sz]-(?:vous|tu)\b"
        r"|\bs'agit-il\b|\bvoule[zr]-vous dire\b|\bde (?:qui|quel)\b|\bambigu\w*\b"
        r"|\b(?:deux|trois|plusieurs) (?:\w+ ){0,2}(?:nommé|correspond|contacts|personnes|portent|s'appellent)",
        r"\b(?:pas|aucun\w*|nulle part) (?:\w+ ){0,3}(?:indiqué|précisé|donné|trouvé|dit|mentionné|deviner"
        r"|inventer|déduire)",
    ),
    field=_any(
        r"\b(?:obligatoires?|requise?s?|facultati\w+|optionnel\w*|par défaut|chaîne|entier|booléen|nombre"
        r"|texte|liste|paramètres?|champs?)\b"
    ),
    spare=_any(r"\b(?:facultati\w+|optionnel\w*|(?:par )?défaut|habituellement)\b"),
    only_talk=_any(
        r"^\W*(?:peux-tu |pouvez-vous )?(?:m'|me )?(?:expliqu\w*|décri\w*|détaill\w*)\b",
        r"^\W*(?:quel(?:le)?s?|de quel(?:le)?s?) (?:sont |est )?(?:les? |la )?(?:\w+ )?(?:paramètres?|champs?"
        r"|arguments?|informations?|options?)\b",
        r"^\W*(?:à quoi sert|comment (?:fonctionne|marche|utilise|s'utilise|faire)|que (?:fait|renvoie|retourne)"
        r"|qu'est-ce que|que signifie)\b",
        r"\bsans (?:rien |l'|la |le |les )?(?:\w+ )?(?:exécuter|envoyer|lancer|modifier|supprimer|appeler|créer)\b"
        r"|\bn'(?:exécut|envoi|envoy|appell)\w* (?:pas|rien)\b|\bne (?:le |la |les )?(?:lance|fais|modifie|crée"
        r"|supprime)\w* (?:pas|rien)\b",
        r"\b(?:juste|seulement|uniquement|simplement|d'abord) (?:un|le|me) (?:plan|brouillon)\b"
        r"|\b(?:propose|rédige|fais|prépare)\w*(?:-moi)? (?:un|le) plan\b|\bmontre\w*-moi (?:comment|à quoi)\b"
        r"|^\W*(?:bonjour|salut|merci|bonsoir)\b\W*\w*\W*$",
    ),
    asks_facts=_any(
        r"^\W*(?:quel\w*|qui|quand|où|combien|comment|pourquoi|est-ce|y a-t-il|qu'est-ce|montre\w*|liste"
        r"|cherche\w*|trouve\w*|compare\w*|résume\w*)\b"
    ),
)

_POR_FAVOR = (
    r"(?<!momento, )(?<!momento )(?<!instante, )(?<!esper[ae], )(?<!aguarde, )\bpor favor\b"
)
"""Please, in two languages that are heard in each other's words; who is asked to wait gives nothing."""
_ES_DO = (
    r"(?:pido|compro|bajo|dejo|calculo|traduzco|comparto|convierto|despliego|apago|abro|accedo|actualizo|agrego|añado|analizo|anoto|aplico|arreglo|averiguo|borro|busco|cambio|cancelo"
    r"|cargo|cierro|compruebo|comparo|configuro|consulto|continúo|copio|corrijo|creo|descargo|edito|elimino"
    r"|empiezo|enciendo|envío|escribo|ejecuto|examino|extraigo|genero|guardo|hago|inicio|instalo|investigo"
    r"|lanzo|leo|llamo|localizo|mando|marco|miro|modifico|muevo|obtengo|ordeno|pago|paso|pido|pongo|preparo"
    r"|procedo|programo|pruebo|publico|realizo|recopilo|reescribo|registro|reinicio|renombro|reservo|reviso"
    r"|saco|sigo|subo|termino|transfiero|uso|utilizo|verifico|veo)"
)
_ES_OK = (
    r"(?:confirmación|visto bueno|aprobación|autorización|permiso|respuesta|luz verde|ok|visto)"
)
_ES = Phrases(
    "es",
    leave=_any(
        r"\b(?:quieres?|desea[sn]?|quiere[ns]?|prefieres?|te gustaría|le gustaría|les gustaría) que (?!hora|día)",
        r"\b(?:desea[sn]?|quieres?|quieren|te gustaría|le gustaría) (?!saber|ver|conocer)\w+(?:ar|er|ir)(?:l[oae]s?)?\b",
        rf"\b(?:debo|puedo|podría|procedo|podemos) (?!ayudar|servir){_GAP}\?",
        rf"¿\s?(?:y |ya |entonces |lo |la |los |las |se |te |le |me |lo |les |ahora ){{0,4}}{_ES_DO}\b{_GAP}\?",
        r"\b(?:confirma|confirme|confirmas|confirmen|confírma\w*|confírme\w*|apruebas?|autoriza[s]?)\b"
        r"[^.?!\n]{0,40}(?:\?|\bque\b|\bpara\b|\by\b|\bsi\b|$)",
        r"\b(?:por favor,?|podrías|podría|puedes|puede|necesito que|hace falta que) (?:\w+ )?(?:confirm\w*"
        r"|autoric\w*|autoriz\w*|aprueb\w*|aprob\w*)",
        r"\b(?:estás?|están) (?:de acuerdo|conforme|seguro|segura|listo|bien)\b|\b(?:te|le|les) parece (?:bien"
        r"|correcto)\b|\bes correcto\b[^.?!\n]{0,20}\?|\bde acuerdo\?|\bestá bien (?:si|que|así)\b"
        r"|\b(?:vale|seguimos|continuamos|seguro|empezamos)\b[^.?!\n]{0,40}\?",
        rf"\b(?:espero|esperando|aguardo|quedo a la espera de|necesito|en espera de|pendiente de) (?:tu|su) {_ES_OK}",
        rf"\b(?:dame|deme|dé?nme) (?:el|tu|su|la) {_ES_OK}",
        r"\b(?:avísame|avíseme|dime|dígame) (?:si|cuando|cuándo) (?:quieres?|debo|puedo|procedo|sigo|desea|estás"
        r"|está|te parece|le parece|lo hago)",
        r"\b(?:cuando|si|una vez que|en cuanto|tan pronto como) (?:me )?(?:lo |la )?(?:confirm\w*|autoric\w*|aprueb\w*"
        r"|des (?:el|tu)|dé (?:el|su)|digas que sí|estás? de acuerdo)",
        r"\b(?:responde|responda|escribe|escriba|contesta|di)\b[^.?!\n]{0,20}\b(?:it|sí|ok)\b",
        r"\bsi (?:está|te|le|todo) (?:bien|parece|correcto)\b",
        r"\bcon (?:tu|su) (?:permiso|aprobación|autorización|confirmación)\b",
    ),
    offer=_any(
        r"\bsi (?:lo )?(?:quieres?|desea[s]?|prefieres?|gusta[s]?|te parece)\b[^.?!\n]{0,60}\b(?:puedo|podría"
        r"|te|le|lo)\b",
        r"\bpuedo (?!ayudar|servir|ofrecer|hacer nada)\w+(?:ar|er|ir)(?:l[oae]s?)?\b",
        rf"\bpuedo\b{_GAP}\bsi (?:lo )?(?:quieres?|desea[s]?)\b",
    ),
    more=_any(
        r"\b(?:también|además|otr[oa]s?|más tarde|después|luego|algo más|adicional\w*|en otro momento|asimismo)\b"
    ),
    choice=_any(
        r"¿[^?\n]{1,160}\bo (?!no\b|prefieres? (?:que (?:pare|espere)|esperar|cancelar)|cancelo|lo dejo|espero|hay)[^.!?\n]{0,120}\?"
    ),
    open_question=_any(
        r"(?:¿|\b)(?:cuál(?:es)?|qué|quién(?:es)?|cuándo|dónde|adónde|cómo|cuánt[oa]s?|por qué)\b[^.!?\n]{0,200}\?"
    ),
    wants=_any(
        r"\b(?:por favor|indi(?:ca|que)\w*|proporcion\w*|facilít\w*|facilit[ae]\w*|dame|deme|dime|dígame|necesito"
        r"|complet[ae]\w*|rellen[ae]\w*|envíame|envíeme|especifi(?:ca|que)\w*|falta[n]?|elige|elija|introduzca"
        r"|introduce|en cuanto (?:tenga|los|me))\b",
        r"\b(?:siguientes|estos) (?:datos|parámetros|campos|detalles|valores)\b|\bhacen? falta\b",
    ),
    announces=_any(
        r"\bvoy a (?!necesitar|tener que pedir)\w+|\bvamos a \w+|\b(?:déjame|déjeme|permíteme|permítame)\b"
        r"|\b(?:procedo|paso|procederé|pasaré) a\b|\bme (?:pongo|encargo|ocupo|dispongo)\b|\bmanos a la obra\b",
        r"\b\w{3,}(?:aré|eré|iré|dré|bré|rré|haré)\b|\bharé\b|\bveré\b|\bdiré\b",
        rf"\b(?:ahora|primero|luego|después|enseguida|ya|a continuación|entonces|seguidamente|ahora mismo),?"
        rf" (?:mismo )?(?:lo |la |los |las |te |le |se )*{_ES_DO}\b",
        rf"(?:^|[,;:.] )\s*(?:y |lo |la |los |las |te |le )*{_ES_DO} (?!que\b|y \w+ que)(?:el|la|los|las|un|una|en"
        r"|ahora|primero|de inmediato|a|con|por|todo|todos|tu|su)\b",
        r"\bestoy (?!sin|segur)\w+(?:ando|iendo|yendo)\b|(?:^|[,:;] )\W*\w+(?:ando|iendo|yendo)\b[^.?!\n]{0,100}(?:\.\.\.|:$"
        r"|\bahora\b|\.$)",
        r"\b(?:un|dame un|deme un) (?:momento|segundo|instante|momentito)\b|\b(?:enseguida|en seguida"
        r"|de inmediato|ahora mismo|espera un|espere un)\b|\bvuelvo con\b|\ben breve\b|\ba continuación\b",
        r"\b(?:tengo que|debo|necesito|hay que|me falta|toca) (?:\w+ )?(?:revisar|comprobar|verificar|consultar"
        r"|leer|buscar|mirar|ver|localizar|averiguar|abrir|ejecutar|obtener)\b",
        r"\b(?:próximo|siguiente|primer) paso\b",
    ),
    waits=_any(
        r"\?|\b(?:si|cuando|en cuanto|una vez que|hasta que|a menos que) (?:me |lo |tú |usted |alguien )?(?:quieres?"
        r"|desea|confirm|indi|dig|des|envíe|pegu|pued|prefier|neces|autori|aprueb|pas)\w*",
        r"\b(?:dime|dígame|avísame|avíseme|indícame|indíqueme)\b|"
        rf"{_POR_FAVOR}|\bno (?:voy|lo|la|se|he|puedo|podré|haré"
        r"|volveré|reintentaré|intentaré|tengo)\b|\b(?:puedes|puede|podrías|podría|debes|debe|tienes que|tiene que)\b"
        r"|\bpróximos pasos\b|\bquedo a\b|\bespero\b",
    ),
    refuses=_any(
        r"\bno (?:puedo|podemos|tengo|estoy autorizad\w|me está permitid\w|he podido|se puede|está permitid\w"
        r"|es posible|existe|hay|dispongo|voy a)\b(?![^.?!\n]{0,60}\b(?:sin|hasta|antes)\b)",
        r"\b(?:rechazad[oa]|denegad[oa]|rechazaste|denegó|rechazó|prohibid[oa]|bloquead[oa])s?\b|\bninguna herramienta\b|\ben su lugar\b",
        r"\bno (?:enviaré|haré|borraré|daré|mandaré|ejecutaré|transferiré|cambiaré|modificaré)\b",
    ),
    mandated=_any(
        r"\b(?:política|normativa|reglamento|normas?|organización|ley|procedimiento|empresa|reglas?)\b[^.?!\n]{0,40}"
        r"\b(?:exig|pid|requier|oblig|dic|impon|prohíb)\w*",
        r"\b(?:explícit\w*|por escrito|literalmente|estoy obligad\w|debo leer\w*)\b",
        r"\birreversible\w*\b|\bno (?:se (?:puede|podrá)|tiene) (?:deshacer|revertir|recuperar|vuelta atrás)\w*"
        r"|\bdefinitiv[oa]\w*\b",
    ),
    unclear=_any(
        r"\bcuál(?:es)? de\b|\ba (?:cuál|quién)\b|\bte refieres\b|\bse refiere\b|\bambigu\w*\b|\bcuál es el (?:correcto"
        r"|bueno|tuyo)\b|\b(?:dos|tres|varios|varias) (?:\w+ ){0,2}(?:llamad|con ese|con el mismo|que coincid|contactos"
        r"|personas|cuentas)\w*",
        r"\bno (?:\w+ ){0,2}(?:dicho|dijiste|indicad|indicaste|has dado|mencion|consta|aparece|figura|encontrad"
        r"|encuentro|encontré|inventar|adivinar|deducir)\w*",
    ),
    field=_any(
        r"\b(?:obligatori[oa]s?|requerid[oa]s?|opcional(?:es)?|por defecto|predeterminad[oa]|cadena|enter[oa]|texto"
        r"|número|booleano|lista|parámetros?|campos?)\b"
    ),
    spare=_any(
        r"\b(?:opcional(?:es|mente)?|por defecto|predeterminad[oa]|normalmente|habitualmente)\b"
    ),
    only_talk=_any(
        r"^\W*(?:puedes |podrías )?(?:me )?(?:explic\w*|descri[bv]\w*|explíc\w*)\b",
        r"^\W*(?:qué|cuáles son los|cuáles) (?:\w+ )?(?:parámetros|campos|datos|argumentos|hace|devuelve|necesita"
        r"|significa|recibe|opciones|es)\b",
        r"^\W*(?:cómo (?:funciona|se usa|uso|sería|se llama)|para qué sirve)\b",
        r"\bsin (?:\w+ )?(?:ejecutar|enviar|lanzar|cambiar|borrar|crear|hacer)\w*\b|\bno (?:l[oa]s? )?(?:ejecutes|envíes"
        r"|hagas|mandes|lances|cambies|borres|crees|ejecute|envíe|haga)\b",
        r"\b(?:solo|sólo|únicamente|primero|solamente) (?:\w+ )?(?:un|el) (?:plan|borrador)\b|\b(?:haz|hazme|redacta"
        r"|propón|prepara)\w* un (?:plan|borrador)\b|\b(?:muéstrame|enséñame) (?:cómo|qué)\b"
        r"|^\W*(?:hola|gracias|buenos días|buenas tardes)\b\W*\w*\W*$",
    ),
    asks_facts=_any(
        r"^\W*¿|^\W*(?:cuál|cuáles|qué|quién|cuándo|dónde|cuánt[oa]s?|cómo|hay|muestra|muéstrame|lista|busca|dime"
        r"|compara|resume)\b"
    ),
)

_PT_DO = (
    r"(?:calculo|peço|compro|traduzo|compartilho|partilho|converto|implanto|subo|abro|acesso|adiciono|agendo|altero|analiso|apago|aplico|arquivo|atualizo|baixo|busco|cancelo|carrego"
    r"|chamo|começo|comparo|confiro|configuro|consulto|continuo|copio|corrijo|coloco|crio|deixo|desligo|edito"
    r"|elimino|envio|escrevo|examino|excluo|executo|faço|fecho|gero|gravo|inicio|instalo|investigo|lanço|leio"
    r"|ligo|localizo|mando|marco|movo|mudo|obtenho|olho|passo|pego|pesquiso|preparo|procedo|procuro|programo"
    r"|prossigo|publico|realizo|registro|registo|renomeio|reservo|reviso|rodo|salvo|sigo|somo|testo|tento"
    r"|transfiro|trato|troco|uso|utilizo|vejo|verifico|vou)"
)
_PT_OK = r"(?:confirmação|autorização|aprovação|permissão|resposta|luz verde|ok|aval|sinal verde)"
_PT = Phrases(
    "pt",
    leave=_any(
        r"\b(?:quer|queres|deseja|desejas|querem|prefere|preferes|gostaria|gostarias) (?:de )?que (?!horas?|dia)",
        r"\b(?:quer|queres|deseja|desejas|gostaria de|gostarias de) (?!saber|ver|conhecer)\w+(?:ar|er|ir)\b",
        rf"\b(?:devo|posso|podemos|poderia|devemos) (?!ajud|ser útil|servir)(?:eu )?\w+(?:r|r-\w+)?\b{_GAP}\?",
        rf"(?:^|[.!,;:] )\s*(?:e |então |já |eu |agora )*{_PT_DO}\b(?:-[oa]s?)?{_GAP}\?",
        r"\b(?:confirma|confirme|confirmas|confirmem|confirmar|aprova|autoriza)\b[^.?!\n]{0,40}(?:\?|\bque\b|\bpara\b"
        r"|\be\b|\bse\b|$)",
        r"\b(?:por favor,?|pode|podes|poderia|preciso que|é só) (?:\w+ )?(?:confirm|autoriz|aprov)\w*",
        r"\b(?:está|estás|tá) (?:certo|bem|ok|correto|de acordo|pronto|bom)\b[^.?!\n]{0,40}\?|\bpode ser\?"
        r"|\btudo (?:bem|certo|ok)\b[^.?!\n]{0,40}\?|\bde acordo\?|\bconcorda\b|\btem certeza\b|\b(?:vamos|seguimos"
        r"|avanço)\b[^.?!\n]{0,40}\?",
        rf"\b(?:aguardo|espero|aguardando|esperando|fico no aguardo d[ao]|preciso d[ao]|à espera d[ao]|no aguardo d[ao])"
        rf" (?:a |o )?(?:sua|seu|tua|teu) {_PT_OK}",
        rf"\b(?:me dê|dê-me|dá-me|me dá) (?:o|a|seu|sua|um) {_PT_OK}",
        r"\b(?:me avise|avise-me|avisa-me|me diga|diga-me|diz-me|me avisa) (?:se|quando) (?:devo|posso|quer|queres|está"
        r"|estiver|puder|deseja|for para)",
        r"\b(?:se|quando|assim que|depois que|logo que) (?:você |o senhor |tu )?(?:me )?(?:confirmar\w*|autorizar\w*"
        r"|aprovar\w*|concordar\w*|der (?:o|a)|disser que sim|estiver de acordo)",
        r"\b(?:responda|responde|digite|escreva|diga)\b[^.?!\n]{0,20}\b(?:it|sim|ok)\b",
        r"\bse (?:estiver|está|tudo) (?:bem|ok|certo|de acordo)\b",
        r"\bcom (?:a )?(?:sua|tua) (?:permissão|autorização|aprovação|confirmação)\b",
    ),
    offer=_any(
        r"\bse (?:você )?(?:quiser\w*|desejar\w*|preferir\w*|precisar\w*)\b[^.?!\n]{0,60}\b(?:posso|poderia|eu|vou)\b",
        r"\bposso (?!ajud|oferecer|fazer nada)(?:te |lhe )?\w+(?:ar|er|ir)(?:-l?[oa]s?)?\b",
        rf"\bposso\b{_GAP}\bse (?:você )?(?:quiser\w*|desejar\w*)\b",
    ),
    more=_any(
        r"\b(?:também|além|outr[oa]s?|depois|mais tarde|mais alguma|algo mais|adicional\w*|em outro momento|ainda)\b"
    ),
    choice=_any(
        r"\bou (?!não\b|prefere (?:que eu (?:pare|espere)|esperar|cancelar)|cancelo|deixo|espero|há)[^.!?\n]{0,120}\?"
    ),
    open_question=_any(
        r"\b(?:qual|quais|que|quem|quando|onde|aonde|como|quant[oa]s?|por que|porque|o que)\b[^.!?\n]{0,200}\?"
    ),
    wants=_any(
        r"\b(?:por favor|informe|informa|forneça|fornece|me (?:diga|passe|envie|diz|passa|dê)|diga-me|diz-me|preciso d\w+"
        r"|preciso que|preencha|preenche|indique|indica|especifique|envie|falta[m]?|escolha|assim que (?:eu|tiver|me))\b",
        r"\b(?:seguintes|estes|esses) (?:dados|parâmetros|campos|detalhes|valores|informações)\b|\bseguintes informações\b",
    ),
    announces=_any(
        r"\b(?:vou|irei) (?!precisar|ter que pedir|ficar|esperar|aguardar|deixar)(?:agora |já |primeiro |então |logo |só )?"
        r"\w+(?:r|r-\w+)\b|\bvamos \w+r\b",
        r"\b(?:deixe-me|deixa-me|deixa eu|me deixe|me deixa|permita-me)\b|\b(?:passo|procedo|passarei) a\b"
        r"|\bmãos à obra\b|\bpode deixar\b|\bcuido disso\b|\btrato disso\b",
        r"\b\w{3,}(?:arei|erei|irei)\b|\bfarei\b|\bverei\b|\btrarei\b",
        rf"\b(?:agora|primeiro|em seguida|depois|já|a seguir|então|logo|imediatamente|de seguida),? (?:eu |te |lhe |já )*"
        rf"{_PT_DO}\b",
        rf"(?:^|[,;:.] )\s*(?:e |eu |já |te |lhe )*{_PT_DO} (?:o|a|os|as|um|uma|no|na|nos|nas|agora|primeiro|por|com|tudo"
        r"|todos|já|seu|sua)\b",
        r"\bestou (?!sem|cert)(?:\w+(?:ando|endo|indo|pondo)|a \w+r)\b|(?:^|[,:;] )\W*\w+(?:ando|endo|indo)\b[^.?!\n]{0,100}(?:\.\.\."
        r"|:$|\bagora\b|\.$)",
        r"\b(?:um|só um|me dê um|dá-me um) (?:momento|instante|minuto|segundo|momentinho|minutinho)\b|\baguarde\b"
        r"|\b(?:em seguida|de imediato|agora mesmo|já já|em breve|daqui a pouco|a seguir)\b|\bjá volto\b|\bretorno com\b",
        r"\b(?:preciso|tenho (?:que|de)|devo|falta|é preciso|necessito) (?:\w+ )?(?:conferir|verificar|consultar|ler|buscar"
        r"|checar|ver|localizar|descobrir|abrir|executar|obter|olhar|revisar|rever)\b",
        r"\b(?:próximo|seguinte|primeiro) passo\b",
    ),
    waits=_any(
        r"\?|\b(?:se|quando|assim que|depois que|até que|a menos que|caso) (?:me |você |o senhor |alguém )?(?:quiser|desejar"
        r"|confirmar|indicar|disser|der|enviar|colar|puder|preferir|precisar|autorizar|aprovar|passar|queira)\w*",
        r"\b(?:me diga|diga-me|me avise|avise-me|me informe)\b|"
        rf"{_POR_FAVOR}|\bnão (?:vou|irei|posso|consigo|tenho|foi|farei"
        r"|tentarei|há|será)\b|\b(?:você )?(?:pode|podes|poderia|deve|deves|precisa)\b (?!deixar)|\bpróximos passos\b"
        r"|\bfico (?:à|no)\b|\baguardo\b",
    ),
    refuses=_any(
        r"\bnão (?:posso|podemos|consigo|tenho|estou autorizad\w|me é permitid\w|pude|é possível|é permitid\w|existe|há"
        r"|vou|foi possível|disponho)\b(?![^.?!\n]{0,60}\b(?:sem|até|antes)\b)",
        r"\b(?:recusad[oa]|negad[oa]|recusou|negou|rejeitad[oa]|rejeitou|proibid[oa]|bloquead[oa])s?\b|\bnenhuma ferramenta\b|\bem vez disso\b",
        r"\bnão (?:enviarei|farei|apagarei|darei|mandarei|executarei|transferirei|alterarei)\b",
    ),
    mandated=_any(
        r"\b(?:política|norma|normas|regulamento|regras?|organização|lei|procedimento|empresa)\b[^.?!\n]{0,40}\b(?:exig|ped"
        r"|requer|obrig|diz|determin|proíb|manda)\w*",
        r"\b(?:explícit\w*|por escrito|literalmente|sou obrigad\w|devo ler\w*|expressa)\b",
        r"\birreversíve\w*\b|\bnão (?:pode|poderá|há como|dá para) (?:ser )?(?:desfeit|desfazer|revertid|reverter|recuper)\w*"
        r"|\bdefinitiv[oa]\w*\b",
    ),
    unclear=_any(
        r"\bqual d\w+\b|\bquais d\w+\b|\ba (?:qual|quem)\b|\bse refere\b|\bte referes\b|\bestá falando\b|\bquis dizer\b"
        r"|\bambígu\w*\b|\b(?:dois|duas|três|vários|várias) (?:\w+ ){0,2}(?:chamad|com esse|com o mesmo|que correspond"
        r"|contatos|contactos|pessoas|contas)\w*",
        r"\bnão (?:\w+ ){0,2}(?:disse|informou|indicou|deu|mencion|consta|aparece|encontr|inventar|adivinhar|deduzir"
        r"|informad|indicad)\w*",
    ),
    field=_any(
        r"\b(?:obrigatóri[oa]s?|requerid[oa]s?|opciona(?:l|is)|(?:por )?padrão|predefinid[oa]|texto|inteiro|número|booleano"
        r"|lista|parâmetros?|campos?)\b"
    ),
    spare=_any(
        r"\b(?:opciona(?:l|is|lmente)|(?:por )?padrão|predefinid[oa]|por omissão|normalmente|geralmente)\b"
    ),
    only_talk=_any(
        r"^\W*(?:pode |podes |poderia )?(?:me )?(?:expli[cq]\w*|descrev\w*)\b",
        r"^\W*(?:o que|quais(?: são)?(?: os)?|que) (?:a ferramenta )?(?:\w+ )?(?:parâmetros|campos|dados|argumentos|faz"
        r"|devolve|retorna|precisa|significa|recebe|opções|é)\b",
        r"^\W*o que a? ?(?:ferramenta )?\w+ (?:faz|devolve|retorna|precisa|espera)\b",
        r"^\W*(?:como (?:funciona|se usa|uso|seria)|para que serve)\b",
        r"\bsem (?:\w+ )?(?:executar|enviar|rodar|mudar|alterar|apagar|criar|fazer)\b|\bnão (?:[oa]s? )?(?:execute|envie|faça"
        r"|rode|altere|apague|crie|executes|envies|faças)\b",
        r"\b(?:só|somente|apenas|primeiro) (?:\w+ )?(?:um|o) (?:plano|rascunho|esboço)\b|\b(?:faça|faz|redija|proponha|prepare"
        r"|monte) (?:apenas )?um (?:plano|rascunho)\b|\b(?:mostre|mostra)(?:-me)? (?:como|o que)\b"
        r"|^\W*(?:olá|oi|obrigad[oa]|bom dia|boa tarde|boa noite)\b\W*\w*\W*$",
    ),
    asks_facts=_any(
        r"^\W*(?:qual|quais|que|quem|quando|onde|quant[oa]s?|como|há|existe|mostre|mostra|liste|lista|busque|procure|compare"
        r"|resuma|o que)\b"
    ),
)

_ZH_DO = (
    r"(?:查|看|读|翻|瞧|拿|问|调|切换|放|记|算|转|阅读|搜|检索|获取|提取|抓取|创建|新建|建立|执行|调用|运行|打开|关闭|删除|清理|发送|发|寄|处理|分析|检查|核对"
    r"|核实|修改|更新|改|生成|继续|启动|整理|安排|汇总|定位|排查|测试|添加|设置|开始|提交|预订|订|预约|取消|下载|上传|导出|导入"
    r"|备份|部署|重启|写|编写|替换|重命名|转账|登记|录入|统计|计算|比较|对比|收集|着手|办理|操作|完成|进行|为您|帮您|帮你|给您|给你"
    r"|了解|确定|使用|尝试|播放|浏览|扫描|总结|翻译|查找|实施)"
)
_ZH = Phrases(
    "zh",
    leave=_any(
        rf"(?:是否|要不要|需不需要|可否|能否|可不可以|能不能)(?!还|有其他|知道|提供|告诉)[^。?!\n]{{0,30}}{_ZH_DO}",
        rf"需要[^。?!\n]{{0,12}}{_ZH_DO}[^。?!\n]{{0,20}}(?:吗|么)",
        r"(?:需要|要|想让|希望|想要|让|允许|同意|介意)(?:我|我们)[^。?!\n]{0,40}(?:吗|么|\?)",
        rf"(?:我|我们)?(?:可以|能|现在|这就|直接|就)[^。?!\n]{{0,20}}{_ZH_DO}[^。?!\n]{{0,20}}(?:吗|么|\?)",
        r"(?:确定|确认)(?:要|需要|现在)?[^。?!\n]{0,20}(?:吗|么)|(?:您|你)(?:想|要|希望)[^。?!\n]{0,20}(?:吗|么)",
        r"(?:请|麻烦)(?:您|你)?(?:先)?(?:再次)?(?:确认|批准|授权|同意)(?!收件|地址)",
        r"(?:您|你)?(?:确认|同意|批准|授权)(?:后|之后|了|一下|无误|即可|的话|,我|吗|执行|继续)",
        r"(?:等待?|等候|静候|期待)(?:您|你)的?(?:确认|批准|同意|指示|答复|回复|许可|授权)",
        r"(?:可以|行|好|对|没问题|继续|确定|确认|要继续|同意)(?:吗|么|不)\s*\?|(?:如何|怎么样|可好)\?",
        r"(?:回复|输入|回答|说)[^。?!\n]{0,6}(?:it|确认|继续|是|好|可以|ok|yes)",
        r"(?:如果|若|只要|一旦)(?:没问题|没有问题|可以|同意|您同意|你同意|您确认|你确认|确认无误|无误|没有异议|ok)",
        r"(?:没问题|可以|同意|方便)的话",
        r"(?:征得|得到|获得|经)(?:您|你)的?(?:同意|许可|批准|授权|确认)",
    ),
    offer=_any(
        r"(?:如果|若|如)(?:您|你)?(?:需要|愿意|想|希望|有需要|有需求)[^。?!\n]{0,30}(?:我)?(?:可以|能|会|就)",
        rf"(?:我|我们)(?:现在|随时|马上)?(?:可以|能)(?:帮您|帮你|为您|为你|直接|立即|马上|现在)*{_ZH_DO}",
        r"需要(?:的话|时)[^。?!\n]{0,20}我?(?:可以|能|就)",
    ),
    more=_any(r"(?:也|还|另外|其他|别的|以后|进一步|更多|另|此外|同时)"),
    choice=_any(r"(?:还是)(?!不|算了|先不|取消)[^。?!\n]{1,60}"),
    open_question=_any(
        r"(?:什么|哪|谁|何时|几|多少|怎么|怎样|如何|为什么|多久|多长|多大)[^。?!\n]{0,60}(?:\?|呢|$)"
    ),
    wants=_any(
        r"请(?:您|你)?(?:先|再)?(?:提供|告知|告诉|填写|给出|补充|选择|输入|说明|指定|发给|列出|把|将|明确|回复)",
        r"(?:还|仍)?(?:需要|缺|缺少|差|需)(?:您|你|以下|下列|两|三|一|几|提供|知道|如下)|(?:以下|下列|如下)(?:信息|参数|内容|字段|资料)"
        r"|(?:请问|麻烦(?:您|你))|(?:提供|给我)[^。?!\n]{0,20}(?:后|之后|即可|就)|的?取值",
    ),
    announces=_any(
        rf"(?:我|我们|系统)?(?:先|将|会(?![议员计])|来|马上|这就|现在|立即|立刻|接下来|接着|然后|正在|开始|首先|随后|稍后|即将|下一步|再|去|就|继续"
        rf"|准备|需要先|得先|要先|打算|正){{1,4}}(?!提供|告诉|请|由|怎么|如何)[^。?!,\n]{{0,12}}{_ZH_DO}",
        r"(?:这就|马上|立即|立刻|现在就|即刻)(?!需要|请|告诉|要)[^。?!\n]{1,20}|我(?:先|去|来|将)(?!不|没|需要|请|无)[^。?!,\n]{1,20}",
        r"让我|(?:请|您|你)?稍[等候]|请(?:您|你)?等|(?:很快|马上)(?:就)?(?:有|好|给|为|回)|交给我|我来[^。?!\n]{0,12}$",
        rf"(?:^|[,。])(?:好的|收到|明白|没问题|了解)[,。!]?[^。?!\n]{{0,10}}(?:我|这)[^。?!\n]{{0,10}}{_ZH_DO}",
        r"(?:下一步|下面|接下来)(?:是|就是|:)",
    ),
    waits=_any(
        r"\?|(?:吗|呢)(?:$|[。!,])|(?:由|请|等|看)(?:您|你)(?:决定|选择|定|提供|告|确认|指示|说)|请(?:您|你)?(?:先)?(?:提供|告|补充|说明|选择"
        r"|输入|指定|把|将|明确|确认|联系|检查|登录)|(?:如果|若|假如|如需|如有|一旦|只要|除非)(?!干)|等(?:您|你|对方|管理员)",
        r"(?:不|无法|不能|没有|没法|未)(?:会|再|能|可以)?(?:重试|执行|继续|处理|更改|删除|操作|进行|自行)|(?:您|你)(?:可以|可|需要|得|应该|能)"
        r"|(?:怎么|如何)[^。?!\n]{0,8}(?:由|取决)|告诉我|建议(?:您|你)?|随时",
    ),
    refuses=_any(
        r"(?:我|系统|这里)?(?:无法|不能|没办法|不可以|无权|没有权限|没有[^。?!\n]{0,10}权限|不会|不支持|不允许|不被允许|做不到)(?!推断|编造|确定|猜|判断)"
        r"|(?:拒绝|被拒|驳回|未获批准|禁止|改为|失败|未执行|没有执行|没有找到合适)",
    ),
    mandated=_any(
        r"(?:规定|政策|制度|规范|条例|法规|公司|流程|合规|按要求|根据要求)[^。?!\n]{0,20}(?:要求|必须|需要|须|应|规定|不得)|(?:明确|书面|逐字)(?:的)?(?:确认|同意)"
        r"|(?:不可逆|无法(?:撤销|恢复|撤回|还原)|不能(?:撤销|恢复|撤回)|不可(?:撤销|恢复))|复述|核对(?:您|你)的",
    ),
    unclear=_any(
        r"(?:指的是|是指|哪一?(?:位|个人|家|份|台)|多位|同名|多个|两个|两位|三个|几个)|(?:还|仍)?(?:缺|差)(?:少)?|(?:没有|没|未)(?:说|提到|提供|给出|指定|说明|注明|找到|查到)"
        r"|(?:无法|不能|没法)(?:推断|猜测|编造|确定|自行|判断)|只(?:提供|给|说)了",
    ),
    field=_any(
        r"(?:必填|必需|必须|可选|选填|非必填|默认|字符串|整数|数字|布尔|数组|类型|参数|字段)"
    ),
    spare=_any(r"(?:可选|选填|非必填|默认|可以不填|可留空|一般)"),
    only_talk=_any(
        r"^\W*(?:请|帮我|能不能|可以|麻烦)?(?:您|你|给我)?(?:解释|说明|介绍|讲讲|描述)",
        r"(?:有|需要|要)(?:哪些|什么|几个)(?:必填|必需|可选)?(?:的)?(?:参数|字段|信息|内容|选项|参数呢)",
        r"(?:怎么|如何)(?:用|使用|工作|调用|运作)|是什么(?:意思|工具|\?|$)|(?:返回|会返回)(?:什么|哪些)|有什么用|做什么(?:用|的)",
        r"(?:不要|先别|别|暂不|无需|不用)(?:真的|真|马上|立即|直接)?(?:执行|发送|运行|调用|提交|删除|修改|动)|(?:不|别)(?:执行|发送|运行)(?:,|。|$)",
        r"(?:只|先|仅)[^。?!\n]{0,8}(?:计划|方案|草稿|思路)|(?:写|列|做|拟|制定|给)(?:一?个|一份|出|个)?[^。?!\n]{0,4}(?:计划|方案)(?:$|[,。])|示例"
        r"|^\W*(?:你好|您好|谢谢|早上好|晚上好|多谢)[^。?!\n]{0,6}$",
    ),
    asks_facts=_any(
        r"(?:多少|哪些|哪个|哪位|什么|几|谁|怎么样|如何|吗|呢)[^。\n]{0,8}(?:\?|$)|^\W*(?:查|查询|看看|列出|显示|比较|对比|总结|搜索|找)"
    ),
)

_JA_NOUN = (
    r"(?:確認|検索|作成|実行|送信|登録|予約|調査|取得|更新|削除|開始|設定|調整|読み込み|読み取り|追加|分析|修正|対応|手配|準備|着手|検証"
    r"|呼び出し|解析|集計|参照|変更|整理|移動|起動|再生|閲覧|収集|比較|抽出|処理|追跡|照会|点検|入力|転送|適用|申請|発行|発注|注文|停止"
    r"|消灯|点灯|公開|保存|提出|キャンセル|スキャン|チェック|バックアップ|ダウンロード|アップロード|インストール|テスト|デプロイ|クリック"
    r"|翻訳|要約|計算|特定|把握|測定|計測|お調べ|お探し|発送|選択|生成|構築|接続|共有|復元|復旧|返金|送金|購入|手続き|記録|変換|同期|連絡|案内|試算|再起動|再開|続行|継続|進行|書き換え|切り替え|呼出)"
)
_JA_VERB = (
    r"(?:調べ|読み|探し|見|開き|閉じ|取りかかり|取り掛かり|進め|進み|始め|行い|書き|直し|送り|消し|作り|当たり|移り|試し|かけ|掛け|まとめ"
    r"|入れ|入り|付け|つけ|止め|動かし|出し|続け|呼び出し|読み込み|読み取り|立ち上げ|取り|差し替え|書き換え|切り替え|お調べし|取りかから"
    r"|見て(?:い|み)|取って(?:い|き)|やり|やってみ|回し|流し|おこない)"
)
_JA = Phrases(
    "ja",
    leave=_any(
        r"(?:ても|でも)(?:よろし|いい|良い|宜し|構|かま|大丈夫|問題)[^。\n]{0,20}(?:か|\?)",
        r"(?:よろし|宜し)い?(?:い)?(?:です|でしょう)か|(?:いい|良い|大丈夫)(?:です|でしょう)か|これで(?:いい|良い)\?",
        r"(?:し|い|き|り|め|け|ち|み|び|せ|え|れ|て)ましょうか",
        rf"(?:{_JA_NOUN}(?:を)?(?:実行|開始)?し|{_JA_VERB})ますか",
        r"(?:して|進めて|めて|えて|って|んで|けて|いて)(?:よろし|宜し|よ|良)けれ?ば",
        r"(?:進めて|始めて|続けて|実行して|開始して)(?:よ|い|良)[いけろ]",
        r"(?:ご)?(?:確認|承認|許可|了承|同意|承諾|指示|了解|判断)(?:の上|の程)?(?:を|の)?(?:お?願い|いただけ|ください|下さい|お?待ち|頂け|いただき(?:たい|ましたら"
        r"|次第)|くだされば|お聞かせ)",
        r"(?:問題|差し支え|異存|間違い)(?:が|は)?(?:なけれ?ば|ないでしょうか|ありませんか|ないですか|ございませんか)",
        r"(?:はい|it|ok|yes)(?:」|と|で)?(?:お?答え|ご?返信|お?返事|入力|返答)|(?:お?返事|ご?回答|ご?返答)(?:を)?(?:お待ち|いただ|ください)",
        r"(?:ご希望|お望み)(?:です|でしょう)か|(?:進め|続け|続行し|実行し)(?:て)?(?:ほしい|欲しい)(?:です|でしょう)か",
        r"(?:許可|承認|了承|確認|ok)(?:を|が)(?:いただけ|もらえ|得られ|頂け|とれ|取れ)(?:れば|たら|次第|ましたら|ますか)",
    ),
    offer=_any(
        rf"{_JA_NOUN}(?:を|する(?:こと)?(?:が|も|は)?|いただくことが)?(?:できます|可能です)",
        r"(?:よろしければ|宜しければ|よければ|必要(?:であれば|なら|でしたら|に応じて)|ご希望(?:であれば|なら|でしたら)|ご要望)[^。\n]{0,50}"
        r"(?:ます|できます|可能です|ください)",
    ),
    more=_any(
        r"(?:ほか|他に|別|また|さらに|追加で|あわせて|併せて|後ほど|今後|引き続き)|も(?:作成|用意|お?出し|まとめ|可能)"
    ),
    choice=_any(r"(?:それとも|あるいは|または)[^。\n]{1,60}|か[、,][^。?\n]{1,40}(?:か|\?)"),
    open_question=_any(
        r"(?:どの|どちら|どれ|どこ|どう|どんな|何|なに|いつ|誰|だれ|どなた|いくつ|いくら|なぜ)[^。\n]{0,60}(?:か|\?|ください|下さい)"
    ),
    wants=_any(
        r"(?:教えて|お?知らせ|お聞かせ|ご?提供|ご?入力|ご?指定|ご?指示|ご?記入|お選び|選択して|お伝え|ご連絡)[^。\n]{0,12}(?:ください|下さい|いただけ|願い|頂け|もらえ"
        r"|くだされば|いただき|いただければ)",
        r"(?:が|は|も)(?:必要|不足|足り|要り|不明|わかりません|分かりません)|(?:以下|次|下記)の(?:情報|項目|パラメータ|値|内容|引数|フィールド)",
    ),
    announces=_any(
        rf"{_JA_NOUN}(?:を|に)?(?:開始|実施|実行|行い|着手|取りかか|入)?(?:いた|させて(?:いただき|頂き))?(?:し|り|いたし|致し|せていただき)?ます(?!か|が)",
        rf"{_JA_NOUN}(?:を)?(?:し|行っ|始め|進め|開始し)?(?:て|で)(?:み|い|いき|まい|おき|参り|お)?(?:り)?ます(?!か|が)",
        rf"{_JA_VERB}ます(?!か|が)|(?:て|で)(?:み|いき|おき|まいり|参り|きます|き)ます(?!か|が)",
        rf"{_JA_NOUN}(?:中|しています|しております)|(?:お待ち|少々待って)(?:ください|下さい|いただけ|くださいませ)|少々お待ち|しばらくお待ち",
        r"(?:これから|今から|ただいま|すぐに|直ちに|次は|続いて|まず|では、|それでは)[^。\n]{0,60}(?:ます|です|る|う)(?:。|$|:|\.)",
        rf"{_JA_NOUN}(?:する|します|を始める|に入る|に移る|へ進む|に進む)(?:。|$|:|\.\.\.)",
    ),
    waits=_any(
        r"\?|(?:ます|です|でしょう|ません|ましょう)か(?:。|$|[、,])|(?:ください|下さい)(?!ませ)(?<!お待ちください)(?<!お待ち下さい)|(?:たら|れば|なら|場合|(?:いただき|頂き|ご連絡|ご返信|ご確認)次第)[、,は]?",
        r"(?:でき|出来|いたし|致し|し|行い|(?<!問題)(?<!問題は)(?<!問題も)(?<!問題が)(?<!間違い)あり|進め)ません|(?:できません|ませんでした|ていません|ておりません)|お任せ|ご判断|お願い(?:します|いたします|致します)|いつでも"
        r"|(?:でき|あり|なり|ござい|思い|存じ|いただけ|かかり|含まれ|示され|られ|され|言え|見え|わかり|分かり|おり)ます。?\Z",
    ),
    refuses=_any(
        r"代わりに|(?:できません|出来ません|できない|いたしかねます|致しかねます|かねます|権限(?:が|は)(?:ありません|ない|ございません)|許可されて(?:いません|おりません)"
        r"|対応していません|利用できません|見つかりません(?:でした)?|拒否され|却下され|否認され|禁止され|失敗しました)",
    ),
    mandated=_any(
        r"(?:規定|規則|ポリシー|方針|社内|法令|組織|規約|手順|ルール|コンプライアンス)[^。\n]{0,25}(?:必要|求め|義務|定め|必須|よ[りっ])|(?:明示的|書面|文言どおり|復唱|読み上げ)"
        r"|(?:元に戻せ|取り消せ|取り消し(?:は|が)?でき|復元(?:は|が)?でき|戻せ)(?:ません|ない)|不可逆",
    ),
    unclear=_any(
        r"(?:どちら|どの[^。\n]{1,12}のこと|どれのこと|お二人|二人|2人|複数|同名|二つ|2件|三人)|(?:指定|記載|言及|明記|情報)(?:され|が|は)?(?:てい)?(?:ません|ない|なく|おらず)"
        r"|(?:推測|推定|判断|特定|創作)(?:する)?(?:こと)?(?:は|が)?(?:でき|出来)|見つかりません|わからない|分からない",
    ),
    field=_any(
        r"(?:必須|任意|省略可|既定|デフォルト|文字列|整数|数値|真偽|配列|パラメーター?|項目|引数|初期値|フィールド)"
    ),
    spare=_any(r"(?:任意|省略|既定|デフォルト|初期値|通常)"),
    only_talk=_any(
        r"(?:について|を|の使い方を?)?(?:説明|解説)(?:して|を|だけ|してほしい|をお願い)|とは(?:何|なに|\?|$)|何を(?:返|し|す)|どんな(?:パラメータ|引数|項目|情報|値)",
        r"使い方|どう(?:使|動|やって)|(?:必須|必要)(?:な)?(?:項目|パラメータ|引数|情報)(?:は|を教|って|とは)|(?:何|なに)が必要|どの(?:項目|引数|パラメータ)",
        r"(?:実行|送信|作成|削除|変更|登録|呼び出)(?:は)?(?:し|さ)?(?:ない(?:で|$|。)|ず(?:に|、)|なくて)|(?:実行|送信)(?:は)?(?:不要|まだ)|まだ(?:実行|送信)",
        r"計画(?:だけ|のみ|案)|(?:計画|案|下書き)を(?:立て|出し|作っ|考え)(?:て|ください)|例を(?:見せ|示し)|^\W*(?:こんにちは|ありがとう|おはよう|こんばんは|お疲れ)[^。\n]{0,8}$",
    ),
    asks_facts=_any(
        r"(?:何|いつ|どこ|誰|どの|いくつ|いくら|どう|どれ)[^。\n]{0,20}(?:か|\?|$)|(?:教えて|見せて|調べて|検索して|探して|比較して|一覧)"
    ),
)

LANGUAGES: tuple[Phrases, ...] = (_EN, _DE, _FR, _ES, _PT, _ZH, _JA)
