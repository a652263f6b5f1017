"""The program: `python -m ripieno train recipe.toml` is `ripieno train recipe.toml`."""
from ripieno_program import main

if __name__ == "__main__":
    main()
