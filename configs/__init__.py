"""YAML files for every run; read with importlib.resources."""

if __name__ != "breadcrumbs.configs":
    raise ImportError("import breadcrumbs.configs, not configs")
