"""Values that people name in requests, by the word a parameter goes by. All are invented.

No two pools share a telling word: a value of one parameter must not be read out of another's.
"""

from __future__ import annotations

from typing import Any

POOLS: dict[str, tuple[Any, ...]] = {
    "title": (
        "Spring roadmap",
        "Lift inspection",
        "Broken turnstile",
        "Harvest festival",
        "Night shift rota",
        "Roof repairs",
        "Parking rules",
        "Choir rehearsal",
        "Bicycle survey",
        "Canteen menu",
        "Fire drill",
        "Garden walk",
    ),
    "text": (
        "The delivery arrives on Thursday morning",
        "Please bring the signed contract",
        "The printer upstairs has no toner left",
        "We moved the kickoff to the big hall",
        "Customers asked for longer opening hours",
        "The second invoice is still unpaid",
        "Nobody has watered the plants since Monday",
        "The heating makes a strange noise again",
        "All tests passed on the third try",
        "Our train is running forty minutes late",
        "The new badges are at reception",
        "Lunch is served in the courtyard today",
    ),
    "query": (
        "solar panels",
        "sourdough bread",
        "electric bicycles",
        "rainwater harvesting",
        "medieval bridges",
        "noise cancelling headphones",
        "volcanic islands",
        "wool blankets",
        "chess openings",
        "migratory birds",
        "ceramic glazes",
        "river ferries",
    ),
    "name": (
        "juniper",
        "lighthouse",
        "marigold",
        "granite",
        "falcon",
        "saffron",
        "tundra",
        "cobalt",
        "meadow",
        "walnut",
        "comet",
        "heron",
        "basalt",
        "clover",
    ),
    "repository": ("web-shop", "billing-api", "route-planner", "photo-wall", "mail-relay", "docs"),
    "organisation": ("acme-labs", "northwind", "bluefin", "tallship", "openquarry", "riverbank"),
    "branch": ("main", "develop", "fix-login", "release-candidate", "dark-mode", "faster-cache"),
    "commit": ("4f9c2ab", "b81d07e", "9a3e5c1", "e07f4d2", "71cc8be", "d25a906"),
    "username": ("mkeller", "rtanaka", "pquinn", "ynovak", "sfarkas", "lcosta", "odogan", "iweber"),
    "url": (
        "https://example.com/orchard",
        "https://example.org/pricing",
        "https://www.example.net/blog",
        "https://example.com/timetable",
        "https://docs.example.org/manual",
        "https://example.net/gallery",
    ),
    "image": (
        "https://example.com/img/harbour.png",
        "https://example.org/img/sunrise.jpg",
        "https://example.net/img/logo.png",
        "https://example.com/img/facade.jpg",
    ),
    "path": (
        "/home/team/budget.csv",
        "/srv/data/orders.json",
        "/home/team/minutes.md",
        "/var/reports/forecast.txt",
        "/srv/data/stations.xml",
        "/home/team/sketch.txt",
    ),
    "folder": ("/home/team/drafts", "/srv/archive", "/var/exports", "/home/team/photos"),
    "filename": ("budget.csv", "minutes.md", "forecast.txt", "orders.json", "stations.xml"),
    "city": ("Oslo", "Lyon", "Porto", "Krakow", "Osaka", "Tampere", "Valencia", "Leeds", "Quito"),
    "country": ("Norway", "Portugal", "Japan", "Chile", "Kenya", "Canada", "Poland", "Vietnam"),
    "country_code": ("NO", "PT", "JP", "CL", "KE", "CA", "PL", "VN"),
    "street": ("12 Harbour Street", "7 Mill Lane", "203 Station Road", "48 Abbey Square"),
    "postcode": ("0150", "69003", "4050", "30547", "33101", "46002"),
    "phone": ("+1-555-0142", "+1-555-0117", "+1-555-0168", "+1-555-0125", "+1-555-0193"),
    "currency": ("EUR", "USD", "NOK", "JPY", "CAD", "PLN", "CHF", "SEK"),
    "ticker": ("ACME", "NWND", "BLFN", "TSHP", "QRRY", "RVBK"),
    "language": ("English", "German", "Polish", "Japanese", "Spanish", "Finnish"),
    "language_code": ("en", "de", "pl", "ja", "es", "fi"),
    "timezone": ("Europe/Oslo", "Asia/Tokyo", "America/Lima", "Africa/Nairobi", "Europe/Lisbon"),
    "colour": ("teal", "crimson", "amber", "indigo", "ivory", "olive"),
    "colour_code": ("#336699", "#c0392b", "#27ae60", "#8e44ad", "#f1c40f"),
    "version": ("2.4.1", "1.12.0", "3.0.7", "0.9.3", "5.1.8"),
    "package": ("lodash", "express", "chalk", "commander", "dayjs", "zod"),
    "host": ("db.example.com", "cache.example.net", "build.example.org", "mail.example.com"),
    "ip": ("192.0.2.14", "198.51.100.7", "203.0.113.42", "192.0.2.99"),
    "wallet": (
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
        "0xde709f2102306220921060314715629080e2fb77",
        "0x27b1fdb04752bbc536007a920d24acb045561c26",
    ),
    "isbn": ("9780000000019", "9780000000026", "9780000000033"),
    "selector": ("#submit", ".price", "#menu", ".headline", "#search-box"),
    "table": ("customers", "shipments", "invoices", "products", "visits", "suppliers"),
    "column": ("weight", "region", "discount", "supplier", "signup_day", "margin"),
    "sql": (
        "SELECT count(*) FROM shipments",
        "SELECT name FROM customers LIMIT 10",
        "SELECT region, sum(margin) FROM invoices GROUP BY region",
        "SELECT max(weight) FROM products",
    ),
    "shell": ("ls -la", "df -h", "git status", "du -sh .", "uptime", "whoami"),
    "code": (
        "print(sum(range(10)))",
        "total = 3 * 7",
        "items = sorted(stock)",
        "area = width * height",
    ),
    "expression": ("3 * (7 + 5)", "12 / 4 + 9", "sqrt(144) - 2", "2 ** 10"),
    "extension": ("csv", "pdf", "md", "png", "json"),
    "mime": ("text/csv", "application/pdf", "image/png", "text/markdown"),
    "order": ("asc", "desc"),
    "cron": ("0 9 * * 1", "30 6 * * *", "0 0 1 * *", "15 18 * * 5"),
    "emoji": ("tada", "rocket", "eyes", "heart"),
    "uuid": (
        "3f2b8c1e-5d47-4a90-b6e1-7c02d9f4a815",
        "a94d06f7-12c8-4e3b-9f50-8b61e7d3c2a4",
        "5e7109bd-c3f6-48a2-8d14-f29b60a7e3c5",
        "d08c53a1-7e9f-4b26-a8c3-41f5e6b2d970",
    ),
    "month": ("March", "June", "September", "November"),
    "weekday": ("Monday", "Tuesday", "Thursday", "Saturday"),
    "duration": ("90m", "2h", "3d", "45s"),
    "size": ("800x600", "1024x768", "1920x1080"),
    "json": ('{"floor": 3}', '{"quantity": 12}', '{"shelf": 7}'),
    "html": ("<p>Opening hours</p>", "<h1>Welcome</h1>", "<b>Closed today</b>"),
    "hex24": ("64b7f0c2a9d1e83f5c20b71a", "5fd03a9be27c4168d0f3ab92", "6a1c9e40f7b25d38e1840cf6"),
    "hex64": (
        "9d1e83f5c20b71a64b7f0c2a5fd03a9be27c4168d0f3ab926a1c9e40f7b25d38",
        "0c2a5fd03a9be27c4168d0f3ab926a1c9e40f7b25d389d1e83f5c20b71a64b7f",
    ),
    "letters2": ("KX", "QR", "ZN", "VB"),
    "letters3": ("KXR", "QRT", "ZNB", "VBD"),
    "letter": ("K", "Q", "Z", "V"),
    "digits": ("4071", "8236", "5590", "7314"),
    "digits2": ("41", "73", "58"),
    "digits8": ("40718236", "55907314", "81164092"),
    "digits11": ("15550142381", "15550117264", "15550168907"),
    "digits14": ("40718236559073", "81164092735148", "60297318450261"),
    "slash_pair": ("acme-labs/web-shop", "northwind/billing-api", "bluefin/photo-wall"),
}

