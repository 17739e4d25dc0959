<?php
// A packed file in PHP: refused, then read, written and reopened, by SQLite3 and by PDO. Prints what was used.
function check(bool $ok, string $what): void
{
    if (!$ok) {
        throw new Exception("PHP: $what");
    }
}

function isPlain(string $file): bool
{
    return file_get_contents($file, false, null, 0, 15) === 'SQLite format 3';
}

copy('packed.db', 'work.db');
$refused = '';
try {
    (new PDO('sqlite:work.db'))->query('select count(*) from Track');
} catch (PDOException $error) {
    $refused = $error->getMessage();
}
check(str_contains($refused, 'file is not a database'), "without Litepack: '$refused'");

$loader = new SQLite3(':memory:');
check($loader->loadExtension('litepackdefault.so'), 'loading');
$loader->close();

foreach ([3503, 3502] as $expected) {
    $db = new PDO('sqlite:work.db');
    check($db->query('select count(*) from Track')->fetchColumn() == $expected, "PDO reads $expected");
    $db->beginTransaction();
    $db->exec('delete from Track where TrackId = (select min(TrackId) from Track)');
    $db->commit();
    $db->beginTransaction();
    $db->exec('delete from Track');
    $db->rollBack();
    $db = null;
}
$db = new SQLite3('work.db');
$db->enableExceptions(true);
check($db->querySingle('pragma journal_mode = wal') === 'wal', 'WAL');
check($db->querySingle('select count(*) from Track') === 3501, 'SQLite3 reads');
$db->exec("create table notes(text); insert into notes values ('first')");
check($db->querySingle('pragma integrity_check') === 'ok', 'integrity_check');
check($db->querySingle('select litepack_check()') === 'ok', 'litepack_check');
$db->close();
check(!isPlain('work.db'), 'it stays packed');

$db = new SQLite3('new.db');
$db->exec("create table t(x)");
check(!@$db->querySingle("select litepack_new_databases('packed')"), 'SQL is refused');
check(str_contains($db->lastErrorMsg(), 'not authorized'), $db->lastErrorMsg());
$db->close();
check(isPlain('new.db'), 'new databases are plain');
$loader = new SQLite3(':memory:');
check($loader->loadExtension('litepackconfigure.so'), 'loading what lets SQL configure');
check($loader->querySingle("select litepack_new_databases('packed')") === 'packed', 'SQL configures');
$loader->close();
$db = new SQLite3('new-packed.db');
$db->exec("create table t(x)");
$db->close();
check(!isPlain('new-packed.db'), 'new databases are packed');

echo PHP_VERSION, ' ', SQLite3::version()['versionString'], "\n";
