"""docs/reproduction.md and the runs behind it: keep.py takes runs in, kept.py says what they have, page.py makes the page, claims.py
its tables of claims. scripts/evidence is the command."""
