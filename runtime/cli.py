"""The `breadcrumbs` command."""


def main() -> None:
    """Placeholder until the commands land."""
