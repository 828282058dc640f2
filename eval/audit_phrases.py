"""How prompts order a model to ask before it acts, by language.

Each language has the demands, the negations that turn one round, the sentences that are exempt
(the gateway or another part asks, or only a missing value is asked for), and a mend. In a demand,
the group `twice` marks a double negation ("never act without asking"), which no negation undoes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from breadcrumbs.prompts import DECOUPLED


@dataclass(frozen=True, slots=True)
class Language:
    """The phrasings of one language."""

    code: str
    demands: re.Pattern[str]
    negation: re.Pattern[str]
    exempt: re.Pattern[str]
    mend: str
    negation_stands: Literal["before", "within", "after"] = "before"
    """Where a negation stands to the demand: German puts it after the verb, Japanese at the end."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_EN = Language(
    "en",
    _any(
        r"(?P<twice>\b(?:never|do not|don't|must not|not|cannot|avoid)\b[^.;]{0,100}"
        r"\b(?:without|until|unless)\b[^.;]{0,100}\b(?:ask|confirm|permission|approv|consent|go-ahead|agree|ok\b))",
        r"\b(?:ask|asking|request|obtain|get|seek|require|secure)\b[^.;]{0,40}\b(?:confirmation|"
        r"permission|approval|consent|go-ahead|authori[sz]ation|sign-off)\b",
        r"\b(?:confirm|double-check|verify|check|clear)\b[^.;]{0,40}\b(?:with|from) (?:the |your )?"
        r"(?:user|customer|human|person|them|operator)\b",
        r"\bask\b[^.;]{0,40}\b(?:before|prior to|first)\b",
        r"\bask\b[^.;]{0,30}\b(?:if|whether) (?:you|they|it|the user|to)\b[^.;]{0,100}\b(?:proceed|"
        r"continue|go ahead|should|may|ok|okay|want)",
        r"\b(?:confirm|confirmation)\b[^.;]{0,40}\b(?:before|prior to)\b",
        r"\bbefore\b[^.;]{0,60},? (?:always |first |please |you must )*(?:ask|confirm)\b",
        r"\bwait for\b[^.;]{0,30}\b(?:confirmation|approval|permission|consent|go-ahead|to confirm"
        r"|to approve|to agree)\b",
        r"\b(?:only|not)\b[^.;]{0,40}\b(?:after|once|when|if)\b[^.;]{0,25}\b(?:confirms?|approves?"
        r"|agrees?|says? yes|confirmed|approved|agreed)\b",
        r"\buser (?:must|has to|needs to|should) (?:confirm|approve|agree)\b",
        r"\bwould you like (?:me )?to proceed\b",
    ),
    _any(r"\b(?:do not|don't|never|no need|without|not|avoid|instead of|rather than|stop)\b"),
    _any(
        r"\bgateway\b[^.;]{0,40}\b(?:asks?|holds?|handles?|confirms?|requests?|gets?|will|waits?)",
        r"\b(?:ask only|only ask)\b[^.;]{0,100}\b(?:missing|not given|found nowhere|required)\b",
    ),
    DECOUPLED[0],
)
_DE = Language(
    "de",
    _any(
        r"(?P<twice>\b(?:nie|niemals|nicht|nichts|keine?n?)\b[^.;]{0,100}\b(?:ohne|bevor|ehe)\b[^.;]{0,100}"
        r"(?:zustimm|bestätig|erlaubnis|genehmig|rückfrage|freigabe|einwillig|zu fragen))",
        r"\b(?:frag\w*|bitte\w*|hol\w*|erbitte\w*|einholen|verlang\w*|warte\w*)\b[^.;]{0,60}\b"
        r"(?:bestätigung|erlaubnis|zustimmung|genehmigung|freigabe|einwilligung|einverständnis)",
        r"\b(?:bestätigung|erlaubnis|zustimmung|genehmigung|freigabe|einwilligung)\b[^.;]{0,40}\b"
        r"(?:ein(?:holen|zuholen)?|abwarten|erfragen|erbitten|bitten|fragen)\b",
        r"\bfrag\w*\b[^.;]{0,60}\b(?:bevor|vorher|zuerst|zuvor)\b",
        r"\b(?:bevor|ehe|vor jede[mr])\b[^.;]{0,80}\b(?:(?:rück|nach)?frag\w*|bestätig\w*)\b",
        r"\b(?:lass\w*|lassen)\b[^.;]{0,60}\bbestätigen\b",
    ),
    _any(r"\b(?:nicht|nie|niemals|keine?n?|ohne|statt|anstatt|vermeide\w*)\b"),
    _any(
        r"\bgateway\b[^.;]{0,60}\b(?:fragt|hält|holt|bestätigt|erledigt)",
        r"\bfrag\w*\b[^.;]{0,10}\bnur\b[^.;]{0,100}\b(?:fehl|pflicht)",
    ),
    "Handle über das Gateway; dort genehmigt ein Mensch Schreibzugriffe. Frage nur nach einem"
    " fehlenden Pflichtwert.",
    negation_stands="within",
)
_FR = Language(
    "fr",
    _any(
        r"(?P<twice>\b(?:jamais|rien|pas|aucune?)\b[^.;]{0,100}\b(?:sans|avant)\b[^.;]{0,100}(?:confirm|accord|"
        r"autoris|permission|approb|demander))",
        r"\b(?:demand\w*|obten\w*|obtien\w*|sollicit\w*|attend\w*|requér\w*)\b[^.;]{0,50}\b"
        r"(?:confirmation|autorisation|permission|accord|approbation|consentement|validation)\b",
        r"\bdemand\w*\b[^.;]{0,50}\bavant (?:de|d'|toute?|chaque)",
        r"\bavant (?:de|d'|toute?|chaque)[^.;]{0,60}\b(?:demand|confirm)\w*",
        r"\b(?:confirm\w*|vérifi\w*|valid\w*)\b[^.;]{0,40}\b(?:avec|auprès de) (?:l'utilisateur|"
        r"l'utilisatrice|le client|lui)",
    ),
    _any(r"(?:\bne\b|\bn'|\bjamais\b|\bsans\b|\bpas\b|\bau lieu de\b|\bplutôt que\b)"),
    _any(
        r"\b(?:passerelle|gateway)\b[^.;]{0,60}\b(?:demande|retient|gère|confirme|obtient)",
        r"\bdemand\w*\b[^.;]{0,20}\b(?:uniquement|seulement|que)\b[^.;]{0,100}\b(?:manqu|requis|obligatoire)",
    ),
    "Agis par la passerelle ; une personne y approuve les écritures. Ne demande qu'une valeur"
    " obligatoire manquante.",
)
_ES = Language(
    "es",
    _any(
        r"(?P<twice>\b(?:nunca|no|nada|jamás)\b[^.;]{0,100}\b(?:sin|antes de|hasta que)\b"
        r"[^.;]{0,100}(?:confirm|permiso|aproba|autoriz|preguntar|consent))",
        r"\b(?:pid[ae]\w*|pedir|solicit\w*|obt[eé]n\w*|obtener|esper\w*|requier\w*)\b[^.;]{0,50}\b"
        r"(?:confirmación|permiso|aprobación|autorización|consentimiento|confirmar|confirme)\b",
        r"\bpregunt\w*\b[^.;]{0,60}\bantes de\b",
        r"\bantes de\b[^.;]{0,60}\b(?:pregunt|confirm|pid[ae]|solicit)\w*",
        r"\bconfirm\w*\b[^.;]{0,30}\bcon (?:el|la) (?:usuario|usuaria|cliente)\b",
    ),
    _any(r"\b(?:no|nunca|jamás|sin|en lugar de|en vez de|evit\w*)\b"),
    _any(
        r"\b(?:pasarela|gateway)\b[^.;]{0,60}\b(?:pide|retiene|gestiona|confirma|solicita)",
        r"\b(?:pregunt|pid)\w*\b[^.;]{0,20}\b(?:solo|sólo|únicamente)\b[^.;]{0,100}\b(?:falt|obligatori|requerid)",
    ),
    "Actúa por la pasarela; allí una persona aprueba las escrituras. Pregunta solo por un valor"
    " obligatorio que falte.",
)
_IT = Language(
    "it",
    _any(
        r"(?P<twice>\b(?:non|mai|nulla|niente)\b[^.;]{0,100}\b(?:senza|prima di|finché)\b"
        r"[^.;]{0,100}(?:conferm|permesso|approva|autorizz|chiedere|consens))",
        r"\b(?:chied\w*|richied\w*|otten\w*|ottien\w*|attend\w*|aspett\w*)\b[^.;]{0,50}\b"
        r"(?:conferma|permesso|approvazione|autorizzazione|consenso|confermare)\b",
        r"\bchied\w*\b[^.;]{0,60}\bprima (?:di|che)\b",
        r"\bprima (?:di|che)\b[^.;]{0,60}\b(?:chied|conferm|richied)\w*",
        r"\bconferm\w*\b[^.;]{0,30}\bcon (?:l'utente|il cliente|la persona)",
    ),
    _any(r"\b(?:non|mai|senza|invece di|anziché|evita\w*)\b"),
    _any(
        r"\bgateway\b[^.;]{0,60}\b(?:chiede|trattiene|gestisce|conferma|richiede)",
        r"\bchied\w*\b[^.;]{0,20}\b(?:solo|soltanto)\b[^.;]{0,100}\b(?:manc|obbligatori|richiest)",
    ),
    "Agisci tramite il gateway; lì una persona approva le scritture. Chiedi solo un valore"
    " obbligatorio mancante.",
)
_PT = Language(
    "pt",
    _any(
        r"(?P<twice>\b(?:não|nunca|nada|jamais)\b[^.;]{0,100}\b(?:sem|antes d[eo]|até que)\b"
        r"[^.;]{0,100}(?:confirm|permiss|aprova|autoriz|perguntar|consent))",
        r"\b(?:peç\w*|pedir|pede|solicit\w*|obten\w*|obtém|aguard\w*|esper\w*)\b[^.;]{0,50}\b"
        r"(?:confirmação|permissão|aprovação|autorização|consentimento|confirmar|confirme)",
        r"\bpergunt\w*\b[^.;]{0,60}\bantes d[eao]\b",
        r"\bantes d[eao]\b[^.;]{0,60}\b(?:pergunt|confirm|peç|solicit)\w*",
        r"\bconfirm\w*\b[^.;]{0,30}\bcom [oa] (?:usuári[oa]|utilizador|cliente)\b",
    ),
    _any(r"\b(?:não|nunca|jamais|sem|em vez de|ao invés de|evit\w*)\b"),
    _any(
        r"\bgateway\b[^.;]{0,60}\b(?:pede|retém|trata|confirma|solicita)",
        r"\b(?:pergunt|peç)\w*\b[^.;]{0,20}\b(?:só|somente|apenas)\b[^.;]{0,100}\b(?:falt|obrigatóri)",
    ),
    "Aja pelo gateway; lá uma pessoa aprova as escritas. Pergunte apenas por um valor obrigatório"
    " em falta.",
)
_ZH = Language(
    "zh",
    _any(
        r"(?P<twice>(?:未经|没有|未得到|未获)[^。；]{0,20}(?:同意|确认|许可|批准|授权)[^。；]{0,20}"
        r"(?:不得|不要|不能|禁止|切勿|不可))",
        r"(?:询问|请求|征求|征得|获得|取得|等待|得到|要求)[^。；]{0,15}(?:确认|许可|同意|批准|授权)",
        r"(?:之前|以前|前)[^。；]{0,20}(?:询问|确认|征求|请示|问)",
        r"(?:先|首先)[^。；]{0,10}(?:询问|与用户确认|向用户确认|问用户|请用户确认|征求)",
        r"(?:与|向|跟|请)用户[^。；]{0,6}确认",
    ),
    _any(r"(?:不要|无需|不必|请勿|切勿|不用|别|不得|不需要)"),
    _any(
        r"网关[^。；]{0,20}(?:审批|确认|批准|暂停|处理|负责)",
        r"(?:只|仅)[^。；]{0,10}(?:询问|问)[^。；]{0,100}(?:缺少|缺失|必填)",
    ),
    "通过网关执行；写操作由人在网关批准。只有缺少必填值时才询问。",
)
_JA = Language(
    "ja",
    _any(
        r"(?P<twice>(?:確認|許可|承認|同意)(?:なし|を得ず|せず|を取らず)[^。]{0,30}"
        r"(?:ない|禁止|いけません|ません))",
        r"(?:確認|許可|承認|同意)を(?:求め|得|取|とっ|もらっ|依頼|待)[^。]{0,20}",
        r"(?:前|まえ)に[^。]{0,25}(?:確認|尋ね|質問|聞い|問い合わせ)[^。]{0,20}",
        r"(?:まず|必ず|最初に)[^。]{0,25}(?:ユーザー|利用者|お客様)に[^。]{0,10}(?:確認|尋ね|聞)[^。]{0,20}",
    ),
    _any(
        r"(?:求めない|得ない|待たない|求めず|待たず|しない|ないで|ずに|不要|必要はあり?ま?せ?ん?な?い?)"
    ),
    _any(
        r"ゲートウェイ(?:が|で)[^。]{0,30}(?:承認|確認|保留)",
        r"(?:不足|足りない|必須)[^。]{0,25}(?:のみ|だけ|場合に限り)[^。]{0,15}(?:尋ね|質問|聞|確認)",
    ),
    "ゲートウェイを通して実行する。書き込みはそこで人が承認する。必須の値が不足するときだけ尋ねる。",
    negation_stands="after",
)
LANGUAGES: tuple[Language, ...] = (_EN, _DE, _FR, _ES, _IT, _PT, _ZH, _JA)
