"""What people look at when something goes wrong: reports, records, comparisons, bisection."""
