package litepack

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
)

const fill = `create table t(id integer primary key, name text);
	insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
	select i, 'name ' || i % 100 from n`

// The folder for temporary files is ours alone, so that what is in it is from here.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "test-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", folder)
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

func open(t *testing.T, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func query(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	var answer string
	if err := db.QueryRow(statement).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

func isPlain(t *testing.T, file string) bool {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.HasPrefix(content, []byte("SQLite format 3\x00"))
}

func TestNewDatabasesArePackedAndOptionsAreKept(t *testing.T) {
	folder := t.TempDir()
	for number, name := range []string{"%s", "%s?", "file:%s", "%s?_journal_mode=WAL", "file:%s?_journal_mode=WAL&level=9"} {
		file := filepath.Join(folder, fmt.Sprintf("%d.db", number))
		name = fmt.Sprintf(name, file)
		db := open(t, "litepack", name)
		exec(t, db, fill)
		wanted := "delete"
		if strings.Contains(name, "WAL") {
			wanted = "wal"
		}
		if mode := query(t, db, "pragma journal_mode"); mode != wanted {
			t.Errorf("%s: journal_mode %s", name, mode)
		}
		if level := query(t, db, "pragma litepack_level"); (level == "9") != strings.Contains(name, "level=9") {
			t.Errorf("%s: level %s", name, level)
		}
		db.Close()
		if isPlain(t, file) {
			t.Errorf("%s: not packed", name)
		}
		db = open(t, "litepack", file)
		if count := query(t, db, "select count(*) from t"); count != "5000" {
			t.Errorf("%s: %s rows", name, count)
		}
		if check := query(t, db, "select litepack_check()"); check != "ok" {
			t.Errorf("%s: %s", name, check)
		}
	}
}

func TestPlainDatabasesStayPlain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plain.db")
	db := open(t, "sqlite3", file)
	exec(t, db, fill)
	db.Close()
	db = open(t, "litepack", file)
	exec(t, db, "delete from t where id % 2")
	db.Close()
	if !isPlain(t, file) {
		t.Error("it was packed")
	}
}

func TestAnotherVFSIsRespected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plain.db")
	db := open(t, "litepack", file+"?vfs=unix")
	exec(t, db, fill)
	db.Close()
	if !isPlain(t, file) {
		t.Error("it was packed")
	}
}

func TestDatabasesInMemoryWork(t *testing.T) {
	for _, name := range []string{":memory:", "", "file::memory:?cache=shared", "file:named?mode=memory&cache=shared"} {
		db := open(t, "litepack", name)
		db.SetMaxOpenConns(1)
		exec(t, db, fill)
		if count := query(t, db, "select count(*) from t"); count != "5000" {
			t.Errorf("%q: %s rows", name, count)
		}
	}
	if left, _ := filepath.Glob("*memory*"); len(left) > 0 {
		t.Errorf("files: %v", left)
	}
}

func TestTheDriverOfGoSqliteOpensThemByURIOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "packed.db")
	db := open(t, "litepack", file)
	exec(t, db, fill)
	db.Close()
	for _, name := range []string{file + "?vfs=litepack", "file:" + file + "?vfs=litepack"} {
		if count := query(t, open(t, "sqlite3", name), "select count(*) from t"); count != "5000" {
			t.Errorf("%s: %s rows", name, count)
		}
	}
	_, err := open(t, "sqlite3", file).Exec("select count(*) from t")
	if err == nil || !strings.Contains(err.Error(), "file is not a database") {
		t.Errorf("without vfs=litepack: %v", err)
	}
}

func TestHooksAreCalled(t *testing.T) {
	hook := func(connection *sqlite3.SQLiteConn) error {
		return connection.RegisterFunc("seven", func() int { return 7 }, true)
	}
	sql.Register("hooked", &Driver{sqlite3.SQLiteDriver{ConnectHook: hook}})
	db := open(t, "hooked", filepath.Join(t.TempDir(), "packed.db"))
	exec(t, db, fill)
	if answer := query(t, db, "select seven() + min(litepack_check() = 'ok') from t"); answer != "8" {
		t.Error(answer)
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	db := open(t, "litepack", filepath.Join(t.TempDir(), "packed.db")+"?_journal_mode=WAL&_txlock=immediate&_busy_timeout=600000")
	exec(t, db, "create table t(x)")
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 25; i++ {
				if _, err := db.Exec("insert into t values (?)", i); err != nil {
					t.Error(err)
				}
				var count int
				if err := db.QueryRow("select count(*) from t").Scan(&count); err != nil || count == 0 {
					t.Error(count, err)
				}
			}
		}()
	}
	group.Wait()
	if count := query(t, db, "select count(*) from t"); count != "200" {
		t.Errorf("%s rows", count)
	}
}

func TestNothingIsLeftInTheTemporaryFolder(t *testing.T) {
	if err := Load(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "litepack-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWhatEndedProcessesLeftIsRemoved(t *testing.T) {
	made := func(name string, files ...string) string {
		folder := filepath.Join(os.TempDir(), name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(folder, file), nil, 0o500); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { os.RemoveAll(folder) })
		return folder
	}
	there := func(folder string) bool {
		_, err := os.Stat(folder)
		return err == nil
	}
	left, other, elsewhere := made("litepack-1", libraryName), made("litepack-2", "more"), made("other-1", libraryName)
	removeLeftovers(time.Hour)
	if !there(left) {
		t.Error("one that was just made is removed")
	}
	removeLeftovers(0)
	if there(left) || !there(other) || !there(elsewhere) {
		t.Error(there(left), there(other), there(elsewhere))
	}
}

