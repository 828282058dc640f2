"""From verified rows to a LoRA adapter."""

if __name__ != "breadcrumbs.train":
    raise ImportError("import breadcrumbs.train, not train")
