# Prints the names of the test files in the full set, one a line.
# usage: testfixture list_files.tcl SQLITE_TEST_DIRECTORY WORK_DIRECTORY
lassign $argv sqlite_tests work
# Whoever asks for encrypted databases must not get results of others.
if {[info exists env(SUITE_KEY)]} {
  sqlite3 db [file join $work probe.db]
  db eval {CREATE TABLE t(x)}
  if {[db eval {PRAGMA cipher}] eq ""} { puts stderr "a new database is not encrypted"; exit 1 }
  db close
}
# permutations.test looks at these two as if it were started by veryquick.test.
set argv0 [file join $sqlite_tests veryquick.test]
set argv [list --testdir=$work]
set testdir $sqlite_tests
source [file join $sqlite_tests permutations.test]
array set suite $::testspec(full)
foreach file [lsort -unique $suite(-files)] {
  puts [file tail $file]
}
exit 0