func TestNames(t *testing.T) {
	for name, wanted := range map[string]string{
		"a.db":                    "a.db?vfs=litepack",
		"a.db?":                   "a.db?vfs=litepack",
		"a.db?_fk=1":              "a.db?_fk=1&vfs=litepack",
		"file:a.db":               "file:a.db?vfs=litepack",
		"file:a.db?vfs=unix":      "file:a.db?vfs=unix",
		"a.db?_fk=1&vfs=litepack": "a.db?_fk=1&vfs=litepack",
		"":                        "",
	} {
		if got := withVFS(name); got != wanted {
			t.Errorf("%q: %q instead of %q", name, got, wanted)
		}
	}
}

func TestTheProgramConfiguresAndSQLDoesNot(t *testing.T) {
	if err := RemoteHeaders("https://data.example", "X-Key: one"); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{"cache_dir_mb": 5, "s3_region": "eu-north-1", "cache_dir": nil} {
		if err := RemoteConfig(name, value); err != nil {
			t.Fatal(name, err)
		}
	}
	if err := RemoteConfig("nonsense", "x"); err == nil || !strings.Contains(err.Error(), "the settings are") {
		t.Fatal(err)
	}
	db := open(t, "litepack", ":memory:")
	for _, call := range []string{
		"litepack_remote_headers('https://data.example', 'X-Key: two')",
		"litepack_remote_config('s3_region')",
	} {
		_, err := db.Exec("select " + call)
		if err == nil || !strings.Contains(err.Error(), "not authorized") {
			t.Fatal(call, err)
		}
	}
	if err := RemoteHeaders("https://data.example", ""); err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseWithAKeyIsEncrypted(t *testing.T) {
	for number, key := range []string{"correct 'horse' +&%=#?", "raw:" + strings.Repeat("0f", 32)} {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("a%%?#%d.db", number))
		name := file
		if number > 0 {
			name = "file:" + escaped.Replace(file) + "?_journal_mode=WAL"
		} else {
			name = strings.ReplaceAll(file, "?", "")
			file = name
		}
		for round := 0; round < 2; round++ {
			db := sql.OpenDB(NewConnector(name, key))
			if round == 0 {
				exec(t, db, fill)
			}
			if count := query(t, db, "select count(*) from t"); count != "5000" {
				t.Errorf("%s rows", count)
			}
			db.Close()
		}
		content, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(content, []byte("Litepack")) || bytes.Contains(content, []byte("CREATE TABLE")) {
			t.Error("it is not encrypted", err)
		}
		err = sql.OpenDB(NewConnector(name, "s3cret")).Ping()
		if err == nil || !strings.Contains(err.Error(), "wrong key") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("a wrong key: %v", err)
		}
	}
}

func TestAKeyForWhatIsNotEncryptedIsAnError(t *testing.T) {
	folder := t.TempDir()
	plain, packed := filepath.Join(folder, "plain.db"), filepath.Join(folder, "packed.db")
	exec(t, open(t, "sqlite3", plain), "create table t(x)")
	exec(t, open(t, "litepack", packed), "create table t(x)")
	for _, name := range []string{plain, packed, ":memory:", plain + "?vfs=unix", packed + "?key=a", packed + "?%zz"} {
		connector := NewConnector(name, "s3cret")
		err := sql.OpenDB(connector).Ping()
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, connector := range []*Connector{NewConnector(packed, ""), {Name: packed}} {
		if err := sql.OpenDB(connector).Ping(); err == nil {
			t.Error("no key at all")
		}
	}
}

func TestAKeyIsNotPrinted(t *testing.T) {
	connector := NewConnector("a.db", "s3cret")
	hidden := struct{ connector Connector }{*connector}
	shown := struct{ Connector Connector }{*connector}
	for _, value := range []any{connector, *connector, hidden, &hidden, shown, &shown, []any{shown}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, "s3cret") || strings.Contains(text, fmt.Sprintf("%x", "s3cret")) {
				t.Errorf("%s: %s", verb, text)
			}
		}
		if text, err := json.Marshal(value); err != nil || strings.Contains(string(text), "s3cret") {
			t.Errorf("%s %v", text, err)
		}
	}
}

func TestAKeyWithANullCharacterIsRefused(t *testing.T) {
	// SQLite would take what is before it, and the file would open with that.
	file := filepath.Join(t.TempDir(), "a.db")
	for _, err := range []error{
		sql.OpenDB(NewConnector(file, "s3\x00cret")).Ping(),
		sql.OpenDB(NewConnector(file+"\x00", "s3cret")).Ping(),
		open(t, "litepack", "file:"+file+"?key=s3%00cret").Ping(),
	} {
		if err == nil || !strings.Contains(err.Error(), "null character") || strings.Contains(err.Error(), "s3") {
			t.Error(err)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file")
	}
}

func TestAKeyIsNotSentToAServer(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) { asked = true }))
	defer server.Close()
	digits := strings.Repeat("0f", 32)
	for _, query := range []string{"hexkey=" + digits, "key=1&HexKey=" + digits} {
		name := "file:/a.db?mode=ro&url=" + url.QueryEscape(server.URL+"/a.db?"+query)
		for _, err := range []error{open(t, "litepack", name).Ping(), sql.OpenDB(NewConnector(name, "s3cret")).Ping()} {
			if err == nil || !strings.Contains(err.Error(), "the server would get") || strings.Contains(err.Error(), digits) {
				t.Error(err)
			}
		}
	}
	if asked {
		t.Error("the server was asked")
	}
	// As a parameter beside it, it stays here.
	if err := checked("file:/a.db?hexkey=" + digits + "&url=" + url.QueryEscape(server.URL+"/a.db?key=1")); err != nil {
		t.Error(err)
	}
}
