"""Scenarios, episodes, corrections and verified rows."""

if __name__ != "breadcrumbs.data_gen":
    raise ImportError("import breadcrumbs.data_gen, not data_gen")
