"""The program: `python -m ripieno train recipe.toml` is `ripieno train recipe.toml`."""
import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).resolve().parent / "bin" / "ripieno"
    if not program.exists():
        sys.exit(f"ripieno: {program} is not there: this package was built without the program; pip install ./python builds both")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
