"""What tools exist, who may run them, and what a payload says."""

if __name__ != "breadcrumbs.gateway":
    raise ImportError("import breadcrumbs.gateway, not gateway")
