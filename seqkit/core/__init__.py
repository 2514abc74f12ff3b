"""What everything rests on: the view, sources, indices, plans, iteration, random numbers, errors."""
