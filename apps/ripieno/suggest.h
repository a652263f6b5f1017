// "Did you mean ..?": guesses what an unknown word on the command line was meant to be.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::program {

/// The known word that `word` stands for (core/guessed_words.h); else the nearest, if `word` may be a misspelling of
/// it, with at most `edits` edits, or its beginning; else empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known, std::size_t edits = 3);

/// "; did you mean NEAREST?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// 'there is no command "trian"; did you mean train? (see ripieno --help)'
std::string no_command(const CLI::App& app, const std::string& word);

/// A suffix for an error of the command line: for an option that the command does not have, its nearest option, or the
/// key that does the same:
/// "; did you mean --set train.epochs=3?". Else empty. `words`: the whole command line.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace ripieno::program
