"""The customers' actions. The same seed gives the same requests."""

import random
from dataclasses import dataclass

DECLINED, BROKEN, GOOD = "4000000000000002", "4000000000000119", "4242424242424242"
WORDS = ["hand", "number 7", "number 12", "a1", "c4", "ff", "number 19"]


@dataclass(frozen=True)
class Step:
    """One request."""

    method: str
    path: str
    body: dict | None = None


def visits(seed, run):
    """An endless sequence of visits, each a list of sequential steps. `run` makes order numbers
    unique to a run.
    """
    chance = random.Random(seed)
    orders = []
    number = 0
    while True:
        number += 1
        customer = f"c{run}{number}"
        kind = chance.choices(["browse", "search", "fill", "buy", "lost"], [42, 15, 18, 22, 3])[0]
        product = chance.randint(1, 200)
        if kind == "browse":
            yield [Step("GET", "/"), Step("GET", f"/product/{product}")]
        elif kind == "search":
            if chance.random() < 0.2:  # slow: see catalog
                yield [Step("GET", f"/search?q=everything&page={chance.randint(0, 5)}")]
            else:
                yield [Step("GET", f"/search?q={chance.choice(WORDS).replace(' ', '%20')}")]
        elif kind == "lost":
            yield [Step("GET", f"/product/{9000 + product}")]
        elif kind == "fill":
            yield [_add(customer, product, chance), Step("GET", f"/cart?customer={customer}")]
        else:
            yield [_add(customer, product, chance), _checkout(customer, f"{run}-{number}", orders, chance)]


def _add(customer, product, chance):
    return Step("POST", "/cart", {"customer": customer, "product": product, "quantity": chance.randint(1, 3)})


def _checkout(customer, key, orders, chance):
    luck = chance.random()
    card = DECLINED if luck < 0.08 else BROKEN if luck < 0.11 else GOOD
    if luck > 0.96 and orders:
        key = chance.choice(orders)  # the order that was sent twice
    else:
        orders.append(key)
        del orders[:-100]
    return Step("POST", "/checkout", {"customer": customer, "order_key": key, "card": card})
