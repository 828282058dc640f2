"""Tool-calling models that act once a schema is disclosed, and ask only when they must."""

if __name__ != "breadcrumbs":
    raise ImportError("import breadcrumbs, not runtime")

__version__ = "0.1.0"
