"""Decision metrics, whole episodes, attention probes and the report."""

if __name__ != "breadcrumbs.eval":
    raise ImportError("import breadcrumbs.eval, not eval")
