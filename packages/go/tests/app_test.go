// A program of a user's: packed.db is refused by go-sqlite3 alone, and read, written and reopened with Litepack.
package app

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/litepack/litepack-go"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

type Artist struct {
	ArtistID int64  `gorm:"column:ArtistId;primaryKey"`
	Name     string `gorm:"column:Name"`
}

type Note struct {
	ID   int64
	Text string
}

func (Artist) TableName() string { return "Artist" }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copied(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("packed.db")
	must(t, err)
	file := filepath.Join(t.TempDir(), "work.db")
	must(t, os.WriteFile(file, content, 0o600))
	return file
}

func one(t *testing.T, db *sql.DB, query string) (answer string) {
	t.Helper()
	must(t, db.QueryRow(query).Scan(&answer))
	return answer
}

func TestWithoutLitepackItIsRefused(t *testing.T) {
	db, err := sql.Open("sqlite3", copied(t))
	must(t, err)
	defer db.Close()
	// Opening or reading: which of them looks into the file is the driver's choice.
	err = db.Ping()
	if err == nil {
		_, err = db.Exec("select count(*) from Track")
	}
	if err == nil || !strings.Contains(err.Error(), "file is not a database") {
		t.Fatal(err)
	}
}

func TestReadWriteReopen(t *testing.T) {
	file := copied(t)
	for round := 0; round < 3; round++ {
		db, err := sql.Open("litepack", file)
		must(t, err)
		if got, wanted := one(t, db, "select count(*) from Track"), fmt.Sprint(3503-round); got != wanted {
			t.Errorf("%s rows instead of %s", got, wanted)
		}
		_, err = db.Exec("delete from Track where TrackId = ?", round+1)
		must(t, err)
		transaction, err := db.Begin()
		must(t, err)
		_, err = transaction.Exec("delete from Track")
		must(t, err)
		must(t, transaction.Rollback())
		if check := one(t, db, "pragma integrity_check"); check != "ok" {
			t.Error(check)
		}
		if check := one(t, db, "select litepack_check()"); check != "ok" {
			t.Error(check)
		}
		if round == 0 {
			fmt.Println("SQLite", one(t, db, "select sqlite_version()"))
		}
		must(t, db.Close())
	}
}

func TestGORM(t *testing.T) {
	file := copied(t)
	for round := int64(0); round < 2; round++ {
		db, err := gorm.Open(sqlite.Dialector{DriverName: "litepack", DSN: file}, &gorm.Config{Logger: logger.Discard})
		must(t, err)
		// Of a table of its own: it does not understand how Chinook's are written.
		must(t, db.AutoMigrate(&Note{}))
		must(t, db.Create(&Note{Text: "by GORM"}).Error)
		var artists int64
		must(t, db.Model(&Artist{}).Count(&artists).Error)
		if artists != 275+round {
			t.Errorf("%d artists", artists)
		}
		must(t, db.Create(&Artist{Name: "Nobody yet"}).Error)
		plain, err := db.DB()
		must(t, err)
		if check := one(t, plain, "select litepack_check()"); check != "ok" {
			t.Error(check)
		}
		must(t, plain.Close())
	}
}

// A folder for temporary files that does not do is named, in a process that has not loaded anything yet.
func TestTemporaryFolders(t *testing.T) {
	if os.Getenv("ONLY_OPEN") != "" {
		db, err := sql.Open("litepack", ":memory:")
		must(t, err)
		must(t, db.Ping())
		return
	}
	command := exec.Command(os.Args[0], "-test.run", "^TestTemporaryFolders$")
	command.Env = append(os.Environ(), "ONLY_OPEN=1", "TMPDIR=/nowhere")
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "no place to write the extension to (TMPDIR names another)") {
		t.Error(err, string(output))
	}
}
