#include "ripieno/loop/rank_texts.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "ripieno/core/file.h"

namespace ripieno::loop {
namespace {

at::Tensor bytes_of(const std::string& text, std::int64_t room, at::Device device) {
  at::Tensor bytes = at::zeros({room}, at::kByte);
  std::copy(text.begin(), text.end(), static_cast<char*>(bytes.data_ptr()));
  return bytes.to(device);
}

std::string text_of(const at::Tensor& tensor, std::int64_t size) {
  const at::Tensor bytes = tensor.cpu();
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(size)};
}

}  // namespace

std::vector<std::string> RankTexts::all(const std::string& mine) const {
  if (size() == 1) return {mine};
  const auto gather = [this](at::Tensor own) {
    std::vector<at::Tensor> inputs{own}, outputs;
    for (int rank = 0; rank < size(); ++rank) outputs.push_back(at::empty_like(own));
    std::vector<std::vector<at::Tensor>> all{outputs};
    group_->allgather(all, inputs)->wait();
    return all[0];
  };
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& one : gather(at::tensor({static_cast<std::int64_t>(mine.size())}).to(device_)))
    sizes.push_back(one.item<std::int64_t>());
  const std::int64_t room = std::max<std::int64_t>(1, *std::max_element(sizes.begin(), sizes.end()));
  const std::vector<at::Tensor> gathered = gather(bytes_of(mine, room, device_));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) texts.push_back(text_of(gathered[rank], sizes[rank]));
  return texts;
}

void RankTexts::to_first(int from, const std::filesystem::path& file) const {
  if (rank() == from) {
    const std::string content = read_file(file);
    const auto length = static_cast<std::int64_t>(content.size());
    std::vector<at::Tensor> size{at::tensor({length}).to(device_)}, bytes{bytes_of(content, length, device_)};
    group_->send(size, 0, 0)->wait();
    if (length > 0) group_->send(bytes, 0, 0)->wait();
  } else if (rank() == 0) {
    std::vector<at::Tensor> size{at::tensor({std::int64_t{0}}).to(device_)};
    group_->recv(size, from, 0)->wait();
    const auto length = size[0].item<std::int64_t>();
    std::vector<at::Tensor> bytes{at::empty({length}, at::device(device_).dtype(at::kByte))};
    if (length > 0) group_->recv(bytes, from, 0)->wait();
    write_file(file, text_of(bytes[0], length));
  }
}

}  // namespace ripieno::loop
