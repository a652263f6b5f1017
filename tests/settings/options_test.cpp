// The members of the options that keys are bound to.
#include "apps/ripieno/options.h"

#include <gtest/gtest.h>

#include <memory>

#include "apps/ripieno/settings.h"

namespace ripieno {
namespace {

/// A value that is allowed and not the default.
program::Value another_value(const program::Setting& setting) {
  if (const auto* flag = std::get_if<bool>(&setting.standard)) return !*flag;
  if (const auto* whole = std::get_if<std::int64_t>(&setting.standard))
    return *whole + (setting.range.contains(*whole + 1.) ? 1 : -1);
  if (std::holds_alternative<std::vector<double>>(setting.standard))
    return std::vector<double>{setting.range.contains(0.5) ? 0.5 : 1.5};
  if (const auto* number = std::get_if<double>(&setting.standard)) {
    for (const double x : {*number * 0.5, *number + 0.125, 0.5}) {
      if (x != *number && setting.range.contains(x)) return x;
    }
  }
  for (const std::string& word : setting.allowed) {
    if (program::Value(word) != setting.standard) return word;
  }
  return std::string("another");
}

TEST(Options, EachKeyHasAMemberOfTheOptionsOfItsOwn) {
  const auto options = std::make_unique<program::Options>();
  const auto* bytes = reinterpret_cast<const unsigned char*>(options.get());
  std::vector<std::string> whose(sizeof(program::Options));
  for (const program::Setting& one : program::all_settings()) one.write(*options, one.standard);
  for (const program::Setting& one : program::all_settings()) {
    const std::vector<unsigned char> before(bytes, bytes + sizeof(program::Options));
    one.write(*options, another_value(one));
    bool changed = false;
    for (std::size_t i = 0; i < sizeof(program::Options); ++i) {
      if (bytes[i] == before[i]) continue;
      changed = true;
      EXPECT_TRUE(whose[i].empty() || whose[i] == one.key) << one.key << " changes what " << whose[i] << " is bound to";
      whose[i] = one.key;
    }
    EXPECT_TRUE(changed) << one.key << " changes nothing";
  }
}

TEST(Options, AWordThatWasAFlagTakesBoth) {
  for (const auto& [given, pixels] :
       {std::pair{"true", data::PixelScale::standard}, std::pair{"false", data::PixelScale::unit},
        std::pair{"unit", data::PixelScale::unit}, std::pair{"none", data::PixelScale::none}}) {
    program::Settings by_set;
    by_set.set(text("data.normalise=", given));
    EXPECT_EQ(by_set->augmentation.pixels, pixels) << given;
  }
  program::Settings by_file;
  by_file.load_text("[data]\nnormalise = false\n", "old.toml");
  EXPECT_EQ(by_file->augmentation.pixels, data::PixelScale::unit);
  EXPECT_EQ(by_file.shown("data.normalise"), "data.normalise = \"unit\" (old.toml:2)");
  EXPECT_THROW(by_file.set("data.normalise=maybe"), Error);
}

}  // namespace
}  // namespace ripieno
