"""The errors a user can meet. Each message says what is wrong, where, and how to mend it.

`cli` prints the message on one line and exits with status 2; nothing else is caught there.
"""


class BreadcrumbsError(Exception):
    """Base of every error this project raises on purpose."""


class ConfigError(BreadcrumbsError, ValueError):
    """A configuration file or command-line value cannot be used."""


class CatalogError(BreadcrumbsError, ValueError):
    """A tool catalog, world or hint file is malformed."""


class DataError(BreadcrumbsError, ValueError):
    """A data set, row or trajectory is missing, malformed or fails verification."""


class ModelError(BreadcrumbsError, RuntimeError):
    """A model, tokenizer, template or adapter cannot be fetched, loaded or used."""


class PreflightError(DataError):
    """Training data would not train what it says; raised before the first step."""


class ProbeError(BreadcrumbsError, RuntimeError):
    """Attention cannot be measured here; raised instead of reporting a zero."""
