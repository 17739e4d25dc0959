# A packed file in R: refused, then read, written and reopened. Prints what was used.
library(DBI)

folder <- commandArgs(trailingOnly = TRUE)[1]
check <- function(ok, what) if (!isTRUE(ok)) stop("R: ", what)
open <- function(file, ...) suppressWarnings(dbConnect(RSQLite::SQLite(), file, ...))
one <- function(db, sql) dbGetQuery(db, sql)[[1]]
is_plain <- function(file) identical(readBin(file, "raw", 15), charToRaw("SQLite format 3"))

invisible(file.copy("packed.db", "work.db", overwrite = TRUE))
refused <- tryCatch(one(open("work.db"), "select count(*) from Track"), error = conditionMessage)
check(grepl("file is not a database", refused), refused)

loader <- open(":memory:", loadable.extensions = TRUE)
invisible(one(loader, sprintf("select load_extension('%s/litepackdefault.so')", folder)))
dbDisconnect(loader)

for (expected in c(3503, 3502)) {
  db <- open("work.db")
  check(one(db, "select count(*) from Track") == expected, paste("reads", expected))
  dbWithTransaction(db, dbExecute(db, "delete from Track where TrackId = (select min(TrackId) from Track)"))
  dbBegin(db)
  dbExecute(db, "delete from Track")
  dbRollback(db)
  dbWriteTable(db, "notes", data.frame(n = 1:1000, text = "the same"), overwrite = TRUE)
  check(nrow(dbReadTable(db, "notes")) == 1000, "a data frame")
  check(one(db, "pragma integrity_check") == "ok", "integrity_check")
  check(one(db, "select litepack_check()") == "ok", "litepack_check")
  dbDisconnect(db)
}
check(!is_plain("work.db"), "it stays packed")
db <- open("file:work.db?vfs=litepack", flags = RSQLite::SQLITE_RWC)
check(one(db, "select count(*) from Track") == 3501, "by URI")

cat(as.character(packageVersion("RSQLite")), one(db, "select sqlite_version()"), "\n")
dbDisconnect(db)
