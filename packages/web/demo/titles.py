#!/usr/bin/env python3
"""Makes the database of titles that tests and the demo page query: JSON of made-up works, an index, a search table.

usage: titles.py FILE ROWS [--wal]
"""

import json
import random
import sqlite3
import sys

ADJECTIVES = "quiet red last hidden broken golden winter second distant hollow bright silver empty burning".split()
NOUNS = "river house letter garden train window mountain island summer mirror stranger harbour road winter".split()
KINDS = "film series short documentary".split()
GENRES = "Drama Comedy Crime History Music Sport Family Adventure".split()


def main():
    path, rows = sys.argv[1], int(sys.argv[2])
    random.seed(43)
    db = sqlite3.connect(path)
    db.execute("create table title (id integer primary key, name text not null, year integer not null, about text not null)")
    for number in range(1, rows + 1):
        name = f"The {random.choice(ADJECTIVES)} {random.choice(NOUNS)}".title()
        year = random.randint(1920, 2025)
        about = {
            "id": f"tt{number:07}", "kind": random.choice(KINDS), "name": name, "year": year,
            "minutes": random.randint(3, 240), "genres": random.sample(GENRES, 2),
            "rating": round(random.uniform(1, 10), 1), "votes": int(random.paretovariate(0.8) * 10),
        }
        db.execute("insert into title values (?, ?, ?, ?)", (number, f"{name} {number}", year, json.dumps(about)))
    db.execute("create index title_name on title (name)")
    db.execute("create index title_year on title (year)")
    db.commit()
    if "--wal" in sys.argv:
        db.execute("pragma journal_mode = wal")
    db.close()


main()
