"""The databases that a server answers about, by name."""

from pathlib import Path

from serl.errors import InputError

SUFFIXES = (".sqlite", ".sqlite3", ".db")


def databases_in(path: Path) -> dict[str, Path]:
    """A file by its stem, or all databases in a folder and its folders. InputError for none, or two of one name."""
    if not path.is_dir():
        return {path.stem: path}
    found: dict[str, Path] = {}
    for file in sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file()):
        if file.stem in found:
            raise InputError(f"{path}: {found[file.stem]} and {file} would have the same name; rename one")
        found[file.stem] = file
    if not found:
        raise InputError(f"{path}: no database in this folder; their names end with {', '.join(SUFFIXES)}")
    return found
