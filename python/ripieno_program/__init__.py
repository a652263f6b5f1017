"""The program of an installed package, apart from it: `import ripieno` loads PyTorch, which takes seconds."""
import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program, with this process's arguments."""
    program = Path(__file__).resolve().parent.parent / "ripieno" / "bin" / "ripieno"
    if not program.exists():
        sys.exit(f"ripieno: {program} is not there, as in a build tree or an editable install: "
                 "pip install ./python builds it, and a build's is build/release/bin/ripieno")
    os.execv(program, [str(program), *sys.argv[1:]])
