"""The comparison itself: it finds nothing where there is nothing, and each lie that a packed database is made to tell.

usage: self_test.py     with LITEPACK_EXTENSION and LITEPACK_COMMAND; prints 'ok NAME' or 'FAILED NAME' for each check
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import records  # noqa: E402
from file import CONFIGURATIONS  # noqa: E402
from run import LIES  # noqa: E402


def small_file(path):
    """A file with each kind of record, long enough that its connections are reopened within it."""
    lines = ["hash-threshold 8", "", "statement ok", "CREATE TABLE t(a INTEGER, b TEXT, c REAL)", ""]
    for number in range(60):
        lines += ["statement ok", f"INSERT INTO t VALUES({number}, 'row {number % 7}', {number} / 4.0)", ""]
        lines += ["query ITR nosort", f"SELECT a, b, c FROM t WHERE a > {number - 2} ORDER BY a", "----"]
        for one in range(max(0, number - 1), number + 1):
            lines += [str(one), f"row {one % 7}", f"{one / 4:.3f}"]
        lines += ["", "statement error", "INSERT INTO nowhere VALUES(1)", ""]
        lines += ["onlyif mysql", "statement ok", "no SQL at all", ""]
    lines += ["halt", "", "statement ok", "this is not reached", ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def compared(place, *arguments):
    """(exit code, what was printed, the summary)"""
    corpus, result = Path(place, "corpus"), Path(place, "summary.json")
    corpus.mkdir(exist_ok=True)
    small_file(corpus / "small.test")
    # The kept database with long dictionaries takes a minute to make: it is for the whole corpus.
    quick = ",".join(name for name, one in CONFIGURATIONS.items() if not one.get("filled"))
    done = subprocess.run(
        [sys.executable, HERE / "run.py", "--corpus", corpus, "--kept", Path(place, "kept"), "--json", result,
         "--config", quick, "--extension", os.environ["LITEPACK_EXTENSION"],
         "--command", os.environ["LITEPACK_COMMAND"], *arguments], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr, json.loads(result.read_text()) if result.exists() else None


def nothing_differs_and_what_is_done_is_not_done_again(place):
    for _ in range(2):
        code, said, found = compared(place)
        assert code == 0, said
        assert found["differences"] == found["plain_not_as_the_file_expects"] == 0, found
        assert {one["records"] for one in found["configurations"].values()} == {181}, found
    done = Path(place, "kept/done.jsonl").read_text().splitlines()
    assert len(done) == len(found["configurations"]), done
    code, said, found = compared(place, "--fresh")
    again = Path(place, "kept/done.jsonl").read_text().splitlines()
    assert code == 0 and again[: len(done)] == done and len(again) == 2 * len(done), again


def each_lie_is_found_in_each_configuration(place):
    for lie in LIES:
        code, said, found = compared(place, "--lie", lie)
        assert code == 1, (lie, said)
        for name, one in found["configurations"].items():
            assert one["differences"] >= 1 and f"{name}: " in said, (lie, name, said)


def a_process_that_dies_is_a_difference(place):
    code, said, _ = compared(place, "--lie", "die")
    assert code == 1 and "the process" in said and "-9" in said, said


def what_cannot_be_run_is_told_with_status_2(place):
    code, said, _ = compared(place, "--extension", place + "/none.so")
    assert code == 2 and "does not exist" in said, said
    code, said, _ = compared(place, "no-such-file.test")
    assert code == 2 and "no such files" in said, said


def an_answer_is_written_as_the_files_have_it(_):
    def written(types, rows, order="nosort", threshold=0):
        return records.as_written(records.Record(1, "", types, order, threshold, []), rows)

    assert written("ITR", [(None, "", 1.5)]) == ["NULL", "(empty)", "1.500"]
    assert written("I", [(2.9,), ("12x",), ("x",), (1 << 40,)]) == ["2", "12", "0", "0"]
    assert written("T", [("a\nb",)]) == ["a@b"]
    assert written("R", [(-9223372036854775808,)]) == ["-9223372036854776000.000"]
    assert written("IT", [(2, "a"), (10, "b")], "rowsort") == ["10", "b", "2", "a"]
    assert written("IT", [(2, "a"), (10, "b")], "valuesort") == ["10", "2", "a", "b"]
    # printf '1\n2\n3\n' | md5sum
    assert written("I", [(1,), (2,), (3,)], threshold=2) == ["3 values hashing to c0710d6b4f15dfa88f600b0e6b624077"]


def main():
    checks = [nothing_differs_and_what_is_done_is_not_done_again, each_lie_is_found_in_each_configuration,
              a_process_that_dies_is_a_difference, what_cannot_be_run_is_told_with_status_2,
              an_answer_is_written_as_the_files_have_it]
    failed = False
    for check in checks:
        with tempfile.TemporaryDirectory() as place:
            try:
                check(place)
                print("ok sqllogic:", check.__name__, flush=True)
            except Exception:
                failed = True
                print("FAILED sqllogic:", check.__name__, flush=True)
                traceback.print_exc(file=sys.stdout)
    print("end of part")
    sys.exit(failed)


if __name__ == "__main__":
    main()
