// Fills a new packed database, and says how small it is.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"

	_ "github.com/litepack/litepack-go"
)

func main() {
	if err := run("events.db"); err != nil {
		log.Fatal(err)
	}
}

func run(file string) error {
	db, err := sql.Open("litepack", file)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := fill(db); err != nil {
		return err
	}
	var events, bytes int64
	const question = `select (select count(*) from events), page_count * page_size
		from pragma_page_count, pragma_page_size`
	if err := db.QueryRow(question).Scan(&events, &bytes); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%d events; %d bytes of database in a file of %d\n", events, bytes, info.Size())
	return nil
}

func fill(db *sql.DB) error {
	transaction, err := db.Begin()
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	if _, err := transaction.Exec("create table events(id integer primary key, path text, ok)"); err != nil {
		return err
	}
	for i := 0; i < 20000; i++ {
		path := fmt.Sprintf("/item/%d", i)
		if _, err := transaction.Exec("insert into events(path, ok) values (?, ?)", path, i%7 != 0); err != nil {
			return err
		}
	}
	return transaction.Commit()
}
