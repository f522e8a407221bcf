"""How fast this program trains, beside Flower's simulation, pfl-research and the loop that one
would write first."""
