"""Prompts by kind of text."""

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

_MEAN_SOURCE = """def mean(xs):
    for x in xs:
        s += x
    return s / len(xs)
"""

_LETTER = (
    "I recieved the packege yesterdy and it was compleetly broken. Please send me a new one imediately, or give me my "
    "mony back. I have been a custommer for ten years and this never hapened befor."
)

_ABOUT_DRAFTS = (
    "Speculative decoding uses a small draft model to propose several tokens, which a large target model verifies in "
    "one pass. Since the verification of several tokens costs little more than of one, answers come faster where the "
    "draft is often right. Where it is often wrong, time is lost. The answer itself does not change."
)

PROMPTS: dict[str, tuple[str, ...]] = {
    "code": (
        "Write a quicksort function in Python with comments.",
        "Write a Python class for a least-recently-used cache with get and put, and a short test.",
        "Write a bash script that backs up a folder to a dated tar file and keeps the last seven.",
        "Write an SQL schema for a small library with books, members and loans, and three example queries.",
        f"Explain and fix this code:\n\n```python\n{_MEAN_SOURCE}```",
    ),
    "edit": (
        f"Rename the method `report` to `summary` everywhere and return the whole file:\n\n```python\n{_INVENTORY}```",
        f"Add type hints to every method and return the whole file:\n\n```python\n{_INVENTORY}```",
        f"Correct the spelling and return the whole text: {_LETTER}",
    ),
    "prose": (
        "Write the opening of a short story about a lighthouse keeper who finds a letter.",
        "Describe a walk through an old town on a rainy evening.",
        "Write a poem of four stanzas about the sea in winter.",
        "Write a formal letter of complaint to an airline about a lost suitcase.",
    ),
    "chat": (
        "Explain to a friend why the sky is blue, in three short paragraphs.",
        "What is the difference between TCP and UDP?",
        "Give me five tips for learning a language, as a list.",
        "Compare Python and Rust in a table with five rows.",
    ),
    "extraction": (
        f"Extract the orders as a JSON array with number, customer, city, item, count and price.\n\n{_ORDERS}",
        f"Which customers have paid, and how much in all? Quote the lines.\n\n{_ORDERS}",
    ),
    "structured": (
        "List the planets of the solar system as a JSON array of objects with name, diameter_km and moons.",
        "Give a YAML file for docker compose with postgres, redis and a web service.",
    ),
    "reasoning": (
        "A train leaves at 14:20, travels 210 km at 84 km/h and waits 25 minutes. When can it go on? Think it through.",
        "A farmer has 17 sheep and all but 9 run away. How many are left? Explain step by step.",
        "Is 221 a prime number? Show your work.",
    ),
    "translation": (
        "Translate into German: The meeting was moved to Thursday because two of the engineers are ill.",
        "Translate into French and Spanish: Please close the window before you leave the office.",
    ),
    "summary": (f"Summarize in two sentences: {_ABOUT_DRAFTS}",),
}
