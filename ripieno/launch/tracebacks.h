// What Python processes say when they fail, mostly all of them the same: a traceback is shown once, and of other ranks
// with the same one the last line, which is the error.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ripieno::launch {

class Tracebacks {
 public:
  /// The lines to show now that a rank has said one more.
  std::vector<std::string> take(int rank, const std::string& line);
  /// The rank says no more: what was held back.
  std::vector<std::string> end(int rank);

 private:
  std::vector<std::string> shown(int rank, std::vector<std::string> lines);

  std::map<int, std::vector<std::string>> open_;         // by rank: a traceback whose end has not come
  std::map<std::vector<std::string>, int> first_ranks_;  // by traceback
};

}  // namespace ripieno::launch
