"""Which disclosed values a question asks for, in any of the radar's languages, and which are given.

English questions are read by `asking` first, by parameter names and types. Where that finds
nothing, a small word list says what common values are called in each language; a parameter is
asked for where its name holds an idea's key and the question one of the idea's words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from breadcrumbs.asking import Parameter, asked_parameters, is_given

_IDEAS: tuple[tuple[str, str], ...] = (
    # words of parameter names | what questions call it: en, de, fr, es, pt, zh, ja
    (
        "timezone tz",
        r"time ?zones?|zeitzone\w*|fuseaux?|zonas? horarias?|huso|fusos?\b|时区|タイムゾーン",
    ),
    (
        "language lang locale idioma sprache langue lingua",
        r"language|sprache|langue|idioma|lengua|língua|语言|语种|言語|何語",
    ),
    (
        "format output_format time_format formato",
        r"format\w*|12-hour|24-hour|格式|形式|フォーマット",
    ),
    (
        "sort sort_by order order_by sorting orden ordre sortierung",
        r"sort\w*|order(?:ed|ing)?\b|reihenfolge|tri\b|trié\w*|triée?s?|ordre|orden\w*|排序|排列|並び|並べ|ソート",
    ),
    (
        "limit count max num max_results num_results page_size per_page top results row_limit max_rows",
        r"how many|number of (?:results|rows|items|entries)|wie ?viele|anzahl|combien de|nombre de"
        r"|cuánt[oa]s|número (?:máximo )?de|quant[oa]s|多少(?:条|个|行|项)|几(?:条|个|项|页)|条数|数量|何件|件数|いくつ|何行",
    ),
    ("page cursor offset seite pagina", r"\bpage\b|\bseite\b|página|第几页|页码|何ページ|ページ"),
    (
        "calendar calendarid calendar_id kalender",
        r"calendar\w*|kalender|calendrier|calendário|日历|カレンダー",
    ),
    (
        "date day datum fecha data jour tag when due deadline start end since until from",
        r"\bdate|\bday\b|\bwhen\b|\bwann\b|datum|welche[rnm]? tag|\bquand\b|\bjour\b|cuándo|fecha|qué día"
        r"|quando|\bdata\b|que dia|日期|哪天|哪一天|几号|什么时候|何时|起止|日付|日にち|いつ|何日",
    ),
    (
        "time hour start end uhrzeit hora heure begin at when",
        r"what time|which time|uhrzeit|wie viel uhr|\bheure|\bhora\b|a qué hora|que horas|时间|几点|何時|時刻|時間",
    ),
    (
        "duration length minutes hours duration_minutes duration_hours dauer duree duracion",
        r"how long|duration|wie lange|\bdauer|durée|combien de temps|duración|cuánto tiempo|cuántos minutos"
        r"|duração|quanto tempo|时长|多长时间|多久|持续|どのくらい|どれくらい|期間|何分|所要",
    ),
    ("volume lautstaerke volumen", r"volume|lautstärke|volumen|音量"),
    (
        "priority prioridad prioritaet priorite urgency",
        r"priorit\w+|dringlich\w*|urgen\w+|prioridad\w*|优先级|紧急程度|優先",
    ),
    (
        "recipient recipients to email mail address attendees contact destinatario empfaenger",
        r"recipient|e-?mail|\bto whom\b|\bwho should\b|empfänger\w*|an wen|destinatair\w+|à qui|adresse"
        r"|destinatari\w+|a quién|correo|para quem|endereço|收件|邮箱|邮件地址|发给谁|给谁|宛先|誰に|どなたに|メールアドレス|送信先",
    ),
    ("subject betreff objet asunto assunto", r"subject|betreff|\bobjet\b|asunto|assunto|主题|件名"),
    (
        "title titel titre titulo summary headline",
        r"title|titel|titre|título|标题|名称|タイトル|題名|件名",
    ),
    (
        "body message content text note mensaje nachricht contenu",
        r"\bmessage\b|\bbody\b|content|nachricht|inhalt|wortlaut|contenu|mensaje|contenido|mensagem|conteúdo"
        r"|内容|正文|消息|文案|本文|メッセージ",
    ),
    (
        "reminder reminder_minutes snooze snooze_minutes alarm",
        r"remind\w*|snooze|erinner\w*|schlummer\w*|rappel|recordatorio|repetición|posponer|lembrete|提醒|贪睡|リマインド|リマインダー|スヌーズ|通知",
    ),
    (
        "repeat recurrence recurring recurrence_rule",
        r"repeat\w*|recurr\w*|wiederhol\w*|répét\w*|repetir|repita|repet\w*|重复|循环|繰り返|リピート",
    ),
    (
        "shuffle random",
        r"shuffle|zufalls\w*|zufällig\w*|aléatoire|aleatori\w*|aleatóri\w*|随机|シャッフル",
    ),
    (
        "brightness brightness_pct helligkeit",
        r"bright\w*|helligkeit|luminosité|brillo|brilho|亮度|明るさ",
    ),
    (
        "color color_temp rgb_color colour farbe",
        r"colou?r\w*|farbe|couleur|color\w*|\bcor\b|颜色|色温|色",
    ),
    (
        "transition fade",
        r"transition|fade|übergang\w*|überblend\w*|transición|transição|过渡|渐变|フェード",
    ),
    ("temperature target target_temp", r"temperatur\w*|température|温度|何度"),
    (
        "label labels tag tags",
        r"labels?\b|\btags?\b|schlagw\w+|étiquettes?|etiquetas?|rótulo|标签|ラベル|タグ",
    ),
    (
        "category type kind queue cola typ categoria",
        r"categor\w+|\bkind\b|\btype\b|kategorie|catégorie|tipo|\bart\b|哪种|种类|类别|分类|类型|カテゴリ|種類",
    ),
    ("mode execution_mode modus modo", r"\bmode\b|modus|\bmodo\b|方式|模式|モード|方法"),
    (
        "location room area place city raum sala ort ville",
        r"\blocation|\broom\b|\bplace\b|\bcity\b|\bort\b|\braum\b|\bsalle\b|\blieu\b|\bville\b|lugar|\bsala\b|ciudad|cidade|地点|房间|城市|位置|場所|部屋|都市",
    ),
    (
        "amount betrag montant importe valor sum price",
        r"amount|how much|betrag|montant|combien\b|importe|monto|\bvalor\b|quanto|金额|多少钱|金額|いくら",
    ),
    (
        "currency waehrung devise moneda moeda",
        r"currency|währung|devise|monnaie|moneda|moeda|币种|货币|通貨",
    ),
    (
        "quantity guests people adults passengers personas count",
        r"how many (?:people|guests|persons)|wie ?viele personen|combien de personnes|cuántas personas|quantas pessoas|几位|多少人|几个人|何名|何人|人数",
    ),
    (
        "path file filename folder directory cwd work_dir pfad datei archivo arquivo chemin fichier",
        r"\bpath\b|\bfile\b|folder|director\w+|pfad|datei|ordner|verzeichnis|chemin|fichier|dossier|\bruta\b|archivo|carpeta|caminho|arquivo|pasta|路径|文件|目录|パス|ファイル|フォルダ|ディレクトリ",
    ),
    (
        "project project_id projekt projet proyecto projeto workspace",
        r"project|projekt|projet|proyecto|projeto|workspace|项目|プロジェクト|ワークスペース",
    ),
    (
        "repo repository owner",
        r"repositor\w+|\brepo\b|owner|dépôt|repositório|仓库|リポジトリ|レポジトリ",
    ),
    ("branch", r"branch|zweig|branche|\brama\b|\bramo\b|分支|ブランチ"),
    (
        "account account_id konto compte cuenta conta",
        r"account|konto|compte|cuenta|\bconta\b|账户|账号|アカウント|口座",
    ),
    (
        "query sql statement search expression",
        r"\bquery\b|\bsql\b|abfrage|anfrage|requête|consulta|查询语句|クエリ",
    ),
    (
        "device device_id entity entity_id",
        r"device|gerät|appareil|dispositivo|aparelho|设备|デバイス|機器",
    ),
    (
        "id number key code nummer numero identifier",
        r"\bids?\b|identifier|\bnumber\b|nummer|numéro|número|identifiant|编号|号码|番号",
    ),
    (
        "units unit",
        r"\bunits?\b|einheit\w*|unités?|unidad\w*|metri\w+|métri\w+|imperial|单位|公制|単位|メートル法",
    ),
    (
        "formality tone style",
        r"formal\w*|informal|förmlich\w*|tone\b|formel\w*|familière?|正式|语气|丁寧|敬語|くだけた",
    ),
    ("region country", r"region|country|land\b|région|pays|región|país|região|地区|国家|地域|国"),
    (
        "include include_archived archived include_deleted",
        r"includ\w*|einschließ\w*|einbezieh\w*|inclu\w+|是否包含|包括|含める|含み",
    ),
    (
        "notify notify_email notification channel",
        r"notif\w*|benachrichtig\w*|avis\w*|通知|チャンネル|渠道|kanal|canal",
    ),
    ("safe_search", r"safe ?search|sichere suche|安全搜索|セーフサーチ"),
    ("seating seat", r"seat\w*|inside or outside|sitz\w*|drinnen|terrasse|asiento|座位|席"),
    ("priority_class cabin class", r"cabin|\bclass\b|klasse|classe|clase|舱位|クラス|座席"),
    (
        "encoding charset",
        r"encoding|kodierung|encodage|codificación|codificação|编码|文字コード|エンコード",
    ),
    ("timeout timeout_s timeout_ms", r"timeout|zeitlimit|délai|超时|タイムアウト"),
    ("status state estado", r"\bstatus|zustand|\bstatut|estado|状态|ステータス|状態"),
    (
        "description reason comment note notes beschreibung descripcion",
        r"\bnote\b|\bnotiz|anmerkung|bemerkung|\bnota\b|メモ|descri\w+|beschreib\w*|\bgrund\b|reason|raison|motivo|comment\w*|描述|原因|备注|説明|理由|備考",
    ),
    (
        "name nombre nome nom full_name",
        r"\bname\b|\bnombre\b|\bnome\b|\bnom\b|姓名|名字|叫什么|名前|氏名",
    ),
    (
        "source origin target destination backend",
        r"\bsource|源语言|元の言語|aus welcher|de que língua|origin|destination|quelle|\bziel\b|origen|destino|origem|来源|目标|出発|目的地|行き先",
    ),
)
_COMPILED = tuple((frozenset(keys.split()), re.compile(surface)) for keys, surface in _IDEAS)
_COMPOSED = frozenset(
    "query search_query sql statement command code prompt script expression cron regex jql".split()
)
"""Values that the model words itself from what was asked; nobody has to give them."""
_CLOCK = re.compile(
    r"\d{1,2}\s?(?:uhr|h\d{0,2}|点|时|時)(?![a-z])|\bum \d|\bà \d|\ba las? \d|\bàs \d|\bmittags?\b|\bmidi\b"
    r"|mediodía|meio-dia|中午|正午"
)
_DAY = re.compile(
    r"\d{1,2}月\d|\b(?:heute|morgen|gestern|übermorgen|aujourd'hui|demain|hier|hoy|mañana|ayer|hoje|amanhã|ontem"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
    r"|lunes|martes|miércoles|jueves|viernes|sábado|domingo|segunda|terça|quarta|quinta|sexta"
    r"|(?:jede|chaque|cada|toda) \w+)\b|今天|明天|后天|昨天|今日|明日|明後日|昨日|[周週]|星期|曜日|每天|毎日|毎朝|毎晩"
)
"""Clock times and days of other languages than English, which `asking` knows."""
_LANGUAGE_NAME = re.compile(
    r"\b(?:engl|anglais|ingl[eê]s|inglés|german|deutsch|allem|alem|french|franz|fran[çc]|spani|espa[ñn]"
    r"|portug|chin|japan|japon|ital|dutch|niederl|néerl|holand|neerl|finn|finl|finés|swed|schwed|suéd|suec"
    r"|polish|poln|polon|polac|russ|arab|korean|coré|core|turk|türk|turc|danish|dän|dano|norweg|noruegu"
    r"|greek|griech|grec|grego|czech|tschech|tchè|hebr|hindi|ukrain|ucran)\w{0,8}\b|[^\W\d]{1,8}[语語文]"
)
_URL = re.compile(r"https?://\S{1,300}")
_QUOTED = re.compile(
    r"(?:(?<!\w)['\"]|[“„«「『《])[^'\"”“»」』》\n]{2,200}(?:['\"](?!\w)|[”“»」』》])"
)
"""A straight quote inside a word is an apostrophe."""
_FROM_URL = frozenset("owner repo repository url uri link number pull_number issue_number".split())
_QUOTABLE = frozenset(
    "title subject name message body text content summary query label note".split()
)
_LOOKUP = re.compile(r"\b(?:list|search|find|get|lookup|fetch|query|resolve|read)_\w{2,60}\b")


_CLAUSE = re.compile(r"[,;、?]|\b(?:and|or|und|oder|et|ou|y|e)\b|和|以及|还有")


def asked_values(
    asking: Sequence[str], text: str, parameters: Sequence[Parameter]
) -> list[Parameter]:
    """The parameters asked for, in schema order.

    `text` is the whole turn; `asking` the sentences of it that ask, in any language.
    """
    english = asked_parameters(text, parameters)
    if english:
        return english
    said = "\n".join(asking)
    named = [p for p in parameters if _is_named(p, said)]
    if named:
        return named
    asked: set[str] = set()
    for clause in _CLAUSE.split(said):
        asked.update(p.name for p in _nearest(clause, parameters))
    return [p for p in parameters if p.name in asked]


def _nearest(clause: str, parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters that most of a clause's ideas fit: `source_language` before `language`."""
    ideas = [keys for keys, surface in _COMPILED if surface.search(clause)]
    fits = {p.name: sum(_holds(p, keys) for keys in ideas) for p in parameters}
    most = max(fits.values(), default=0)
    return [p for p in parameters if most and fits[p.name] == most]


