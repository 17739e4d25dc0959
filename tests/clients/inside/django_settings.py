"""Settings for Django's own suite, with its databases in files: in memory nothing would be packed."""

import os

FOLDER = os.environ["LITEPACK_CLIENT_DATABASES"]


def database(name):
    path = f"{FOLDER}/{name}.db"
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "TEST": {"NAME": f"{FOLDER}/test-{name}.db"}}


DATABASES = {"default": database("default"), "other": database("other")}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
