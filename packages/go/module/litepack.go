// Package litepack opens SQLite databases that Litepack keeps several times smaller on disk, with the driver
// github.com/mattn/go-sqlite3.
//
// It registers a driver for database/sql by the name "litepack". Data source names are those of go-sqlite3, with all
// their options:
//
//	db, err := sql.Open("litepack", "packed.db?_journal_mode=WAL")
//
// Packed files and plain databases open alike, and stay what they are. A new database is a packed file.
//
// The extension is in the program. It is written to a private temporary folder when the first database is opened, and
// removed as soon as it is loaded (on Windows by a later process), so the folder for temporary files must allow files to
// be executed; TMPDIR names another one, TMP on Windows.
//
// On Linux with the C library musl, as in Alpine, build with -tags musl.
package litepack

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-sqlite3"
)

// VFS is the name for DSNs of go-sqlite3's own driver, after Load: "file:packed.db?vfs=litepack".
const VFS = "litepack"

func init() {
	sql.Register("litepack", &Driver{})
}

// Driver is go-sqlite3's with Litepack in it. A program that needs a ConnectHook, or further extensions, registers one
// of its own:
//
//	sql.Register("mine", &litepack.Driver{SQLiteDriver: sqlite3.SQLiteDriver{ConnectHook: hook}})
type Driver struct {
	sqlite3.SQLiteDriver
}

// Connector opens an encrypted database, or makes a new one that is encrypted:
//
//	db := sql.OpenDB(litepack.NewConnector("app.db", key))
//
// A wrong key, or one for a database that is not encrypted, is an error of the first use. No error has the key, nor has
// anything that prints or marshals a Connector.
type Connector struct {
	// Name is a data source name, as for sql.Open.
	Name string
	// With is the driver; nil for the one that is registered as "litepack".
	With *Driver
	// A function, as whatever prints a structure shows its fields, but cannot look into that.
	key func() string
}

// NewConnector has a key: a passphrase; or a raw key as "raw:" and 64 hexadecimal digits.
func NewConnector(name, key string) *Connector {
	return &Connector{Name: name, key: func() string { return key }}
}

// Connect opens a connection.
func (c *Connector) Connect(context.Context) (driver.Conn, error) {
	if c.key == nil {
		return nil, errNoKey
	}
	name, err := withKey(c.Name, c.key())
	if err != nil {
		return nil, err
	}
	connection, err := c.Driver().Open(name)
	if err != nil {
		return nil, err
	}
	// A database that Litepack did not open, as one in memory, knows no keys, or others.
	encrypted, err := isEncrypted(connection)
	if err == nil && !encrypted {
		err = errors.New("litepack: there is a key, and the database is not encrypted by Litepack")
	}
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return connection, nil
}

// Driver returns the driver that it opens connections by.
func (c *Connector) Driver() driver.Driver {
	if c.With != nil {
		return c.With
	}
	return &Driver{}
}

var errNoKey = errors.New("litepack: there is no key")

// isEncrypted asks what Litepack alone answers so: a SQLite that has keys of its own answers something else.
func isEncrypted(connection driver.Conn) (bool, error) {
	rows, err := connection.(driver.QueryerContext).QueryContext(context.Background(), "pragma cipher_version", nil)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	row := make([]driver.Value, len(rows.Columns()))
	switch err := rows.Next(row); err {
	case nil:
		return strings.HasPrefix(fmt.Sprintf("%s", row[0]), "litepack "), nil
	case io.EOF:
		return false, nil
	default:
		return false, err
	}
}

// Open opens a database by go-sqlite3 with vfs=litepack, unless the name says another VFS.
func (d *Driver) Open(name string) (driver.Conn, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	if err := checked(name); err != nil {
		return nil, err
	}
	return d.SQLiteDriver.Open(withVFS(name))
}

// Load loads Litepack into the SQLite of go-sqlite3, for the life of the process. The driver "litepack" does that by
// itself; then go-sqlite3's own driver, too, opens packed files whose name says vfs=litepack. Loading again does
// nothing.
func Load() error {
	return load()
}

// RemoteHeaders sends these headers, one "Name: value" in a line, with every request of this process to the web server
// origin, "https://data.example". No headers remove them. It holds for databases that are opened from now on.
func RemoteHeaders(origin, headers string) error {
	return configure("select litepack_remote_headers(?, ?)", origin, headers)
}

// RemoteConfig sets how this process reads from web servers and object stores: the settings of the SQL function
// litepack_remote_config, such as "cache_dir". A value of nil restores the default.
func RemoteConfig(name string, value any) error {
	if number, is := value.(int); is {
		value = int64(number)
	}
	return configure("select litepack_remote_config(?, ?)", name, value)
}

// settings is a connection on which SQL may configure the process, and on no other. It is open for as long as the
// process runs: the file that lets it do so is gone.
var (
	settings   atomic.Pointer[sqlite3.SQLiteConn]
	settingOne sync.Mutex
)

