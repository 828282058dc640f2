"""The words that synthetic tools are made of."""

from __future__ import annotations

from breadcrumbs.gateway.catalog import Risk

VERBS = (
    ("get", "Fetch", Risk.READ),
    ("list", "List", Risk.READ),
    ("search", "Search", Risk.READ),
    ("export", "Export", Risk.READ),
    ("compare", "Compare", Risk.READ),
    ("validate", "Validate", Risk.READ),
    ("preview", "Preview", Risk.READ),
    ("count", "Count", Risk.READ),
    ("create", "Create", Risk.WRITE),
    ("update", "Update", Risk.WRITE),
    ("upsert", "Create or update", Risk.WRITE),
    ("assign", "Assign", Risk.WRITE),
    ("approve", "Approve", Risk.WRITE),
    ("submit", "Submit", Risk.WRITE),
    ("schedule", "Schedule", Risk.WRITE),
    ("duplicate", "Duplicate", Risk.WRITE),
    ("merge", "Merge", Risk.WRITE),
    ("publish", "Publish", Risk.WRITE),
    ("sync", "Synchronise", Risk.WRITE),
    ("restore", "Restore", Risk.WRITE),
    ("tag", "Put labels on", Risk.WRITE),
    ("archive", "Archive", Risk.DESTRUCTIVE),
    ("purge", "Remove for good", Risk.DESTRUCTIVE),
    ("revoke", "Revoke", Risk.DESTRUCTIVE),
)
"""Word of the name, word of the description, risk."""

QUALIFIERS = tuple(
    "account active annual archived audit bank batch billing blocked branch bulk campaign client"
    " cloud compliance contract corporate courier credit customer daily delivery department device"
    " draft employee enterprise expired export field fleet foreign freight grant guest hardware"
    " hourly import internal inventory legacy legal linked loyalty maintenance market member"
    " monthly network night office offline open overdue partner payroll pending pilot plant"
    " premium primary public regional remote retail sales seasonal shared site staging supplier"
    " tax".split()
)

ENTITIES = (
    ("finance", "invoice payment refund budget ledger expense receipt statement forecast quote"),
    ("logistics", "shipment parcel route pallet container manifest dock carrier pickup customs"),
    ("people", "contract shift timesheet benefit review candidate interview absence payslip role"),
    ("sales", "lead deal pipeline proposal territory commission discount subscription renewal"),
    ("systems", "server cluster deployment certificate backup incident alert secret queue volume"),
    ("content", "document template page image translation comment folder version survey channel"),
)
"""Domain, and the things its tools act on."""

ATTRIBUTES = tuple(
    "address amount approver area assignee batch budget category channel city code colour contact"
    " cost country currency customer deadline delivery department description destination discount"
    " email end fee filter format group invoice label language level limit location manager method"
    " note order origin owner partner period phone priority product project quantity range rate"
    " reason recipient reference region reviewer schedule scope score section sender severity site"
    " source stage start state status street subject supplier target team template term title topic"
    " total type unit user vendor version warehouse weight zone".split()
)

PARTS = tuple(
    "billing shipping primary secondary previous requested approved internal external default"
    " original final parent linked local remote planned actual first last".split()
)

CHOICES = (
    ("draft", "open", "closed"),
    ("low", "normal", "high", "urgent"),
    ("daily", "weekly", "monthly", "quarterly", "yearly"),
    ("email", "sms", "push", "none"),
    ("pending", "approved", "rejected", "cancelled", "expired"),
    ("EUR", "USD", "GBP", "CHF", "JPY"),
    ("csv", "json", "xlsx", "pdf"),
    ("public", "team", "private"),
)

REMARKS = (
    "Leave out to keep what is stored.",
    "Must belong to the same tenant.",
    "Ignored where the record is archived.",
    "Deprecated since v2, kept for older clients.",
    "See the developer guide for the accepted values.",
    "Defaults to the settings of the workspace.",
    "Not shown to external users.",
    "Applies to new records only; earlier ones keep theirs.",
)

PADDING = tuple(
    "as agreed with the owner of the record and noted by the team that keeps it so that later"
    " readers can see why it was chosen".split()
)