def is_grounded(parameter: Parameter, user_text: str, parameters: Sequence[Parameter]) -> bool:
    """Whether the user's words hold the value, or enough for a model to word it."""
    if is_given(parameter, user_text, parameters):
        return True
    words, text = _words(parameter), user_text.lower()
    if parameter.name.lower() in _COMPOSED:
        return True
    if words & _FROM_URL and _URL.search(text):
        return True
    if words & {"language", "lang", "locale"} and _LANGUAGE_NAME.search(text):
        return True
    if parameter.is_time and parameter.required:
        return _is_timed(parameter, text, parameters)
    return bool(words & _QUOTABLE and _QUOTED.search(user_text))


def names_a_lookup(text: str, tool: str) -> bool:
    """Whether the turn itself names another tool that would find a value."""
    return any(found.group() != tool for found in _LOOKUP.finditer(text))


def _is_timed(parameter: Parameter, text: str, parameters: Sequence[Parameter]) -> bool:
    """As many days and clock times as there are required parameters that take one."""
    days, clocks = len(_DAY.findall(text)), len(_CLOCK.findall(text))
    needed = sum(p.required and p.is_time for p in parameters)
    return (days if parameter.is_date else days + clocks) >= max(needed, 1)


def _is_named(parameter: Parameter, said: str) -> bool:
    name = re.escape(parameter.name.lower())
    plain = r"[\s_-]?".join(re.escape(word) for word in parameter.words)
    return bool(
        re.search(rf"(?<![a-z0-9_]){name}(?![a-z0-9_])", said)
        or (plain and len(parameter.name) > 3 and re.search(rf"(?<![\w-]){plain}(?!\w)", said))
    )


def _holds(parameter: Parameter, keys: frozenset[str]) -> bool:
    return not keys.isdisjoint(_words(parameter))


def _words(parameter: Parameter) -> set[str]:
    """Words of the name, those next to each other joined as well: `time_zone` is `timezone`."""
    words = parameter.words
    pairs = zip(words, words[1:], strict=False)
    return {
        *words,
        "_".join(words),
        *(f"{a}{b}" for a, b in pairs),
        *(w.removesuffix("s") for w in words),
    }