func configure(sql string, values ...driver.Value) error {
	if err := Load(); err != nil {
		return err
	}
	settingOne.Lock()
	defer settingOne.Unlock()
	_, err := settings.Load().Exec(sql, values)
	return err
}

var load = sync.OnceValue(func() error {
	if len(library) == 0 {
		return errors.New("litepack: there is no binary for this system and processor, or the program was built " +
			"without cgo, which go-sqlite3 needs as well")
	}
	// Only this user can look into it, and its name cannot be guessed.
	folder, err := os.MkdirTemp("", "litepack-")
	if err != nil {
		return fmt.Errorf("litepack: no place to write the extension to (TMPDIR names another): %w", err)
	}
	// The system keeps what is loaded. Windows removes no file that is: a later process does.
	defer os.RemoveAll(folder)
	if runtime.GOOS == "windows" {
		removeLeftovers(time.Minute)
	}
	file := filepath.Join(folder, libraryName)
	if err := os.WriteFile(file, library, 0o500); err != nil {
		return fmt.Errorf("litepack: the extension cannot be written (TMPDIR names another place): %w", err)
	}
	return loadFrom(file)
})

// removeLeftovers removes the extensions of processes that have ended. Those of running ones cannot be removed, and a
// folder that was just made may be that of a process that is about to load what is in there.
func removeLeftovers(age time.Duration) {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), "litepack-*"))
	for _, folder := range folders {
		if about, err := os.Lstat(folder); err == nil && about.IsDir() && time.Since(about.ModTime()) > age {
			// Nothing else is in such a folder. One that has more is not ours, and stays.
			_ = os.Remove(filepath.Join(folder, libraryName))
			_ = os.Remove(folder)
		}
	}
}

func loadFrom(file string) error {
	connection, err := (&sqlite3.SQLiteDriver{}).Open(":memory:")
	if err != nil {
		return fmt.Errorf("litepack: %w", err)
	}
	loader := connection.(*sqlite3.SQLiteConn)
	if err := loader.LoadExtension(file, "sqlite3_litepackconfigure_init"); err != nil {
		err = fmt.Errorf("litepack: the extension cannot be loaded (TMPDIR names another place to load it from, if "+
			"this one does not allow that): %w", err)
		return errors.Join(err, connection.Close())
	}
	settings.Store(loader)
	return nil
}

// withKey is a data source name with the key in it, which SQLite reads where the name is a URI.
func withKey(name, key string) (string, error) {
	if key == "" {
		return "", errNoKey
	}
	path, query, _ := strings.Cut(name, "?")
	if !strings.HasPrefix(path, "file:") {
		path = "file:" + escaped.Replace(path)
	}
	values, err := url.ParseQuery(query)
	if err != nil || (values.Has("vfs") && values.Get("vfs") != VFS) || values.Has("key") || values.Has("hexkey") {
		return "", errors.New("litepack: a name with a key has parameters that can be parsed, no other key, and no other VFS")
	}
	if query != "" {
		query += "&"
	}
	// SQLite takes a plus sign for what it is.
	value := strings.ReplaceAll(url.QueryEscape(key), "+", "%20")
	return path + "?" + query + "key=" + value, nil
}

// escaped makes the path of a URI of the name of a file.
var escaped = strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")

var (
	errNull = errors.New("litepack: a key has no null character")
	errSent = errors.New("litepack: the URL of the file has hexkey= in its own query, which the server would get: the " +
		"key is a parameter beside url=, or a Connector's")
	inQuery = regexp.MustCompile(`(?i)\?(.*&)?hexkey=`)
)

// checked refuses a name in which a key would be cut off by SQLite, which ends a value at a null character, or sent to
// a server.
func checked(name string) error {
	_, query, _ := strings.Cut(name, "?")
	// SQLite stops at a fragment. A query that cannot be parsed is go-sqlite3's to refuse; what can is checked.
	query, _, _ = strings.Cut(query, "#")
	values, _ := url.ParseQuery(query)
	if strings.ContainsRune(name, 0) || strings.ContainsRune(strings.Join(values["key"], ""), 0) {
		return errNull
	}
	for _, location := range values["url"] {
		if inQuery.MatchString(location) {
			return errSent
		}
	}
	return nil
}

// withVFS adds vfs=litepack to a data source name, which go-sqlite3 and SQLite understand in any name that has
// parameters.
func withVFS(name string) string {
	path, query, hasQuery := strings.Cut(name, "?")
	if path == "" {
		// A temporary database, which is never packed.
		return name
	}
	if !hasQuery || query == "" {
		return path + "?vfs=" + VFS
	}
	// A query that cannot be parsed is go-sqlite3's to refuse.
	if values, err := url.ParseQuery(query); err != nil || values.Has("vfs") {
		return name
	}
	return name + "&vfs=" + VFS
}
