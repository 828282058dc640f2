"""Tools from elsewhere: read safely, brought to the project's shape, checked, merged, written."""

if __name__ != "breadcrumbs.gateway.imports":
    raise ImportError("import breadcrumbs.gateway.imports, not gateway.imports")
