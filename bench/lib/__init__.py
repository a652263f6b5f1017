"""What the comparisons share: processes that end together, alternation, statistics, links, the table."""
