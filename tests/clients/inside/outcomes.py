"""A plugin of pytest that writes the outcome of each test to a file, as soon as it is known."""

import os


def pytest_runtest_logreport(report):
    # A test has three reports: that of its call counts, and those before and after it if they failed or skipped it.
    if report.when == "call" or report.outcome != "passed":
        expected = hasattr(report, "wasxfail")
        outcome = "passed" if expected and report.outcome != "failed" else report.outcome
        with open(os.environ["LITEPACK_CLIENT_OUTCOMES"], "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{outcome}\t{report.nodeid}\n".replace("\r", "\\r"))
