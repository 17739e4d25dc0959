# Adds load_extension.c to SQLite's own build of testfixture and of the shell, and packed_bytes.c to testfixture.
# Run in SQLite's build directory: make -f testfixture.mk SUITE=<this directory> testfixture sqlite3-shell
include Makefile

LOADER = -DSQLITE_EXTRA_INIT=litepack_suite_initialize
LOADER_SOURCE = $(SUITE)/load_extension.c

TESTFIXTURE_FLAGS += $(LOADER) -UTCLSH_INIT_PROC -DTCLSH_INIT_PROC=litepack_suite_tcl
TESTSRC += $(LOADER_SOURCE) $(SUITE)/packed_bytes.c
testfixture$(TEXE): $(LOADER_SOURCE) $(SUITE)/packed_bytes.c

# SQLite's own rule takes the library, which has no loader in it. Some tests run the program by the name sqlite3.
sqlite3-shell: shell.c sqlite3.c $(LOADER_SOURCE)
	$(LTLINK) $(READLINE_FLAGS) $(SHELL_OPT) $(LOADER) -o $@ shell.c sqlite3.c $(LOADER_SOURCE) $(TLIBS)
