"""scripts/gpu: which cells it trains, what it packs, and what it refuses. It needs neither a GPU nor a network."""

import os
import subprocess
import sys
import tomllib
import unittest

from program import ROOT, ProgramTest

SCRIPT = ROOT / "scripts/gpu"


class GpuScriptTest(ProgramTest):
    def script(self, *arguments, python=(sys.executable,), **variables):
        environment = {key: value for key, value in os.environ.items() if key not in ("RIPIENO_DATA", "PYTHONPATH")} | variables
        return subprocess.run([*python, SCRIPT, *map(str, arguments)], env=environment, capture_output=True, text=True)

    def refused(self, says, *arguments, **options):
        """It ends with one sentence that says so."""
        done = self.script(*arguments, **options)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rf"\Ascripts/gpu: [^\n]*{says}[^\n]*\n\Z")

    def torch(self, version):
        """A path on which there is this version of PyTorch, as far as one sees without loading it."""
        package = self.folder / version / "torch"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('it was loaded')")
        (package / "version.py").write_text(f"__version__ = '{version}'\n")
        return str(package.parent)

    def cells(self, **variables):
        """[(recipe, cell, the settings that it is given beside)]"""
        done = self.script("cells", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [line.split("  ") for line in done.stdout.splitlines()]
        return [(recipe, cell, [] if changed == "as in the recipe" else changed.split()) for recipe, cell, changed in found]

    def test_every_recipe_with_a_scale_for_gpus_has_a_cell_that_the_program_takes(self):
        wanted = [str(path.relative_to(ROOT)) for path in (ROOT / "recipes").glob("*.toml") if "gpu" in tomllib.loads(path.read_text()).get("scale", {})]
        found = self.cells()
        self.assertEqual(sorted(recipe for recipe, _, _ in found), sorted(wanted))
        for recipe, cell, changed in found:
            sets = [f"--set={one}" for one in changed]
            out = self.good("compare", ROOT / recipe, "--scale", "gpu", "--only", cell, *sets, "--print-config")
            self.assertIn(f"# {cell}\n", out)
            self.assertRegex(out, 'device = "cuda"')

    def test_generated_images_take_the_place_of_a_set_that_is_not_there(self):
        def generated(**variables):
            return {one for _, _, changed in self.cells(**variables) for one in changed if one.startswith("data.name=")}
        self.assertEqual(generated(), {"data.name=digits", "data.name=shapes"})
        (self.folder / "mnist").mkdir()
        (self.folder / "mnist/train-images-idx3-ubyte.gz").touch()
        self.assertEqual(generated(RIPIENO_DATA=str(self.folder)), {"data.name=shapes"})
        (self.folder / "data_batch_1.bin").touch()
        self.assertEqual(generated(RIPIENO_DATA=str(self.folder)), set())

    def test_it_needs_a_pytorch_that_is_new_enough(self):
        self.refused("has no PyTorch: .* 2.11 or later", "run", self.folder, python=(sys.executable, "-S"))
        self.refused("is PyTorch 2.10.1[+]cu128, and 2.11 or later is needed", "run", self.folder, PYTHONPATH=self.torch("2.10.1+cu128"))

    def test_it_needs_a_pack(self):
        self.refused("there is no pack in .*/none: make it with scripts/gpu pack", "run", self.folder, "--pack", self.folder / "none",
                     PYTHONPATH=self.torch("2.11.0+cu130"))

    def test_a_failed_build_shows_its_end(self):
        (self.folder / "pack/bin").mkdir(parents=True)
        (self.folder / "pack/bin/pkg-config").touch()
        (self.folder / "cmake").write_text("#!/bin/sh\necho this is why\nexit 1\n")
        (self.folder / "cmake").chmod(0o755)
        done = self.script("run", self.folder, "--pack", self.folder / "pack", PYTHONPATH=self.torch("2.11.0"), PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertRegex(done.stderr, r"\Athis is why\nscripts/gpu: the build failed: above is the end of build/gpu.log\n\Z")

    def test_a_pack_is_a_prefix_of_a_stated_size(self):
        pack = self.folder / "pack"
        done = self.script("pack", pack)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"\A{pack}: \d\d\.\d MiB\n\Z")
        for name in ("asio.hpp", "boost/math/distributions/students_t.hpp", "eigen3/Eigen/Core", "openssl/opensslconf.h", "zconf.h"):
            self.assertTrue((pack / "include" / name).is_file(), name)
        self.assertEqual([path for path in pack.glob("**/*") if path.is_symlink() and not path.exists()], [])
        told = subprocess.run([pack / "bin/pkg-config", "--libs", "libhwy", "libisal"], env={"PKG_CONFIG_LIBDIR": f"{pack}/lib/x86_64-linux-gnu/pkgconfig"},
                              capture_output=True, text=True)
        self.assertRegex(told.stdout, rf"-L{pack}/\S+ .*-lhwy .*-lisal")
        self.assertEqual(self.script("pack", pack).returncode, 0)  # anew

    def test_nothing_else_is_overwritten_and_nothing_too_large_left(self):
        self.refused("the pack would have .* MiB, and 1.0 are the most", "pack", self.folder / "pack", "--most", 1)
        self.assertEqual(list(self.folder.iterdir()), [])
        (self.folder / "mine").touch()
        self.refused("is there and no earlier pack", "pack", self.folder)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["mine"])


if __name__ == "__main__":
    unittest.main()
