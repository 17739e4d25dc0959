# A packed file in Perl: refused, then read, written and reopened. Prints what was used.
use strict;
use warnings;
use DBI;
use File::Copy;

my %options = (RaiseError => 1, PrintError => 0);
my $library = shift;

sub check { my ($ok, $what) = @_; die "Perl: $what\n" unless $ok }
sub one { my ($db, $sql) = @_; return ($db->selectrow_array($sql))[0] }
sub is_plain { open my $file, '<:raw', shift or die; read $file, my $head, 15; return $head eq 'SQLite format 3' }

copy('packed.db', 'work.db') or die;
eval { one(DBI->connect('dbi:SQLite:dbname=work.db', '', '', {%options}), 'select count(*) from Track') };
check($@ =~ /file is not a database/, "without Litepack: '$@'");

my $loader = DBI->connect('dbi:SQLite:dbname=:memory:', '', '', {%options});
$loader->sqlite_enable_load_extension(1);
$loader->sqlite_load_extension("$library/liblitepack.so");
$loader->disconnect;

for my $expected (3503, 3502) {
    my $db = DBI->connect('dbi:SQLite:uri=file:work.db?vfs=litepack', '', '', {%options});
    check(one($db, 'select count(*) from Track') == $expected, "reads $expected");
    $db->begin_work;
    $db->do('delete from Track where TrackId = (select min(TrackId) from Track)');
    $db->commit;
    $db->begin_work;
    $db->do('delete from Track');
    $db->rollback;
    check(one($db, 'select litepack_check()') eq 'ok', 'litepack_check');
    check(one($db, 'pragma integrity_check') eq 'ok', 'integrity_check');
    check(one($db, 'pragma journal_mode = wal') eq 'wal', 'WAL');
    $db->disconnect;
}
check(!is_plain('work.db'), 'it stays packed');
my $new = DBI->connect('dbi:SQLite:uri=file:new-packed.db?vfs=litepack', '', '', {%options});
$new->do('create table t(x)');
$new->disconnect;
check(!is_plain('new-packed.db'), 'new databases are packed');

# By name.
$loader = DBI->connect('dbi:SQLite:dbname=:memory:', '', '', {%options});
$loader->sqlite_enable_load_extension(1);
$loader->sqlite_load_extension("$library/litepackdefault.so");
my $db = DBI->connect('dbi:SQLite:dbname=work.db', '', '', {%options});
check(one($db, 'select count(*) from Track') == 3501, 'by name');

print "$DBD::SQLite::VERSION ", one($db, 'select sqlite_version()'), "\n";