QUOTED = frozenset("title text query sql shell code expression json html cron".split())
"""Pools of free text: said in quotes, so that it is plain where it ends."""

WORDS: dict[str, str] = {
    word: pool
    for pool, listed in {
        "title": "title subject headline summary caption heading",
        "text": "text message body content comment description note notes reason details detail"
        " prompt instructions instruction sentence paragraph bio thought observation feedback"
        " question answer context purpose goal task explanation input data abstract lyrics plan"
        " criteria logic"
        " recommendation recommendations requirements remark remarks",
        "query": "query q search keyword keywords term terms topic topics phrase idea",
        "name": "name label tag category group team project collection index namespace bucket"
        " channel room folder board list workspace environment env cluster service app"
        " application device server alias profile theme template template deck model dataset"
        " database db key field property node item element component layer stage queue game"
        " brand product company store player champion class function method variable agent"
        " value entity concept palace preset prefix suffix identifier title_slug slug campaign",
        "repository": "repo repository",
        "organisation": "org organization organisation owner vendor account workspace_slug",
        "branch": "branch ref base head",
        "commit": "sha commit revision",
        "username": "username user login handle member collaborator sender",
        "url": "url uri link website homepage webhook endpoint site href page domain_url",
        "image": "image photo picture avatar thumbnail icon logo",
        "path": "path file filepath source destination src dest target output document",
        "folder": "directory dir folder_path cwd root workdir",
        "filename": "filename basename",
        "city": "city location place town region area origin where from to",
        "country": "country nation",
        "street": "street address",
        "postcode": "zip zipcode postcode cep",
        "phone": "phone telephone mobile",
        "currency": "currency",
        "ticker": "ticker symbol stock",
        "language": "language lang locale",
        "timezone": "timezone tz zone",
        "colour": "color colour",
        "version": "version",
        "package": "package packages module library dependency",
        "host": "host hostname domain",
        "ip": "ip",
        "isbn": "isbn",
        "selector": "selector css",
        "table": "table",
        "column": "column",
        "sql": "sql",
        "shell": "command cmd",
        "code": "code script snippet",
        "expression": "expression formula equation",
        "extension": "extension",
        "mime": "mimetype mime",
        "order": "order direction",
        "cron": "cron",
        "emoji": "emoji reaction",
        "uuid": "uuid guid",
        "month": "month",
        "weekday": "weekday",
        "duration": "duration interval timeout ttl",
        "size": "resolution dimensions",
        "html": "html markup",
        "json": "json",
    }.items()
    for word in listed.split()
}
"""The last word of a parameter's name to the pool its values come from."""

