// "Did you mean ..?": what a word of the command line that nobody knows was probably to be.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::program {

/// The nearest of them where the word may be a misspelling, of so many edits at most, or the beginning of it; else
/// empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known, std::size_t edits = 3);

/// "; did you mean NEAREST?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// 'there is no command "trian"; did you mean train? (see ripieno --help)'
std::string no_command(const CLI::App& app, const std::string& word);

/// To go after an error of the command line: for an option that the chosen command has not, its nearest one, or the key
/// that does it:
/// "; did you mean --set train.epochs=3?". Else empty. `words`: the whole command line.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace ripieno::program
