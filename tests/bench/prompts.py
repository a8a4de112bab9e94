"""Prompts of our own, by kind of text."""

from __future__ import annotations

_INVENTORY = '''class Inventory:
    """Keeps count of items in named bins."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.bins = {}

    def total(self):
        return sum(self.bins.values())

    def add(self, name, count=1):
        if count <= 0:
            raise ValueError("count must be positive")
        if self.total() + count > self.capacity:
            raise OverflowError("the inventory is full")
        self.bins[name] = self.bins.get(name, 0) + count

    def remove(self, name, count=1):
        if count <= 0:
            raise ValueError("count must be positive")
        held = self.bins.get(name, 0)
        if count > held:
            raise KeyError(f"only {held} of {name} are left")
        if count == held:
            del self.bins[name]
        else:
            self.bins[name] = held - count

    def move(self, source, target, count=1):
        self.remove(source, count)
        self.add(target, count)

    def report(self):
        lines = []
        for name in sorted(self.bins):
            lines.append(f"{name}: {self.bins[name]}")
        lines.append(f"total: {self.total()} of {self.capacity}")
        return "\\n".join(lines)

    def largest(self):
        if not self.bins:
            return None
        return max(self.bins, key=self.bins.get)

    def smallest(self):
        if not self.bins:
            return None
        return min(self.bins, key=self.bins.get)

    def clear(self):
        self.bins = {}


def main():
    inventory = Inventory(100)
    inventory.add("apples", 20)
    inventory.add("pears", 5)
    inventory.move("apples", "pears", 3)
    print(inventory.report())
'''

_ORDERS = """Order 1041: Maria Keller, Hamburg, 3 chairs at 89.50 EUR, paid by card on 2024-03-02.
Order 1042: John Smith, Leeds, 1 desk at 240.00 EUR, paid by transfer on 2024-03-05.
Order 1043: Aiko Tanaka, Osaka, 12 lamps at 15.25 EUR, not yet paid."""

PROMPTS: dict[str, tuple[str, ...]] = {
    "code": (
        "Write a quicksort function in Python with comments.",
        "Write a Python class for a least-recently-used cache with get and put, and a short test.",
    ),
    "edit": (
        f"Rename the method `report` to `summary` everywhere and return the whole file:\n\n```python\n{_INVENTORY}```",
    ),
    "prose": (
        "Write the opening of a short story about a lighthouse keeper who finds a letter.",
        "Describe a walk through an old town on a rainy evening.",
    ),
    "chat": ("Explain to a friend why the sky is blue, in three short paragraphs.",),
    "extraction": (
        f"Extract the orders as a JSON array with number, customer, city, item, count and price.\n\n{_ORDERS}",
    ),
    "reasoning": (
        "A train leaves at 14:20, travels 210 km at 84 km/h and waits 25 minutes. When can it go on? Think it through.",
    ),
    "translation": ("Translate into German: The meeting was moved to Thursday because two of the engineers are ill.",),
}
