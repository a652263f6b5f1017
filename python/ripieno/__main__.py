"""The program: `python -m ripieno train recipe.toml` is `ripieno train recipe.toml`."""
import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).resolve().parent / "bin" / "ripieno"
    if not program.exists():
        sys.exit(f"ripieno: {program} is not there, as in a build tree or an editable install: "
                 "pip install ./python builds it, and a build's is build/release/bin/ripieno")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
