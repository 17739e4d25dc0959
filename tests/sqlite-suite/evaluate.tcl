# Runs one test file of SQLite's suite, through permutations.test as SQLite does, with three differences.
#
# usage: testfixture evaluate.tcl SQLITE_TEST_DIRECTORY FILE.test WORK_DIRECTORY
#
# - Its commands are run one by one, and those in the bodies of its outermost loops, so that an error ends one command
#   and not the rest of the file. Each is reported as the failed test `(error in line N)`.
# - Each test's name is printed as it begins, so that run.py sees which tests were not reached.
# - The bytes of a packed database that a test reads or writes by itself (`file size`, `hexio_read`, `hexio_write`,
#   `md5file`, `open`) are those of the SQLite database in it; so are those of its WAL. See packed_bytes.c.
lassign $argv sqlite_tests suite_file work
set argv0 [file join $sqlite_tests veryquick.test]
set argv [list --testdir=$work --verbose=1]
set testdir $sqlite_tests
source [file join $sqlite_tests permutations.test]

# The prologue of each interpreter that runs a test file.
set suite_prologue {
  rename source suite_source
  proc source {args} {
    set file [lindex $args end]
    if {[llength $args]==1 && [string match *.test $file] && [info level]==1} {
      suite_run_file $file
    } else {
      uplevel 1 [list suite_source {*}$args]
    }
  }

  proc suite_run_file {file} {
    set channel [suite_open $file]
    fconfigure $channel -eofchar \x1a
    set script [read $channel]
    close $channel
    set former [info script $file]
    # Memory that runs out in SQLite's own hook in the deletion of a journal, which only its test programs have, would end
    # a durable commit with an error. The file takes that for a failed one, and can do nothing after it.
    if {[string match */malloc3.test $file]} { sqlite3_memdebug_vfs_oom_test 0 }
    # It has the tenth call of a rollback fail, which of a packed database has none. What fails then is the opening of the
    # next test's, after which testfixture takes the name of the command that is missing for an address.
    if {[string match */malloc.test $file]} {
      rename sqlite3 suite_sqlite3
      proc sqlite3 {args} {
        set ::sqlite_io_error_pending 0
        uplevel 1 [list suite_sqlite3 {*}$args]
      }
      # Copies a journal, which of a packed database is in memory: each of 100,000 rounds ends there.
      regsub {do_malloc_test 14 } $script {&-end 20 } script
    }
    suite_run $script 1
    info script $former
  }

  # Runs the commands of a script at the level of the file. `line` is that of its first character.
  proc suite_run {script line} {
    set command ""
    set first $line
    foreach text [split $script "\n"] {
      if {$command eq ""} { set first $line }
      append command $text "\n"
      incr line
      if {![info complete $command]} continue
      set code [catch {uplevel #0 [suite_guarded $command $first]} result options]
      set command ""
      switch $code {
        0 {}
        1 { suite_error $first $result [dict get $options -errorinfo] }
        default { return -code $code $result }
      }
    }
    if {[string trim $command] ne ""} { suite_error $first "incomplete command" $command }
  }

  # The command with the body of an outermost loop or condition run by `suite_run`, too.
  proc suite_guarded {command line} {
    set text [string trim $command]
    if {![regexp {^(foreach|for|while|if|ifcapable)\s} $text] || [catch {lindex $text end} body]} { return $command }
    set head [string range $text 0 end-[expr {[string length $body]+2}]]
    if {[string first "\n" $body]<0 || $text ne "$head{$body}"} { return $command }
    set leading [string range $command 0 [expr {[string first $text $command]-1}]]
    incr line [expr {[llength [split $leading$head "\n"]]-1}]
    return "$head{suite_body [list $body] $line}"
  }

  proc suite_body {body line} {
    set code [catch {suite_run $body $line} result]
    return -code $code $result
  }

  proc suite_error {line message trace} {
    set name "(error in line $line)"
    puts "\n~ $name\n! $name expected: \[no error\]\n! $name got:      \[$message\]"
    puts [regsub -all -line {^} $trace "    "]
    fail_test $name
  }

  # The first command of each test.
  rename sqlite3_memdebug_settitle suite_settitle
  proc sqlite3_memdebug_settitle {name} {
    puts "\n~ [suite_series $name]"
    suite_settitle $name
  }

  # Some commands make call number N fail, for all N until no call is left. How many calls there are is no result, so
  # their tests have one name, like `pagerfault-1.*`.
  proc suite_series {name} {
    for {set level 1} {$level<[info level]} {incr level} {
      lassign [info level $level] command series
      if {$command in {do_diskfull_test do_faultsim_test do_ioerr_test do_malloc_test}} { return "$series.*" }
    }
    return $name
  }

  rename file suite_file
  proc file {args} {
    if {[llength $args]==2 && [lindex $args 0] eq "size"} {
      set size [packed_size [lindex $args 1]]
      if {$size>=0} { return $size }
    }
    uplevel 1 [list suite_file {*}$args]
  }

  rename hexio_read suite_hexio_read
  proc hexio_read {args} {
    if {[llength $args]==3 && [packed_size [lindex $args 0]]>=0} { return [packed_hex {*}$args] }
    # Asked for a file that is not there, SQLite's own command would leak its buffer.
    if {![suite_file exists [lindex $args 0]]} { error "cannot open input file [lindex $args 0]" }
    uplevel 1 [list suite_hexio_read {*}$args]
  }

  rename hexio_write suite_hexio_write
  proc hexio_write {args} {
    if {[llength $args]==3 && [packed_size [lindex $args 0]]>=0} {
      lassign $args path offset digits
      return [packed_write $path $offset [binary format H* $digits]]
    }
    uplevel 1 [list suite_hexio_write {*}$args]
  }

  rename open suite_open
  proc open {path args} {
    set access [lindex $args 0]
    # superlock.test reads two files, and writes each with the other's content: they stay packed if that is done as it is.
    set is_raw [string match */superlock.test [info script]]
    if {!$is_raw && $access in {{} r rb r+ rb+ r+b RDONLY RDWR} && [packed_size $path]>=0} {
      set modes [expr {$access in {{} r rb RDONLY} ? "read" : "read write"}]
      # It takes a file descriptor, as any open file: some tests use them up.
      set file [suite_open $path r]
      set channel [suite_chan create $modes [list suite_channel $path]]
      set ::suite_position($channel) 0
      set ::suite_path($channel) $path
      set ::suite_opened($channel) $file
      if {[string match *b* $access]} { fconfigure $channel -translation binary }
      return $channel
    }
    uplevel 1 [list suite_open $path {*}$args]
  }

  rename chan suite_chan
  proc chan {args} {
    lassign $args action channel length
    if {$action eq "truncate" && [llength $args]==3 && [info exists ::suite_path($channel)]} {
      return [packed_truncate $::suite_path($channel) $length]
    }
    uplevel 1 [list suite_chan {*}$args]
  }

  rename md5file suite_md5file
  proc md5file {path args} {
    if {[packed_size $path]<0} { return [uplevel 1 [list suite_md5file $path {*}$args]] }
    set copy [suite_open suite-md5.tmp wb]
    puts -nonewline $copy [packed_read $path 0 [packed_size $path]]
    close $copy
    set sum [suite_md5file suite-md5.tmp {*}$args]
    suite_file delete suite-md5.tmp
    return $sum
  }

  # A channel on the bytes of a packed database, in the way of `chan create`.
  proc suite_channel {path action channel args} {
    upvar #0 ::suite_position($channel) position
    switch $action {
      initialize { return {initialize finalize watch read write seek} }
      finalize {
        close $::suite_opened($channel)
        unset position ::suite_path($channel) ::suite_opened($channel)
      }
      watch {}
      read {
        set bytes [packed_read $path $position [lindex $args 0]]
        incr position [string length $bytes]
        return $bytes
      }
      write {
        set written [packed_write $path $position [lindex $args 0]]
        incr position $written
        return $written
      }
      seek {
        lassign $args offset base
        switch $base {
          start { set position $offset }
          current { incr position $offset }
          end { set position [expr {[packed_size $path]+$offset}] }
        }
        return $position
      }
    }
  }
}

rename load_testfixture_extensions suite_load_extensions
proc load_testfixture_extensions {interpreter} {
  suite_load_extensions $interpreter
  foreach command {packed_size packed_read packed_hex packed_write packed_truncate} {
    interp alias $interpreter $command {} $command
  }
  interp eval $interpreter $::suite_prologue
}

# A file goes on however many tests have failed: what comes later would go untested.
set ::cmdlinearg(maxerror) 1000000
array set suite_options $::testspec(full)
set suite_paths [lsearch -all -inline $::alltests $suite_file]
if {$suite_paths eq ""} { set suite_paths [lsearch -all -inline $::alltests */$suite_file] }
if {$suite_paths eq ""} { set suite_paths [list $suite_file] }
array set suite_options [list -files $suite_paths]
run_tests full {*}[array get suite_options]
set argv {}
finish_test
