"""`python -m breadcrumbs` is the `breadcrumbs` command."""

from breadcrumbs.cli import main

main()
