// Words for shells, and of what users write as for one.
#pragma once

#include <string>
#include <vector>

namespace ripieno::launch {

/// The word as a POSIX shell takes it for one, quoted where it must be.
std::string shell_word(const std::string& word);

/// The words of a line, with quotes and backslashes as a POSIX shell has them; it expands nothing. Error(usage), with
/// `what` has the line: a quote is not closed.
std::vector<std::string> words_of(const std::string& line, const std::string& what);

/// "/home/a%20b" for "/home/a b": a word that no shell changes, tcsh and fish among them. And back.
std::string with_percents(const std::string& word);
std::string without_percents(const std::string& word);

}  // namespace ripieno::launch
