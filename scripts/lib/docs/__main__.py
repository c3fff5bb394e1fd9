"""Builds the documentation site into a folder of static files that opens from disk. Called by scripts/docs."""

import argparse
import logging
import shutil
import sys
from pathlib import Path

import pages
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, MkDocsException
from plugin import SitePlugin

MARK = ".stbench-docs"  # mkdocs empties the folder, so it must be one that an earlier build made


def say(text):
    print(f"stbench: {text}", file=sys.stderr)


def parse():
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Builds the documentation site: static files that open from disk.")
    parser.add_argument("-o", metavar="DIR", dest="folder", type=Path, default=pages.ROOT / "build/docs", help="the folder (default: build/docs)")
    return parser.parse_args()


def prepare(folder):
    """Makes the folder; refuses one that holds something else."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir()) and not (folder / MARK).exists()):
        raise SystemExit(f"stbench: -o {folder}: it exists and is no site that scripts/docs made\n  name a new folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()


def say_what_is_left_out(plugin):
    if not plugin.cpp.pages:
        say("the site has no C++ reference: doxygen is missing (Debian: apt-get install doxygen)")
    if not plugin.python:
        say("the site has no Python reference: python/ has no package")


def main():
    folder = parse().folder.resolve()
    prepare(folder)
    logging.basicConfig(level=logging.WARNING, format="stbench: %(message)s")
    try:
        config = load_config(str(Path(__file__).with_name("mkdocs.yml")), site_dir=str(folder))
        config.plugins["stbench"] = plugin = SitePlugin(shutil.which("doxygen"))
        say_what_is_left_out(plugin)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    except (Abort, MkDocsException, pages.BrokenLink) as error:
        raise SystemExit(f"stbench: the site could not be built: {error}") from error
    say(f"the documentation: {folder / 'index.html'}")


if __name__ == "__main__":
    main()
