"""Django: its own backend for SQLite, on packed files. Migrations, and objects made, read, changed and deleted.

packages: django
"""

import importlib
import os
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connections
from sample import packed, refused, seen

file = packed()

# --- the recipe, in settings.py
DATABASES = {"default": {"ENGINE": "litepack.django", "NAME": file}}
# ---
DATABASES["unpacked"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": file}

# An application of one file.
Path("shop").mkdir()
Path("shop/__init__.py").touch()
Path("shop/models.py").write_text("""
from django.db import models

class Item(models.Model):
    name = models.CharField(max_length=50, unique=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True)
    data = models.JSONField(default=dict)

class Artist(models.Model):
    id = models.AutoField(primary_key=True, db_column="ArtistId")
    name = models.TextField(db_column="Name")
    class Meta:
        managed = False
        db_table = "Artist"
""")
sys.path.insert(0, "")
settings.configure(
    DATABASES=DATABASES,
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
from shop.models import Artist, Item  # noqa: E402

refused(lambda: connections["unpacked"].cursor().execute("select 1 from Artist"), DatabaseError)
call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)

item = Item.objects.create(name="lamp", price="9.50", data={"colour": "red"})
Item.objects.bulk_create([Item(name=f"item {number}") for number in range(100)])
assert Item.objects.get(data__colour="red") == item
item.price = 10
item.save()
assert Item.objects.filter(name__startswith="item 1").delete()[0] == 11
Item.objects.update_or_create(name="lamp", defaults={"data": {}})

# A second migration, which has SQLite make the table anew.
models = Path("shop/models.py")
models.write_text(models.read_text().replace("max_length=50", "max_length=80, db_index=True"))
with warnings.catch_warnings(action="ignore"):
    importlib.reload(sys.modules["shop.models"])
call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)

connections.close_all()
assert Item.objects.count() == 90
assert Item.objects.get(name="lamp").price == 10
assert Artist.objects.count() > 100
call_command("check", databases=["default"])


# The shell of `manage.py dbshell` opens it, too.
def shell(name, *words):
    client = connections["default"].client
    command, env = client.settings_to_cmd_args_env({**client.connection.settings_dict, "NAME": name}, words)
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


count = "select count(*) from shop_item"
for name in (file, Path(file), f"file:{Path(file).absolute()}?mode=ro"):
    assert shell(name, count) == "90", name
assert shell(file, "-json", "select 1 as one") == '[{"one":1}]'
assert shell(":memory:", "select 2") == "2"
call_command("dbshell", "--", count)
assert not [path for path in os.listdir() if ":" in path], os.listdir()
refused(lambda: connections["unpacked"].cursor().execute("select 1 from Artist"), DatabaseError)
seen("django", sqlite3.sqlite_version, '`"ENGINE": "litepack.django"`', host="Django")
