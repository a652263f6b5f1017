// A recipe in TOML, with its grid, seeds and scales.
#include "apps/ripieno/recipe.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  fuzz::take_or_refuse([&] {
    const program::Recipe recipe = program::load_recipe_text(fuzz::as_text(data, size), "fuzz.toml", {});
    for (const program::RecipeCell& cell : recipe.cells) {  // what was taken can be written and read back
      program::Settings again;
      again.load_text(cell.settings.to_toml(), "config.toml");
      require(again.to_toml() == cell.settings.to_toml(), "a config.toml that reads back as another");
    }
  });
  return 0;
}
