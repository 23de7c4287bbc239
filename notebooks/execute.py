"""Run notebooks and keep their outputs: python notebooks/execute.py [NAME.ipynb ...]."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def main() -> None:
    """Each notebook in a folder of its own, which is then gone."""
    for path in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.ipynb"))):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as work:  # what a notebook writes is not kept
            where = {"metadata": {"path": work}}
            client = NotebookClient(notebook, resources=where, record_timing=False, timeout=300)
            client.execute()
        notebook.metadata.language_info = {"name": "python"}  # nothing of this machine
        nbformat.write(notebook, path)
        print(path.name)


if __name__ == "__main__":
    main()