PEOPLE = frozenset("assignee author reviewer person customer patient guest attendee".split())
PEOPLE |= frozenset("contact employee manager artist".split())
ADDRESSES = frozenset("email mail e-mail recipient recipients cc bcc emails".split())

NUMBERS: dict[str, tuple[float, float]] = {
    word: bounds
    for bounds, listed in {
        (1, 12): "page month",
        (1, 30): "chapter juz hizb rub manzil ruku season episode volume verse",
        (5, 90): "limit count size top n max num results maximum per_page days day take quantity"
        " qty first last",
        (2015, 2029): "year",
        (1, 4): "adults children infants pets guests rooms beds passengers players copies level"
        " depth retries attempts radius",
        (0, 40): "start offset skip index position row column line start_line",
        (120, 1900): "width height x y w h",
        (3000, 9000): "port",
        (-60, 60): "latitude lat",
        (-170, 170): "longitude lon lng long",
        (10, 900): "amount price cost value total budget balance salary sum",
        (5, 120): "minutes seconds timeout hours duration interval delay ttl",
        (1, 100): "percent percentage volume brightness score progress opacity rating",
        (1767225600, 1798761600): "timestamp epoch",
        (1000, 9999): "id number pid ids",
    }.items()
    for word in listed.split()
}
"""The last word of a number's name to the bounds it is drawn from, before the schema's own."""
COMMON_NUMBERS = (2, 90)
DECIMALS = frozenset(
    "amount price cost value total budget balance salary sum rate ratio score temperature weight"
    " latitude longitude lat lon lng opacity percentage percent threshold".split()
)
"""Numbers that people give with digits behind the point."""
