"""Names of new axes."""


def fresh(wish: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    name, number = wish, 1
    while name in taken:
        name, number = f"{wish}{number}", number + 1
    taken.add(name)
    return name
