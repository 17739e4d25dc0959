# A packed file in Ruby: refused, then read, written and reopened. Prints what was used.
require "fileutils"
require "sqlite3"

library = ARGV.fetch(0)
check = ->(ok, what) { ok or abort "Ruby: #{what}" }
is_plain = ->(file) { File.binread(file, 15) == "SQLite format 3" }
load_extension = lambda do |name|
  loader = SQLite3::Database.new(":memory:")
  loader.enable_load_extension(true)
  loader.load_extension("#{library}/#{name}")
  loader.close
end

FileUtils.cp("packed.db", "work.db")
begin
  SQLite3::Database.new("work.db").execute("select count(*) from Track")
  abort "Ruby: without Litepack it is read"
rescue SQLite3::NotADatabaseException => error
  check[error.message.include?("file is not a database"), error.message]
end

load_extension["liblitepack.so"]
[3503, 3502].each do |expected|
  db = SQLite3::Database.new("file:work.db?vfs=litepack")
  check[db.get_first_value("select count(*) from Track") == expected, "reads #{expected}"]
  db.transaction { db.execute("delete from Track where TrackId = (select min(TrackId) from Track)") }
  db.transaction
  db.execute("delete from Track")
  db.rollback
  check[db.get_first_value("pragma journal_mode = wal") == "wal", "WAL"]
  check[db.get_first_value("pragma integrity_check") == "ok", "integrity_check"]
  check[db.get_first_value("select litepack_check()") == "ok", "litepack_check"]
  db.close
end
check[!is_plain["work.db"], "it stays packed"]
db = SQLite3::Database.new("file:new-packed.db?vfs=litepack")
db.execute("create table t(x)")
db.close
check[!is_plain["new-packed.db"], "new databases are packed"]

load_extension["litepackdefault.so"]
db = SQLite3::Database.new("work.db")
check[db.get_first_value("select count(*) from Track") == 3501, "by name"]

puts "#{SQLite3::VERSION} #{db.get_first_value('select sqlite_version()')}"
