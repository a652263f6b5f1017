// Texts and files among the ranks of any process group of c10d: what a run's ranks tell each other where the backend
// need not be Ripieno's.
#pragma once

#include <filesystem>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace ripieno::loop {

class RankTexts {
 public:
  /// `group`: null for a single process. `device`: on which it takes tensors.
  RankTexts(c10::intrusive_ptr<::c10d::Backend> group, at::Device device) : group_(std::move(group)), device_(device) {}

  int rank() const { return group_ ? group_->getRank() : 0; }
  int size() const { return group_ ? group_->getSize() : 1; }
  const c10::intrusive_ptr<::c10d::Backend>& group() const { return group_; }

  /// Every rank's, by rank. All ranks call it.
  std::vector<std::string> all(const std::string& mine) const;
  /// Puts a file of another rank into a file of rank 0. Both call it.
  void to_first(int from, const std::filesystem::path& file) const;

 private:
  c10::intrusive_ptr<::c10d::Backend> group_;
  at::Device device_;
};

}  // namespace ripieno::loop
